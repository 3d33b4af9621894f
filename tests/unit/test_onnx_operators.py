"""ONNX operators that MXNet has no counterpart for, against their definitions in NumPy."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from test_onnx import computed, info, model_of, node, numbers

from hostile import mutated, mutated_bytes
from hybridjit import nd
from hybridjit.errors import ModelFormatError, MXNetError
from hybridjit.formats.onnx.messages import Attribute, Graph, Node, Tensor, ValueInfo, write
from hybridjit.formats.onnx.tensors import read_array
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN
from reading import FORMATS, Bounds
from recorded import as_list

CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int32": 6, "int64": 7, "bool": 9}


def found(
    use: Node, *arrays: np.ndarray, opset: int = 23, around: str = "", **constants: np.ndarray
) -> list:
    """The results of a node, run by NumPy; its operands are ``arrays`` and then the constants.

    around  the name of an input that graphs in the node read
    """
    names = [name for name in [around, *use.input] if name and name not in constants]
    model = model_of([use], {}, constants, opset)
    assert model.graph is not None
    inputs = zip(names, arrays, strict=True)
    model.graph.input = [info(n, a.shape, CODES[a.dtype.name]) for n, a in inputs]
    model.graph.output = [info(name, ()) for name in use.output]
    block = make_block(make_graph(model, KNOWN, None, {}))
    block.hybridize(active=False)
    return as_list(block(*(nd.array(a, dtype=a.dtype) for a in arrays)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class TestAttention:
    q, k, v = numbers(2, 4, 3, 8), numbers(2, 2, 5, 8)[..., ::-1].copy(), numbers(2, 2, 5, 6)

    def right(self, bias: np.ndarray) -> np.ndarray:
        """Two heads of queries read each head of keys."""
        k, v = (np.repeat(x, 2, axis=1) for x in (self.k, self.v))
        return softmax(self.q @ k.swapaxes(-1, -2) / np.sqrt(8) + bias) @ v

    def test_groups_of_heads(self):
        (y,) = found(node("Attention", "q k v"), self.q, self.k, self.v)
        np.testing.assert_allclose(y, self.right(np.zeros(1)), rtol=1e-4, atol=1e-5)

    def test_causal_attention_ignores_later_keys(self):
        (y,) = found(node("Attention", "q k v", is_causal=1), self.q, self.k, self.v)
        later = np.arange(5)[None] > np.arange(3)[:, None]
        np.testing.assert_allclose(y, self.right(np.where(later, -np.inf, 0)), rtol=1e-4, atol=1e-5)

    def test_a_mask_of_numbers(self):
        mask = numbers(3, 5)
        mask[:, 3] = -np.inf
        (y,) = found(node("Attention", "q k v m"), self.q, self.k, self.v, mask)
        np.testing.assert_allclose(y, self.right(mask), rtol=1e-4, atol=1e-5)

    def test_a_query_that_sees_nothing_gives_zeros(self):
        mask = np.ones((3, 5), bool)
        mask[1] = False
        (y,) = found(node("Attention", "q k v m"), self.q, self.k, self.v, mask)
        assert not y[:, :, 1].any() and y[:, :, 0].any()

    def test_keys_of_before(self):
        """Heads adjacent in one axis; keys and values appended to those of previous calls."""
        x, past = numbers(1, 3, 8), numbers(1, 2, 4, 4)
        use = node("Attention", "a b c m p q", "y k v", is_causal=1, q_num_heads=2, kv_num_heads=2)
        y, k, v = found(use, x, x, x, np.zeros((3, 7), np.float32), past, past)
        heads = x.reshape(1, 3, 2, 4).swapaxes(1, 2)
        whole = np.concatenate([past, heads], axis=2)
        np.testing.assert_array_equal(k, whole)
        np.testing.assert_array_equal(v, whole)
        later = np.arange(7)[None] > np.arange(3)[:, None] + 4
        scores = heads @ whole.swapaxes(-1, -2) / 2 + np.where(later, -np.inf, 0)
        right = (softmax(scores) @ whole).swapaxes(1, 2).reshape(1, 3, 8)
        np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved):
    x, angles = numbers(1, 2, 3, 4), np.linspace(0, 2, 6, dtype=np.float32).reshape(1, 3, 2)
    use = node("RotaryEmbedding", "x c s", interleaved=interleaved)
    (y,) = found(use, x, np.cos(angles), np.sin(angles))
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :2], x[..., 2:])
    turned = (a + 1j * b) * np.exp(1j * angles[:, None])
    parts = [turned.real, turned.imag]
    right = np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [None, 2])
def test_losses_equal_their_definitions(how, ignored):
    x, target = numbers(4, 3, 5), np.arange(20).reshape(4, 5) % 3
    weight = np.array([0.5, 1, 2], np.float32)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    factor = np.where(target == ignored, 0, weight[target]) if ignored else weight[target]
    losses = -np.take_along_axis(logs, target[:, None], 1)[:, 0] * factor
    right = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / factor.sum()}[how]
    extra = {} if ignored is None else {"ignore_index": ignored}
    for op_type, data in (("SoftmaxCrossEntropyLoss", x), ("NegativeLogLikelihoodLoss", logs)):
        use = node(op_type, "x t w", reduction=how, **extra)
        y = found(use, data.astype(np.float32), target, w=weight)[0]
        np.testing.assert_allclose(y.reshape(np.shape(right)), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise_operators_equal_numpy(op_type, dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 5, 100, limits.max, limits.min], dtype)
    y = np.array([3, limits.max, limits.min, 77, 1, 85], dtype)
    right = {"BitwiseAnd": x & y, "BitwiseOr": x | y, "BitwiseXor": x ^ y}[op_type]
    np.testing.assert_array_equal(found(node(op_type, "x y"), x, y)[0], right)
    np.testing.assert_array_equal(found(node("BitwiseNot", "x"), x)[0], ~x)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shifts_equal_numpy(direction):
    x, y = np.array([1, 200, 255, 16], np.uint8), np.array([1, 2, 0, 7], np.uint8)
    (found_,) = found(node("BitShift", "x y", direction=direction), x, y)
    np.testing.assert_array_equal(found_, x << y if direction == "LEFT" else x >> y)


def test_bytes_for_numbers():
    x = np.array([[-1.0, 0.25, 0.75], [3, 200, -200]], np.float32)
    scale, zero = np.array([0.5, 2, 1], np.float32), np.array([0, 10, 128], np.uint8)
    (y,) = found(node("QuantizeLinear", "x s z"), x, s=scale, z=zero)
    right = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(y, right)
    (back,) = found(node("DequantizeLinear", "x s z"), y, s=scale, z=zero)
    np.testing.assert_allclose(back, (right.astype(np.float32) - zero) * scale)


def test_products_of_bytes():
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.uint8).reshape(3, 4)
    zero = {"p": np.array(3, np.uint8), "q": np.array(7, np.uint8)}
    (y,) = found(node("MatMulInteger", "a b p q"), a, b, **zero)
    np.testing.assert_array_equal(y, (a.astype(np.int32) - 3) @ (b.astype(np.int32) - 7))


@pytest.mark.parametrize("how", ["none", "add", "mul", "max", "min"])
def test_scattered_elements(how):
    """A place that comes twice is merged twice; of those that are put there the last stays."""
    x, new = numbers(3, 4), numbers(2, 4) + 3
    places = np.array([[0, 2, -1, 1], [2, 2, 0, 1]])
    (y,) = found(node("ScatterElements", "x i u", reduction=how), x, new, i=places)
    right = x.copy()
    for r, c in np.ndindex(2, 4):
        at = places[r, c], c
        merged = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        right[at] = new[r, c] if how == "none" else merged[how](right[at], new[r, c])
    np.testing.assert_allclose(y, right, rtol=1e-5)


def test_scattered_rows_at_places_of_the_graph():
    x, new = numbers(4, 3), numbers(2, 3)
    (y,) = found(node("ScatterND", "x i u"), x, np.array([[3], [-4]]), new)
    right = x.copy()
    right[[3, 0]] = new
    np.testing.assert_array_equal(y, right)


def test_parts_of_each_sample():
    x, places = numbers(2, 3, 4), np.array([[1], [-1]])
    (y,) = found(node("GatherND", "x i", batch_dims=1), x, places)
    np.testing.assert_array_equal(y, x[[0, 1], [1, 2]])


def test_boxes_that_survive():
    """The better one of two that overlap, per class; then at most a given number."""
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.3], [0.2, 0.1, 0.8]]], np.float32)
    limits = {
        "n": np.array([2]),
        "o": np.array([0.5], np.float32),
        "s": np.array([0.15], np.float32),
    }
    use = node("NonMaxSuppression", "b s2 n o s", "i")
    add = node("Cast", "i", "y", to=1)
    model = model_of([use, add], {}, {"b": boxes, "s2": scores, **limits})
    imported = make_graph(model, KNOWN, None, {})
    (kept,) = (a for a in imported.params.values())
    right = [[0, 0, 1], [0, 0, 2], [0, 1, 2], [0, 1, 0]]
    np.testing.assert_array_equal(kept, right)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("around", ["zeros", "border", "reflection"])
def test_samples_at_places(corners, around):
    """At the middle of cells they are the cells; beyond the edge the border value."""
    x = numbers(1, 1, 3, 4)
    columns = np.array([0, 2, 3, 4], np.float32)
    place = columns / 1.5 - 1 if corners else (columns + 0.5) / 2 - 1
    grid = np.zeros((1, 1, 4, 2), np.float32)
    grid[0, 0, :, 0] = place
    (y,) = found(
        node("GridSample", "x g", align_corners=corners, padding_mode=around), x, grid, opset=16
    )
    beyond = {"zeros": 0.0, "border": x[0, 0, 1, 3],
              "reflection": x[0, 0, 1, 2 if corners else 3]}[around]  # fmt: skip
    np.testing.assert_allclose(y[0, 0, 0], [*x[0, 0, 1, [0, 2, 3]], beyond], atol=1e-5)


@pytest.mark.parametrize("sizes, corners", [((3, 4), 0), ((3, 4), 1), ((3, 1), 0), ((2, 3, 4), 1)])
@pytest.mark.parametrize("around", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_samples_at_all_cells(mode, around, sizes, corners):
    """Every cell and two beyond each edge, which are alike in all modes."""
    x = numbers(2, 3, *sizes)
    cells = np.stack(np.meshgrid(*(np.arange(-2, n + 2) for n in sizes), indexing="ij"), -1)
    places = cells / (np.array(sizes) - 1) if corners else (cells + 0.5) / np.array(sizes)
    grid = np.stack([places[..., ::-1] * 2 - 1] * 2).astype(np.float32)
    use = node("GridSample", "x g", mode=mode, align_corners=corners, padding_mode=around)
    (y,) = found(use, x, grid)
    mirror = "reflect" if corners else "symmetric"
    how = {"zeros": "constant", "border": "edge", "reflection": mirror}[around]
    right = np.pad(x, [(0, 0), (0, 0), *[(2, 2)] * len(sizes)], mode=how)
    np.testing.assert_allclose(y, right, atol=1e-5)


def test_cubic_samples_between_cells():
    """In the middle of 4 x 4 cells, with Keys' polynomials of -0.75."""
    x = numbers(1, 1, 4, 4)
    (y,) = found(node("GridSample", "x g", mode="cubic"), x, np.zeros((1, 1, 1, 2), np.float32))
    keys = np.array([-0.09375, 0.59375, 0.59375, -0.09375])
    np.testing.assert_allclose(y.reshape(()), keys @ x[0, 0] @ keys, atol=1e-5)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("around", ["zeros", "border", "reflection"])
def test_cubic_samples_beyond_the_edge(corners, around):
    """Each of the four taps of an axis is brought inside, as PyTorch and ONNX Runtime do."""
    x = numbers(1, 1, 3, 6)
    place = np.linspace(-1.9, 1.9, 41).astype(np.float32)
    grid = np.zeros((1, 1, 41, 2), np.float32)
    grid[0, 0, :, 0] = place
    use = node("GridSample", "x g", mode="cubic", align_corners=corners, padding_mode=around)
    (y,) = found(use, x, grid)
    pixel = (place + 1) * 2.5 if corners else (place + 1) * 3 - 0.5
    right = np.zeros(41)
    for tap in range(-1, 3):
        index = np.floor(pixel).astype(int) + tap
        far = np.abs(pixel - index)
        near = 1.25 * far**3 - 2.25 * far**2 + 1
        weight = np.where(far <= 1, near, -0.75 * (far**3 - 5 * far**2 + 8 * far - 4))
        padded = {
            "zeros": np.where((index >= 0) & (index < 6), index, 6),
            "border": index.clip(0, 5),
            "reflection": np.pad(np.arange(6), 5, "reflect" if corners else "symmetric")[index + 5],
        }[around]
        right += weight * np.append(x[0, 0, 1], 0)[padded]
    np.testing.assert_allclose(y[0, 0, 0], right, atol=1e-5)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_the_last_of_equal_numbers(op_type):
    x = np.array([[1, 2, 2, 1], [0, 0, 0, 0]], np.float32)
    (y,) = found(node(op_type, "x", axis=1, select_last_index=1, keepdims=0), x)
    np.testing.assert_array_equal(y, [2, 3] if op_type == "ArgMax" else [3, 3])


def test_types_that_mxnet_lacks_are_wider_ones():
    x = np.array([1, 65535], np.uint16)
    (y,) = found_of_wide(x)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, [2, 131070])


def found_of_wide(x: np.ndarray) -> list:
    model = model_of([node("Add", "x x")], {})
    assert model.graph is not None
    model.graph.input = [info("x", x.shape, CODES["uint16"])]
    block = make_block(make_graph(model, KNOWN, None, {}))
    block.hybridize(active=False)
    return as_list(block(nd.array(x, dtype="int32")))


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_with_gaps(op_type):
    """Windows of cells that are two apart, and rounded up: none begins behind the last cell."""
    x = numbers(1, 2, 6, 7)
    use = node(op_type, "x", kernel_shape=(2, 3), dilations=(2, 2), strides=(2, 2),
               pads=(1, 0, 0, 1), ceil_mode=1)  # fmt: skip
    (y,) = found(use, x)
    fill = np.nan if op_type == "AveragePool" else -np.inf if op_type == "MaxPool" else 0
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 2)), constant_values=fill)
    windows = np.stack(
        [padded[:, :, i : i + 5 : 2, j : j + 5 : 2] for i in (0, 2) for j in (0, 2, 4)]
    )
    right = {"MaxPool": lambda w: w.max(0), "AveragePool": lambda w: np.nanmean(w, 0),
             "LpPool": lambda w: np.sqrt((w * w).sum(0))}[op_type](windows)  # fmt: skip
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_operands_along_an_axis_in_operator_set_6():
    x, b = numbers(2, 3, 4), np.array([1, 2, 3], np.float32)
    (y,) = found(node("Add", "x b", axis=1, broadcast=1), x, opset=6, b=b)
    np.testing.assert_allclose(y, x + b[:, None])


def test_numbers_without_axes_are_operands():
    x = numbers(2, 3)
    (y,) = found(node("Div", "x c"), x, c=np.array(4, np.float32))
    np.testing.assert_allclose(y, x / 4)


def test_counts_of_cells_are_bounded():
    """Sizes of an input come from the file, and no array is that large."""
    use = node("AveragePool", "x", kernel_shape=(2,), dilations=(2,))
    with pytest.raises(MXNetError, match="nodes may create only"):
        make_graph(model_of([use], {"x": (1, 1, 1 << 40)}), KNOWN, None, {})


NARROW_NUMBERS = {
    17: [0, 2**-9, 0.0625, 1.875, 448, np.nan],
    18: [0, 2**-10, 0.0625, 1.875, 240, np.nan],
    19: [0, 2**-16, 0.0625, 1.75, 57344, np.nan],
    20: [0, 2**-17, 0.0625, 1.75, 57344, np.nan],
    23: [0, 0.5, 1, 1.5, 4, 6],
}
NARROW_CODES = {
    17: [0, 1, 0x18, 0x3F, 0x7E, 0x7F],
    18: [0, 1, 0x20, 0x47, 0x7F, 0x80],
    19: [0, 1, 0x2C, 0x3F, 0x7B, 0x7E],
    20: [0, 1, 0x30, 0x43, 0x7F, 0x80],
    23: [0x10, 0x32, 0x76],
}


@pytest.mark.parametrize("code", sorted(NARROW_NUMBERS))
def test_narrow_floats(code):
    """Their codes are read, numbers that they have stay, and halves go to the even neighbour."""
    raw = memoryview(bytes(NARROW_CODES[code]))
    right = np.array(NARROW_NUMBERS[code], np.float32)
    array = read_array(Tensor(dims=[6], data_type=code, raw_data=raw))
    np.testing.assert_array_equal(array, right)
    (same,) = found(node("Cast", "x", to=code), right)
    np.testing.assert_array_equal(same, right)
    a, b = right[2:4]
    between = np.array([a, a * 1.0001, -np.inf, 1e9], np.float32)
    (y,) = found(node("Cast", "x", to=code), between)
    largest = np.nanmax(right)
    np.testing.assert_array_equal(y, [a, a, -largest, largest])
    (y,) = found(node("Cast", "x", to=code, saturate=0), between)
    beyond = {19: np.inf, 23: 6}.get(code, np.nan)
    np.testing.assert_array_equal(y[2:], [-beyond, beyond])


@pytest.mark.parametrize("code, low, high", [(21, 0, 15), (22, -8, 7), (25, 0, 3), (26, -2, 1)])
def test_narrow_whole_numbers(code, low, high):
    """The lowest bits stay, elements are packed from the lowest bits on."""
    count = high - low + 1
    bits = count.bit_length() - 1
    word = sum((i % count) << (bits * i) for i in range(count))
    raw = memoryview(word.to_bytes(count * bits // 8, "little"))
    array = read_array(Tensor(dims=[count], data_type=code, raw_data=raw))
    np.testing.assert_array_equal(array, (np.arange(count) - low) % count + low)
    x = np.arange(low - 3, high + 4).astype(np.float32)
    (y,) = found(node("Cast", "x", to=code), x)
    np.testing.assert_array_equal(y, (x - low) % count + low)
    with pytest.raises(ModelFormatError, match=f"{count} elements of .*int{bits} need"):
        read_array(Tensor(dims=[count], data_type=code, raw_data=raw[:-1]))


def graph_of(nodes: list[Node], inputs: str, outputs: str) -> Graph:
    """A graph that stands in a node; its inputs have no declared types."""
    infos = ([ValueInfo(name=n) for n in names.split()] for names in (inputs, outputs))
    return Graph(nodes, "body", [], *infos)


def with_graphs(use: Node, **graphs: Graph) -> Node:
    use.attribute = [*use.attribute, *(Attribute(name=n, g=g, type=5) for n, g in graphs.items())]
    return use


def branches(use: Node) -> Node:
    """x + x or x * x."""
    sides = [graph_of([node(op, "x x", "z")], "", "z") for op in ("Add", "Mul")]
    return with_graphs(use, then_branch=sides[0], else_branch=sides[1])


class TestControl:
    x = numbers(2, 3)

    @pytest.mark.parametrize("condition", [True, False])
    def test_a_branch(self, condition):
        """The graph reads values around it; conditions are constants or come from the graph."""
        right = self.x + self.x if condition else self.x * self.x
        given = np.array([condition])
        (y,) = found(branches(node("If", "c")), self.x, around="x", c=given)
        np.testing.assert_array_equal(y, right)
        (y,) = found(branches(node("If", "c")), self.x, given, around="x")
        np.testing.assert_array_equal(y, right)

    def loop(self, condition: str) -> Node:
        """Doubles the carried value, and outputs it as a row, while it is below a limit."""
        nodes = [node("Add", "v v", "w"), node("ReduceMax", "w", "m", keepdims=0)]
        nodes += [node("Less", "m limit", "on"), node("Identity", "w", "row")]
        body = graph_of(nodes, "i c v", f"{condition} w row")
        return with_graphs(node("Loop", "n t x", "y rows"), body=body)

    def test_a_loop_of_a_constant_number_of_steps(self):
        constants = {"n": np.array(3), "t": np.array(True), "limit": np.array(9, np.float32)}
        y, rows = found(self.loop("c"), self.x, **constants)
        np.testing.assert_array_equal(y, 8 * self.x)
        np.testing.assert_array_equal(rows, np.stack([2 * self.x, 4 * self.x, 8 * self.x]))

    def test_a_loop_that_ends_when_values_say_so(self):
        """Rows, whose number it would be, are rejected; carried values do not change."""
        x = np.ones((2, 3), np.float32)
        constants = {"n": np.array(9), "t": np.array(True), "limit": np.array(30, np.float32)}
        with pytest.raises(MXNetError, match="number of steps depends on computed values"):
            found(self.loop("on"), x, **constants)
        use = self.loop("on")
        use.output = ["y"]
        graph = use.attribute[-1].g
        assert graph is not None
        graph.output = graph.output[:2]
        (y,) = found(use, x, **constants)
        np.testing.assert_array_equal(y, 32 * x)

    def test_a_loop_without_end(self):
        constants = {"n": np.array(1 << 60), "t": np.array(True), "limit": np.array(9, np.float32)}
        with pytest.raises(MXNetError, match="can be unrolled to at most 8192 nodes"):
            found(self.loop("c"), self.x, **constants)

    def test_loops_in_loops(self):
        """The bound is of the model: 300 times 300 steps."""
        inner = with_graphs(
            node("Loop", "n t v", "w"),
            body=graph_of([node("Neg", "u", "r"), node("Identity", "d", "e")], "j d u", "e r"),
        )
        body = graph_of([inner, node("Identity", "c", "on")], "i c v", "on w")
        use = with_graphs(node("Loop", "n t x", "y"), body=body)
        with pytest.raises(MXNetError, match="can be unrolled to at most 8192 nodes"):
            found(use, self.x, n=np.array(300), t=np.array(True))

    @pytest.mark.parametrize("back", [0, 1])
    def test_scan_equals_a_cumulative_sum(self, back):
        """Sums so far along the second axis, from either end."""
        body = graph_of([node("Add", "s part", "t"), node("Neg", "t", "row")], "s part", "t row")
        use = with_graphs(
            node(
                "Scan",
                "start x",
                "last rows",
                num_scan_inputs=1,
                scan_input_axes=(1,),
                scan_input_directions=(back,),
                scan_output_axes=(1,),
            ),
            body=body,
        )
        last, rows = found(use, np.zeros(2, np.float32), self.x)
        turned = self.x[:, ::-1] if back else self.x
        np.testing.assert_allclose(last, self.x.sum(1), rtol=1e-6)
        np.testing.assert_allclose(rows, -np.cumsum(turned, 1), rtol=1e-6)


class TestRecurrent:
    """Layers that MXNet's own does not compute."""

    x, w, r = numbers(3, 2, 4), numbers(1, 15, 4) / 3, numbers(1, 15, 5) / 3
    b = numbers(1, 30) / 3

    def right(self, lengths: np.ndarray | None = None) -> np.ndarray:
        """All states of a GRU whose reset gate works before the product."""
        h, made = np.zeros((2, 5), np.float32), []
        wb, rb = np.split(self.b[0], 2)
        for t, x in enumerate(self.x):
            gates = x @ self.w[0].T + wb
            z, r = (1 / (1 + np.exp(-(gates + h @ self.r[0].T + rb)))).T.reshape(3, 5, 2)[:2]
            inner = (r.T * h) @ self.r[0][10:].T + rb[10:]
            new = (1 - z.T) * np.tanh(gates[:, 10:] + inner) + z.T * h
            h = new if lengths is None else np.where((t < lengths)[:, None], new, h)
            row = h if lengths is None else np.where((t < lengths)[:, None], h, 0)
            made.append(row)
        return np.stack([*made, h])

    def test_reset_before_the_product(self):
        use = node("GRU", "x w r b", "y h", hidden_size=5)
        y, h = found(use, self.x, w=self.w, r=self.r, b=self.b)
        right = self.right()
        np.testing.assert_allclose(y[:, 0], right[:-1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(h[0], right[-1], rtol=1e-4, atol=1e-5)

    def test_sequences_of_several_lengths(self):
        """Behind its end a sequence gives zeros, and its last state is that of its end."""
        lengths = np.array([3, 1], np.int32)
        use = node("GRU", "x w r b n", "y h", hidden_size=5)
        y, h = found(use, self.x, w=self.w, r=self.r, b=self.b, n=lengths)
        right = self.right(lengths)
        np.testing.assert_allclose(y[:, 0], right[:-1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(h[0], right[-1], rtol=1e-4, atol=1e-5)

    def test_weights_of_the_graph(self):
        use = node("GRU", "x w r b", "y h", hidden_size=5)
        y, _ = found(use, self.x, self.w, self.r, self.b)
        np.testing.assert_allclose(y[:, 0], self.right()[:-1], rtol=1e-4, atol=1e-5)

    def test_other_activations_and_bounds(self):
        use = node("RNN", "x w r", hidden_size=5, activations=("Softsign",), clip=0.25)
        (y,) = found(use, self.x, w=self.w[:, :5], r=self.r[:, :5])
        h = np.zeros((2, 5), np.float32)
        for x, row in zip(self.x, y[:, 0]):
            inner = np.clip(x @ self.w[0, :5].T + h @ self.r[0, :5].T, -0.25, 0.25)
            h = inner / (1 + np.abs(inner))
            np.testing.assert_allclose(row, h, rtol=1e-4, atol=1e-5)

    def test_long_sequences_are_refused(self):
        use = node("GRU", "x w r b", "y h", hidden_size=5)
        x = np.zeros((400, 2, 4), np.float32)
        with pytest.raises(MXNetError, match="can be unrolled to at most"):
            found(use, x, w=self.w, r=self.r, b=self.b)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule):
    """Two heads of queries read the state of each of two heads of keys."""
    q, k, v = numbers(2, 3, 16), numbers(2, 3, 8), numbers(2, 3, 6)
    decay, beta = -np.abs(numbers(2, 3, 8)), np.abs(numbers(2, 3, 2)) / 4
    names, given = ["q", "k", "v", ""], []
    for name, array, word in (("d", decay, "gated"), ("b", beta, "delta")):
        names.append(name if word in rule else "")
        given += [array] if word in rule else []
    use = node("LinearAttention", "", "y s", update_rule=rule, q_num_heads=4, kv_num_heads=2)
    use.input = names
    y, last = found(use, q, k, v, *given)
    state = np.zeros((2, 2, 4, 3))
    for t in range(3):
        key, new = k[:, t].reshape(2, 2, 4), v[:, t].reshape(2, 2, 3)
        if "gated" in rule:
            state = state * np.exp(decay[:, t].reshape(2, 2, 4))[..., None]
        if "delta" in rule:
            new = beta[:, t, :, None] * (new - np.einsum("bhdm,bhd->bhm", state, key))
        state = state + key[..., None] * new[:, :, None]
        asked = q[:, t].reshape(2, 2, 2, 4)
        right = np.einsum("bhgd,bhdm->bhgm", asked, state).reshape(2, 12) / 2
        np.testing.assert_allclose(y[:, t], right, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, state, rtol=1e-4, atol=1e-5)


def test_a_convolution_with_a_state():
    """In two parts, the second behind the first one's state, as in one."""
    x, w, b = numbers(2, 3, 7), numbers(3, 1, 4), numbers(3)
    use = node("CausalConvWithState", "x w b", "y s", activation="silu")
    whole, last = found(use, x, w, b)
    padded = np.concatenate([np.zeros((2, 3, 3)), x], 2)
    inner = sum(padded[:, :, i : i + 7] * w[None, :, :, i][:, :, 0, None] for i in range(4))
    inner = inner + b[:, None]
    np.testing.assert_allclose(whole, inner / (1 + np.exp(-inner)), rtol=1e-4, atol=1e-5)
    first, state = found(use, x[:, :, :5].copy(), w, b)
    behind = node("CausalConvWithState", "x w b s", "y t", activation="silu")
    second, after = found(behind, x[:, :, 5:].copy(), w, b, state)
    np.testing.assert_allclose(np.concatenate([first, second], 2), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(after, last)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_that_is_written(mode):
    past, new = numbers(2, 3, 4, 5), numbers(2, 3, 2, 5) + 7
    places = np.array([1, 3 if mode == "circular" else 2])
    (y,) = found(node("TensorScatter", "p u i", mode=mode), past, new, places)
    right = past.copy()
    for sample, place in enumerate(places):
        right[sample][:, [place, (place + 1) % 4]] = new[sample]
    np.testing.assert_array_equal(y, right)


@pytest.mark.parametrize("length", [None, 5, 9])
@pytest.mark.parametrize("parts", [1, 2])
def test_fourier_transforms(length, parts):
    x = numbers(2, 7, parts)
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    given = {} if length is None else {"n": np.array(length)}
    names = "x n" if given else "x"
    for inverse, transform in ((0, np.fft.fft), (1, np.fft.ifft)):
        (y,) = found(node("DFT", names, inverse=inverse), x, **given)
        right = transform(signal, n=length, axis=1)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], right, rtol=1e-4, atol=1e-5)
    if parts == 2:
        (y,) = found(node("DFT", names, inverse=1, onesided=1), x, **given)
        right = np.fft.irfft(signal, n=length, axis=1)
        np.testing.assert_allclose(y[..., 0], right, rtol=1e-4, atol=1e-5)


def test_pieces_of_a_signal():
    x, window = numbers(1, 20, 1), np.hanning(6).astype(np.float32)
    (y,) = found(node("STFT", "x s w"), x, s=np.array(4), w=window)
    for i, row in enumerate(y[0]):
        right = np.fft.rfft(x[0, 4 * i : 4 * i + 6, 0] * window)
        np.testing.assert_allclose(row[:, 0] + 1j * row[:, 1], right, rtol=1e-4, atol=1e-5)
    assert y.shape == (1, 4, 4, 2)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_products_along_an_axis(exclusive, reverse):
    x = numbers(2, 7)
    use = node("CumProd", "x a", exclusive=exclusive, reverse=reverse)
    (y,) = found(use, x, a=np.array(1))
    ordered = x[:, ::-1] if reverse else x
    if exclusive:
        ordered = np.concatenate([np.ones((2, 1), np.float32), ordered[:, :-1]], 1)
    right = np.cumprod(ordered, 1)
    np.testing.assert_allclose(y, right[:, ::-1] if reverse else right, rtol=1e-4, atol=1e-6)


def test_places_of_maxima_and_back():
    x = np.random.default_rng(3).permutation(48).reshape(1, 2, 4, 6).astype(np.float32)
    use = node("MaxPool", "x", "y i", kernel_shape=(2, 2), strides=(2, 2))
    y, places = found(use, x)
    np.testing.assert_array_equal(x.reshape(-1)[places], y)
    np.testing.assert_array_equal(y, x.reshape(1, 2, 2, 2, 3, 2).max((3, 5)))
    use = node("MaxUnpool", "y i", kernel_shape=(2, 2), strides=(2, 2))
    (back,) = found(use, y, places)
    np.testing.assert_array_equal(back, np.where(np.isin(x, y), x, 0))


def test_sums_of_blocks():
    """Every cell of the picture is in as many blocks as cover it."""
    use = node("Col2Im", "x i b", strides=(2, 1), pads=(1, 0, 0, 0))
    (y,) = found(use, np.ones((1, 12, 6), np.float32), i=np.array([4, 4]), b=np.array([3, 2]))
    right = np.zeros((2, 5, 4))
    for top in (0, 2):
        for left in range(3):
            right[:, top : top + 3, left : left + 2] += 1
    np.testing.assert_array_equal(y[0], right[:, 1:5])


def test_elements_that_constants_choose():
    x = numbers(3, 4)
    (y,) = found(node("Compress", "x c", axis=1), x, c=np.array([False, True, True]))
    np.testing.assert_array_equal(y, x[:, 1:3])
    with pytest.raises(MXNetError, match="operand 'X' is computed by the graph"):
        found(node("NonZero", "x"), x)


@pytest.mark.parametrize("sizes", [(6, 3), (2, 5), (3, 4)])
def test_the_middle(sizes):
    x = numbers(3, 4)
    (y,) = found(node("CenterCropPad", "x s"), x, s=np.array(sizes))
    right = x
    for axis, (size, wanted) in enumerate(zip(x.shape, sizes)):
        gap = abs(wanted - size)
        if wanted > size:
            width = [(0, 0), (0, 0)]
            width[axis] = gap // 2, gap - gap // 2
            right = np.pad(right, width)
        else:
            right = np.take(right, np.arange(wanted) + gap // 2, axis)
    np.testing.assert_array_equal(y, right)


def test_the_same_bits_of_constants():
    x = np.array([1.0, -0.5, 0.0], np.float32)
    (y,) = found(node("BitCast", "x", to=6), numbers(1), around="z", x=x)
    np.testing.assert_array_equal(y, x.view(np.int32))
    with pytest.raises(MXNetError, match="differ in size"):
        found(node("BitCast", "x", to=7), numbers(1), around="z", x=x)


def test_groups_with_scales_of_channels():
    x, scale, shift = numbers(2, 4, 3), numbers(4), numbers(4)
    (y,) = found(node("GroupNormalization", "x s b", num_groups=2), x, s=scale, b=shift)
    parts = x.reshape(2, 2, 6)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)
    right = normal.reshape(2, 4, 3) * scale[:, None] + shift[:, None]
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_batch_normalization_in_training_mode():
    """By the data's statistics; the moving ones move towards them."""
    x, scale, shift = numbers(2, 4, 3), numbers(4), numbers(4)
    old = {"m": numbers(4), "v": np.abs(numbers(4))}
    given = {"s": scale, "b": shift, **old}
    attrs = {"training_mode": 1, "epsilon": 0.01, "momentum": 0.8}
    results = found(node("BatchNormalization", "x s b m v", "y mean var", **attrs), x, **given)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - mean[:, None]) / np.sqrt(var[:, None] + 0.01)
    right = normal * scale[:, None] + shift[:, None]
    moved = (0.8 * old["m"] + 0.2 * mean, 0.8 * old["v"] + 0.2 * var)
    for result, wanted in zip(results, (right, *moved)):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    (alone,) = found(node("BatchNormalization", "x s b m v", **attrs), x, **given)
    np.testing.assert_array_equal(alone, results[0])


def sources() -> list[bytes]:
    """Files with loops, branches, recurrent layers and narrow types."""
    control = TestControl()
    constants = {"n": np.array(3), "t": np.array(True), "limit": np.array(9, np.float32)}
    x = numbers(2, 3)
    body = graph_of([node("Add", "s part", "t"), node("Neg", "t", "row")], "s part", "t row")
    scan = with_graphs(node("Scan", "s x", "y rows", num_scan_inputs=1), body=body)
    weights = {"w": numbers(1, 6, 3), "r": numbers(1, 6, 2)}
    models = [
        model_of([control.loop("c")], {"x": x.shape}, constants),
        model_of([branches(node("If", "c"))], {"x": x.shape}, {"c": np.array(True)}),
        model_of([scan], {"x": x.shape}, {"s": np.zeros(3, np.float32)}),
        model_of([node("GRU", "x w r", hidden_size=2)], {"x": (4, 1, 3)}, weights),
        model_of([node("Cast", "x", to=22), node("Cast", "y", "z", to=17)], {"x": x.shape}),
        model_of([node("STFT", "x s w")], {"x": (1, 9, 1)}, {"s": np.array(4), "w": numbers(8)}),
        model_of([node("LinearAttention", "x x x", q_num_heads=1, kv_num_heads=1,
                       update_rule="linear")], {"x": (1, 3, 4)}),
    ]  # fmt: skip
    return [b"".join(write(model)) for model in models]


def damaged(numbers_: range) -> None:
    """Each is a network or an MXNetError, in bounds of time and memory."""
    with FORMATS["onnx"]() as (_, read):
        files = sources()
        for data in files:
            assert read(data) is not None
        bounds = Bounds(read)
        for number in numbers_:
            bounds(mutated(mutated_bytes, random.Random(number), files[number % len(files)]))


def test_damaged_loops_and_layers():
    damaged(range(700))


# Operands that the graph computes


def test_bounds_of_the_graph():
    x, low, high = numbers(2, 3), np.float32(-0.3), np.float32(0.4)
    (y,) = found(node("Clip", "x low high"), x, low.reshape(()), high.reshape(()))
    np.testing.assert_array_equal(y, x.clip(low, high))
    (y,) = found(Node(["x", "", "high"], ["y"], "clip", "Clip", ()), x, high.reshape(()))
    np.testing.assert_array_equal(y, x.clip(None, high))


@pytest.mark.parametrize("upper, k", [(0, 1), (0, -2), (1, 0), (1, 3)])
def test_a_diagonal_of_the_graph(upper, k):
    x = numbers(2, 4, 5)
    (y,) = found(node("Trilu", "x k", upper=upper), x, np.array(k))
    np.testing.assert_array_equal(y, np.triu(x, k) if upper else np.tril(x, k))


@pytest.mark.parametrize("how", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_merged_at_places_of_the_graph(how, dtype):
    """Places come twice, and count from the end; infinities stay where they come."""
    x, new = ((10 * numbers(*shape)).astype(dtype) for shape in ((5, 3), (4, 3)))
    if dtype == "float32":
        new[0, 0] = np.inf
    places = np.array([[1], [3], [1], [-1]])
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[how]
    right = x.copy()
    ufunc.at(right, places[:, 0], new)
    (y,) = found(node("ScatterND", "x places new", reduction=how), x, places, new, opset=18)
    np.testing.assert_allclose(y, right, rtol=1e-5)
    columns, right = np.array([[0, 2, 2], [1, 1, -1]]), x.copy()
    for (i, j), column in np.ndenumerate(columns):
        ufunc.at(right, (i, column), new[i, j])
    use = node("ScatterElements", "x columns new", axis=1, reduction=how)
    (y,) = found(use, x, columns, new[:2], opset=18)
    np.testing.assert_allclose(y, right, rtol=1e-5)


def test_elements_of_lines_need_no_constant_of_each():
    """Attention with relative positions takes 12 times 512 x 512 elements of 16 heads."""
    rows, columns = 512, 600
    x, places = numbers(2, rows, 40), np.random.default_rng(0).integers(-40, 40, (2, rows, columns))
    model = model_of([node("GatherElements", "x places", axis=2)],
                     {"x": x.shape, "places": places.shape})  # fmt: skip
    assert model.graph is not None
    model.graph.input[1] = info("places", places.shape, 7)
    imported = make_graph(model, KNOWN, None, {})
    assert sum(a.size for a in imported.params.values()) <= 2 * rows
    block = make_block(imported)
    (y,) = as_list(block(nd.array(x), nd.array(places, dtype="int64")))
    np.testing.assert_array_equal(y, np.take_along_axis(x, places, 2))


def test_no_copies_are_no_elements():
    (y,) = found(node("Tile", "x r"), numbers(2, 3), r=np.array([0, 2]))
    assert y.shape == (0, 6)


@pytest.mark.parametrize("size", [2, 4, 6])
def test_responses_of_an_even_number_of_channels(size):
    x = numbers(1, 5, 2, 2)
    (y,) = found(node("LRN", "x", size=size, alpha=0.2, beta=0.6, bias=1.5), x)
    right = np.empty_like(x)
    for c in range(5):
        near = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
        right[:, c] = x[:, c] / (1.5 + 0.2 / size * (near**2).sum(1)) ** 0.6
    np.testing.assert_allclose(y, right, rtol=1e-5)


def resize(
    dtype: str, scales: tuple[float, float], **attributes: str
) -> tuple[np.ndarray, np.ndarray]:
    """A picture of integers resized, and the picture."""
    x = np.random.default_rng(3).integers(-90 if dtype != "uint8" else 0, 120, (1, 2, 5, 6))
    x[0, 1] = 101
    use = node("Resize", "x none scales", **attributes)
    use.input[1] = ""
    (y,) = found(use, x.astype(dtype), scales=np.array([1, 1, *scales], np.float32))
    assert y.dtype == dtype
    return y, x.astype("f4")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("scales", [(1.7, 2), (2.6, 1), (3, 0.5)])
@pytest.mark.parametrize("rule", ["half_pixel", "align_corners"])
def test_linear_resizing_of_integers_truncates_sums_of_float32(rule, scales, dtype):
    """Each step in the order of ONNX Runtime, whose bytes these are."""
    y, x = resize(dtype, scales, mode="linear", coordinate_transformation_mode=rule)
    f = np.float32

    def neighbours(old: int, new: int, scale: float, i: int) -> list[tuple[int, np.float32]]:
        place = (f(i) + f(0.5)) / f(scale) - f(0.5)
        if rule == "align_corners":
            place = f(i) * f(old - 1) / f(new - 1)
        place = min(max(place if scale != 1 else f(i), f(0)), f(old - 1))
        first = int(place)
        second = min(first + 1, old - 1)
        if first == second:
            return [(first, f(0.5)), (second, f(0.5))]
        return [(first, abs(place - f(second))), (second, abs(place - f(first)))]

    for c, i, j in np.ndindex(*y.shape[1:]):
        (r0, up), (r1, down) = neighbours(5, y.shape[2], scales[0], i)
        (c0, left), (c1, right) = neighbours(6, y.shape[3], scales[1], j)
        whole = f(left * up) * x[0, c, r0, c0] + f(right * up) * x[0, c, r0, c1]
        whole = whole + f(left * down) * x[0, c, r1, c0]
        whole = whole + f(right * down) * x[0, c, r1, c1]
        assert y[0, c, i, j] == int(whole)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_nearest_resizing_of_integers_keeps_elements(dtype):
    y, x = resize(dtype, (1.7, 2), mode="nearest")
    rows = [math.ceil((i + 0.5) / 1.7 - 1) for i in range(8)]
    np.testing.assert_array_equal(y, x[:, :, rows][..., np.arange(12) // 2])


def test_corners_are_aligned_by_the_size_of_the_result():
    """5 * 1.5 is cut to 7 elements: their distance is 4 / 6, as in PyTorch and ONNX Runtime."""
    use = node("Resize", "x none scales", mode="linear",
               coordinate_transformation_mode="align_corners")  # fmt: skip
    use.input[1] = ""
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
    (y,) = found(use, x, scales=np.array([1, 1, 1, 1.5], np.float32))
    np.testing.assert_allclose(y.reshape(-1), np.arange(7) * 4 / 6, rtol=1e-6)


def test_activations_of_gates_with_numbers():
    """Each function takes its numbers from the lists in order, those of both directions."""
    x, w, r = numbers(3, 2, 4), numbers(2, 3, 4), numbers(2, 3, 3)
    use = node("RNN", "x w r", "y", hidden_size=3, direction="bidirectional",
               activations=("HardSigmoid", "LeakyRelu"))  # fmt: skip
    use.attribute = [
        *use.attribute,
        Attribute(name="activation_alpha", floats=(0.3, 0.1), type=6),
        Attribute(name="activation_beta", floats=(0.4,), type=6),
    ]
    (y,) = found(use, x, w=w, r=r)
    functions = (lambda a: np.clip(0.3 * a + 0.4, 0, 1), lambda a: np.where(a < 0, 0.1 * a, a))
    for d, (function, steps) in enumerate(zip(functions, (range(3), range(2, -1, -1)))):
        state = np.zeros((2, 3), np.float32)
        for step in steps:
            state = function(x[step] @ w[d].T + state @ r[d].T)
            np.testing.assert_allclose(y[step, d], state, rtol=1e-4, atol=1e-5)


def test_the_state_of_an_lstm_is_not_clipped():
    """The bound applies to the gates, before their activations, as in ONNX Runtime."""
    x, w, r = 3 * numbers(4, 2, 4), numbers(1, 12, 4), numbers(1, 12, 3)
    (y,) = found(node("LSTM", "x w r", "y", hidden_size=3, clip=0.25), x, w=w, r=r)
    state, cell = np.zeros((2, 2, 3), np.float32)
    for step, row in zip(x, y[:, 0]):
        gates = np.clip(step @ w[0].T + state @ r[0].T, -0.25, 0.25)
        enter, leave, forget = 1 / (1 + np.exp(-gates[:, :9].reshape(2, 3, 3).swapaxes(0, 1)))
        cell = forget * cell + enter * np.tanh(gates[:, 9:])
        state = leave * np.tanh(cell)
        np.testing.assert_allclose(row, state, rtol=1e-4, atol=1e-5)
    assert np.abs(cell).max() > 0.25


def test_zeros_as_bytes_have_the_scale_1():
    y, scale, zero = found(
        node("DynamicQuantizeLinear", "x", "y scale zero"), np.zeros((2, 3), "f4")
    )
    assert scale == 1 and zero == 0 and not y.any()


class TestWindows:
    x = numbers(2, 8, 3)

    def window(self, nodes: list[Node], start: np.ndarray, **constants: np.ndarray) -> np.ndarray:
        """Rows of ``x`` by a Slice whose bounds the nodes compute."""
        model = model_of(nodes, {"x": self.x.shape, "s": start.shape}, constants)
        assert model.graph is not None
        model.graph.input[1] = info("s", start.shape, CODES["int64"])
        (y,) = computed(model, self.x, start)
        return y

    @pytest.mark.parametrize("start", [0, 2, 5])
    @pytest.mark.parametrize("sides", ["s k", "k s"])
    def test_an_end_at_a_fixed_distance_from_the_start(self, start, sides):
        nodes = [node("Add", sides, "e"), node("Slice", "x s e a")]
        y = self.window(nodes, np.array([start]), k=np.array([3]), a=np.array([1]))
        np.testing.assert_array_equal(y, self.x[:, start : start + 3])

    def test_a_start_at_a_fixed_distance_from_the_end_with_a_step(self):
        nodes = [node("Sub", "s k", "b"), node("Slice", "x b s a t")]
        steps = {"k": np.array([5]), "a": np.array([-2]), "t": np.array([2])}
        np.testing.assert_array_equal(self.window(nodes, np.array([7]), **steps), self.x[:, 2:7:2])

    def test_a_number_that_gets_its_axis_after_the_sum(self):
        nodes = [
            node("Add", "s k", "e"),
            node("Unsqueeze", "s a0", "s1"),
            node("Unsqueeze", "e a0", "e1"),
            node("Slice", "x s1 e1 a"),
        ]
        model = model_of(
            nodes,
            {"x": self.x.shape, "s": ()},
            {"k": np.array(1), "a0": np.array([0]), "a": np.array([1])},
        )
        assert model.graph is not None
        model.graph.input[1] = info("s", (), CODES["int64"])
        (y,) = computed(model, self.x, np.array(4))
        np.testing.assert_array_equal(y, self.x[:, 4:5])

    def test_windows_of_two_axes(self):
        nodes = [node("Add", "s k", "e"), node("Slice", "x s e a")]
        y = self.window(nodes, np.array([1, 3]), k=np.array([2, 4]), a=np.array([2, 1]))
        np.testing.assert_array_equal(y, self.x[:, 3:7, 1:3])

    def test_a_window_that_leaves_the_operand_is_refused(self):
        nodes = [node("Add", "s k", "e"), node("Slice", "x s e a")]
        with pytest.raises(MXNetError, match="index 8 is not in the range 0 to 7"):
            self.window(nodes, np.array([6]), k=np.array([3]), a=np.array([1]))

    def test_a_size_that_values_determine_is_refused(self):
        with pytest.raises(MXNetError, match="the result must have one size"):
            self.window([node("Slice", "x s e a")], np.array([6]), e=np.array([8]), a=np.array([1]))
