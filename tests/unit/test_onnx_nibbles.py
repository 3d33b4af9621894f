"""DequantizeLinear of 4-bit weights in ONNX files: dense layers read them packed."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx import computed, model_of, node

from hybridjit._core.config import override
from hybridjit.formats.onnx.messages import Model, Node, Tensor

_UINT4, _INT4 = 21, 22
SIZE, FILTERS, BLOCK = 64, 20, 16
RANDOM = np.random.default_rng(5)


def tensor(name: str, values: np.ndarray, code: int) -> Tensor:
    """Integers of 4 bits, the first of a pair in the low half of a byte."""
    low, high = (values.reshape(-1)[i::2].astype(np.int16) & 15 for i in (0, 1))
    packed = (low | high << 4).astype(np.uint8)
    return Tensor(name=name, dims=values.shape, data_type=code, raw_data=memoryview(packed))


def whole(code: int, *shape: int) -> np.ndarray:
    low = -8 if code == _INT4 else 0
    return RANDOM.integers(low, low + 16, shape)


def model(nodes: list[Node], scale: np.ndarray, tensors: list[Tensor]) -> Model:
    """A model of rows ``x``, with scales ``s`` and tensors of 4 bits."""
    made = model_of(nodes, {"x": (2, 3, SIZE)}, {"s": scale}, opset=21)
    made.graph.initializer = [*made.graph.initializer, *tensors]
    return made


def blocked(axis: int) -> list[Node]:
    attrs = {"axis": axis, "block_size": BLOCK}
    return [node("DequantizeLinear", "w s z", "d", **attrs), node("MatMul", "x d")]


@pytest.mark.parametrize("code", [_UINT4, _INT4])
def test_blocks_of_a_product_stay_packed(code, capfd):
    """Weights (data, filters), with a zero point for each block."""
    w, z = whole(code, SIZE, FILTERS), whole(code, SIZE // BLOCK, FILTERS)
    scale = RANDOM.uniform(0.05, 0.1, z.shape).astype(np.float32)
    x = RANDOM.normal(size=(2, 3, SIZE)).astype(np.float32)
    given = model(blocked(0), scale, [tensor("w", w, code), tensor("z", z, code)])
    with override(dump=("fuse",)):
        (found,) = computed(given, x)
    assert " nibble_dense " in capfd.readouterr().err
    weight = (w - z.repeat(BLOCK, 0)) * scale.repeat(BLOCK, 0)
    np.testing.assert_allclose(found, x @ weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("code", [_UINT4, _INT4])
@pytest.mark.parametrize("count", [1, FILTERS])
def test_a_filter_with_one_scale_is_a_block(code, count, capfd):
    """Weights (filters, data) of a Gemm with a bias, without zero points."""
    w, scale = whole(code, FILTERS, SIZE), RANDOM.uniform(0.05, 0.1, count).astype(np.float32)
    nodes = [
        node("DequantizeLinear", "w s", "d", axis=0),
        node("Reshape", "x shape", "rows"),
        node("Gemm", "rows d b", transB=1),
    ]
    bias, shape = RANDOM.normal(size=FILTERS).astype(np.float32), np.array([6, SIZE])
    given = model_of(nodes, {"x": (2, 3, SIZE)}, {"s": scale, "b": bias, "shape": shape}, opset=21)
    given.graph.initializer = [*given.graph.initializer, tensor("w", w, code)]
    x = RANDOM.normal(size=(2, 3, SIZE)).astype(np.float32)
    with override(dump=("fuse",)):
        (found,) = computed(given, x)
    assert " nibble_dense " in capfd.readouterr().err
    wanted = x.reshape(6, SIZE) @ (w * scale.reshape(-1, 1)).T + bias
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_blocks_that_do_not_fill_the_data_are_dequantized(capfd):
    """The last of 5 blocks of 16 has 4 weights less than the others."""
    w, scale = whole(_INT4, 76, FILTERS), RANDOM.uniform(0.05, 0.1, (5, FILTERS))
    nodes = [node("DequantizeLinear", "w s", "d", axis=0, block_size=BLOCK), node("MatMul", "x d")]
    given = model_of(nodes, {"x": (2, 76)}, {"s": scale.astype(np.float32)}, opset=21)
    given.graph.initializer = [*given.graph.initializer, tensor("w", w, _INT4)]
    x = RANDOM.normal(size=(2, 76)).astype(np.float32)
    with override(dump=("fuse",)):
        (found,) = computed(given, x)
    assert " nibble_dense " not in capfd.readouterr().err
    np.testing.assert_allclose(found, x @ (w * scale.repeat(BLOCK, 0)[:76]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("code", [_UINT4, _INT4])
def test_values_of_4_bits_saturate_at_their_limits(code):
    """One scale and one zero point; bytes, which store the values, would saturate later."""
    point = Tensor(name="z", dims=(), data_type=code, raw_data=memoryview(np.array([2], np.uint8)))
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")]
    x = np.linspace(-20, 20, 2 * 3 * SIZE, dtype=np.float32).reshape(2, 3, SIZE)
    (found,) = computed(model(nodes, np.array(0.5, np.float32), [point]), x)
    low = -8 if code == _INT4 else 0
    levels = np.clip(np.rint(x / np.float32(0.5)) + 2, low, low + 15)
    np.testing.assert_array_equal(found, (levels - 2) * np.float32(0.5))


def test_blocks_of_a_vector():
    """The scales of a vector's blocks are a vector too, but not one for each element."""
    attrs = {"axis": 0, "block_size": 4}
    nodes = [
        node("QuantizeLinear", "x s z", "q", **attrs),
        node("DequantizeLinear", "q s z", **attrs),
    ]
    constants = {"s": np.array([0.5, 0.25, 1], np.float32), "z": np.array([1, 2, 3], np.int8)}
    x = RANDOM.normal(size=10).astype(np.float32)
    (found,) = computed(model_of(nodes, {"x": (10,)}, constants, opset=21), x)
    scale = constants["s"].repeat(4)[:10]
    np.testing.assert_array_equal(found, np.rint(x / scale) * scale)
