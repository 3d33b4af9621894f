"""Compiled code against the NumPy references: every operator on every sample, then neighbours.

Nothing here assumes a vector width: the file is run for every target.
"""

from __future__ import annotations

import numpy as np
import pytest

from compiling import AVAILABLE, assert_near, call, compiled, plan_of, run_reference, var
from hybridjit._core.config import config, override
from hybridjit._core.types import UNKNOWN, type_of
from hybridjit.cli.ops import kernel_types
from hybridjit.errors import ShapeError
from hybridjit.ir.node import Output, apply, variable
from hybridjit.ops import OpDef, all_ops, run_ref
from neighbours import (
    LAYERS,
    TAILS,
    Layer,
    Network,
    conv,
    deconv,
    dense,
    in_double,
    inside,
    layer,
    network,
    pool,
)
from recorded import NETWORKS, arrays_of, as_list, block_of
from samples import Sample, samples

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
def test_compiled_operators_equal_their_references(op: OpDef, sample: Sample, kernels):
    check(op, sample, False, kernels)


@pytest.mark.parametrize("op, sample", SEVERAL)
def test_op_with_parameters(op: OpDef, sample: Sample, kernels):
    """All inputs but the first as parameters: packed, folded and hoisted."""
    check(op, sample, True, kernels)


def test_the_table_of_kernels_is_true():
    """Where ``hybridjit ops`` names a type, some sample of it runs without a step on the host."""
    native: dict[tuple[str, str], bool] = {}
    for op, sample in EVERY:
        if not sample.arrays or not all(a.size for a in sample.arrays) or op.internal:
            continue
        dtype = sample.arrays[0].dtype.name
        claimed = {*kernel_types(op)} & {"all", dtype}
        if not claimed or native.get((op.name, dtype)) or not has_fixed_shape(op, sample):
            continue
        outputs, arrays = one_op(op, sample)
        plan = plan_of(outputs, arrays, list(arrays)[1:])
        native[op.name, dtype] = all(step.kind != "host" for step in plan.steps)
    assert len(native) > 200
    assert [pair for pair, is_native in native.items() if not is_native] == []


@pytest.mark.parametrize("op, sample", VARYING)
def test_a_shape_that_depends_on_values_is_refused(op: OpDef, sample: Sample):
    with pytest.raises(ShapeError, match=f"{op.name} 'node'.*depends on values"):
        compiled(*one_op(op, sample))


def test_a_random_operator_differs_from_call_to_call():
    outputs, arrays = [call("_random_uniform", shape=(64,))], {"unused": np.zeros(1, np.float32)}
    executable = compiled(outputs, arrays)
    first, second = (executable([arrays["unused"]])[0] for _ in range(2))
    assert (first != second).any()


# --- targets: a few operators of each kind; HYBRIDJIT_TARGET runs the whole file for one ---

FEW = {
    "Convolution": 12, "Pooling": 8, "FullyConnected": 3, "softmax": 3, "log_softmax": 1,
    "broadcast_add": 14, "transpose": 2, "exp": 1, "tanh": 1, "erf": 1, "log": 1, "round": 1,
    "sign": 1, "_power_scalar": 1, "broadcast_mod": 1, "clip": 1, "Concat": 2,
}  # fmt: skip
NARROW = [
    pytest.param(target, op, sample, id=f"{target}-{op.name}-{sample.name}")
    for target in ((config.target,) if config.target else AVAILABLE)
    for op in all_ops()
    for sample in samples(op)[: FEW.get(op.name, 0)]
]


@pytest.mark.parametrize("target, op, sample", NARROW)
def test_op_on_target(target: str, op: OpDef, sample: Sample, kernels):
    with override(target=target):
        check(op, sample, True, kernels)


# --- neighbours in one kernel ---


def check_network(net: Network, kernels: list[object]) -> None:
    executable = compiled(net.outputs, net.arrays, net.params)
    kernels.append(executable)
    assert_near(executable(net.inputs), run_reference(net.outputs, net.arrays))


# Every layer with these tails; one of each kind of kernel with all of them.
USUAL_TAILS = ("nothing", "residual-relu", "gate", "batchnorm-relu", "twice")
OF_EACH_KIND = (
    "conv3x3", "conv-winograd", "conv-strassen", "depthwise", "dense", "dense-strassen",
    "batch-dot", "maxpool",
)  # fmt: skip
PAIRS = [(n, t) for n in LAYERS for t in TAILS if t in USUAL_TAILS or n in OF_EACH_KIND]


@pytest.mark.parametrize("name, tail", PAIRS)
def test_compiled_layers_with_epilogues_equal_numpy(name: str, tail: str, kernels):
    check_network(network(*LAYERS[name], tail), kernels)


@pytest.mark.parametrize("tail", ["nothing", "residual-relu"])
@pytest.mark.parametrize("name", LAYERS)
def test_neighbours_in_double(name: str, tail: str, kernels):
    """In float64 the same steps have kernels as in float32, and its accuracy."""
    single = network(*LAYERS[name], tail)
    net = in_double(single)
    plan = plan_of(single.outputs, single.arrays, single.params)
    executable = compiled(net.outputs, net.arrays, net.params)
    kernels.append(executable)
    assert [s.kind for s in executable.plan.steps] == [s.kind for s in plan.steps]
    assert_near(executable(net.inputs), run_reference(net.outputs, net.arrays))


@pytest.mark.parametrize("stride", [1, 2])
def test_tall_depthwise_layers_are_cut_into_units_of_rows(stride: int, kernels):
    make = inside(conv(24, num_group=24, pad=(1, 1), stride=(stride, stride)))
    check_network(network(make, (2, 24, 61 * stride, 13 * stride)), kernels)


@pytest.mark.parametrize("columns", [1, 2, 7, 34, 60, 131])
@pytest.mark.parametrize("more", [{}, {"stride": (1, 3)}, {"dilate": (1, 2)}, {"pad": (1, 70)}])
def test_depthwise_layers_with_wide_windows(columns: int, more: dict, kernels):
    """More taps than are unrolled, beyond both edges of a row at once where it is short."""
    make = inside(conv(21, (3, 37), num_group=21, **{"pad": (1, 40), **more}))
    check_network(network(make, (2, 21, 4, columns)), kernels)


# --- sizes around the width of a vector, whatever that is ---


@pytest.mark.parametrize("size", (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50))
class TestSizes:
    def test_conv_filters(self, size: int, kernels):
        check_network(network(conv(size), (1, 4, 5, 6)), kernels)

    def test_conv_channels_and_columns(self, size: int, kernels):
        check_network(network(conv(3, (1, 3), pad=(0, 1)), (1, size, 1, size)), kernels)

    def test_depthwise_channels(self, size: int, kernels):
        make = inside(conv(size, num_group=size, pad=(1, 1)))
        check_network(network(make, (1, size, 4, 5)), kernels)

    def test_depthwise_columns_and_rows(self, size: int, kernels):
        for more in ({}, {"stride": (2, 2)}, {"pad": (2, 0)}):
            make = inside(conv(5, num_group=5, **{"pad": (1, 1), **more}))
            check_network(network(make, (1, 5, size + 2, size + 2)), kernels)

    def test_dense_rows_and_units(self, size: int, kernels):
        check_network(network(dense(size), (size, 11)), kernels)

    def test_batch_dot(self, size: int, kernels):
        make = layer("batch_dot", var("other", (2, size, size)))
        check_network(network(make, (2, 3, size)), kernels)

    def test_pool_channels(self, size: int, kernels):
        check_network(network(pool(kernel=(2, 2)), (1, size, 3, 4)), kernels)

    def test_along_a_row(self, size: int, kernels):
        for make in (layer("softmax"), layer("mean", axis=(1,), keepdims=True)):
            check_network(network(make, (3, size)), kernels)

    def test_across_rows(self, size: int, kernels):
        for make in (layer("softmax", axis=1), layer("max", axis=(1,), keepdims=True)):
            check_network(network(make, (2, 5, size)), kernels)

    def test_layer_norm(self, size: int, kernels):
        make = layer("LayerNorm", var("w"), var("b"), eps=1e-3)
        check_network(network(make, (2, 3, size)), kernels)

    def test_strided_operands(self, size: int, kernels):
        """A transposed, a sliced and a repeated operand of one pointwise kernel."""
        turned = call("transpose", var("x"), axes=(1, 0))
        cut = call("slice", var("y"), begin=(0, 1), end=(size, 6), step=(1, 1))
        wide = call("broadcast_to", var("z"), shape=(size, 5))
        outputs = [call("elemwise_mul", call("elemwise_add", turned, cut), wide)]
        random = np.random.default_rng(size)
        shapes = {"x": (5, size), "y": (size, 7), "z": (1, 5)}
        arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
        check_network(Network(outputs, arrays, []), kernels)


# --- long sums: of positive numbers, whose error grows with every addition that follows another ---


LONG_SUMS: dict[str, tuple[Layer, tuple[int, ...]]] = {
    "dense": (dense(5), (3, 100_003)),
    "dense-one-row": (dense(5), (1, 90_000)),
    "product": (layer("batch_dot", var("other", (1, 60_000, 5))), (1, 2, 60_000)),
    "conv": (inside(conv(5, stride=(2, 2))), (1, 9000, 5, 5)),
    "conv1x1": (inside(conv(5, (1, 1))), (1, 20_001, 2, 3)),
    "conv-few-channels": (conv(5, (150, 150)), (1, 3, 151, 150)),
    "instance-norm": (layer("InstanceNorm", var("w"), var("b")), (1, 2, 900, 701)),
}


@pytest.mark.parametrize("name", LONG_SUMS)
def test_a_long_sum(name: str, kernels):
    """Against float64; one sum of 100,000 products after the other is 1.5e-5 off."""
    net = network(*LONG_SUMS[name], "nothing")
    arrays = {n: np.abs(a) + (90 if "norm" in name and n == "x" else 0)
              for n, a in net.arrays.items()}  # fmt: skip
    executable = compiled(net.outputs, arrays, net.params)
    kernels.append(executable)
    found = executable([a for n, a in arrays.items() if n not in net.params])
    wide = {n: a.astype(np.float64) for n, a in arrays.items()}
    # The last place of a mean of 90 is 6e-7 of the largest result of the norm.
    limit = 1.8e-6 if "norm" in name else 6e-7
    assert_near([y.astype(np.float64) for y in found], run_reference(net.outputs, wide), limit)


# --- windows at random: kernel, stride, dilation, padding and groups of any size together ---


def random_convolution(random: np.random.Generator) -> Network | None:
    """One that fits its image, or None; half of them amid channels-last neighbours."""
    axes = int(random.choice([1, 2, 2, 2, 3]))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in random.integers(low, high, axes))

    image, kernel = sizes(1, 12 if axes < 3 else 6), sizes(1, 5)
    stride, dilate = sizes(1, 5), sizes(1, 3)
    pad = tuple(int(random.integers(0, 2 * k)) for k in kernel)
    if any(n + 2 * p < (k - 1) * d + 1 for n, k, d, p in zip(image, kernel, dilate, pad)):
        return None
    channels = int(random.choice([1, 3, 4, 8, 12, 17, 20]))
    groups = int(random.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    make = conv(groups * int(random.choice([1, 2, 9])), kernel, stride=stride, dilate=dilate,
                pad=pad, num_group=groups)  # fmt: skip
    batch = int(random.integers(1, 4))
    return network(inside(make, axes) if random.random() < 0.5 else make, (batch, channels, *image))


def random_deconvolution(random: np.random.Generator) -> Network | None:
    """One that leaves something of its result, or None."""
    axes = int(random.choice([1, 2, 2, 3]))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in random.integers(low, high, axes))

    image, kernel, stride, dilate = sizes(1, 7), sizes(1, 5), sizes(1, 4), sizes(1, 4)
    pad = tuple(int(random.integers(0, 2 * k)) for k in kernel)
    adj = tuple(int(random.integers(0, s)) for s in stride)
    full = [(k - 1) * d + 1 + (n - 1) * s for n, k, s, d in zip(image, kernel, stride, dilate)]
    if any(f - 2 * p + a < 1 for f, p, a in zip(full, pad, adj)):
        return None
    groups = int(random.choice([1, 2, 17]))
    make = deconv(groups * int(random.choice([1, 2, 16])), kernel, stride=stride, dilate=dilate,
                  pad=pad, adj=adj, num_group=groups)  # fmt: skip
    return network(inside(make, axes), (int(random.integers(1, 4)), groups * 2, *image))


def random_pooling(random: np.random.Generator) -> Network:
    kernel = tuple(int(n) for n in random.integers(1, 5, 2))
    make = pool(
        kernel=kernel,
        stride=tuple(int(random.integers(1, 5)) for _ in kernel),
        pad=tuple(int(random.integers(0, k)) for k in kernel),
        pool_type=str(random.choice(["max", "avg", "sum"])),
        pooling_convention=str(random.choice(["valid", "full"])),
        count_include_pad=bool(random.integers(0, 2)),
    )
    height, width = (int(n) for n in random.integers(5, 12, 2))
    return network(make, (2, int(random.choice([3, 8, 17, 70])), height, width))


@pytest.mark.parametrize("seed", range(12))
def test_windows_at_random(seed: int, kernels):
    random = np.random.default_rng(seed)
    checked = 0
    while checked < 3:
        net = random_convolution(random)
        if net is not None:
            check_network(net, kernels)
            checked += 1
    check_network(random_pooling(random), kernels)
    net = random_deconvolution(random)
    if net is not None:
        check_network(net, kernels)


@pytest.mark.parametrize("batch", [1, 2, 5, 0])
@pytest.mark.parametrize("name", ["conv3x3", "conv-winograd", "depthwise", "maxpool", "dense"])
def test_compiled_layers_equal_numpy_for_each_batch_size(name: str, batch: int, kernels):
    make, (_, *rest) = LAYERS[name]
    check_network(network(make, (batch, *rest)), kernels)


# --- whole networks, every step against its reference in poisoned memory ---


@pytest.mark.parametrize("name", NETWORKS)
def test_network_in_check_mode(name: str):
    net = block_of(name)
    net.hybridize()
    inputs, wanted = arrays_of(name)
    with override(check=True):
        assert_near(as_list(net(*inputs)), wanted, 1e-4)
