"""Batches that run sample by sample: which graphs may, the same bits, the same memory."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from compiling import call, compiled, plan_of, var
from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit._core.types import UNKNOWN, TensorType
from hybridjit.ir.node import Output, topological
from hybridjit.ops import OpDef, all_ops
from hybridjit.ops.record import Samples
from hybridjit.passes.plan import last_layers, split_batch
from hybridjit.passes.plan.sample_axes import MixedError, SampleAxes
from hybridjit.passes.plan.split_batch import batch_of, should_split_batch
from hybridjit.profiling.report import measure
from hybridjit.runtime.split_batch import SplitBatch
from neighbours import LAYERS, TAILS, Network, network
from samples import samples

BATCH = 3
# Operands that a tail adds have a sample for each of the data's: "place" and "prelu"'s are shared.
APART = ("nothing", "relu", "residual-relu", "gate", "batchnorm-relu", "swish", "twice", "prelu")


def of_batch(name: str, tail: str = "nothing") -> Network:
    make, shape = LAYERS[name]
    return network(make, (BATCH, *shape[1:]), tail)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every separable batch is split, however small it is."""
    monkeypatch.setattr(split_batch, "should_split_batch", lambda plan: bool(batch_of(plan.graph)))
    monkeypatch.setattr(split_batch, "is_worth_splitting", lambda plan: True)


def separable(y: Output, shape: tuple[int, ...] = (BATCH, 4, 5)) -> int:
    return batch_of(plan_of([y], {"x": np.ones(shape, np.float32)}).graph)


SEPARABLE = {
    "softmax over the last axis": lambda x: call("softmax", x),
    "a sum over others": lambda x: call("sum", x, axis=(1, 2)),
    "a transpose of others": lambda x: call("transpose", x, axes=(0, 2, 1)),
    "joined along another": lambda x: call("Concat", x, x, dim=1, num_args=2),
    "flattened": lambda x: call("Flatten", x),
    "a scalar": lambda x: call("_plus_scalar", x, scalar=2),
}
MIXED = {
    "softmax over the batch": lambda x: call("softmax", x, axis=0),
    "a sum over the batch": lambda x: call("sum", x, axis=0, keepdims=True),
    "the batch is turned": lambda x: call("transpose", x, axes=(1, 0, 2)),
    "the batch is flipped": lambda x: call("reverse", x, axis=0),
    "joined along the batch": lambda x: call("Concat", x, x, dim=0, num_args=2),
    "rows of other samples": lambda x: call("reshape", x, shape=(-1, 5)),
    "sorted": lambda x: call("sort", x, axis=0),
    "drawn": lambda x: call("_random_uniform", shape=(BATCH, 4, 5)),
}


@pytest.mark.parametrize("what", SEPARABLE)
def test_independent_samples_are_recognised(what: str):
    assert separable(SEPARABLE[what](var("x"))) == BATCH


@pytest.mark.parametrize("what", MIXED)
def test_samples_are_mixed(what: str):
    assert separable(MIXED[what](var("x"))) == 0


WITH_RULES = [op for op in all_ops() if op.traits.samples is not Samples.MIXED and samples(op)]


@pytest.mark.parametrize("op", WITH_RULES, ids=lambda op: op.name)
def test_the_rule_of_samples_reads_the_attributes_of_each_operator(op: OpDef):
    """The rule gives an axis of the result, or refuses: it does not fail."""
    for sample in samples(op):
        types = [TensorType(x.shape, x.dtype) for x in sample.arrays]
        attrs = op.parse(sample.attrs)
        (result, *_) = op.infer(tuple(types), (UNKNOWN,) * len(op.output_names(attrs)), **attrs)[1]
        uses = [SimpleNamespace(value=object(), type=t) for t in types]
        value = SimpleNamespace(op=op, inputs=uses, attrs=attrs, shape=result.dims)
        if types and types[0].dims:
            with suppress(MixedError):
                axis = SampleAxes([uses[0].value]).axis_of(value)
                assert 0 <= axis < len(value.shape)


def test_a_batch_of_one_has_nothing_to_divide():
    assert separable(call("softmax", var("x")), (1, 4, 5)) == 0


def test_an_input_of_another_batch_keeps_the_batch_whole():
    y = call("broadcast_add", var("x"), var("z"))
    arrays = {"x": np.ones((BATCH, 2), np.float32), "z": np.ones((1, 2), np.float32)}
    assert batch_of(plan_of([y], arrays).graph) == 0


APART_LAYERS = (
    "conv3x3-first", "conv3x3", "conv1x1", "conv-winograd", "conv-grouped", "conv-small-groups",
    "depthwise", "conv1d", "conv3d", "dense", "maxpool", "global-pool", "sum-last", "max-middle",
    "layer-norm", "instance-norm", "group-norm", "lrn", "softmax", "softmax-across",
    "conv-strassen",
)  # fmt: skip


@pytest.mark.parametrize("name", APART_LAYERS)
@pytest.mark.parametrize("tail", ["nothing", "residual-relu"])
def test_the_same_bits(always: None, name: str, tail: str):
    net = of_batch(name, tail)
    by_one = compiled(net.outputs, net.arrays, net.params)
    assert isinstance(by_one, SplitBatch)
    with override(skip=("by-sample",)):
        whole = compiled(net.outputs, net.arrays, net.params)
    assert not isinstance(whole, SplitBatch)
    for mine, right in zip(by_one(net.inputs), whole(net.inputs)):
        np.testing.assert_array_equal(mine, right)


@pytest.mark.parametrize("tail", APART)
def test_epilogues_of_layers_are_split_too(always: None, tail: str):
    assert tail in TAILS
    net = of_batch("conv3x3", tail)
    executable = compiled(net.outputs, net.arrays, net.params)
    assert isinstance(executable, SplitBatch)


def heads(x: Output) -> Output:
    """(3, 4, 6) as (3, 2, 4, 3): two heads."""
    return call("transpose", call("reshape", x, shape=(BATCH, 4, 2, 3)), axes=(0, 2, 1, 3))


def attention(x: Output) -> Output:
    """Both axes of samples and heads as one, as in graphs of MXNet."""
    rows = call("reshape", heads(x), shape=(2 * BATCH, 4, 3))
    scores = call("softmax", call("batch_dot", rows, rows, transpose_b=True), axis=-1)
    made = call("reshape", call("batch_dot", scores, rows), shape=(BATCH, 2, 4, 3))
    return call("reshape", call("transpose", made, axes=(0, 2, 1, 3)), shape=(BATCH, 4, 6))


def one_of_three(x: Output) -> Output:
    """Queries of the projection of a ViT: their axis comes before the batch."""
    parts = call("transpose", call("reshape", x, shape=(BATCH, 4, 3, 2)), axes=(2, 0, 1, 3))
    return call("reshape", call("slice_axis", parts, axis=0, begin=1, end=2), shape=(BATCH, 4, 2))


def on_rows(x: Output) -> Output:
    """A dense layer on the positions of all samples."""
    rows = call("reshape", x, shape=(BATCH * 4, 6))
    made = call("FullyConnected", rows, var("w"), num_hidden=6, no_bias=True)
    return call("reshape", call("relu", made), shape=(BATCH, 4, 6))


WRITTEN = {
    "a shape": lambda x: call("reshape", x, shape=(BATCH, 24)),
    "rows": on_rows,
    "heads": lambda x: call("sum", heads(x), axis=(1, 3)),
    "attention": attention,
    "one of three": one_of_three,
    "a repeated parameter": lambda x: call(
        "Concat", x, call("broadcast_to", var("c"), shape=(BATCH, 2, 6)), dim=1, num_args=2
    ),
    "a number": lambda x: call("broadcast_to", call("sum", x, axis=(1, 2), keepdims=True),
                               shape=(BATCH, 4, 1)),
    "picked": lambda x: call("reshape", call("pick", x, call("sum", x, axis=1), axis=1),
                             shape=(BATCH, 2, 3)),
    "boxes": lambda x: call("reshape", call("_contrib_box_nms", x), shape=(BATCH, 24)),
}  # fmt: skip
TOGETHER = {
    "a parameter of the batch": lambda x: call("broadcast_add", x, var("b")),
    "joined along the batch": lambda x: call(
        "slice_axis", call("Concat", x, x, dim=0, num_args=2), axis=0, begin=0, end=BATCH
    ),
    "the batch inside": lambda x: call(
        "reshape", call("transpose", x, axes=(1, 0, 2)), shape=(BATCH, 24)
    ),
    "softmax over rows of all": lambda x: call(
        "reshape", call("softmax", call("reshape", x, shape=(BATCH * 4, 6)), axis=0),
        shape=(BATCH, 24)
    ),
    "turned": lambda x: call("reshape", call("reverse", x, axis=0), shape=(BATCH, 24)),
    "cut": lambda x: call("slice", call("reshape", x, shape=(BATCH, 24)), begin=(1, 0),
                          end=(None, None)),
    "picked among samples": lambda x: call(
        "broadcast_to", call("pick", x, call("sum", x, axis=0), axis=0, keepdims=True),
        shape=(BATCH, 4, 6)
    ),
}  # fmt: skip
SIZES = {"w": (6, 6), "c": (1, 2, 6), "b": (BATCH, 1, 6)}


def both_ways(y: Output) -> tuple[object, list[np.ndarray], list[np.ndarray]]:
    """The executable of a program with sizes of this batch, its results, and those of the whole."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((BATCH, 4, 6)).astype(np.float32)
    used = {name for name in SIZES if name in {node.name for node in topological([y])}}
    params = {n: rng.standard_normal(SIZES[n]).astype(np.float32) for n in sorted(used)}
    executable = compiled([y], {"x": x, **params}, list(params))
    with override(skip=("by-sample",)):
        whole = compiled([y], {"x": x, **params}, list(params))
    return executable, executable([x]), whole([x])


@pytest.mark.parametrize("what", WRITTEN)
def test_sizes_written_for_this_batch_are_taken_apart(always: None, what: str):
    executable, mine, right = both_ways(WRITTEN[what](var("x")))
    assert isinstance(executable, SplitBatch) and executable.samples == BATCH
    np.testing.assert_array_equal(mine[0], right[0])


@pytest.mark.parametrize("what", TOGETHER)
def test_samples_that_belong_together_stay_together(always: None, what: str):
    executable, mine, right = both_ways(TOGETHER[what](var("x")))
    assert not isinstance(executable, SplitBatch)
    np.testing.assert_array_equal(mine[0], right[0])


def classified(outputs: str) -> list[Output]:
    """Pooled features and two dense layers; the features may be an output as well."""
    pooled = call("Pooling", var("x"), pool_type="avg", global_pool=True, kernel=(1, 1))
    y = call("FullyConnected", pooled, var("v"), var("b"), num_hidden=40)
    y = call(
        "softmax", call("FullyConnected", call("relu", y), var("w"), num_hidden=37, no_bias=True)
    )
    return {"classes": [y], "features": [y, pooled]}[outputs]


CLASSIFIED = {"v": (40, 70), "b": (40,), "w": (37, 40)}


def classified_both_ways(outputs: str, **options: object) -> tuple[object, list, list, list]:
    """The executable, its results, those of the whole batch, and the inputs."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((BATCH, 70, 5, 5)).astype(np.float32)
    params = {n: rng.standard_normal(s).astype(np.float32) for n, s in CLASSIFIED.items()}
    given = (classified(outputs), {"x": x, **params}, list(params))
    executable = compiled(*given)
    with override(skip=("by-sample",)):
        whole = compiled(*given)
    return executable, executable([x]), whole([x]), [x]


def test_last_layers_that_are_convolutions_of_one_pixel_run_for_all_samples(
    always: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(last_layers, "_LEAST_BYTES", 0)
    rng = np.random.default_rng(7)
    shapes = {"x": (BATCH, 70, 5, 5), "v": (40, 70, 1, 1), "w": (37, 40)}
    given = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    pooled = call("Pooling", var("x"), pool_type="avg", global_pool=True, kernel=(1, 1))
    pixel = {"kernel": (1, 1), "num_filter": 40, "no_bias": True}
    y = call("relu", call("Convolution", pooled, var("v"), **pixel))
    outputs = [call("FullyConnected", y, var("w"), num_hidden=37, no_bias=True)]
    executable = compiled(outputs, given, ["v", "w"])
    assert isinstance(executable, SplitBatch) and executable.last is not None
    with override(skip=("by-sample", "dense-pixels")):
        whole = compiled(outputs, given, ["v", "w"])
    np.testing.assert_array_equal(executable([given["x"]])[0], whole([given["x"]])[0])


def test_last_layers_run_for_all_samples_with_the_same_bits(
    always: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(last_layers, "_LEAST_BYTES", 0)
    executable, mine, right, given = classified_both_ways("classes")
    assert isinstance(executable, SplitBatch) and executable.last is not None
    assert [shape for shape, _ in executable.types_between] == [(BATCH, 70)]
    np.testing.assert_array_equal(mine[0], right[0])
    again = [np.zeros_like(right[0])]
    executable.connected(given, again)()
    np.testing.assert_array_equal(again[0], right[0])
    report = measure(executable, given, 0.01)
    assert "last layers" in str(report) and len(report.document()["last"]["steps"]) == 3


@pytest.mark.parametrize("outputs", ["classes", "features"])
def test_last_layers_of_few_weights_or_with_other_outputs_stay(
    always: None, monkeypatch: pytest.MonkeyPatch, outputs: str
):
    if outputs == "features":
        monkeypatch.setattr(last_layers, "_LEAST_BYTES", 0)
    executable, mine, right, _ = classified_both_ways(outputs)
    assert isinstance(executable, SplitBatch) and executable.last is None
    for one, other in zip(mine, right):
        np.testing.assert_array_equal(one, other)


def test_both_parts_get_new_parameters(
    always: None, nothing_stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(last_layers, "_LEAST_BYTES", 0)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 3), gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(33))
    net.initialize()
    x = nd.random.normal(shape=(BATCH, 4, 9, 9))
    net(x)
    net.hybridize()
    for factor in (1.0, 1.5):
        for param in net.collect_params().values():
            param.set_data(param.data() * factor)
        found = net(x).asnumpy()
        alone = np.concatenate([net(x[i : i + 1]).asnumpy() for i in range(BATCH)])
        np.testing.assert_array_equal(found, alone)


def test_activations_decide():
    """Large activations and few weights: split. Few activations: whole."""
    large = {"x": np.zeros((8, 64, 64, 64), np.float32), "w": np.zeros((64, 64, 1, 1), np.float32)}
    once = call("Convolution", var("x"), var("w"), kernel=(1, 1), num_filter=64, no_bias=True)
    y = call(
        "Convolution", call("relu", once), var("w"), kernel=(1, 1), num_filter=64, no_bias=True
    )
    assert should_split_batch(plan_of([y], large, ["w"]))
    small = {**large, "x": np.zeros((8, 64, 4, 4), np.float32)}
    assert not should_split_batch(plan_of([y], small, ["w"]))


def test_weights_decide():
    heavy = {"x": np.zeros((512, 2048), np.float32), "w": np.zeros((2048, 2048), np.float32)}
    y = call("FullyConnected", var("x"), var("w"), num_hidden=2048, no_bias=True)
    y = call("FullyConnected", call("relu", y), var("w"), num_hidden=2048, no_bias=True)
    assert not should_split_batch(plan_of([y], heavy, ["w"]))


def test_a_net_on_batches(always: None, nothing_stored: None):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(5, 3, in_channels=2), gluon.nn.Flatten(), gluon.nn.Dense(4))
    net.initialize()
    x = nd.random.uniform(shape=(4, 2, 6, 7))
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, atol=1e-6)
    bound = net.bind(x)
    np.testing.assert_array_equal(bound().asnumpy(), net(x).asnumpy())
    x[1] = 0
    assert (bound().asnumpy()[1] == net(x).asnumpy()[1]).all()
    net[0].weight.set_data(nd.zeros((5, 2, 3, 3)))
    assert not np.allclose(net(x).asnumpy(), eager)
    np.testing.assert_array_equal(bound().asnumpy(), net(x).asnumpy())
