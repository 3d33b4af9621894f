"""Values in 8 bits, and products of bytes with exact integer sums.

Readers of quantized models and passes create these operators. Input: float32 arrays, or bytes with
a scale and a zero point. Output: new arrays. Bytes are rounded to nearest,
ties to even, and saturated; sums are int32 and exact, so that results have the same bits on every
CPU, for every batch and number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from .._core.frozen import replace
from .._core.types import FLOAT32, INT32, Shape, TensorType, product
from ..errors import AttributeValueError, DTypeError, MXNetError
from .attrs import Attrs, AttrValue, Declared
from .building import Builder, X
from .casting import bounded
from .gradient import none_at_all
from .nn.convolution import CONVOLUTION, conv_cost, weight_and_bias
from .nn.matrix_products import FULLY_CONNECTED, dense_cost
from .nn.pool_windows import POOLING_ATTRS
from .nn.pooling import POOLING
from .record import OpDef, Samples, Traits
from .registry import register
from .rules import Types, forward, merged, same_type
from .signatures import ScalarBuilder, V
from .tensor.primitives import reshape

INT8, UINT8 = np.dtype("int8"), np.dtype("uint8")
BYTES = (INT8, UINT8)
_READ = Traits(in_files=True)
_SAMPLES = Traits(samples=Samples.FIRST, in_files=True)
# Most products of an int32 sum: 255 * 128 * 65,792 < 2**31.
LONGEST_SUM = 65_792
# Byte that represents 0 of int8 values stored as uint8.
SIGN = 128

ROUND_EVEN = register(
    "_round_even",
    "data",
    internal=True,
    ref=lambda data: np.rint(data) if data.dtype.kind == "f" else data.copy(),
    scalar=lambda b, x: b.round_even(x),
    traits=_READ,
    doc="Round to the nearest integer, ties to even.",
)


def limits(dtype: np.dtype) -> tuple[int, int]:
    """The smallest and the largest value of an element type of 8 bits."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _require(scale: float, zero: int, dtype: np.dtype | None) -> None:
    if dtype not in BYTES:
        raise DTypeError(f"quantized values are int8 or uint8, not {dtype}")
    single = float(np.float32(scale))
    if not (math.isfinite(single) and single > 0):
        raise AttributeValueError(f"attribute scale must be positive and finite, got {scale}")
    low, high = limits(dtype)
    if not low <= zero <= high:
        raise AttributeValueError(f"attribute zero must be from {low} to {high}, got {zero}")


def _byte_types(
    ins: Types, outs: Types, *, scale: float, zero: int, dtype: np.dtype, **attrs: AttrValue
) -> tuple[Types, Types]:
    _require(scale, zero, dtype)
    (data,) = ins
    if data.dtype is not None and data.dtype != FLOAT32:
        raise DTypeError(f"quantization takes float32, got {data.dtype}")
    return (data.with_dtype(FLOAT32),), merged(outs, (data.with_dtype(dtype),))


def _to_bytes(
    data: np.ndarray, *, scale: float, zero: int, dtype: np.dtype, multiply: bool
) -> np.ndarray:
    """rint(x / scale) + zero, or rint(x * scale) + zero, saturated; NaN becomes the smallest."""
    factor = np.float32(scale)
    levels = np.rint(data * factor if multiply else data / factor) + np.float32(zero)
    return bounded(levels, *limits(dtype)).astype(dtype)


def _saturated(b: ScalarBuilder[V], x: V, low: float, high: float) -> V:
    """x within [low, high]; NaN becomes ``low``."""
    least, most = b.const(low), b.const(high)
    above = b.select(b.gt(x, least), x, least)
    return b.select(b.lt(above, most), above, most)


def _byte_formula(
    b: ScalarBuilder[V], x: V, *, scale: float, zero: int, dtype: np.dtype, multiply: bool
) -> V:
    factor = b.const(float(np.float32(scale)))
    levels = b.round_even(b.mul(x, factor) if multiply else b.div(x, factor))
    if zero:
        levels = b.add(levels, b.const(float(zero)))
    return _saturated(b, levels, *limits(dtype))


TO_BYTES = register(
    "_to_bytes",
    "data",
    "scale:double! zero:int=0 dtype:dtype! multiply:bool=False",
    internal=True,
    infer=_byte_types,
    ref=_to_bytes,
    scalar=_byte_formula,
    grad=none_at_all,
    traits=_SAMPLES,
    doc="Bytes of float32 values: rint(x / scale) + zero, or of x * scale, saturated.",
)


def _value_types(
    ins: Types, outs: Types, *, scale: float, zero: int, **attrs: AttrValue
) -> tuple[Types, Types]:
    (data,) = ins
    if data.dtype is None:
        return ins, outs
    _require(scale, zero, data.dtype)
    return ins, merged(outs, (data.with_dtype(FLOAT32),))


def _from_bytes(data: np.ndarray, *, scale: float, zero: int) -> np.ndarray:
    return (data.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def _value_formula(b: ScalarBuilder[V], x: V, *, scale: float, zero: int) -> V:
    centred = b.sub(x, b.const(float(zero))) if zero else x
    return b.mul(centred, b.const(float(np.float32(scale))))


FROM_BYTES = register(
    "_from_bytes",
    "data",
    "scale:double! zero:int=0",
    internal=True,
    infer=_value_types,
    ref=_from_bytes,
    scalar=_value_formula,
    grad=none_at_all,
    traits=_SAMPLES,
    doc="float32 values of bytes: (x - zero) * scale.",
)


def _weight_types(
    data: TensorType, scale: TensorType, *zero: TensorType, axis: int, **attrs: AttrValue
) -> TensorType:
    if data.dtype != INT8 or scale.dtype != FLOAT32:
        raise DTypeError(
            f"weights are int8 with scales of float32, got {data.dtype} and {scale.dtype}"
        )
    if not 0 <= axis < data.ndim or scale.dims not in ((1,), (data.dims[axis],)):
        raise AttributeValueError(
            f"scales have one element, or one for each index of axis {axis} of {data}, got {scale}"
        )
    if zero and zero[0] != scale.with_dtype(INT8):
        raise AttributeValueError(
            f"zero points of weights are int8, one for each scale ({scale}), got {zero[0]}"
        )
    return data.with_dtype(FLOAT32)


def _weight(
    data: np.ndarray, scale: np.ndarray, *zero: np.ndarray, axis: int, **attrs: Declared
) -> np.ndarray:
    shape = tuple(-1 if i == axis else 1 for i in range(data.ndim))
    levels = data.astype(np.float32)
    for points in zero:
        levels -= points.reshape(shape)
    result: np.ndarray = levels * scale.reshape(shape)
    return result


def _weight_inputs(*, no_zero: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "scale") if no_zero else ("data", "scale", "zero")


WEIGHT_FROM_BYTES = register(
    "_weight_from_bytes",
    _weight_inputs,
    "axis:int=0 no_zero:bool=True",
    internal=True,
    infer=forward(_weight_types),
    ref=_weight,
    traits=_READ,
    doc="float32 values (w - zero) * scale of int8 weights; scales are of all, or along an axis.",
)


def _product_types(source: OpDef) -> object:
    """The shapes of the float operator; bytes as operands, int32 as bias and result."""

    def infer(ins: Types, outs: Types, *, zero: int, **attrs: Declared) -> tuple[Types, Types]:
        data = ins[0].dtype
        kinds = (BYTES, (INT8,), (INT32,))
        given = [(t.dtype, kind) for t, kind in zip(ins, kinds) if t.dtype is not None]
        wrong = [dtype for dtype, kind in given if dtype not in kind]
        if wrong:
            raise DTypeError(
                "a product of bytes takes data of int8 or uint8, a weight of int8 and a bias of "
                f"int32, got {wrong[0]}"
            )
        if data is not None:
            _require(1.0, zero, data)
        floats = (tuple(t.with_dtype(FLOAT32) for t in side) for side in (ins, outs))
        found, results = source.infer(*floats, **attrs)
        new = tuple(t.with_dtype(dtype) for t, dtype in zip(found, (data, INT8, INT32)))
        return new, tuple(t.with_dtype(INT32) for t in results)

    return infer


def _product(source: OpDef) -> object:
    """The float operator in double precision, which is exact: sums are below 2**53."""

    def ref(data: np.ndarray, *others: np.ndarray, zero: int, **attrs: Declared) -> np.ndarray:
        centred = data.astype(np.float64) - zero
        sums = source.ref(centred, *(x.astype(np.float64) for x in others), **attrs)
        return np.asarray(sums).astype(np.int64).astype(np.int32)

    return ref


INTEGER_CONVOLUTION = register(
    "_integer_convolution",
    weight_and_bias,
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_filter:int! num_group:int=1 "
    "no_bias:bool=False layout:layout?=None zero:int=0",
    internal=True,
    kernel="byte_product",
    infer=_product_types(CONVOLUTION),  # type: ignore[arg-type]
    ref=_product(CONVOLUTION),  # type: ignore[arg-type]
    grad=none_at_all,
    traits=replace(_SAMPLES, multiply_adds=conv_cost),
    doc="Convolution of bytes x - zero with int8 weights: int32 sums; x is zero outside.",
)


def is_depthwise(attrs: Attrs, weight: Shape) -> bool:
    """Whether a channels-last weight has one filter of one channel for each group."""
    return bool(weight[-1] == 1 and attrs.get("num_group", 1) == weight[0] > 1)


def has_kernel(attrs: Attrs, weight: Shape) -> bool:
    """Whether a kernel multiplies bytes by a channels-last weight of this shape.

    Groups of one channel must be depthwise, with windows of at most two axes and no dilation: for
    other depthwise layers, the direct kernel takes 10 times as long as float32.
    """
    if weight[-1] > 1 or attrs.get("num_group", 1) == 1:
        return True
    is_dense = set(attrs["dilate"] or (1,)) == {1}
    return is_depthwise(attrs, weight) and len(weight) <= 4 and is_dense


# Least channels per group for which words of four bytes are multiplied faster than floats, for one
# tap and for several taps. With 64 channels at 56x56, groups of 2 take 0.59 ms in bytes and 0.33 in
# float32 (3x3), groups of 4 take 0.128 and 0.089 (1x1), groups of 8 take 0.071 and 0.131 (Zen 4).
_FEWEST_OF_ONE, _FEWEST = 5, 4
# float32 represents all integers up to this one.
_INEXACT = 1 << 24


def prefers_floats(attrs: Attrs, weight: Shape) -> bool:
    """Whether float32 adds the products of a channels-last weight faster, and exactly.

    This is the case for groups of few channels that have neither a depthwise kernel nor an
    algorithm that transforms the data.
    """
    fewest = _FEWEST_OF_ONE if product(weight[1:-1]) == 1 else _FEWEST
    if attrs.get("num_group", 1) == 1 or weight[-1] >= fewest:
        return False
    is_exact = product(weight[1:]) * 255 * 255 < _INEXACT
    return is_exact and (weight[-1] > 1 or not has_kernel(attrs, weight))


def _on_rows(
    g: Builder[X], data: X, weight: X, *bias: X, flatten: bool, **attrs: AttrValue
) -> X | None:
    """integer_dense(x of any rank)  =>  integer_dense(x as rows)"""
    given, (units, size) = g.type(data), g.type(weight).dims
    if given.ndim == 2:
        return None
    lead = given.dims[:1] if flatten else given.dims[:-1]
    rows = reshape(g, data, (product(lead), size), at="rows")
    dense = g.op(INTEGER_DENSE, rows, weight, *bias, at="dense", flatten=True, **attrs)
    return reshape(g, dense, (*lead, units))


INTEGER_DENSE = register(
    "_integer_dense",
    weight_and_bias,
    "num_hidden:int! no_bias:bool=False flatten:bool=True zero:int=0",
    internal=True,
    kernel="byte_product",
    infer=_product_types(FULLY_CONNECTED),  # type: ignore[arg-type]
    ref=_product(FULLY_CONNECTED),  # type: ignore[arg-type]
    expand=_on_rows,
    grad=none_at_all,
    traits=replace(_SAMPLES, multiply_adds=dense_cost),
    doc="Dense layer of bytes x - zero with int8 weights: int32 sums.",
)


def _pooled(data: np.ndarray, **attrs: Declared) -> np.ndarray:
    """The largest byte of each window: padding is never the largest."""
    result = POOLING.ref(data.astype(np.float32), **attrs)
    return np.asarray(result).astype(data.dtype)


def _pooled_types(
    ins: Types, outs: Types, *, pool_type: str, **attrs: Declared
) -> tuple[Types, Types]:
    (data,) = ins
    if data.dtype is None:
        return ins, outs
    if data.dtype not in BYTES or pool_type != "max":
        raise DTypeError(f"pooling of bytes takes the maximum of int8 or uint8, got {data}")
    floats = (tuple(t.with_dtype(FLOAT32) for t in side) for side in (ins, outs))
    found, results = POOLING.infer(*floats, pool_type=pool_type, **attrs)
    return tuple(tuple(t.with_dtype(data.dtype) for t in side) for side in (found, results))  # type: ignore[return-value]


BYTE_POOLING = register(
    "_byte_pooling",
    "data",
    POOLING_ATTRS,
    internal=True,
    kernel="byte_pool",
    infer=_pooled_types,
    ref=_pooled,
    grad=none_at_all,
    traits=_SAMPLES,
    doc="Max pooling of bytes.",
)


def _zero_bias(weight: np.ndarray, *bias: np.ndarray, zero: int, no_bias: bool) -> np.ndarray:
    sums = weight.reshape(len(weight), -1).sum(axis=1, dtype=np.int64) * -zero
    total = sums + bias[0] if bias else sums
    return total.astype(np.int32)


def _zero_bias_type(weight: TensorType, *bias: TensorType, **attrs: AttrValue) -> TensorType:
    return TensorType(weight.dims[:1], INT32)


ZERO_BIAS = register(
    "_zero_bias",
    lambda *, no_bias, **attrs: ("weight",) if no_bias else ("weight", "bias"),
    "zero:int! no_bias:bool=False",
    internal=True,
    infer=forward(_zero_bias_type),
    ref=_zero_bias,
    grad=none_at_all,
    doc="bias - zero * the sum of each filter: a product's bias if x is used in place of x - zero.",
)


def _require_range(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise AttributeValueError(
            f"a range has finite ends of which low is not above high, got low={low}, high={high}"
        )


def _ranged_types(ins: Types, outs: Types, *, low: float, high: float) -> tuple[Types, Types]:
    _require_range(low, high)
    return same_type(ins, outs)


RANGED = register(
    "_ranged",
    "data",
    "low:double! high:double!",
    internal=True,
    infer=_ranged_types,
    ref=lambda data, **attrs: data.copy(),
    scalar=lambda b, x, **attrs: x,
    traits=_SAMPLES,
    doc="Values as they are, with the range that calibration found; quantization reads it.",
)


def _filter_scale_type(weight: TensorType) -> TensorType:
    return TensorType(weight.dims[:1], FLOAT32)


def require_finite(largest: np.ndarray, what: str = "an element") -> None:
    """Raise MXNetError unless the numbers, one of each filter, are finite."""
    if not np.isfinite(largest).all():
        number = int(np.isfinite(largest).argmin())
        raise MXNetError(
            f"bytes of 8-bit layers are made of finite weights, but filter {number} has {what} "
            f"{largest[number]}: load sound weights, or run the network without 8 bits"
        )


def _filter_scale(weight: np.ndarray) -> np.ndarray:
    largest = np.abs(weight.reshape(len(weight), -1)).max(axis=1, initial=0.0)
    require_finite(largest)
    return np.where(largest == 0, np.float32(1), largest / np.float32(127)).astype(np.float32)


FILTER_SCALE = register(
    "_filter_scale",
    "weight",
    internal=True,
    infer=forward(_filter_scale_type),
    ref=_filter_scale,
    doc="The scale of each filter's bytes: its largest magnitude / 127; 1 for zeros.",
)


def _filter_bytes_type(weight: TensorType, scale: TensorType) -> TensorType:
    return weight.with_dtype(INT8)


def _filter_bytes(weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    levels = np.rint(weight / scale.reshape(-1, *(1,) * (weight.ndim - 1)))
    return bounded(levels, -127, 127).astype(np.int8)


FILTER_BYTES = register(
    "_filter_bytes",
    "weight scale",
    internal=True,
    infer=forward(_filter_bytes_type),
    ref=_filter_bytes,
    doc="int8 of float32 weights, with one scale for each filter.",
)


def _exact_types(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    ins, outs = same_type(ins, outs)
    if ins[0].dtype is not None and ins[0].dtype != FLOAT32:
        raise DTypeError(f"sums with one rounding take float32, got {ins[0].dtype}")
    return tuple(t.with_dtype(FLOAT32) for t in ins), tuple(t.with_dtype(FLOAT32) for t in outs)


def _add_formula(b: ScalarBuilder[V], y: V, high: V, low: V) -> V:
    """Add the exact error of y + high to low before the last sum."""
    total = b.add(y, high)
    part = b.sub(total, y)
    error = b.add(b.sub(y, b.sub(total, part)), b.sub(high, part))
    return b.add(total, b.add(error, low))


ADD_EXACTLY = register(
    "_add_exactly",
    "data high low",
    internal=True,
    infer=_exact_types,
    scalar=_add_formula,
    domain=(-2.0, 2.0),
    doc="data + (high + low), rounded once, where low is much smaller than high.",
)


def halves(factor: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of 12 bits whose sum is ``factor``: their products with bytes are exact."""
    whole = np.full(1, factor, FLOAT32)
    high = (whole.view(np.int32) & ~0xFFF).view(FLOAT32)
    return high, whole - high


def _scaled_formula(b: ScalarBuilder[V], x: V, *, scale: float, offset: float) -> V:
    high, low = (b.mul(x, b.const(float(part[0]))) for part in halves(np.float32(scale)))
    return _add_formula(b, b.const(float(np.float32(offset))), high, low)


SCALE_EXACTLY = register(
    "_scale_exactly",
    "data",
    "scale:double=1.0 offset:double=0.0",
    internal=True,
    infer=_exact_types,
    scalar=_scaled_formula,
    domain=(-2.0, 2.0),
    doc="data * scale + offset, rounded once, where data are bytes in float32.",
)
