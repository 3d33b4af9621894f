"""Forward and backward graphs of the recorded nets, run by the operators' NumPy meanings.

The gradients are MXNet's, as in ``test_recorded_gradients.py``, however the graph is cut.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_recorded_gradients import NAMES, assert_near, heads_of

from compiling import call, var
from hybridjit import gluon, sym
from hybridjit._core.types import FLOAT32, TensorType, type_of
from hybridjit.compilation import compile_training
from hybridjit.ir.graph import Graph, from_symbol
from hybridjit.ir.interpret import interpret
from hybridjit.ir.node import Output
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.lower.expand import expand
from hybridjit.passes.rewrite.cse import share_equal
from hybridjit.passes.rewrite.forward_slices import forward_slices
from hybridjit.passes.rewrite.one_hot_sum import one_hot_sum
from hybridjit.passes.training.differentiate import Joint, differentiate
from hybridjit.passes.training.enter_training import enter_training
from hybridjit.passes.training.partition import Parts, partition
from recorded import CASES, FOLDER, block_of


def training_graph(name: str, arrays: dict[str, np.ndarray]) -> Graph:
    outputs = tuple(sym.load(str(FOLDER / f"{name}-symbol.json")).outputs)
    types = {n: type_of(a) for n, a in arrays.items()}
    return enter_training(from_symbol(outputs, types, infer_node_types(outputs, types), name))


def in_parts(joint: Joint) -> Joint:
    """The same with every operator taken apart, so that more can be computed again."""
    graph = share_equal(expand(joint.graph))
    forward = replace(joint.forward, outputs=graph.outputs[: len(joint.forward.outputs)])
    return replace(joint, graph=graph, forward=forward)


def run_parts(
    parts: Parts, arrays: dict[str, np.ndarray], heads: dict[int, np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    made = interpret(parts.forward, {v: arrays[v.name] for v in parts.forward.inputs})
    visible = len(made) - len(parts.saved)
    given = [*(arrays[n] for n in parts.reads), *made[visible:], *(heads[n] for n in parts.heads)]
    return made[:visible], interpret(parts.backward, dict(zip(parts.backward.inputs, given)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prepare", [lambda joint: joint, in_parts], ids=["whole", "in parts"])
def test_the_parts_compute_mxnets_gradients(name: str, prepare):
    wanted = dict(np.load(FOLDER / f"{name}-grad.npz"))
    recorded = np.load(FOLDER / f"{name}-io.npz")
    inputs = {n: recorded[n] for n in CASES[name]["inputs"]}
    params = block_of(name).collect_params()
    arrays = {**inputs, **{n: p.data().asnumpy() for n, p in params.items()}}
    floats = {n for n, a in inputs.items() if a.dtype.kind == "f"}
    trained = {n for n, p in params.items() if p.grad_req != "null"}
    joint = prepare(differentiate(training_graph(name, arrays), floats | trained))
    recorded_heads = heads_of(wanted)
    heads = {n: recorded_heads.get(n, np.zeros_like(wanted[f"t{n}"])) for n in joint.heads}
    outputs, made = run_parts(partition(joint), arrays, heads)
    found = {f"t{i}": y for i, y in enumerate(outputs)}
    found |= {f"d_{n}" if n in inputs else f"p_{n}": np.zeros_like(arrays[n]) for n in arrays}
    found |= {f"a_{n}": arrays[n] for n in params}
    for n, d in zip(joint.gradients, made):
        found[f"d_{n}" if n in inputs else f"p_{n}"] = d
    found |= {f"a_{n}": y for n, y in zip(joint.updates, made[len(joint.gradients) :])}
    assert_near(name, found, wanted)


def test_cheap_values_are_recomputed():
    """Of sigmoid(x w) the product is saved, not the sigmoid, which is as large."""
    x, w = sym.var("x"), sym.var("w")
    outputs = tuple(sym.exp(sym.sigmoid(sym.dot(x, w, name="xw"))).outputs)
    types = {n: type_of(np.zeros((4, 4), np.float32)) for n in "xw"}
    graph = from_symbol(outputs, types, infer_node_types(outputs, types))
    parts = partition(differentiate(graph, {"x", "w"}))
    assert [use.value.op.name for use in parts.saved] == ["dot"]
    assert parts.saved_bytes == 64 and parts.reads == ("x", "w")
    assert "saved dot 'xw', 64 B: read by" in parts.reasons[0]


def test_operands_of_products_are_saved():
    """The sigmoid is written for the product behind it: reading it costs less than the one that
    it is computed from."""
    hidden = call("sigmoid", call("dot", var("x"), var("w"), name="xw"), name="hidden")
    shapes = dict.fromkeys("xw", (4, 4))
    parts = partitioned([call("dot", hidden, var("w"))], shapes, {"x", "w"})
    assert "hidden" in [use.value.name for use in parts.saved]
    assert all(value.name != "hidden" for value in parts.backward.values)


def test_broadcasts_of_smaller_values_are_recomputed():
    """Of a row that is repeated for a product the row is saved: to repeat it reads less."""
    row = call("sum", call("dot", var("x"), var("w"), name="xw"), axis=0, keepdims=True, name="row")
    many = call("broadcast_to", row, shape=(64, 4), name="many")
    parts = partitioned([call("dot", many, var("w"))], dict.fromkeys("xw", (4, 4)), {"x", "w"})
    names = [use.value.name for use in parts.saved]
    assert "row" in names and "many" not in names


def partitioned(outputs: list[Output], shapes: dict[str, tuple[int, ...]], wanted: set[str]):
    types = {name: TensorType(shape, FLOAT32) for name, shape in shapes.items()}
    graph = from_symbol(outputs, types, infer_node_types(outputs, types))
    return partition(differentiate(graph, wanted))


@pytest.mark.parametrize("relu", [("relu", {}), ("Activation", {"act_type": "relu"})])
def test_of_a_relu_its_result_alone_is_saved(relu):
    """The product behind it reads the result; whether it was positive is seen there, too."""
    (name, attrs), x, w = relu, var("x"), var("w")
    positive = call(name, call("dot", x, w), name="positive", **attrs)
    parts = partitioned([call("dot", positive, w)], dict.fromkeys("xw", (4, 4)), {"x", "w"})
    assert [use.value.name for use in parts.saved] == ["positive"]


@pytest.mark.parametrize("op", ["elemwise_add", "elemwise_sub", "broadcast_add", "_mul_scalar"])
def test_values_that_no_gradient_reads_are_not_saved(op: str):
    """The slope of a sum does not depend on its operands."""
    products = [call("dot", var("x"), var("w")), call("dot", var("y"), var("w"))]
    attrs = {"scalar": 3.0} if op == "_mul_scalar" else {}
    outputs = [call(op, *(products[:1] if attrs else products), **attrs)]
    parts = partitioned(outputs, dict.fromkeys("xyw", (4, 4)), {"x", "w"})
    assert parts.saved == ()


def test_nothing_random_is_computed_again():
    x = sym.var("x")
    outputs = tuple(sym.Dropout(x, p=0.5).outputs)
    types = {"x": type_of(np.zeros((4, 4), np.float32))}
    graph = from_symbol(outputs, types, infer_node_types(outputs, types))
    joint = differentiate(enter_training(graph), {"x"})
    parts = partition(joint.with_graph(expand(joint.graph)))
    assert [(use.value.op.name, use.index) for use in parts.saved] == [
        ("_dropout_key", 0),
        ("_dropout_key", 1),
    ]
    assert parts.reads == ()


def test_random_draws_are_saved_for_gradients():
    """For second derivatives: the draws cannot be recovered from a saved sum."""
    x = sym.var("x")
    noise = sym.random.normal(shape=(4, 4), name="noise")
    outputs = tuple(sym.square(sym.sum(sym.exp(x + noise), axis=1, name="sums")).outputs)
    types = {"x": type_of(np.zeros((4, 4), np.float32))}
    graph = from_symbol(outputs, types, infer_node_types(outputs, types))
    parts = partition(differentiate(graph, {"x"}))
    assert "noise" in [use.value.name for use in parts.saved]
    assert parts.sources == ("x",)


def test_saved_values_have_the_layout_of_their_readers():
    """No step moves axes but those of the data and of the gradients that go in and out."""
    shapes = {"x": (2, 3, 9, 9), "w": (6, 3, 3, 3), "b": (6,)}
    types = {name: TensorType(shape, FLOAT32) for name, shape in shapes.items()}
    layer = call("Convolution", var("x"), var("w"), var("b"), kernel=(3, 3), num_filter=6)
    pooled = call("Pooling", call("relu", layer), kernel=(3, 3), stride=(2, 2))
    trained = compile_training([pooled], types, ["w", "b"], training=True)
    assert trained.backward is not None
    steps = [*trained.forward.plan.steps, *trained.backward.plan.steps]
    moved = [step.reads[0].shape for step in steps if step.kind == "copy"]
    assert [use.type.dims for use in trained.parts.saved] == [(2, 7, 7, 6), (2, 3, 3, 6)]
    assert moved and not any(7 in shape for shape in moved)


def joint_of(outputs: list[Output], shapes: dict[str, tuple[int, ...]]) -> Graph:
    """Canonical, with gradients of all variables."""
    types = {name: TensorType(shape, FLOAT32) for name, shape in shapes.items()}
    graph = from_symbol(outputs, types, infer_node_types(outputs, types))
    return expand(enter_training(differentiate(graph, set(shapes)).graph))


def joined_of(*parts: Output) -> Output:
    return call("Concat", *parts, dim=0, num_args=len(parts))


def cut(x: Output, begin: int, end: int) -> Output:
    return call("slice", x, begin=(begin,), end=(end,))


def assert_same_values(graph: Graph, other: Graph) -> None:
    random = np.random.default_rng(3)
    arrays = {v.name: random.normal(0, 1, v.shape).astype(np.float32) for v in graph.inputs}
    found, wanted = (interpret(g, {v: arrays[v.name] for v in g.inputs}) for g in (other, graph))
    for mine, theirs in zip(found, wanted):
        np.testing.assert_array_equal(mine, theirs)


def operators(graph: Graph) -> set[str]:
    return {value.op.name for value in graph.values if value.op is not None}


def test_pieces_of_joined_vectors_are_the_vectors():
    """The way of a recurrent layer's weights, there and back."""
    joined = joined_of(var("a"), var("b"), var("c"))
    parts = [call("square", cut(joined, *ends)) for ends in ((0, 2), (2, 5), (5, 9))]
    graph = joint_of([joined_of(*parts)], {"a": (2,), "b": (3,), "c": (4,)})
    shorter = forward_slices(graph)
    assert "_pad_axes" in operators(graph) and "broadcast_add" in operators(graph)
    assert not operators(shorter) & {"_pad_axes", "broadcast_add"}
    assert_same_values(graph, shorter)


@pytest.mark.parametrize("ends", [((0, 3), (3, 5)), ((0, 2), (1, 5)), ((0, 2), (0, 2))])
def test_other_parts_of_joined_vectors_are_computed(ends):
    """Across a border, over one another, twice the same: the gradient is a sum."""
    joined = joined_of(var("a"), var("b"))
    parts = [call("square", cut(joined, *one)) for one in ends]
    graph = joint_of([joined_of(*parts)], {"a": (2,), "b": (3,)})
    shorter = forward_slices(graph)
    assert "_pad_axes" in operators(shorter)
    assert_same_values(graph, shorter)


def test_weights_of_recurrent_layers_are_read_where_they_are():
    layer = gluon.rnn.LSTM(3, 2, input_size=3)
    layer.initialize()
    arrays = {"data": np.ones((2, 1, 3), np.float32)}
    arrays |= {name: p.data().asnumpy() for name, p in layer.collect_params().items()}
    types = {name: type_of(array) for name, array in arrays.items()}
    trained = compile_training(layer(sym.var("data")).outputs, types, set(types), True)
    assert "_pad_axes" not in operators(trained.parts.backward)
    assert not any(
        "weight" in value.name for value in trained.forward.plan.graph.values if value.op
    )


def sums_of_picked(mode: str, depth: int, axis: int) -> Graph:
    """Backward of a cross-entropy: the gradient of log_softmax has one nonzero per row."""
    shape = (2, depth) if axis == 1 else (depth, 2)
    logs = call("log_softmax", var("x"), axis=axis)
    picked = call("pick", logs, var("label"), axis=axis, mode=mode)
    types = {"x": TensorType(shape, FLOAT32), "label": TensorType((2,), FLOAT32)}
    graph = from_symbol([picked], types, infer_node_types([picked], types))
    return expand(enter_training(differentiate(graph, {"x"}).graph))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_of_one_number_and_zeros_is_the_number(mode: str, axis: int):
    graph = sums_of_picked(mode, 5, axis)
    shorter = one_hot_sum(graph)
    assert "sum" in operators(graph) and "sum" not in operators(shorter)
    assert_same_values(graph, shorter)


@pytest.mark.parametrize("least, most", [(0, 5), (-1, 4)])
def test_other_sums_of_chosen_numbers_are_computed(least: int, most: int):
    """Of an index that may be beyond the axis of 5 there may be nothing to sum."""
    numbers = call("_arange", start=0, stop=5, step=1, dtype="float32")
    index = call("clip", call("Cast", var("at"), dtype="int64"), a_min=least, a_max=most)
    index = call("Cast", call("Reshape", index, shape=(2, 1)), dtype="float32")
    hot = call("broadcast_equal", call("Reshape", numbers, shape=(1, 5)), index)
    spread = call("broadcast_to", var("x"), shape=(2, 5))
    chosen = call("where", hot, spread, call("zeros_like", spread))
    total = call("sum", chosen, axis=(1,), keepdims=True)
    types = {"x": TensorType((2, 1), FLOAT32), "at": TensorType((2,), FLOAT32)}
    graph = expand(from_symbol([total], types, infer_node_types([total], types)))
    assert "sum" in operators(one_hot_sum(graph))
