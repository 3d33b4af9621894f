"""ONNX operators that MXNet has no counterpart for, against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hybridjit import nd
from hybridjit.errors import MXNetError
from hybridjit.formats.onnx.messages import Node
from hybridjit.onnx.importer import make_graph
from hybridjit.onnx.load import make_block
from hybridjit.onnx.operators import KNOWN
from recorded import as_list
from test_onnx import info, model_of, node, numbers

CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int32": 6, "int64": 7, "bool": 9}


def found(use: Node, *arrays: np.ndarray, opset: int = 23, **constants: np.ndarray) -> list:
    """What a node gives, run by NumPy; its operands are ``arrays`` and then the constants."""
    names = [name for name in use.input if name and name not in constants]
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

    def test_causal(self):
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
        """Heads side by side in one axis; keys and values behind those of calls before."""
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
def test_losses(how, ignored):
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
def test_bits(op_type, dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 5, 100, limits.max, limits.min], dtype)
    y = np.array([3, limits.max, limits.min, 77, 1, 85], dtype)
    right = {"BitwiseAnd": x & y, "BitwiseOr": x | y, "BitwiseXor": x ^ y}[op_type]
    np.testing.assert_array_equal(found(node(op_type, "x y"), x, y)[0], right)
    np.testing.assert_array_equal(found(node("BitwiseNot", "x"), x)[0], ~x)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction):
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
    """Of two that overlap the better one, of each class; then at most so many."""
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
    """At the middle of cells they are the cells; beyond the edge what is around them."""
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
    """The sizes of an input are what a file says, and no array is as large."""
    use = node("AveragePool", "x", kernel_shape=(2,), dilations=(2,))
    with pytest.raises(MXNetError, match="the nodes of a model may make"):
        make_graph(model_of([use], {"x": (1, 1, 1 << 40)}), KNOWN, None, {})
