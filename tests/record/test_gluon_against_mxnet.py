"""Layers and nets of ``gluon_nets.py`` against MXNet 1.9.1's files and results."""

import re
from pathlib import Path

import numpy as np
import pytest

import gluon_nets
import hybridjit as mx
from hybridjit import gluon

RECORDED = np.load(Path(__file__).parent.parent / "fixtures" / "gluon_nets.npz")
NETS = {**gluon_nets.layers(mx), **gluon_nets.nets(mx)}


def recorded(name, key):
    return str(RECORDED[f"{name}.{key}"])


def flat(result):
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in flat(part)]
    return [result]


def assert_outputs(name, result):
    found = [array.asnumpy() for array in flat(result)]
    expected = [RECORDED[f"{name}.y{i}"] for i in range(len(found))]
    assert f"{name}.y{len(found)}" not in RECORDED
    for got, want in zip(found, expected):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=NETS)
def case(request):
    """The net's name, the net with its numbers in, and its inputs."""
    name = request.param
    make, shapes = NETS[name]
    with mx.name.NameManager():
        net = make() if name.startswith("pixelshuffle") else make(prefix="net_")
    inputs = [mx.nd.array(gluon_nets.values(f"x_{i}", s)) for i, s in enumerate(shapes)]
    net.initialize()
    net(*inputs)
    gluon_nets.fill(mx, net)
    return name, net, inputs


def test_eager_results(case):
    name, net, inputs = case
    assert_outputs(name, net(*inputs))


def test_hybridized_results(case):
    name, net, inputs = case
    net.hybridize(static_alloc=True, static_shape=True)
    for _ in range(2):
        assert_outputs(name, net(*inputs))


def test_names_and_reprs(case):
    name, net, _ = case
    assert repr(net) == recorded(name, "repr")
    params = str(net.collect_params()).replace("<class 'numpy.float32'>", "float32")
    assert params == recorded(name, "params")


def test_files_hold_the_names_of_mxnet(case, tmp_path):
    name, net, inputs = case
    net.optimize_for(*inputs, backend="none")  # traces and does not compile
    symbol_file, param_file = net.export(str(tmp_path / "net"), epoch=7)
    assert param_file == str(tmp_path / "net-0007.params")
    assert Path(symbol_file).read_text() == recorded(name, "symbol")
    assert " ".join(mx.nd.load(param_file) or ()) == recorded(name, "exported")
    net.save_parameters(str(tmp_path / "saved"))
    assert " ".join(mx.nd.load(str(tmp_path / "saved")) or ()) == recorded(name, "saved")


@pytest.mark.parametrize("compiled", [True, False])
def test_symbol_block_of_the_recorded_graph(case, tmp_path, compiled):
    name, net, inputs = case
    net.optimize_for(*inputs, backend="none")
    _, param_file = net.export(str(tmp_path / "net"))
    (tmp_path / "theirs.json").write_text(recorded(name, "symbol"))
    names = ["data"] if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]
    block = gluon.SymbolBlock.imports(str(tmp_path / "theirs.json"), names, param_file)
    block.hybridize(active=compiled)
    assert_outputs(name, block(*inputs))
    assert re.search(rf": {len(inputs)} -> \d+\n", repr(block))
