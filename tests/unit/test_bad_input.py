"""User errors: MXNet's exceptions, messages with cause and location, and a working next call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd, sym
from hybridjit.errors import (
    AttributeValueError,
    DTypeError,
    ModelFormatError,
    MXNetError,
    NotImplementedForSymbol,
    ShapeError,
    UnknownOpError,
)
from hybridjit.gluon import nn

HERE = re.escape(Path(__file__).name)
GOOD = np.random.default_rng(0).normal(0, 1, (2, 3, 8, 8)).astype(np.float32)

both_ways = pytest.mark.parametrize("active", [False, True], ids=["eager", "hybridized"])


class Small(gluon.HybridBlock):
    """A convolution, a pooling and a dense layer, written by a user."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(4, 3, in_channels=3)
            self.fc = nn.Dense(2, in_units=4)

    def hybrid_forward(self, F, x):
        y = F.relu(self.conv(x))
        return self.fc(F.Pooling(y, global_pool=True, pool_type="avg"))


def line_of(text: str) -> int:
    """The number of the only line in this file that has this code."""
    lines = Path(__file__).read_text().splitlines()
    (found,) = (i for i, line in enumerate(lines, 1) if line.strip() == text)
    return found


@pytest.fixture
def net() -> Small:
    made = Small(prefix="net_")
    made.initialize()
    return made


def run(net: gluon.Block, x: np.ndarray) -> np.ndarray:
    return net(nd.array(x, dtype=x.dtype)).asnumpy()


# --- calls ---


@both_ways
def test_an_uninitialised_net(active):
    net = Small(prefix="net_")
    net.hybridize(active)
    with pytest.raises(RuntimeError, match="^Parameter 'net_conv0_weight' has not been init") as e:
        run(net, GOOD)
    assert "initialize parameters" in str(e.value) and not isinstance(e.value, MXNetError)
    net.initialize()
    assert run(net, GOOD).shape == (2, 2)


BAD_IMAGES = {
    "rank": (GOOD[0], ShapeError, ("should be 4D", "(3,8,8)")),
    "channels": (GOOD[:, :2], ShapeError, ("needs 3 input channels", "data has 2")),
    "size": (GOOD[:, :, :2], ShapeError, ("covers 3", "has 2")),
    "dtype": (GOOD.astype(np.float64), DTypeError, ("float64", "float32")),
}


@both_ways
@pytest.mark.parametrize("what", BAD_IMAGES)
def test_an_input_that_does_not_fit(net, what, active):
    """The operator, the node when there is one, both numbers, the operands and the user's line."""
    x, error, words = BAD_IMAGES[what]
    net.hybridize(active)
    before = run(net, GOOD)
    for _ in range(2):
        with pytest.raises(error) as caught:
            run(net, x)
        assert isinstance(caught.value, MXNetError)
        first, *operands, place = str(caught.value).splitlines()
        name = " 'net_conv0_fwd'" if active else ""
        assert first.startswith(f"Error in operator Convolution{name}: ")
        assert all(word in first for word in words)
        assert [line.split()[0] for line in operands] == ["data", "weight", "bias"]
        assert [line.split()[-1] for line in operands[1:]] == ["f32[4,3,3,3]", "f32[4]"]
        line = line_of("y = F.relu(self.conv(x))")
        assert re.search(rf"created at .*{HERE}:{line} in hybrid_forward", place)
    np.testing.assert_array_equal(run(net, GOOD), before)


@both_ways
def test_the_first_input_may_be_wrong(net, active):
    net.hybridize(active)
    with pytest.raises(ShapeError):
        run(net, GOOD[:, :1])
    assert run(net, GOOD).shape == (2, 2)


class Sum(gluon.HybridBlock):
    def hybrid_forward(self, F, x, y):
        doubled = x * 2
        return doubled + y


@both_ways
def test_operands_that_do_not_fit_each_other(active):
    net = Sum(prefix="sum_")
    net.hybridize(active)
    x = nd.ones((2, 3))
    assert net(x, x).shape == (2, 3)
    with pytest.raises(ShapeError, match=r"\(2,3\).*\(2,4\)") as caught:
        net(x, nd.ones((2, 4)))
    assert f"{Path(__file__).name}:{line_of('return doubled + y')}" in str(caught.value)
    with pytest.raises(DTypeError, match="float32, got float16"):
        net(x, nd.ones((2, 3), dtype="float16"))
    assert net(x, x).asnumpy().tolist() == [[3, 3, 3], [3, 3, 3]]


@both_ways
def test_arguments_that_are_no_tensors(net, active):
    net.hybridize(active)
    run(net, GOOD)
    for bad in (GOOD, 3.0, "data", None, [GOOD]):
        with pytest.raises(ValueError, match="there must be one NDArray or one Symbol"):
            net(bad)
    with pytest.raises(TypeError):
        net()
    assert run(net, GOOD).shape == (2, 2)


def test_a_child_that_cannot_be_hybridized(net):
    class Plain(gluon.Block):
        def forward(self, x):
            return x

    parent = nn.HybridSequential()
    with pytest.raises(ValueError, match="Children of HybridBlock must also be HybridBlock"):
        parent.add(Plain())
    with pytest.raises(ValueError, match="Children of HybridBlock must also be HybridBlock"):
        net.plain = Plain()
    outer = nn.Sequential()
    outer.add(Plain(), net)
    outer.hybridize()
    assert run(outer, GOOD).shape == (2, 2)


# --- symbols ---


def on_symbol(function: Callable[[sym.Symbol], object]) -> gluon.HybridBlock:
    """A block that is eager-only by mistake: ``function`` runs on x while it is traced."""

    class Mistaken(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            if F is sym:
                function(x)
            return F.relu(x)

    return Mistaken()


def add_in_place(x):
    x += 1


def choose_by_value(x):
    return 1 if x > 0 else 2


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (lambda x: x.shape, AttributeError, "no attribute 'shape'"),
        (lambda x: x.dtype, AttributeError, "no attribute 'dtype'"),
        (lambda x: x.asnumpy(), NotImplementedForSymbol, "Function asnumpy is not implemented"),
        (lambda x: x.asscalar(), NotImplementedForSymbol, "Function asscalar"),
        (add_in_place, NotImplementedForSymbol, 'Function __iadd__ (namely operator "+=")'),
        (choose_by_value, NotImplementedForSymbol, "Function __bool__"),
        (lambda x: x + GOOD, TypeError, "not supported"),
        (lambda x: nd.relu(x), AssertionError, "must have NDArray type"),
    ],
    ids=["shape", "dtype", "asnumpy", "asscalar", "+=", "if", "numpy", "nd"],
)
def test_operations_without_values_raise_while_tracing(function, error, says):
    net = on_symbol(function)
    x = nd.array(GOOD)
    eager = net(x).asnumpy()
    net.hybridize()
    with pytest.raises(error) as caught:
        net(x)
    assert says in str(caught.value)
    assert not isinstance(caught.value, NotImplementedError)
    net.hybridize(False)
    np.testing.assert_array_equal(net(x).asnumpy(), eager)


def test_operators_refuse_the_other_kind_of_tensor():
    with pytest.raises(AssertionError, match="Argument data must be Symbol instances, but got"):
        sym.relu(nd.ones((2,)))
    with pytest.raises(AssertionError, match="must have NDArray type"):
        nd.relu(sym.var("x"))


@pytest.mark.parametrize("namespace", [nd, sym], ids=["nd", "sym"])
def test_attributes_that_are_missing_or_wrong(namespace):
    x = nd.ones((1, 3, 4, 4)) if namespace is nd else sym.var("x")
    with pytest.raises(MXNetError, match=r"num_hidden"):
        namespace.FullyConnected(x, no_bias=True)
    with pytest.raises(MXNetError, match="Pooling.*pool_type"):
        namespace.Pooling(x, kernel=(2, 2), pool_type="median")
    with pytest.raises(MXNetError, match="no_such"):
        namespace.Pooling(x, kernel=(2, 2), no_such=1)
    assert namespace.relu(x) is not None


# --- files ---


@pytest.fixture
def exported(net, tmp_path) -> str:
    """The prefix of a net's two files."""
    net.hybridize()
    run(net, GOOD)
    net.export(str(tmp_path / "model"))
    return str(tmp_path / "model")


def imported(prefix: str, **kwargs: object) -> gluon.SymbolBlock:
    symbol, params = f"{prefix}-symbol.json", f"{prefix}-0000.params"
    return gluon.SymbolBlock.imports(symbol, ["data"], params, **kwargs)


def changed_json(prefix: str, change: Callable[[dict], None]) -> None:
    path = Path(f"{prefix}-symbol.json")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def node_of(document: dict, op: str) -> dict:
    return next(node for node in document["nodes"] if node["op"] == op)


def test_good_files_load(exported, net):
    np.testing.assert_allclose(run(imported(exported), GOOD), run(net, GOOD), rtol=1e-6)


@pytest.mark.parametrize("kept", [0, 7, 23, 100, 0.5, 0.99])
def test_a_truncated_parameter_file(exported, kept):
    path = Path(f"{exported}-0000.params")
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if kept >= 1 else int(kept * len(whole))])
    with pytest.raises(MXNetError) as caught:
        imported(exported)
    assert path.name in str(caught.value)
    path.write_bytes(whole)
    assert run(imported(exported), GOOD).shape == (2, 2)


def test_a_parameter_file_that_is_something_else(exported):
    Path(f"{exported}-0000.params").write_bytes(b"PK\x03\x04 not what it should be" * 40)
    with pytest.raises(MXNetError):
        imported(exported)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(MXNetError, match="nowhere"):
        gluon.SymbolBlock.imports(str(tmp_path / "nowhere-symbol.json"), ["data"])


def test_an_unknown_operator(exported):
    changed_json(exported, lambda d: node_of(d, "Pooling").update(op="Poolign"))
    with pytest.raises(UnknownOpError, match="Operator Poolign is not registered.*Pooling"):
        imported(exported)


@pytest.mark.parametrize(("op", "reason"), [("_contrib_quantized_rnn", "quantized recurrent")])
def test_an_operator_that_is_left_out_on_purpose(exported, op, reason):
    changed_json(exported, lambda d: node_of(d, "Pooling").update(op=op))
    with pytest.raises(UnknownOpError, match=f"Operator {op} is not registered: .*{reason}"):
        imported(exported)


BAD_ATTRIBUTES = {
    "not a number": ("Convolution", "num_filter", "many"),
    "not a tuple": ("Convolution", "kernel", "(3, x)"),
    "negative": ("Convolution", "num_filter", "-4"),
    "not among the choices": ("Pooling", "pool_type", "median"),
    "unknown": ("Pooling", "colour", "red"),
}


@pytest.mark.parametrize("what", BAD_ATTRIBUTES)
def test_a_bad_attribute(exported, what):
    op, key, text = BAD_ATTRIBUTES[what]
    changed_json(exported, lambda d: node_of(d, op)["attrs"].update({key: text}))
    with pytest.raises(MXNetError) as caught:
        run(imported(exported), GOOD)
    message = str(caught.value)
    assert op in message and (key in message or text.strip("-") in message)


def test_a_missing_required_attribute(exported):
    changed_json(exported, lambda d: node_of(d, "FullyConnected")["attrs"].pop("num_hidden"))
    with pytest.raises(AttributeValueError, match="num_hidden"):
        imported(exported)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("nodes"),
        lambda d: d.update(heads=[[999, 0, 0]]),
        lambda d: node_of(d, "Convolution").update(inputs=[[0, 0, 0]]),
        lambda d: node_of(d, "Convolution").update(inputs=[[500, 0, 0]]),
        lambda d: d.update(nodes=7),
    ],
    ids=["no nodes", "head", "too few inputs", "input", "nodes"],
)
def test_a_graph_that_hangs_in_the_air(exported, change):
    changed_json(exported, change)
    with pytest.raises(MXNetError):
        imported(exported)


def test_json_that_is_none(exported):
    path = Path(f"{exported}-symbol.json")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ModelFormatError):
        imported(exported)


def test_a_missing_parameter(exported):
    path = f"{exported}-0000.params"
    arrays = nd.load(path)
    weight = arrays.pop("arg:net_conv0_weight")
    nd.save(path, arrays)
    with pytest.raises((AssertionError, RuntimeError), match="net_conv0_weight"):
        run(imported(exported), GOOD)
    nd.save(path, {**arrays, "arg:net_conv0_weight": weight})
    assert run(imported(exported), GOOD).shape == (2, 2)


def test_a_parameter_of_another_shape(exported, net):
    path = f"{exported}-0000.params"
    arrays = nd.load(path)
    nd.save(path, {**arrays, "arg:net_conv0_weight": nd.ones((4, 2, 3, 3))})
    with pytest.raises((AssertionError, MXNetError), match=r"net_conv0|Convolution"):
        run(imported(exported), GOOD)
    nd.save(path, {name.partition(":")[2]: array for name, array in arrays.items()})
    other = Small(prefix="net_", params=None)
    other.conv = nn.Conv2D(4, 5, in_channels=3, prefix="net_conv0_")
    other.initialize()
    with pytest.raises(AssertionError, match=r"net_conv0_weight.*\(4, 3, 5, 5\).*\(4, 3, 3, 3\)"):
        other.collect_params().load(path)
    assert run(other, GOOD).shape == (2, 2)


def test_a_shape_other_than_the_graphs_own(exported):
    """``__shape__`` on a variable is its shape unless another one is inferred, as in MXNet."""

    def declare(document: dict) -> None:
        (data,) = (n for n in document["nodes"] if n["name"] == "data")
        data["attrs"] = {"__shape__": "(2, 3, 9, 9)"}

    changed_json(exported, declare)
    block = imported(exported)
    block.hybridize()
    for size in (8, 9):
        assert run(block, np.zeros((2, 3, size, size), np.float32)).shape == (2, 2)


def test_inputs_of_the_wrong_name(exported):
    with pytest.raises((ValueError, AssertionError, RuntimeError)) as caught:
        block = gluon.SymbolBlock.imports(
            f"{exported}-symbol.json", ["image"], f"{exported}-0000.params"
        )
        run(block, GOOD)
    assert "data" in str(caught.value) or "image" in str(caught.value)


def test_every_error_is_mxnets():
    for error in (ShapeError, DTypeError, AttributeValueError, UnknownOpError, ModelFormatError):
        assert issubclass(error, mx.MXNetError) and issubclass(error, RuntimeError)
    assert mx.MXNetError is mx.base.MXNetError is MXNetError


@both_ways
@pytest.mark.parametrize("number", [1e300, 1e39, 3.5e38])
def test_a_number_beyond_float32_is_refused_where_the_attribute_is_float32(number, active):
    net = nn.LeakyReLU(number)
    net.hybridize(active)
    with pytest.raises(AttributeValueError, match=r"slope takes float below 3.4e\+38"):
        net(nd.ones((2,)))
    for norm, given in ((nd.BatchNorm_v1, {}), (nd.contrib.SyncBatchNorm, {"key": "a"})):
        with pytest.raises(AttributeValueError, match="eps takes float below"):
            norm(nd.ones((1, 2)), *[nd.ones((2,))] * 4, eps=number, **given)
    with pytest.raises(AttributeValueError, match="sizes takes finite floats"):
        nd.contrib.MultiBoxPrior(nd.ones((1, 1, 2, 2)), sizes=(number,))
    assert (nd.ones((2,)) * number).shape == (2,)  # scalars are double


@both_ways
@pytest.mark.parametrize("number", [1e-40, 1e-45, 1e-310])
def test_a_denormal_number_is_refused_as_in_mxnet(number, active):
    net = nn.LeakyReLU(number)
    net.hybridize(active)
    with pytest.raises(AttributeValueError, match="slope takes float of at least 1.18e-38"):
        net(nd.ones((2,)))
    (prior, *_) = nd.contrib.MultiBoxPrior(nd.ones((1, 1, 2, 2)), sizes=(float(number),))
    assert (prior.asnumpy() < 1).all()  # numbers of lists are read without this limit


@pytest.mark.parametrize("number", [1e-310, -5e-324])
def test_a_denormal_double_is_refused(number):
    with pytest.raises(AttributeValueError, match="takes double of at least 2.23e-308"):
        nd.ones((2,)) * number
    assert (nd.ones((2,)) * 1e-300).asnumpy().max() == 0


def test_the_largest_float32_in_nine_digits_is_a_number():
    assert nd.LeakyReLU(-nd.ones((1,)), slope=3.40282347e38).asscalar() == -np.finfo("f").max
