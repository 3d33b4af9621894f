"""Compiled code against the NumPy references: every operator on every sample, then neighbours.

Nothing here assumes a vector width: the file is run for every target.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiling import AVAILABLE, assert_near, call, compiled, run_reference, var
from hybridjit.config import override
from hybridjit.errors import ShapeError
from hybridjit.ir.node import Output, apply, topological, variable
from hybridjit.ops import OpDef, all_ops, run_ref
from hybridjit.passes.infer import infer_node_types
from hybridjit.types import FLOAT32, UNKNOWN, TensorType, type_of
from samples import Sample, samples

Layer = Callable[[Output], Output]

# Allowed difference as a part of the largest value, where it is not the dtype's own.
EXCEPTIONS: dict[str, tuple[float, str]] = {}


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Executables of this file, kept so that equal kernels are compiled once."""
    kept: list[object] = []
    yield kept
    kept.clear()


def one_op(op: OpDef, sample: Sample) -> tuple[list[Output], dict[str, np.ndarray]]:
    arrays = {f"x{i}": array for i, array in enumerate(sample.arrays)}
    node = apply(op, "node", [Output(variable(n)) for n in arrays], sample.attrs)
    return [Output(node, i) for i in range(len(node.output_names))], arrays


def has_fixed_shape(op: OpDef, sample: Sample) -> bool:
    """Whether the operator's rule gives its outputs' types, whatever the values."""
    attrs = op.parse(sample.attrs)
    given = tuple(type_of(a) for a in sample.arrays)
    outs = op.infer(given, (UNKNOWN,) * len(op.output_names(attrs)), **attrs)[1]
    return all(t.is_known for t in outs)


def check(op: OpDef, sample: Sample, as_params: bool, kernels: list[object]) -> None:
    outputs, arrays = one_op(op, sample)
    params = list(arrays)[1:] if as_params else []
    executable = compiled(outputs, arrays, params)
    kernels.append(executable)
    given = [np.ascontiguousarray(a) for n, a in arrays.items() if n not in params]
    found = executable(given)
    wanted = [np.asarray(y) for y in run_ref(op, list(sample.arrays), op.parse(sample.attrs))]
    if op.is_random:
        assert [(y.shape, y.dtype) for y in found] == [(y.shape, y.dtype) for y in wanted]
    else:
        assert_near(found, wanted, EXCEPTIONS.get(op.name, (None, ""))[0])


EVERY = [(op, sample) for op in all_ops() for sample in samples(op)]
FIXED = [pytest.param(o, s, id=f"{o.name}-{s.name}") for o, s in EVERY if has_fixed_shape(o, s)]
VARYING = [
    pytest.param(o, s, id=f"{o.name}-{s.name}") for o, s in EVERY if not has_fixed_shape(o, s)
]


SEVERAL = [case for case in FIXED if len(case.values[1].arrays) > 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("op, sample", FIXED)
def test_op(op: OpDef, sample: Sample, kernels):
    check(op, sample, False, kernels)


@pytest.mark.parametrize("op, sample", SEVERAL)
def test_op_with_parameters(op: OpDef, sample: Sample, kernels):
    """All inputs but the first as parameters: packed, folded and hoisted."""
    check(op, sample, True, kernels)


@pytest.mark.parametrize("op, sample", VARYING)
def test_a_shape_that_depends_on_values_is_refused(op: OpDef, sample: Sample):
    with pytest.raises(ShapeError, match=f"{op.name} 'node'.*depends on values"):
        compiled(*one_op(op, sample))


def test_a_random_operator_differs_from_call_to_call():
    outputs, arrays = [call("_random_uniform", shape=(64,))], {"unused": np.zeros(1, np.float32)}
    executable = compiled(outputs, arrays)
    first, second = (executable([arrays["unused"]])[0] for _ in range(2))
    assert (first != second).any()


# --- narrower targets: a few operators of each kind, whatever HYBRIDJIT_TARGET says ---

FEW = {
    "Convolution": 12, "Pooling": 8, "FullyConnected": 3, "softmax": 3, "log_softmax": 1,
    "broadcast_add": 14, "transpose": 2, "exp": 1, "tanh": 1, "erf": 1, "log": 1, "round": 1,
    "sign": 1, "_power_scalar": 1, "broadcast_mod": 1, "clip": 1, "Concat": 2,
}  # fmt: skip
NARROW = [
    pytest.param(target, op, sample, id=f"{target}-{op.name}-{sample.name}")
    for target in AVAILABLE
    for op in all_ops()
    for sample in samples(op)[: FEW.get(op.name, 0)]
]


@pytest.mark.parametrize("target, op, sample", NARROW)
def test_op_on_narrower_target(target: str, op: OpDef, sample: Sample, kernels):
    with override(target=target):
        check(op, sample, True, kernels)


# --- neighbours in one kernel ---


def conv(filters: int, kernel: tuple[int, ...] = (3, 3), **attrs: object) -> Layer:
    def layer(x: Output) -> Output:
        return call("Convolution", x, var("w"), var("b"), name="layer", kernel=kernel,
                    num_filter=filters, **attrs)  # fmt: skip

    return layer


def pool(**attrs: object) -> Layer:
    return lambda x: call("Pooling", x, name="layer", **attrs)


def dense(units: int) -> Layer:
    return lambda x: call("FullyConnected", x, var("w"), var("b"), name="layer", num_hidden=units)


LAYERS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "conv3x3": (conv(7, pad=(1, 1)), (2, 5, 9, 10)),
    "conv3x3-wide": (conv(40, pad=(1, 1)), (1, 33, 14, 13)),
    "conv1x1": (conv(18, (1, 1)), (2, 17, 5, 6)),
    "conv-strided": (conv(16, (5, 3), stride=(2, 3), pad=(2, 0)), (1, 3, 16, 15)),
    "conv-dilated": (conv(9, dilate=(2, 2), pad=(2, 2)), (1, 8, 9, 9)),
    "conv-grouped": (conv(12, num_group=3, pad=(1, 1)), (2, 6, 7, 7)),
    "depthwise": (conv(19, num_group=19, pad=(1, 1)), (2, 19, 7, 8)),
    "conv1d": (conv(6, (3,), pad=(1,)), (2, 5, 12)),
    "conv3d": (conv(5, (2, 3, 3), pad=(0, 1, 1)), (1, 4, 4, 5, 6)),
    "dense": (dense(21), (3, 37)),
    "dense-one-row": (dense(64), (1, 50)),
    "maxpool": (pool(kernel=(3, 3), stride=(2, 2), pad=(1, 1)), (2, 19, 9, 8)),
    "avgpool": (pool(kernel=(2, 2), pool_type="avg"), (1, 5, 6, 7)),
    "global-pool": (pool(pool_type="avg", global_pool=True), (2, 18, 5, 5)),
}


def by_channel(y: Output, op: str) -> list[Output]:
    return [call(op, y, var("channel"))]


def norm(y: Output) -> Output:
    states = [var(f"bn_{n}") for n in ("gamma", "beta", "mean", "var")]
    return call("BatchNorm", y, *states, fix_gamma=False)


# What follows the layer's result y; ``same`` is a tensor like y, ``channel`` has one number per
# sample and channel, ``place`` one per place.
TAILS: dict[str, Callable[[Output], list[Output]]] = {
    "relu": lambda y: [call("relu", y)],
    "residual-relu": lambda y: [call("relu", call("elemwise_add", y, var("same")))],
    "residual-first": lambda y: [call("elemwise_sub", var("same"), y)],
    "gate": lambda y: by_channel(y, "broadcast_mul"),
    "places": lambda y: [call("broadcast_add", y, var("place"))],
    "batchnorm-relu": lambda y: [call("relu", norm(y))],
    "swish": lambda y: [call("elemwise_mul", y, call("sigmoid", y))],
    "twice": lambda y: [call("relu", y), y],
    "scalar-clip": lambda y: [
        call("clip", call("_plus_scalar", y, scalar=0.5), a_min=-0.25, a_max=0.75)
    ],
    "prelu": lambda y: [call("LeakyReLU", y, var("slope"), act_type="prelu")],
}


def neighbour_arrays(
    layer: Layer, shape: tuple[int, ...], outputs: list[Output]
) -> dict[str, np.ndarray]:
    """An array for every variable that ``outputs`` read."""
    types = infer_node_types([layer(var("x"))], {"x": TensorType(shape, FLOAT32)})
    known = {n.name: t[0].dims for n, t in types.items()}
    result = known.pop("layer")
    channels, ones = result[1], (1,) * (len(result) - 2)
    known |= {
        "same": result,
        "channel": (result[0], channels, *ones),
        "place": (1, 1, *result[2:]),
        "slope": (channels,),
        **{f"bn_{n}": (channels,) for n in ("gamma", "beta", "mean", "var")},
    }
    random = np.random.default_rng(len(shape) + sum(shape))
    needed = [n.name for n in topological(outputs) if n.is_variable]
    arrays = {n: random.normal(0, 1, known[n]).astype(np.float32) for n in needed}
    if "w" in arrays:  # results of about one, whatever the size of the layer
        arrays["w"] /= np.float32(np.sqrt(arrays["w"][0].size))
    if "bn_var" in arrays:
        arrays["bn_var"] = np.abs(arrays["bn_var"]) + np.float32(0.5)
    return arrays


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("name", LAYERS)
def test_neighbours(name: str, tail: str, kernels):
    layer, shape = LAYERS[name]
    outputs = TAILS[tail](layer(var("x")))
    arrays = neighbour_arrays(layer, shape, outputs)
    params = [n for n in arrays if n in ("w", "b", "slope") or n.startswith("bn_")]
    executable = compiled(outputs, arrays, params)
    kernels.append(executable)
    found = executable([a for n, a in arrays.items() if n not in params])
    assert_near(found, run_reference(outputs, arrays))


# --- sizes around the width of a vector, whatever that is ---

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50)


def check_network(
    layer: Layer, shape: tuple[int, ...], kernels: list[object], given: str = "x"
) -> None:
    outputs = [layer(var("x"))]
    arrays = neighbour_arrays(layer, shape, outputs)
    executable = compiled(outputs, arrays, [n for n in arrays if n not in given])
    kernels.append(executable)
    assert_near(executable([arrays[n] for n in given]), run_reference(outputs, arrays))


@pytest.mark.parametrize("size", SIZES)
class TestSizes:
    def test_conv_filters(self, size: int, kernels):
        check_network(conv(size), (1, 4, 5, 6), kernels)

    def test_conv_channels_and_columns(self, size: int, kernels):
        check_network(conv(3, (1, 3), pad=(0, 1)), (1, size, 1, size), kernels)

    def test_depthwise_channels(self, size: int, kernels):
        check_network(conv(size, num_group=size, pad=(1, 1)), (1, size, 4, 5), kernels)

    def test_dense_rows_and_units(self, size: int, kernels):
        check_network(dense(size), (size, 11), kernels)

    def test_pool_channels(self, size: int, kernels):
        check_network(pool(kernel=(2, 2)), (1, size, 3, 4), kernels)

    def test_softmax_row(self, size: int, kernels):
        check_network(lambda x: call("softmax", x, name="layer"), (3, size), kernels)

    def test_softmax_across(self, size: int, kernels):
        check_network(lambda x: call("softmax", x, name="layer", axis=1), (2, 5, size), kernels)

    def test_strided_operands(self, size: int, kernels):
        """A transposed, a sliced and a repeated operand of one pointwise kernel."""
        turned = call("transpose", var("x"), axes=(1, 0))
        cut = call("slice", var("y"), begin=(0, 1), end=(size, 6), step=(1, 1))
        wide = call("broadcast_to", var("z"), shape=(size, 5))
        outputs = [call("elemwise_mul", call("elemwise_add", turned, cut), wide)]
        random = np.random.default_rng(size)
        shapes = {"x": (5, size), "y": (size, 7), "z": (1, 5)}
        arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
        executable = compiled(outputs, arrays)
        kernels.append(executable)
        assert_near(executable(list(arrays.values())), run_reference(outputs, arrays))


@pytest.mark.parametrize("batch", [1, 2, 5, 0])
@pytest.mark.parametrize("name", ["conv3x3", "depthwise", "maxpool", "dense"])
def test_batch(name: str, batch: int, kernels):
    layer, (_, *rest) = LAYERS[name]
    check_network(layer, (batch, *rest), kernels)
