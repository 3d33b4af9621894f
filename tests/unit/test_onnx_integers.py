"""ONNX's products of integers against their definition: exact sums, with any zero points."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx import info, model_of, node

from hybridjit import nd
from hybridjit._core.config import override
from hybridjit.formats.onnx.tensors import CODES
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.graph import make_graph
from hybridjit.onnx.operators import KNOWN

RANDOM = np.random.default_rng(8)


def some_bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def computed(use, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], capfd):
    """The result, equal by NumPy and by a compiled graph, and the groups of the latter."""
    model = model_of([use], {}, constants)
    model.graph.input = [info(name, x.shape, CODES[x.dtype]) for name, x in inputs.items()]
    block = make_block(make_graph(model, KNOWN, None, {}))
    given = [nd.array(x, dtype=x.dtype) for x in inputs.values()]
    eager = block(*given).asnumpy()
    block.hybridize()
    with override(dump=("fuse",)):
        found = block(*given).asnumpy()
    np.testing.assert_array_equal(found, eager)
    return found, capfd.readouterr().err


def convolved(x: np.ndarray, w: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """Sums over windows inside of x, in int64."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups))
    return np.concatenate([np.einsum("nchwij,fcij->nfhw", a, b) for a, b in parts], 1)


ZEROS = {
    "none": ("int8", None),
    "that fit": ("uint8", np.array(128, np.uint8)),
    "of 9 bits": ("uint8", np.array(3, np.uint8)),
    "of filters": ("int8", some_bytes(8, dtype="int8")),
}


@pytest.mark.parametrize("what", ZEROS)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("channels, groups", [(640, 1), (16, 2), (8, 8)])
def test_convolutions_of_integers_are_exact(what, is_known, channels, groups, capfd):
    """640 channels have sums above 2**24, where float32 rounds; the padding is a zero point too."""
    dtype, zero = ZEROS[what]
    x, point = some_bytes(2, channels, 6, 5), np.array(7, np.uint8)
    w = some_bytes(8, channels // groups, 3, 3, dtype=dtype)
    names, constants, inputs = "x w p", {"w": w}, {"x": x}
    (constants if is_known else inputs)["p"] = point
    if zero is not None:
        names, constants["q"] = "x w p q", zero
    use = node("ConvInteger", names, pads=(1, 0, 2, 1), strides=(2, 2), group=groups)
    found, said = computed(use, inputs, constants, capfd)
    wide = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 2), (0, 1)))
    less = np.int64(0) if zero is None else zero.astype(np.int64).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(found, convolved(wide, w.astype(np.int64) - less, 2, groups))
    assert "_integer_convolution(" in said and " Convolution(" not in said


@pytest.mark.parametrize("what", ZEROS)
@pytest.mark.parametrize("is_known", [True, False])
def test_products_of_integers_are_exact(what, is_known, capfd):
    dtype, zero = ZEROS[what]
    a, b, point = some_bytes(3, 5, 700), some_bytes(700, 8, dtype=dtype), np.array(9, np.uint8)
    names, constants, inputs = "a b p", {"b": b}, {"a": a}
    (constants if is_known else inputs)["p"] = point
    if zero is not None:
        names, constants["q"] = "a b p q", zero
    found, said = computed(node("MatMulInteger", names), inputs, constants, capfd)
    less = np.int64(0) if zero is None else zero.astype(np.int64)
    right = (a.astype(np.int64) - 9) @ (b.astype(np.int64) - less)
    np.testing.assert_array_equal(found, right)
    assert "_integer_dense(" in said and "FullyConnected(" not in said


@pytest.mark.parametrize("zero", [None, 3, 128])
def test_dynamic_products_multiply_bytes(zero, capfd):
    """Of data that the node quantizes, by weights with a scale for each column."""
    x = RANDOM.normal(size=(4, 64)).astype(np.float32)
    b = some_bytes(64, 6, dtype="int8" if zero is None else "uint8")
    scale = RANDOM.uniform(0.01, 0.02, 6).astype(np.float32)
    constants = {"b": b, "s": scale}
    if zero is not None:
        constants["z"] = np.full(6, zero, b.dtype)
    use = node("DynamicQuantizeMatMul", " ".join(["x", *constants]))
    use.domain = "com.microsoft"
    found, said = computed(use, {"x": x}, constants, capfd)
    assert "_integer_dense(" in said and "FullyConnected(" not in said
    low, high = min(0.0, x.min()), max(0.0, x.max())
    unit = np.float32((high - low) / 255)
    levels = np.clip(np.rint(x / unit) + np.rint(-low / unit), 0, 255) - np.rint(-low / unit)
    right = levels @ (b.astype(float) - (zero or 0)) * (unit * scale)
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 1, 0)])
def test_maxima_of_bytes_are_taken_as_bytes(dtype, pads, capfd):
    """In files whose operators take bytes; a border on two sides alone is computed in float32."""
    x = some_bytes(2, 5, 7, 8, dtype=dtype)
    use = node("MaxPool", "x", kernel_shape=(3, 3), strides=(2, 2), pads=pads)
    found, said = computed(use, {"x": x}, {}, capfd)
    least = np.iinfo(dtype).min
    wide = np.pad(x, ((0, 0), (0, 0), pads[::2], pads[1::2]), constant_values=least)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(found, windows[:, :, ::2, ::2].max((4, 5)))
    assert ("_byte_pooling(" in said) == (pads[0] == pads[2]) and "f64" not in said
