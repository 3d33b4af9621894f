"""Readers of ONNX Runtime's operators on quantized values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.messages import Attribute
from ...ops.nibbles import WORD
from ..importer import Importer, Value
from ..use import Use
from .matrix import matmul
from .microsoft_attention import attention_of
from .quantized import (
    byte_weight,
    code_of,
    numbers,
    product_of_bytes,
    quantize_all,
    quantized,
    requantized,
    same_rank,
    single,
)
from .recurrent_steps import run_steps
from .table import KNOWN, MICROSOFT, translates
from .windows import pads_of_whole_windows

_BYTE, _NIBBLE = 8, 4
_SINGLE = np.dtype("float32")


@translates(
    MICROSOFT + "QLinearSigmoid",
    MICROSOFT + "QLinearLeakyRelu",
    MICROSOFT + "QLinearSoftmax",
    MICROSOFT + "QLinearAveragePool",
    MICROSOFT + "QLinearGlobalAveragePool",
    MICROSOFT + "QLinearReduceMean",
)
def of_numbers(
    g: Importer,
    use: Use,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    scale: Value,
    zero: Value | None = None,
) -> Value:
    """ONNX's operator of this name on dequantized values, quantized again."""
    given = numbers(g, use, x, x_scale, x_zero)
    is_last = bool(use.number("channels_last"))
    given = _channels(g, given, 1) if is_last else given
    plain = _of_version(use, use.number("opset") or 13)
    if use.number("ceil_mode") and use.number("count_include_pad"):
        # The divisor counts cells beyond the padding here, but not in AveragePool.
        pads = Attribute(name="pads", ints=pads_of_whole_windows(g, use, given))
        others = {n: a for n, a in plain._attributes.items() if n not in ("ceil_mode", "auto_pad")}
        plain._attributes = {**others, "pads": pads}
    made = KNOWN[plain.op_type](g, plain, given)
    assert isinstance(made, Value)
    made = _channels(g, made, -1) if is_last else made
    code = code_of(g, zero if zero is not None else x)
    is_pool = plain.op_type.endswith("AveragePool")
    return quantized(g, use, made, scale, zero, code, zero_first=is_pool)


def _of_version(use: Use, opset: int) -> Use:
    """Use of the operator without quantization, in this operator set."""
    plain = object.__new__(Use)
    plain.__dict__.update(vars(use))
    name = use.op_type.removeprefix("QLinear").removeprefix("DynamicQuantize")
    plain.op_type, plain.opset = name, opset
    return plain


def _channels(g: Importer, x: Value, to: int) -> Value:
    """Transpose channels from the last axis to the second, or back."""
    rank = g.rank(x)
    first = (0, rank - 1, *range(1, rank - 1))
    order = first if to == 1 else (0, *range(2, rank), 1)
    return g.op("transpose", x, axes=order, at="channels")


@translates(MICROSOFT + "QLinearConcat")
def concat(
    g: Importer, use: Use, scale: Value, zero: Value | None, *operands: Value | None
) -> Value:
    """Concatenation of quantized values, quantized."""
    triples = zip(operands[::3], operands[1::3], operands[2::3])
    parts = [numbers(g, use, x, s, z) for x, s, z in triples if x is not None]
    axis = use.number("axis") % g.rank(parts[0])
    made = g.op("Concat", *parts, num_args=len(parts), dim=axis, at="number")
    return requantized(g, use, made, scale, zero, operands[0])


@translates(MICROSOFT + "QLinearWhere")
def where(g: Importer, use: Use, condition: Value, *operands: Value) -> Value:
    """Selection between quantized values, quantized."""
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = operands
    sides = numbers(g, use, x, x_scale, x_zero), numbers(g, use, y, y_scale, y_zero)
    made = KNOWN["Where"](g, use, condition, *sides)
    assert isinstance(made, Value)
    return requantized(g, use, made, scale, zero, x)


@translates(MICROSOFT + "QLinearConv")
def conv(g: Importer, use: Use, x: Value, *operands: Value) -> Value:
    """QLinearConv, with channels last if the node requests it."""
    if not use.number("channels_last"):
        made = KNOWN["QLinearConv"](g, use, x, *operands)
        assert isinstance(made, Value)
        return made
    made = KNOWN["QLinearConv"](g, use, _channels(g, x, 1), *operands)
    assert isinstance(made, Value)
    return g.stored(_channels(g, made, -1), made.stored)


@translates(MICROSOFT + "QGemm")
def gemm(
    g: Importer,
    use: Use,
    a: Value,
    a_scale: Value,
    a_zero: Value | None,
    b: Value,
    b_scale: Value,
    b_zero: Value | None,
    c: Value | None = None,
    scale: Value | None = None,
    zero: Value | None = None,
) -> Value:
    """alpha times a product of quantized values, with a bias in units of both scales.

    Quantized if a result scale is given."""
    columns = 0 if use.number("transB") else 1
    left = numbers(g, use, a, a_scale, a_zero)
    right = numbers(g, _Axis(use, columns), b, b_scale, b_zero)
    left = g.op("transpose", left, axes=(1, 0), at="a") if use.number("transA") else left
    right = g.op("transpose", right, axes=(1, 0), at="b") if use.number("transB") else right
    made = matmul(g, use, left, right)
    if c is not None:
        made = g.op("broadcast_add", made, _bias(g, c, a_scale, b_scale), at="biased")
    if use.real("alpha", 1.0) != 1:
        made = g.op("_mul_scalar", made, scalar=use.real("alpha", 1.0), at="alpha")
    return made if scale is None else requantized(g, use, made, scale, zero, a)


def _bias(g: Importer, c: Value, *scales: Value) -> Value:
    flat = [g.op("Reshape", single(g, s), shape=(-1,), at="flat") for s in scales]
    unit = g.op("broadcast_mul", *flat, at="unit")
    return g.op("broadcast_mul", single(g, c), unit, at="bias")


class _Axis(Use):
    """Use whose scales are along another axis."""

    def __init__(self, use: Use, axis: int) -> None:
        self.__dict__.update(vars(use))
        self._axis = axis

    def number(self, name: str, default: int = 0) -> int:
        return self._axis if name == "axis" else super().number(name, default)


@translates(MICROSOFT + "MatMulIntegerToFloat")
def matmul_integer(
    g: Importer,
    use: Use,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Product of dequantized values."""
    product_ = _product_with(g, use, (b, b_scale, b_zero))
    made = product_(a, a_scale, a_zero)
    return made if bias is None else g.op("broadcast_add", made, bias, at="biased")


@translates(MICROSOFT + "DynamicQuantizeMatMul")
def dynamic_matmul(
    g: Importer,
    use: Use,
    a: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Product of dynamically quantized values and quantized weights."""
    rounded, a_scale, a_zero = quantize_all(g, use, a)
    return matmul_integer(g, use, rounded, b, a_scale, b_scale, a_zero, b_zero, bias)


@translates(MICROSOFT + "QAttention")
def attention(
    g: Importer,
    use: Use,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    zero: Value | None = None,
    past: Value | None = None,
) -> Sequence[Value | None]:
    """Attention with queries, keys and values from one product of quantized values."""
    if use.number("do_rotary") or use.number("past_present_share_buffer"):
        raise MXNetError("rotary embeddings and shared buffers are not supported")
    whole = matmul_integer(g, use, x, weights, x_scale, scale, x_zero, zero, bias)
    return attention_of(g, use, whole, (g.shape(weights)[1] // 3,) * 3, mask, past)


@translates(MICROSOFT + "DynamicQuantizeLSTM")
def dynamic_lstm(
    g: Importer,
    use: Use,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    peepholes: Value | None,
    *scales: Value | None,
) -> Sequence[Value | None]:
    """LSTM with quantized weights; inputs and states of each step are quantized."""
    w_scale, w_zero, r_scale, r_zero = (*scales, None, None)[:4]
    sides = ((w, w_scale, w_zero), (r, r_scale, r_zero))
    turned = [g.op("transpose", side[0], axes=(0, 2, 1), at="gates") for side in sides]
    directions, gates, _ = g.shape(turned[0])
    if b is None:
        b = g.filled((directions, 2 * gates), np.zeros(1, _SINGLE))
    products = [
        tuple(_dynamic_product(g, use, [_of_direction(g, v, i) for v in side]) for side in sides)
        for i in range(directions)
    ]
    plain, weights = _of_version(use, use.opset), (*turned, b, peepholes)
    y, last = run_steps(g, plain, x, weights, lengths, [h, c], products)
    return [y, *last]


def _of_direction(g: Importer, x: Value | None, i: int) -> Value | None:
    """The slice of one direction; for a vector, a vector of one element."""
    if x is None:
        return None
    part = g.op("slice_axis", x, axis=0, begin=i, end=i + 1, at="part")
    return g.op("Reshape", part, shape=g.shape(x)[1:] or (1,), at="row")


def _dynamic_product(
    g: Importer, use: Use, weight: Sequence[Value | None]
) -> Callable[[Value], Value]:
    """The product of dynamically quantized values with a weight (input, gates), its scale and its
    zero point.
    """
    multiply = _product_with(g, use, weight)
    return lambda x: multiply(*quantize_all(g, use, x))


def _product_with(
    g: Importer, use: Use, weight: Sequence[Value | None]
) -> Callable[[Value, Value, Value | None], Value]:
    """Function that multiplies bytes with a scale and a zero point by a quantized weight.

    It computes int32 sums if the weight is constant bytes.
    """
    stored, scale, zero = weight
    assert stored is not None
    in_bytes = byte_weight(g, _Axis(use, 1), stored, zero)

    def multiply(x: Value, x_scale: Value, x_zero: Value | None) -> Value:
        sums = product_of_bytes(g, x, in_bytes, x_zero)
        if sums is None:
            right = numbers(g, _Axis(use, g.rank(stored) - 1), stored, scale, zero)
            return matmul(g, use, numbers(g, use, x, x_scale, x_zero), right)
        unit = g.op("Reshape", x_scale, shape=(1,), at="unit")
        if scale is not None:
            scales = g.op("Reshape", single(g, scale), shape=(-1,), at="scales")
            unit = g.op("broadcast_mul", unit, scales, at="unit")
        return g.op("broadcast_mul", *same_rank(g, single(g, sums), unit), at="product")

    return multiply


@translates(MICROSOFT + "MatMulNBits")
def matmul_bits(
    g: Importer,
    use: Use,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value | None = None,
    order: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Product with weights of a few bits, which have a scale for each block of a row.

    Weights of 4 bits stay packed, if blocks fill the rows. Others are dequantized when the model is
    read, to the dtype of the first operand.
    """
    rows, columns, block = use.number("N"), use.number("K"), use.number("block_size")
    bits = use.number("bits", 4)
    if bits not in (2, 4, 8) or block < 1:
        raise MXNetError(f"{bits} bits in blocks of {block} are not supported; 2, 4 and 8 bits are")
    count = -(-columns // block)
    if order is not None and order.array is not None:
        raise MXNetError("permuted groups (g_idx) are not supported")
    if bits == _NIBBLE and columns % block == 0 and block % WORD == 0:
        made = _product_of_nibbles(g, a, b, scales, zeros, (rows, columns, block))
        return made if bias is None else g.op("broadcast_add", made, bias, at="biased")
    g.require_small(4 * rows * count * block)
    whole = _unpacked(g.known(b, "B").reshape(rows, count, -1), bits, block)
    scale = g.known(scales, "scales").reshape(rows, count, 1)
    weights = (whole - _zero_points(g, zeros, rows, count, bits)) * scale
    flat = weights.reshape(rows, count * block)[:, :columns].astype(g.dtype(a))
    made = matmul(g, use, a, g.constant(np.ascontiguousarray(flat.T)))
    return made if bias is None else g.op("broadcast_add", made, bias, at="biased")


def _product_of_nibbles(
    g: Importer,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value | None,
    sizes: tuple[int, int, int],
) -> Value:
    """The product in float32, with packed weights."""
    rows, columns, block = sizes
    count, dtype = columns // block, g.dtype(a)
    weight = np.ascontiguousarray(g.known(b, "B").reshape(rows, columns // 2))
    scale = g.known(scales, "scales").reshape(rows, count).astype(_SINGLE)
    others = [g.constant(weight), g.constant(scale)]
    if zeros is not None:
        found = np.asarray(_zero_points(g, zeros, rows, count, _NIBBLE), _SINGLE)
        others.append(g.constant(found.reshape(rows, count)))
    has_zeros = zeros is not None
    made = g.op("_nibble_dense", single(g, a), *others, block=block, has_zeros=has_zeros)
    return made if dtype == _SINGLE else g.op("Cast", made, dtype=dtype, at="as_data")


def _zero_points(
    g: Importer, zeros: Value | None, rows: int, count: int, bits: int
) -> np.ndarray | float:
    if zeros is None:
        return float(1 << (bits - 1))
    found = g.known(zeros, "zero_points")
    if found.dtype.kind == "f":
        return found.reshape(rows, count, 1)
    return _unpacked(found.reshape(rows, -1), bits, count).reshape(rows, count, 1)


def _unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Integers packed in bytes along the last axis, lowest bits first."""
    shifts = np.arange(0, _BYTE, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)[..., :count].astype(np.float32)
