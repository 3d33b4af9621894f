"""Writers of quantized values and of integer products."""

from __future__ import annotations

import numpy as np

from ...ops.nn.window_geometry import is_channel_last, window_of
from ...ops.quantized import limits
from ..exporter import Exporter, Use, Value
from .matrix import transposed
from .table import writes
from .windows import channels_first


@writes("_round_even")
def round_even(g: Exporter, use: Use, x: Value) -> Value:
    """Rounding to the nearest integer, ties to even."""
    return g.emit("Round", x)


@writes("_to_bytes")
def to_bytes(g: Exporter, use: Use, x: Value) -> Value:
    """QuantizeLinear; with a factor in place of a divisor, its parts."""
    attrs, dtype = use.attrs, np.dtype(use.attrs["dtype"])
    scale = g.constant(np.float32(attrs["scale"]))
    if not attrs["multiply"]:
        return g.emit("QuantizeLinear", x, scale, g.constant(np.array(attrs["zero"], dtype)))
    whole = g.emit("Round", g.emit("Mul", x, scale, at="ratio"), at="whole")
    if attrs["zero"]:
        whole = g.emit("Add", whole, g.constant(np.float32(attrs["zero"])), at="moved")
    low, high = (g.constant(np.float32(bound)) for bound in limits(dtype))
    return g.cast(g.emit("Clip", whole, low, high, at="bound"), dtype, "")


@writes("_from_bytes")
def from_bytes(g: Exporter, use: Use, x: Value) -> Value:
    """DequantizeLinear of a whole tensor."""
    zero = g.constant(np.array(use.attrs["zero"], g.dtype(x)))
    return g.emit("DequantizeLinear", x, g.constant(np.float32(use.attrs["scale"])), zero)


@writes("_weight_from_bytes")
def weight_from_bytes(g: Exporter, use: Use, x: Value, *parts: Value) -> Value:
    """DequantizeLinear with a scale and a zero point, or with them for each index of an axis."""
    if g.shape(parts[0]) == (1,):
        ones = (g.emit("Reshape", part, g.constant(_NONE), at="one") for part in parts)
        return g.emit("DequantizeLinear", x, *ones)
    return g.emit("DequantizeLinear", x, *parts, axis=use.attrs["axis"])


_NONE = np.zeros(0, np.int64)


@writes("_integer_dense")
def integer_dense(g: Exporter, use: Use, x: Value, w: Value, *bias: Value) -> Value:
    """MatMulInteger on rows, or on the last axis."""
    zero = g.constant(np.array(use.attrs["zero"], g.dtype(x)))
    if use.attrs["flatten"] and g.rank(x) != 2:
        x = g.emit("Flatten", x, at="rows", axis=1)
    weight = transposed(g, w, "weight")
    product = g.emit("MatMulInteger", x, weight, zero, at="product" if bias else "")
    return g.emit("Add", product, bias[0]) if bias else product


@writes("_integer_convolution")
def integer_convolution(g: Exporter, use: Use, x: Value, w: Value, *bias: Value) -> Value:
    """ConvInteger with equal padding on both sides."""
    attrs = use.attrs
    window = window_of(attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"])
    is_last, rank = is_channel_last(attrs["layout"], window.rank), g.rank(w)
    if is_last:
        w = g.op("transpose", w, axes=(0, rank - 1, *range(1, rank - 1)), at="weight")
    zero = g.constant(np.array(attrs["zero"], g.dtype(x)))
    column = g.ints(-1, *(1,) * window.rank)
    more = [g.emit("Reshape", one, column, at="column") for one in bias]

    def write(x: Value, at: str) -> Value:
        sums = g.emit(
            "ConvInteger",
            *(x, w, zero),
            at=f"{at}:sums" if more and at else "sums" if more else at,
            kernel_shape=window.kernel,
            strides=window.stride,
            dilations=window.dilate,
            pads=(*window.pad, *window.pad),
            group=attrs["num_group"],
        )
        return g.emit("Add", sums, more[0], at=at) if more else sums

    return channels_first(g, x, is_last, write)
