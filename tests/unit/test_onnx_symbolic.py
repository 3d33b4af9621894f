"""ONNX files with open sizes: one graph with symbolic sizes serves all that satisfy its guards."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from test_onnx import info, model_of, node, numbers
from test_onnx_doors import called, close, encoded, encoder, tokens, written

import hybridjit
from hybridjit import autograd, nd
from hybridjit._core.symbolic import Scope, hint_of
from hybridjit.errors import MXNetError
from hybridjit.formats.onnx.messages import Dimension, Model, Shape, TensorType, Type, ValueInfo
from hybridjit.formats.onnx.tensors import read_array
from hybridjit.onnx.blocks import SizedBlock
from hybridjit.onnx.size_values import computed, of_sizes
from hybridjit.ops.building import ON_ARRAYS
from hybridjit.ops.registry import lookup
from hybridjit.runtime import binding

HEADS, DEPTH, WORDS, LONGEST = 2, 4, 11, 32
WIDTH = HEADS * DEPTH


def declared(name: str, sizes: str, code: int = 1) -> ValueInfo:
    """An input whose sizes are numbers, and names of open ones."""
    dims = [Dimension(int(n)) if n.isdigit() else Dimension(dim_param=n) for n in sizes.split()]
    return ValueInfo(name, Type(TensorType(elem_type=code, shape=Shape(dim=tuple(dims)))))


def decoder() -> Model:
    """A layer of a decoder with past keys and values, as exporters of PyTorch write it."""
    nodes = [
        node("Shape", "ids", "sizes"),
        node("Gather", "sizes zero", "batch"),
        node("Gather", "sizes one", "steps"),
        node("Shape", "past_key", "past_sizes"),
        node("Gather", "past_sizes two", "past"),
        node("Add", "past steps", "total"),
        node("Range", "past total one", "places"),
        node("Unsqueeze", "places first", "row"),
        node("Gather", "positions row", "position"),
        node("Gather", "words ids", "word"),
        node("Add", "word position", "x"),
        node("MatMul", "x w", "product"),
        node("Add", "product b", "whole"),
        node("Split", "whole thirds", "q k v", axis=2),
        *(node("Unsqueeze", f"{n} first", f"{n}_1") for n in ("batch", "steps", "past", "total")),
        node("Concat", "batch_1 steps_1 heads depth", "apart", axis=0),
        node("Concat", "batch_1 steps_1 width", "together", axis=0),
    ]
    for name in ("q", "k", "v"):
        nodes.append(node("Reshape", f"{name} apart", f"{name}_apart"))
        nodes.append(node("Transpose", f"{name}_apart", f"{name}_heads", perm=(0, 2, 1, 3)))
    nodes += [
        node("Concat", "past_key k_heads", "key", axis=2),
        node("Concat", "past_value v_heads", "value", axis=2),
        node("Transpose", "key", "turned", perm=(0, 1, 3, 2)),
        node("MatMul", "q_heads turned", "products"),
        node("Div", "products root", "scores"),
        node("Slice", "triangle past_1 total_1 down", "rows"),
        node("Slice", "rows zeros total_1 across", "causal"),
        node("Where", "causal scores low", "masked"),
        node("Unsqueeze", "mask middle", "mask_4"),
        node("Cast", "mask_4", "mask_number", to=1),
        node("Sub", "one_number mask_number", "hidden"),
        node("Mul", "hidden low", "bias"),
        node("Add", "masked bias", "logits"),
        node("Softmax", "logits", "weights", axis=-1),
        node("MatMul", "weights value", "mixed"),
        node("Transpose", "mixed", "mixed_steps", perm=(0, 2, 1, 3)),
        node("Reshape", "mixed_steps together", "joined"),
        node("MatMul", "joined out", "y"),
    ]
    triangle = np.tril(np.ones((1, 1, LONGEST, LONGEST), bool))
    constants = {
        **{n: np.array(i) for i, n in enumerate(("zero", "one", "two"))},
        "first": np.array([0]), "middle": np.array([1, 2]), "zeros": np.array([0]),
        "down": np.array([2]), "across": np.array([3]), "thirds": np.full(3, WIDTH),
        "heads": np.array([HEADS]), "depth": np.array([DEPTH]), "width": np.array([WIDTH]),
        "low": np.array(-1e4, "f4"), "one_number": np.array(1, "f4"), "root": np.array(2, "f4"),
        "positions": numbers(LONGEST, WIDTH), "words": numbers(WORDS, WIDTH)[:, ::-1].copy(),
        "w": numbers(WIDTH, 3 * WIDTH), "b": numbers(3 * WIDTH), "triangle": triangle,
        "out": numbers(WIDTH, WIDTH)[::-1].copy(),
    }  # fmt: skip
    model = model_of(nodes, {}, constants)
    assert model.graph is not None
    cache = f"batch {HEADS} past {DEPTH}"
    model.graph.input = [
        declared("ids", "batch steps", 7), declared("past_key", cache),
        declared("past_value", cache), declared("mask", "batch total", 7),
    ]  # fmt: skip
    model.graph.output = [info(name, ()) for name in ("y", "key", "value")]
    return model


def step(batch: int, steps: int, past: int) -> dict[str, np.ndarray]:
    """Arrays of one call of the decoder."""
    random = np.random.default_rng(batch + 7 * steps + 31 * past)
    cache = random.normal(size=(2, batch, HEADS, past, DEPTH)).astype(np.float32)
    mask = np.ones((batch, past + steps), np.int64)
    mask[0, : past // 2] = 0
    ids = random.integers(0, WORDS, (batch, steps))
    return {"ids": ids, "past_key": cache[0], "past_value": cache[1], "mask": mask}


def decoded(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The decoder's result, by NumPy."""
    graph = decoder().graph
    assert graph is not None
    weights = {tensor.name: read_array(tensor, None) for tensor in graph.initializer}
    ids, past = arrays["ids"], arrays["past_key"].shape[2]
    batch, steps = ids.shape
    x = weights["words"][ids] + weights["positions"][past : past + steps]
    parts = np.split(x @ weights["w"] + weights["b"], 3, axis=2)
    q, k, v = (p.reshape(batch, steps, HEADS, DEPTH).swapaxes(1, 2) for p in parts)
    key = np.concatenate([arrays["past_key"], k], 2)
    value = np.concatenate([arrays["past_value"], v], 2)
    scores = q @ key.swapaxes(2, 3) / 2
    causal = weights["triangle"][:, :, past : past + steps, : past + steps]
    scores = np.where(causal, scores, -1e4) + (1 - arrays["mask"][:, None, None]) * -1e4
    power = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = power / power.sum(-1, keepdims=True) @ value
    joined = mixed.swapaxes(1, 2).reshape(batch, steps, WIDTH)
    return [(joined @ weights["out"]).astype(np.float32), key, value]


def variants_of(net: SizedBlock) -> int:
    return len(net._symbolic)


def test_tokens_with_a_growing_cache_share_a_graph(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(decoder(), tmp_path))
    assert isinstance(net, SizedBlock)
    for past in range(3, LONGEST):
        arrays = step(1, 1, past)
        close(called(net, arrays), decoded(arrays))
    assert variants_of(net) == 1 and not net._blocks


def test_prompts_of_all_lengths_share_a_graph(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(decoder(), tmp_path))
    for steps, past in itertools.product((2, 3, 5, 12), (2, 3, 17)):
        arrays = step(3, steps, past)
        close(called(net, arrays), decoded(arrays))
    assert variants_of(net) == 1 and not net._blocks


def test_bits_are_those_of_the_graph_for_the_size_alone(tmp_path: Path) -> None:
    path = written(decoder(), tmp_path)
    net, alone = hybridjit.onnx.load(path), hybridjit.onnx.load(path)
    alone.hybridize(dynamic=False)
    for case in ((1, 1, 3), (2, 5, 4), (1, 1, 20), (2, 4, 9), (1, 6, 2)):
        arrays = step(*case)
        for mine, wanted in zip(called(net, arrays), called(alone, arrays), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    assert variants_of(net) and not variants_of(alone)


def test_values_of_sizes_alone_are_computed_by_kernels(tmp_path, monkeypatch) -> None:
    net = hybridjit.onnx.load(written(decoder(), tmp_path))
    called(net, step(2, 3, 4))
    monkeypatch.setattr(binding, "evaluate", refused)
    for past in (5, 17):
        arrays = step(2, 3, past)
        close(called(net, arrays), decoded(arrays))


def refused(*args: object) -> list[np.ndarray]:
    raise AssertionError("NumPy computes a value that depends on parameters again")


def placed() -> Model:
    """A row of a table at a place that is a size, and tokens one at a time."""
    nodes = [
        node("Shape", "past", "sizes"),
        node("Gather", "sizes one", "count"),
        node("Gather", "table count", "row"),
        node("Add", "x row", "y"),
        node("Concat", "past y", "all", axis=1),
    ]
    constants = {"one": np.array([1]), "table": numbers(LONGEST, 1, WIDTH)}
    model = model_of(nodes, {}, constants)
    assert model.graph is not None
    model.graph.input = [declared("x", f"1 1 {WIDTH}"), declared("past", f"1 count {WIDTH}")]
    model.graph.output = [info("all", ())]
    return model


def test_rows_at_places_that_are_sizes_share_a_graph(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(placed(), tmp_path))
    table = numbers(LONGEST, 1, WIDTH)
    for past in range(1, LONGEST):
        arrays = {"x": numbers(1, 1, WIDTH), "past": numbers(1, past, WIDTH)}
        row = arrays["x"] + table[past]
        close(called(net, arrays), [np.concatenate([arrays["past"], row], 1)])
    assert variants_of(net) == 1 and not net._blocks


def test_numbers_in_order_are_part_of_a_table_that_grows_with_them(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes zero", "count"),
        node("Range", "zero count one", "places"),
        node("Add", "x places", "y"),
    ]
    model = model_of(nodes, {}, {"zero": np.array(0), "one": np.array(1)})
    assert model.graph is not None
    model.graph.input = [declared("x", "count", 7)]
    model.graph.output = [info("y", ())]
    net = hybridjit.onnx.load(written(model, tmp_path))
    for length, variants in ((5, 1), (4096, 1), (4097, 2), (3, 2), (70000, 3)):
        (y,) = called(net, {"x": np.full(length, 7)})
        np.testing.assert_array_equal(y, 7 + np.arange(length))
        assert variants_of(net) == variants


def test_an_encoder_of_all_lengths_shares_a_graph(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(encoder(), tmp_path))
    for length in (3, 12, 7, 2, 14):
        arrays = tokens(2, length)
        close(called(net, arrays), encoded(encoder(), arrays))
    assert variants_of(net) == 1 and not net._blocks


def test_gradients_and_files_are_of_the_graph_for_the_size(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(decoder(), tmp_path))
    arrays = step(2, 3, 4)
    right = called(net, arrays)
    net.export(str(tmp_path / "again"))
    again = hybridjit.load(str(tmp_path / "again"))
    close(called(again, {name: arrays[name] for name in again.input_names}), right)
    given = [nd.array(a, dtype=a.dtype) for a in arrays.values()]
    given[1].attach_grad()
    with autograd.record():
        y = net(*given)[0]
    y.backward()
    close([y.asnumpy()], right[:1])
    assert np.abs(given[1].grad.asnumpy()).max() > 0
    net.hybridize(False)
    close(called(net, arrays), right)


def test_sizes_that_do_not_fit_are_said_as_for_the_size_alone(tmp_path: Path) -> None:
    path = written(decoder(), tmp_path)
    messages = []
    for dynamic in (None, False):
        net = hybridjit.onnx.load(path)
        net.hybridize(dynamic=dynamic)
        called(net, step(2, 3, 4))
        with pytest.raises(MXNetError) as error:
            called(net, {**step(2, 3, 4), "mask": np.ones((2, 5), np.int64)})
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_operators_whose_shapes_depend_on_values_raise(tmp_path: Path) -> None:
    model = model_of(
        [node("NonZero", "x", "places"), node("Cast", "places", to=1)], {"x": (None, 3)}
    )
    with pytest.raises(MXNetError, match="NonZero"):
        hybridjit.onnx.load(written(model, tmp_path))


def picking() -> Model:
    """Elements picked by the graph's indices from data of open sizes, at places that a Range counts
    up to a converted size, as exporters of PyTorch write it.
    """
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes one", "steps"),
        node("Cast", "steps", "limit", to=7),
        node("Range", "zero limit one", "places"),
        node("Cast", "places", "numbers", to=1),
        node("Add", "x numbers", "counted"),
        node("GatherElements", "counted along", "picked", axis=1),
        node("GatherND", "counted pairs", "elements"),
    ]
    model = model_of(nodes, {}, {"zero": np.array(0), "one": np.array(1)})
    assert model.graph is not None
    model.graph.input = [
        declared("x", "batch steps"), declared("along", "batch count", 7),
        declared("pairs", "pairs 2", 7),
    ]  # fmt: skip
    model.graph.output = [info(name, ()) for name in ("picked", "elements")]
    return model


def test_elements_are_picked_from_data_of_all_sizes_by_one_graph(tmp_path: Path) -> None:
    net = hybridjit.onnx.load(written(picking(), tmp_path))
    random = np.random.default_rng(0)
    for batch, steps, count in ((2, 9, 4), (3, 5, 6), (4, 30, 2), (2, 3, 3)):
        x = random.normal(size=(batch, steps)).astype(np.float32)
        along = random.integers(-steps, steps, (batch, count))
        pairs = random.integers(-2, 2, (5, 2))
        counted = x + np.arange(steps, dtype=np.float32)
        wanted = [np.take_along_axis(counted, along, 1), counted[pairs[:, 0], pairs[:, 1]]]
        for mine, other in zip(called(net, {"x": x, "along": along, "pairs": pairs}), wanted):
            np.testing.assert_array_equal(mine, other)
    assert variants_of(net) == 1 and not net._blocks


def test_numbers_at_places_that_are_sizes_keep_their_type(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "table sizes", "rows"),
        node("Cast", "rows", "singles", to=1),  # hid that they were integers
        node("Mul", "x singles", "y"),
    ]
    table = np.arange(40, dtype=np.float32) / 8
    model = model_of(nodes, {}, {"table": table})
    assert model.graph is not None
    model.graph.input = [declared("x", "n 2")]
    model.graph.output = [info("y", ())]
    net = hybridjit.onnx.load(written(model, tmp_path))
    for n in (5, 7, 9):
        (found,) = called(net, {"x": np.ones((n, 2), np.float32)})
        np.testing.assert_array_equal(found, np.tile(table[[n, 2]], (n, 1)))
    assert variants_of(net) and not net._blocks


def test_operators_on_shapes_are_those_on_their_numbers() -> None:
    """Elements are moved and added as they are for the numbers of the sizes."""
    scope = Scope()
    n, m = scope.symbol("n", 5), scope.symbol("m", 7)
    shape = of_sizes([n, 3, m])
    for name, arrays, attrs in (
        ("slice_axis", [shape], {"axis": 0, "begin": 1, "end": None}),
        ("Concat", [shape, np.array([2])], {"dim": 0, "num_args": 2}),
        ("take", [shape, np.array([2, 0])], {"axis": 0, "mode": "clip"}),
        ("where", [np.array([1, 0, 0]), shape, np.array([9, 8, 7])], {}),
        ("broadcast_add", [shape, np.array([1])], {}),
        ("broadcast_equal", [shape, np.array([-1, 3, 0])], {}),
        ("prod", [shape], {"axis": (0,), "keepdims": False, "exclude": False}),
    ):
        op, plain = lookup(name), [a.astype(np.int64) for a in map(hints, arrays)]
        (made,) = computed(op, arrays, op.with_defaults(attrs)) or [None]
        (wanted,) = ON_ARRAYS.outputs(op, *plain, at="", **attrs)
        np.testing.assert_array_equal(hints(made), wanted)
    assert not scope.guards  # none of these asks for a number


def hints(array: np.ndarray) -> np.ndarray:
    flat = [hint_of(item) for item in array.reshape(-1).tolist()]
    return np.array(flat).reshape(array.shape)
