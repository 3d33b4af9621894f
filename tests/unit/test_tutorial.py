"""The hybridize tutorial, literally: its output, results, exports and imports."""

import json

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import nn


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Net, self).__init__(**kwargs)  # noqa: UP008 - as the tutorial writes it
        with self.name_scope():
            self.conv1 = nn.Conv2D(6, kernel_size=5)
            self.pool1 = nn.MaxPool2D(pool_size=2)
            self.conv2 = nn.Conv2D(16, kernel_size=5)
            self.pool2 = nn.MaxPool2D(pool_size=2)
            self.fc1 = nn.Dense(120)
            self.fc2 = nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        print(x)
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = x.reshape((0, -1))  # 0 copies a dimension, -1 infers one
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return F.dot(x, fc3_weight, transpose_b=True)


@pytest.fixture
def net():
    net = Net()
    net.initialize()
    return net


@pytest.fixture
def x():
    return mx.nd.random_normal(shape=(16, 1, 28, 28))


FLAGS = [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}]


def test_eager_prints_an_array_every_time(net, x, capsys):
    assert net(x).shape == (16, 10)
    assert net(x).shape == (16, 10)
    printed = capsys.readouterr().out
    assert printed.count("<NDArray 16x1x28x28 @cpu(0)>") == 2
    assert "Symbol" not in printed


@pytest.mark.parametrize("flags", FLAGS)
def test_hybridized_prints_a_symbol_once(net, x, capsys, flags):
    eager = net(x).asnumpy()
    capsys.readouterr()
    net.hybridize(**flags)
    first, second = net(x).asnumpy(), net(x).asnumpy()
    assert capsys.readouterr().out == "<Symbol data>\n"
    np.testing.assert_allclose(first, eager, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("flags", FLAGS)
def test_hybridized_before_the_first_call(net, x, capsys, flags):
    net.hybridize(**flags)
    compiled = net(x).asnumpy()
    assert capsys.readouterr().out == "<Symbol data>\n"
    net.hybridize(active=False)
    np.testing.assert_allclose(net(x).asnumpy(), compiled, rtol=1e-4, atol=1e-6)


def test_one_trace_for_all_batch_sizes(net, x, capsys):
    net.hybridize()
    assert [net(x[:n]).shape for n in (16, 3, 1)] == [(16, 10), (3, 10), (1, 10)]
    assert capsys.readouterr().out == "<Symbol data>\n"


def test_export_and_import(net, x, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net.hybridize()
    expected = net(x).asnumpy()
    assert net.export("model", epoch=1) == ("model-symbol.json", "model-0001.params")
    imported = gluon.SymbolBlock.imports("model-symbol.json", ["data"], "model-0001.params")
    capsys.readouterr()
    np.testing.assert_allclose(imported(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert capsys.readouterr().out == ""
    nodes = json.loads((tmp_path / "model-symbol.json").read_text())["nodes"]
    prefix = net.prefix
    assert [n["name"] for n in nodes if n["op"] != "null"] == [
        prefix + name
        for name in (
            "conv0_fwd", "relu0", "pool0_fwd", "conv1_fwd", "relu1", "pool1_fwd", "reshape0",
            "dense0_fwd", "relu2", "dense1_fwd", "relu3", "dot0",
        )
    ]  # fmt: skip
    saved = mx.nd.load("model-0001.params")
    assert saved[f"arg:{prefix}fc3_weight"].shape == (10, 84)
    assert len(saved) == 9


def test_export_needs_a_hybridized_call(net, x, tmp_path):
    with pytest.raises(RuntimeError, match="Please first call block.hybridize()"):
        net.export(str(tmp_path / "model"))
    net(x)
    with pytest.raises(RuntimeError, match="Please first call block.hybridize()"):
        net.export(str(tmp_path / "model"))
    assert list(tmp_path.iterdir()) == []


def test_parameters_go_from_one_net_to_another(net, x, tmp_path):
    expected = net(x).asnumpy()
    net.save_parameters(str(tmp_path / "net.params"))
    other = Net()
    other.load_parameters(str(tmp_path / "net.params"))
    other.hybridize()
    np.testing.assert_allclose(other(x).asnumpy(), expected, rtol=1e-4, atol=1e-6)
