"""The model zoo: structures as MXNet 1.9.1 has them, pretrained files, names."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

import gluon_nets
import hybridjit as mx
from hybridjit.gluon.model_zoo import get_model, model_store, vision

DIGESTS = json.loads((Path(__file__).parent.parent / "fixtures" / "model_zoo.json").read_text())


@pytest.mark.parametrize("name", gluon_nets.ZOO)
def test_graph_parameters_and_paths_are_those_of_mxnet(name):
    assert hashlib.sha256(gluon_nets.structure(mx, name).encode()).hexdigest() == DIGESTS[name]


def test_compiled_matches_eager():
    net = get_model("MobileNet0.25", classes=5)
    mx.random.seed(1)
    net.initialize(mx.init.Xavier("gaussian", "in", 2))
    x = mx.nd.random_normal(shape=(2, 3, 32, 32))
    net(x)
    for name, param in net.collect_params().items():
        if name.endswith(("beta", "running_mean")):
            param.set_data(mx.nd.array(np.linspace(-0.5, 0.5, param.shape[0])))
    eager = net(x).asnumpy()
    assert 0.01 < np.abs(eager).max() < 100
    net.hybridize(static_alloc=True, static_shape=True)
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-3, atol=1e-5)


def test_resnet_options_change_the_network():
    net = vision.resnet18_v1(thumbnail=True, classes=3, prefix="r_")
    net.infer_shape(mx.nd.ones((1, 3, 16, 16)))
    assert len(net.features) == 6
    assert net.output.weight.shape == (3, 512)
    assert net.output.weight.name == "r_dense0_weight"
    with pytest.raises(AssertionError, match="Invalid number of layers: 19"):
        vision.get_resnet(1, 19)
    with pytest.raises(AssertionError, match="Invalid resnet version: 3"):
        vision.get_resnet(3, 18)


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match="Model foo is not supported. Available options are alex"):
        get_model("foo")


def test_pretrained_parameters_come_from_the_folder(tmp_path):
    root = str(tmp_path)
    with pytest.raises(
        mx.MXNetError, match="squeezenet1.1-33ba0f93.params does not exist: save the pretrained"
    ):
        vision.squeezenet1_1(pretrained=True, root=root)
    net = vision.squeezenet1_1()
    net.initialize()
    net.infer_shape(mx.nd.ones((1, 3, 224, 224)))
    for param in net.collect_params().values():
        param._finish_deferred_init()
    net.save_parameters(str(tmp_path / "squeezenet1.1-33ba0f93.params"))
    with pytest.warns(UserWarning, match="content differs from the published file"):
        again = vision.squeezenet1_1(pretrained=True, root=root)
    np.testing.assert_array_equal(
        again.features[0].weight.data().asnumpy(), net.features[0].weight.data().asnumpy()
    )
    with pytest.raises(ValueError, match="Pretrained model for mine is not available"):
        model_store.get_model_file("mine", root)


def test_the_default_folder_is_mxnets(monkeypatch, tmp_path):
    monkeypatch.delenv("MXNET_HOME", raising=False)
    assert model_store.default_root() == os.path.expanduser("~/.mxnet/models")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    assert model_store.default_root() == str(tmp_path / "models")
