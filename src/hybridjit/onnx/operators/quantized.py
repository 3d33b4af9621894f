"""Readers of ONNX's operators on quantized values, computed dequantized in float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..._core.types import product
from ...errors import MXNetError
from ...formats.onnx.narrow import NARROW, NarrowFloat, NarrowWhole
from ...formats.onnx.tensors import CODES, dtype_of
from ...ops.quantized import BYTES, LONGEST_SUM, SIGN
from ..importer import Importer, Value, supported
from ..use import Use
from .matrix import matmul
from .narrow import nearest_even
from .nibbles import nibble_weight
from .pointwise import cast_to
from .table import MICROSOFT, translates
from .windows import convolution, integer_convolution

_SINGLE, _WHOLE, _BYTE = np.dtype("float32"), np.dtype("int32"), np.dtype("uint8")


def single(g: Importer, x: Value) -> Value:
    """``x`` in float32."""
    return x if g.dtype(x) == _SINGLE else g.op("Cast", x, dtype=_SINGLE, at="single")


def _along(g: Importer, x: Value, like: Value, use: Use) -> Value:
    """Scales per tensor, per axis, or per block of an axis, shaped to broadcast."""
    rank = g.rank(like)
    if g.rank(x) == 0 or g.shape(x) == (1,):
        return g.op("Reshape", x, shape=(1,) * max(rank, 1), at="scale")
    axis, block = use.number("axis", 1) % rank, use.number("block_size")
    if g.rank(x) == 1 and not block:
        return g.op(
            "Reshape", x, shape=tuple(-1 if i == axis else 1 for i in range(rank)), at="scale"
        )
    size = g.shape(like)[axis]
    if block:
        x = g.op("repeat", x, repeats=block, axis=axis, at="blocks")
        x = g.op("slice_axis", x, axis=axis, begin=0, end=size, at="scale")
    return x


def quantized(
    g: Importer,
    use: Use,
    x: Value,
    scale: Value,
    zero: Value | None,
    code: int,
    zero_first: bool = False,
) -> Value:
    """round(x / scale) + zero, limited to the type's range; float types are rounded to the type.

    With ``zero_first``, as in ONNX Runtime's pooling, round(x / scale + zero)."""
    form = None
    if code not in NARROW and not zero_first:
        form = _byte_form(g, use, x, scale, zero, dtype_of(code, "it"))
    if form is not None:
        return g.op("_to_bytes", single(g, x), dtype=dtype_of(code, "it"), **form)
    ratio = g.op("broadcast_div", single(g, x), single(g, _along(g, scale, x, use)), at="ratio")
    kind = NARROW.get(code)
    if isinstance(kind, NarrowFloat):
        return cast_to(g, ratio, code, bool(use.number("saturate", 1)))
    whole = ratio if zero_first else nearest_even(g, ratio)
    if zero is not None:
        whole = g.op("broadcast_add", whole, single(g, _along(g, zero, x, use)), at="moved")
    whole = nearest_even(g, whole) if zero_first else whole
    low, high = _bounds(code)
    bound = g.op("clip", whole, a_min=low, a_max=high, at="bound")
    return g.stored(g.op("Cast", bound, dtype=supported(dtype_of(code, "it"))), code)


def _bounds(code: int) -> tuple[float, float]:
    kind = NARROW.get(code)
    if isinstance(kind, NarrowWhole):
        return float(kind.bounds[0]), float(kind.bounds[1])
    dtype = dtype_of(code, "it")
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        raise MXNetError(
            f"quantization to {dtype.name} is not supported, only to integers of at most 16 bits"
        )
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def code_of(g: Importer, zero: Value | None) -> int:
    """Code of the element type of a zero point, uint8 without one."""
    if zero is None:
        return CODES[_BYTE]
    return zero.stored or CODES[g.dtype(zero)]


def requantized(
    g: Importer, use: Use, x: Value, scale: Value, zero: Value | None, like: Value | None = None
) -> Value:
    """Quantize to the type of the zero point, or of ``like`` without a zero point."""
    code = code_of(g, zero if zero is not None else like)
    return quantized(g, use, x, scale, zero, code)


def numbers(g: Importer, use: Use, x: Value, scale: Value | None, zero: Value | None) -> Value:
    """Dequantized values, (x - zero) * scale."""
    if scale is not None:
        if x.is_constant:
            weight = nibble_weight(g, use, x, scale, zero) or _weight(g, use, x, scale, zero)
            if weight is not None:
                return weight
        elif (form := _byte_form(g, use, x, scale, zero, g.dtype(x))) is not None:
            return g.op("_from_bytes", x, **form)
    made = single(g, x)
    if zero is not None:
        made = g.op("broadcast_sub", made, single(g, _along(g, zero, x, use)), at="centred")
    if scale is None:
        return made
    return g.op("broadcast_mul", made, single(g, _along(g, scale, x, use)), at="number")


def _byte_form(
    g: Importer, use: Use, x: Value, scale: Value, zero: Value | None, dtype: np.dtype
) -> dict[str, Any] | None:
    """Constant scale and zero point of a whole tensor; None for other forms."""
    parts = [v for v in (scale, zero) if v is not None]
    if dtype not in BYTES or x.is_constant or any(not v.is_constant for v in parts):
        return None
    if any(product(g.shape(v)) != 1 for v in parts) or g.dtype(scale) != _SINGLE:
        return None
    number = float(g.known(scale, "scale").reshape(()))
    if not (math.isfinite(number) and number > 0):
        return None
    return {
        "scale": number,
        "zero": int(g.known(zero, "zero").reshape(())) if zero is not None else 0,
    }


def _weight(g: Importer, use: Use, x: Value, scale: Value, zero: Value | None) -> Value | None:
    """Dequantized weights that are stored in int8, with scales along one axis; None for others.

    Zero points are kept along that axis if the differences from them exceed int8.
    """
    if use.number("block_size") or not scale.is_constant or g.dtype(scale) != _SINGLE:
        return None
    if (parts := _int8_weight(g, use, x, zero)) is None:
        return None
    factors, axis = g.known(scale, "scale").reshape(-1), 0
    if factors.size > 1:
        axis = use.number("axis", 1) % g.rank(x)
    if g.rank(scale) > 1 or factors.size not in (1, g.shape(x)[axis]):
        return None
    if any(g.shape(points) != factors.shape for points in parts[1:]):
        return None
    operands = (parts[0], g.constant(factors), *parts[1:])
    no_zero = len(parts) == 1
    return g.kept("_weight_from_bytes", *operands, axis=axis, no_zero=no_zero, at="weight")[0]


def _int8_weight(g: Importer, use: Use, x: Value, zero: Value | None) -> tuple[Value, ...] | None:
    """Constant bytes minus their zero points as int8; or bytes and zero points, both int8."""
    if (whole := _whole_weight(g, use, x, zero)) is not None:
        return (whole,)
    if g.rank(x) < 2 or (moved := _moved_weight(g, x, zero)) is None:
        return None
    levels, zeros = moved
    return g.constant(levels), g.constant(zeros.astype(np.int8))


def _whole_weight(g: Importer, use: Use, x: Value, zero: Value | None) -> Value | None:
    """Constant bytes minus their zero points, if they are a matrix or a filter in int8."""
    is_open = zero is not None and not zero.is_constant
    if not x.is_constant or is_open or g.rank(x) < 2 or g.dtype(x) not in BYTES:
        return None
    if g.dtype(x) == np.int8 and (zero is None or not g.known(zero, "zero").any()):
        return x
    wide = g.known(x, "weight").astype(np.int32)
    if zero is not None:
        wide = wide - g.known(_along(g, zero, x, use), "zero").astype(np.int32)
    if wide.size and (wide.min() < -128 or wide.max() > 127):
        return None
    return g.constant(wide.astype(np.int8))


@translates("QuantizeLinear", MICROSOFT + "QuantizeLinear")
def quantize(g: Importer, use: Use, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """Quantized values."""
    return quantized(g, use, x, scale, zero, use.number("output_dtype") or code_of(g, zero))


@translates("DequantizeLinear", MICROSOFT + "DequantizeLinear")
def dequantize(g: Importer, use: Use, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """Dequantized values, in the scale's dtype."""
    made = numbers(g, use, x, scale, zero)
    dtype = g.dtype(scale)
    return made if g.dtype(made) == dtype else g.op("Cast", made, dtype=dtype)


@translates("DynamicQuantizeLinear")
def quantize_all(g: Importer, use: Use, x: Value) -> tuple[Value, Value, Value]:
    """Dynamically quantized values with a scale that covers them and 0, the scale, the zero
    point."""
    top = g.op("_maximum_scalar", g.op("max", x, at="max"), scalar=0.0, at="top")
    low = g.op("_minimum_scalar", g.op("min", x, at="min"), scalar=0.0, at="low")
    span = g.op("broadcast_sub", top, low, at="span")
    scale = g.op("_div_scalar", span, scalar=255.0, at="scale")
    empty = g.op(
        "_equal_scalar", scale, scalar=0.0, at="empty"
    )  # if all elements are 0 the scale is 1
    scale = g.op("broadcast_add", scale, empty, at="scale")
    start = g.op("broadcast_div", g.op("negative", low, at="minus"), scale, at="start")
    place = g.op("clip", nearest_even(g, start), a_min=0.0, a_max=255.0, at="place")
    zero = g.op("Cast", place, dtype=_BYTE, at="zero")
    made = quantized(g, use, x, scale, zero, CODES[_BYTE])
    return made, g.scalar(scale), g.scalar(zero)


@translates("MatMulInteger")
def matmul_integer(
    g: Importer,
    use: Use,
    a: Value,
    b: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
) -> Value:
    """Product of integers after subtraction of their zero points."""
    made = product_of_bytes(g, a, byte_weight(g, use, b, b_zero), a_zero)
    if made is not None:
        return made
    if a_zero is not None and g.rank(a_zero) == 1:
        a_zero = g.op("expand_dims", a_zero, axis=1, at="rows")
    sides = []
    for x, zero in ((a, a_zero), (b, b_zero)):
        wide = g.op("Cast", x, dtype=np.dtype("float64"), at="wide")
        if zero is not None:
            less = g.op("Cast", zero, dtype=np.dtype("float64"), at="zero")
            less = g.op("Reshape", less, shape=(1,), at="one") if g.rank(less) == 0 else less
            wide = g.op("broadcast_sub", *same_rank(g, wide, less), at="centred")
        sides.append(wide)
    return g.op("Cast", matmul(g, use, *sides), dtype=_WHOLE)


class ByteWeight(NamedTuple):
    """A constant matrix of bytes: its columns as rows, int8, and the sum of each column.

    rest  zero points that are subtracted later, int32, and a column of ones: differences of 9 bits
          exceed int8
    """

    rows: Value
    sums: Value
    rest: tuple[Value, ByteWeight] | None = None


def byte_weight(g: Importer, use: Use, b: Value, zero: Value | None) -> ByteWeight | None:
    """The weight b - zero of products of bytes; None if it is not a constant matrix of bytes."""
    if g.rank(b) != 2 or not product(g.shape(b)) or g.shape(b)[0] > LONGEST_SUM:
        return None
    if (weight := _whole_weight(g, use, b, zero)) is not None:
        return _in_rows(g, g.known(weight, "b"))
    if (moved := _moved_weight(g, b, zero)) is None:
        return None
    whole, zeros = moved
    ones = _in_rows(g, np.ones((len(whole), 1), np.int8))
    return _in_rows(g, whole)._replace(rest=(g.constant(zeros), ones))


def _in_rows(g: Importer, whole: np.ndarray) -> ByteWeight:
    rows = g.constant(np.ascontiguousarray(whole.T))
    return ByteWeight(rows, g.constant(whole.sum(0, dtype=np.int32)))


def _moved_weight(
    g: Importer, x: Value, zero: Value | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Constant bytes as int8, with adjusted int32 zero points, one in total or one per filter."""
    if zero is None or not (x.is_constant and zero.is_constant) or g.dtype(x) not in BYTES:
        return None
    whole = g.known(x, "weight").astype(np.int16)
    zeros = g.known(zero, "zero").astype(np.int32).reshape(-1)
    move = SIGN if g.dtype(x) == np.uint8 else 0
    return (whole - move).astype(np.int8), zeros - move


def product_of_bytes(
    g: Importer, a: Value, weight: ByteWeight | None, zero: Value | None
) -> Value | None:
    """(a - zero) b, in int32; None without a weight of bytes."""
    if weight is None or a.is_constant or g.dtype(a) not in BYTES or g.rank(a) < 2:
        return None
    made = _centred_product(g, a, weight, zero)
    if weight.rest is None:
        return made
    zeros, ones = weight.rest
    _, zeros = same_rank(g, made, zeros)
    less = g.op("broadcast_mul", _centred_product(g, a, ones, zero), zeros, at="moved")
    return g.op("broadcast_sub", made, less)


def _centred_product(g: Importer, a: Value, weight: ByteWeight, zero: Value | None) -> Value:
    """a b - zero * column sums of b"""
    attrs: dict[str, Any] = {
        "num_hidden": g.shape(weight.rows)[0], "no_bias": True, "flatten": False,
    }  # fmt: skip
    if zero is None or zero.is_constant and product(g.shape(zero)) == 1:
        number = 0 if zero is None else int(g.known(zero, "a_zero_point").reshape(()))
        return g.op("_integer_dense", a, weight.rows, zero=number, **attrs)
    product_ = g.op("_integer_dense", a, weight.rows, at="product", **attrs)
    zeros = g.op("Cast", zero, dtype=_WHOLE, at="zero")
    if g.rank(zeros) == 1:  # one zero point, or one for each row
        zeros = g.op("expand_dims", zeros, axis=1, at="rows")
    _, zeros = same_rank(g, product_, zeros)
    less = g.op("broadcast_mul", *same_rank(g, zeros, weight.sums), at="less")
    return g.op("broadcast_sub", *same_rank(g, product_, less))


def same_rank(g: Importer, x: Value, y: Value) -> tuple[Value, Value]:
    """Both values; ``y``, whose rank is not larger, with the rank of ``x``."""
    missing = g.rank(x) - g.rank(y)
    return x, g.op("Reshape", y, shape=(1,) * missing + g.shape(y), at="rank") if missing else y


@translates("ConvInteger")
def conv_integer(
    g: Importer,
    use: Use,
    x: Value,
    w: Value,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
) -> Value:
    """Convolution of integers after subtraction of their zero points."""
    made = _convolution_of_bytes(g, use, x, w, x_zero, w_zero)
    if made is not None:
        return made
    first = numbers(g, use, x, None, x_zero)
    second = numbers(g, _WeightAxis(use), w, None, w_zero)
    return g.op("Cast", convolution(g, use, first, second), dtype=_WHOLE)


def _convolution_of_bytes(
    g: Importer, use: Use, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None
) -> Value | None:
    """int32 sums; None for weights that are not constant bytes, and windows without a kernel."""
    is_long = product(g.shape(w)[1:]) > LONGEST_SUM
    if is_long or x.is_constant or not w.is_constant or g.dtype(x) not in BYTES:
        return None
    zero: Value | int = 0 if x_zero is None else x_zero
    if isinstance(zero, Value) and zero.is_constant:
        zero = int(g.known(zero, "x_zero_point").reshape(()))
    weight = _whole_weight(g, _WeightAxis(use), w, w_zero)
    if weight is not None:
        return integer_convolution(g, use, x, weight, zero)
    if (moved := _moved_weight(g, w, w_zero)) is None:
        return None
    whole, zeros = moved
    # Each group has its own sum of the data; a single group has one sum for all filters.
    ones = np.ones_like(whole if use.number("group", 1) > 1 else whole[:1])
    parts = [integer_convolution(g, use, x, g.constant(v), zero) for v in (whole, ones)]
    if parts[0] is None or parts[1] is None:
        return None
    column = g.constant(zeros.reshape(1, -1, *(1,) * (whole.ndim - 2)))
    return g.op("broadcast_sub", parts[0], g.op("broadcast_mul", parts[1], column, at="moved"))


class _WeightAxis(Use):
    """Use whose weight scales are along axis 0, regardless of the node's axis."""

    def __init__(self, use: Use) -> None:
        self._use = use

    def number(self, name: str, default: int = 0) -> int:
        return 0 if name == "axis" else self._use.number(name, default)


@translates("QLinearMatMul")
def qlinear_matmul(g: Importer, use: Use, *operands: Value) -> Value:
    """Product of dequantized values, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = operands
    sides = (numbers(g, use, a, a_scale, a_zero), numbers(g, use, b, b_scale, b_zero))
    return quantized(g, use, matmul(g, use, *sides), scale, zero, code_of(g, zero))


@translates("QLinearConv")
def qlinear_conv(g: Importer, use: Use, *operands: Value) -> Value:
    """Convolution of dequantized values, quantized."""
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = operands[:8]
    first = numbers(g, use, x, x_scale, x_zero)
    second = numbers(g, _WeightAxis(use), w, w_scale, w_zero)
    bias = None
    if len(operands) > 8:
        unit = g.op("broadcast_mul", *(_flat(g, s) for s in (x_scale, w_scale)), at="unit")
        bias = g.op("broadcast_mul", single(g, operands[8]), unit, at="bias")
    made = convolution(g, use, first, second, bias)
    return quantized(g, use, made, scale, zero, code_of(g, zero))


def _flat(g: Importer, x: Value) -> Value:
    return g.op("Reshape", x, shape=(-1,), at="flat")
