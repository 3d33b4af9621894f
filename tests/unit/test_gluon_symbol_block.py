"""SymbolBlock: from symbols and from files, its parameters, composition, casts, own files."""

import copy
import pickle

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon
from hybridjit.gluon import SymbolBlock, nn


@pytest.fixture
def x():
    return mx.nd.array(np.linspace(-1, 1, 8).reshape(2, 4))


@pytest.fixture
def exported(tmp_path, x):
    """A network's exported files, and its result for x."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3), nn.BatchNorm(), nn.Dense(2))
    net.initialize()
    net.hybridize()
    expected = net(x).asnumpy()
    return (*net.export(str(tmp_path / "net")), expected)


def fully_connected():
    data = mx.sym.var("data")
    return mx.sym.FullyConnected(data, num_hidden=3, name="fc"), data


def test_imports_makes_a_block_from_files(exported, x):
    symbol_file, param_file, expected = exported
    for names in ("data", ["data"]):
        block = SymbolBlock.imports(symbol_file, names, param_file)
        np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert repr(block) == "SymbolBlock(\n<Symbol net_dense1_fwd> : 1 -> 1\n)"
    assert (block.prefix, block.name.rstrip("0123456789")) == ("", "symbolblock")
    assert list(block.params)[-2:] == ["net_batchnorm0_running_mean", "net_batchnorm0_running_var"]
    assert block.params["net_batchnorm0_running_var"].grad_req == "null"


@pytest.mark.parametrize("active", [True, False])
def test_hybridize_chooses_compiled_or_not(exported, x, active):
    symbol_file, param_file, expected = exported
    block = SymbolBlock.imports(symbol_file, "data", param_file)
    block.hybridize(active=active, static_alloc=True)
    np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert block._cached.graph.compiled is active


def test_without_a_parameter_file(exported, x):
    symbol_file, param_file, expected = exported
    block = SymbolBlock.imports(symbol_file, ["data"])
    assert {p.shape for p in block.params.values()} == {None}
    with pytest.raises(RuntimeError, match="has not been initialized"):
        block(x)
    block.initialize()
    assert block(x).shape == (2, 2)
    assert block.params["net_dense0_weight"].shape == (3, 4)
    for load in (block.load_parameters, block.collect_params().load):
        block.initialize(mx.init.Zero(), force_reinit=True)
        load(param_file)
        np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_import_errors(exported, tmp_path):
    symbol_file, param_file, _ = exported
    with pytest.raises(AssertionError, match="Parameter 'data' is missing in file"):
        SymbolBlock.imports(symbol_file, ["wrong"], param_file)
    with pytest.raises(mx.MXNetError, match="No such file"):
        SymbolBlock.imports(str(tmp_path / "absent"), ["data"])
    with pytest.raises(mx.MXNetError):
        SymbolBlock.imports(param_file, ["data"])
    empty = str(tmp_path / "empty")
    mx.nd.save(empty, {"stranger": mx.nd.ones((1,))})
    with pytest.raises(AssertionError, match="'net_dense0_weight' is missing in file"):
        SymbolBlock.imports(symbol_file, ["data"], empty)
    with pytest.raises(AssertionError, match="'stranger' loaded from file"):
        SymbolBlock.imports(symbol_file, ["data"], empty, allow_missing=True)
    SymbolBlock.imports(symbol_file, ["data"], empty, allow_missing=True, ignore_extra=True)


def test_parameters_take_the_files_dtype(exported, tmp_path, x):
    symbol_file, param_file, expected = exported
    doubles = {k: v.astype("float64") for k, v in mx.nd.load(param_file).items()}
    path = str(tmp_path / "doubles")
    mx.nd.save(path, doubles)
    block = SymbolBlock.imports(symbol_file, ["data"], path)
    found = block(x.astype("float64"))
    assert found.dtype is np.float64
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_from_symbols(x):
    out, data = fully_connected()
    for outputs, kind in ((out, mx.NDArray), ([out], mx.NDArray), ([out, out * 2], list)):
        block = SymbolBlock(outputs, data)
        block.initialize()
        assert type(block(x)) is kind
    assert repr(block).startswith("SymbolBlock(\n<Symbol group [fc, _mulscalar")
    assert type(SymbolBlock(mx.sym.Group([out, data + 1]), [data])._trace.out_format) is int


def test_inputs_must_be_variables():
    out, data = fully_connected()
    with pytest.raises(AssertionError, match="Input symbols must be variable, but <Symbol fc>"):
        SymbolBlock(out, out)
    with pytest.raises(ValueError, match="but got data of type"):
        SymbolBlock(out, "data")


def test_call_errors(x):
    out, data = fully_connected()
    block = SymbolBlock(out, data)
    block.initialize()
    block(x)
    with pytest.raises(ValueError, match=r"Stored format = \[0\], input format = \[0, 0\]"):
        block(x, x)
    for wrong in (3, [x]):
        with pytest.raises(AssertionError, match="requires the first argument to forward be"):
            block(wrong)
    with pytest.raises(TypeError):
        block()
    with pytest.raises(mx.MXNetError, match="FullyConnected 'fc': .*inferred shape=.3,5."):
        block(mx.nd.ones((2, 5)))
    assert block(x).shape == (2, 3)


@pytest.mark.parametrize("is_hybrid", [False, True])
def test_the_first_call_has_the_graphs_inputs(x, is_hybrid):
    """Arguments beyond the inputs change nothing: neither results nor the block's structure."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    block = SymbolBlock(a - b, [a, b])
    block.hybridize(is_hybrid)
    for wrong in ([x], [x, x, x], [mx.sym.var("c")]):
        with pytest.raises(ValueError, match=r"Stored format = \[0, 0\], .*the inputs are a, b"):
            block(*wrong)
    assert not block(x, x).asnumpy().any()


def test_the_order_of_inputs_is_the_callers(x):
    a, b = mx.sym.var("a"), mx.sym.var("b")
    block = SymbolBlock(a - b, [b, a])
    np.testing.assert_allclose(block(x, x * 3).asnumpy(), (x * 2).asnumpy(), rtol=1e-5)


class _Nested(gluon.HybridBlock):
    def hybrid_forward(self, F, x, pair):
        return x + pair[0], [x * pair[1], x]


@pytest.mark.parametrize("active", [True, False])
def test_formats_are_those_that_the_program_stored(tmp_path, x, active):
    net, pair = _Nested(), [x * 2, x * 3]
    assert net._in_format is None is net._out_format
    net.hybridize()
    expected = net(x, pair)
    net.export(str(tmp_path / "net"))
    names = ["data0", "data1", "data2"]
    block = SymbolBlock.imports(str(tmp_path / "net-symbol.json"), names)
    assert len(block(x, *pair)) == 3
    block._in_format, block._out_format = net._in_format, net._out_format
    block.hybridize(active=active)
    total, (product, same) = block(x, pair)
    assert total.asnumpy().tolist() == expected[0].asnumpy().tolist()
    assert product.asnumpy().tolist() == expected[1][0].asnumpy().tolist()
    assert same.asnumpy().tolist() == x.asnumpy().tolist()


def test_an_unused_input_is_warned_of(x):
    out, data = fully_connected()
    block = SymbolBlock(out, [data, mx.sym.var("softmax_label")])
    block.initialize()
    with pytest.warns(UserWarning, match="The 1-th input to HybridBlock is not used"):
        assert block(x, x).shape == (2, 3)


def test_features_share_the_nets_parameters(x):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3), nn.Dense(2))
    net.initialize()
    net(x)
    data = mx.sym.var("data")
    inner = net(data).get_internals()["net_dense0_fwd_output"]
    block = SymbolBlock(inner, data, params=net.collect_params())
    assert block.params["net_dense0_weight"] is net[0].weight
    np.testing.assert_allclose(block(x).asnumpy(), net[0](x).asnumpy(), rtol=1e-5, atol=1e-6)
    net[0].weight.set_data(mx.nd.zeros((3, 4)))
    assert block(x).asnumpy().sum() == 0


def test_calling_a_symbol_block_with_a_symbol_composes_graphs(exported):
    symbol_file, param_file, _ = exported
    block = SymbolBlock.imports(symbol_file, "data", param_file)
    spliced = block(mx.sym.relu(mx.sym.var("name")))
    assert "name" in spliced.list_arguments()
    assert "data" not in spliced.list_arguments()


def test_as_a_child(exported, x):
    symbol_file, param_file, expected = exported
    net = nn.HybridSequential()
    net.add(SymbolBlock.imports(symbol_file, "data", param_file), nn.Activation("relu"))
    for active in (False, True):
        net.hybridize(active)
        np.testing.assert_allclose(net(x).asnumpy(), expected.clip(0), rtol=1e-5, atol=1e-6)


def test_cast_keeps_batchnorm_in_float32(exported):
    symbol_file, param_file, _ = exported
    block = SymbolBlock.imports(symbol_file, "data", param_file)
    block.cast("float16")
    kinds = {name: str(np.dtype(p.dtype)) for name, p in block.params.items()}
    assert {kinds[n] for n in kinds if "batchnorm" in n} == {"float32"}
    assert {kinds[n] for n in kinds if "dense" in n} == {"float16"}


def test_its_own_files(exported, tmp_path, x):
    symbol_file, param_file, expected = exported
    block = SymbolBlock.imports(symbol_file, "data", param_file)
    again = block.export(str(tmp_path / "again"))
    for old, new in zip((symbol_file, param_file), again):
        with open(old, "rb") as a, open(new, "rb") as b:
            assert a.read() == b.read()
    path = str(tmp_path / "saved")
    block.save_parameters(path)
    assert list(mx.nd.load(path))[:2] == ["dense0_weight", "dense0_bias"]
    block.initialize(mx.init.Zero(), force_reinit=True)
    block.load_parameters(path)
    np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_summary_works_until_hybridized(exported, x, capsys):
    symbol_file, param_file, _ = exported
    block = SymbolBlock.imports(symbol_file, "data", param_file)
    block.summary(x)
    assert "SymbolBlock-1" in capsys.readouterr().out
    block.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        block.summary(x)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_copies_of_a_symbol_block_compute_the_same(exported, x, duplicate):
    symbol_file, param_file, expected = exported
    block = duplicate(SymbolBlock.imports(symbol_file, "data", param_file))
    np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_gluon_nn_has_the_classes():
    assert nn.SymbolBlock is SymbolBlock
    assert nn.HybridBlock is gluon.HybridBlock
    assert nn.Block is gluon.Block
