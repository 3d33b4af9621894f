"""Zero points of weights: products of bytes with the bytes of a weight, less its zero points.

    sums(x, w - z)  =>  sums(x, w) - sums(x, 1) z

Differences of bytes have 9 bits. One filter of ones serves all filters of a convolution with one
group; groups have one for each filter. Signed bytes of data are stored 128 higher.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.building import ValueBuilder
from ...ir.graph import Use, Value
from ...ops.attrs import Attrs
from ...ops.elementwise.element_type import CAST
from ...ops.internal import PAD_AXES
from ...ops.quantized import INT8, INT32, SIGN, TO_BYTES, UINT8
from ...ops.registry import lookup
from ...ops.tensor.new_arrays import ONES
from ...ops.tensor.primitives import BROADCAST_TO, RESHAPE_TO, SLICE, TRANSPOSE, reshape

_SUBTRACT, _MULTIPLY = lookup("broadcast_sub"), lookup("broadcast_mul")
_PLUS_SCALAR = lookup("_plus_scalar")
# Movements of elements, which act on bytes in place of dequantized values.
MOVES = (RESHAPE_TO, TRANSPOSE, SLICE, BROADCAST_TO)


def centred_sums(
    g: ValueBuilder, product: Callable[..., Use], data: Use, weight: Value, attrs: Attrs
) -> Use:
    """int32 sums of bytes and of dequantized bytes, whose filters are along axis 0."""
    levels = weight.inputs[0]
    sums = product(g, data, levels, (), attrs)
    if weight.attrs["no_zero"]:
        return sums
    filters, *taps = levels.type.dims
    count = filters if attrs.get("num_group", 1) > 1 else 1
    ones = g.op(ONES, at="ones", shape=(count, *taps), dtype=INT8)
    units = "num_filter" if "num_filter" in attrs else "num_hidden"
    of_data = product(g, data, ones, (), {**attrs, units: count})
    zeros = g.op(CAST, weight.inputs[2], at="weight_zeros", dtype=INT32)
    across = (*(1,) * (sums.type.ndim - 1), zeros.type.size)
    less = g.op(_MULTIPLY, of_data, reshape(g, zeros, across, at="zeros"), at="less")
    return g.op(_SUBTRACT, sums, less, at="centred")


def moved_up(g: ValueBuilder, data: Use) -> Use:
    """The uint8 128 above signed bytes: made so by their quantization, through movements."""
    source = data.value
    if source.op is TO_BYTES:
        made = {**source.attrs, "zero": source.attrs["zero"] + SIGN, "dtype": UINT8}
        own = ValueBuilder(source.name, source.source)
        return own.op(TO_BYTES, source.inputs[0], at="unsigned", **made)
    if source.op in MOVES or source.op is PAD_AXES and source.attrs["mode"] == "constant":
        attrs = dict(source.attrs)
        if source.op is PAD_AXES:
            attrs["value"] = attrs["value"] + SIGN
        own = ValueBuilder(source.name, source.source)
        assert source.op is not None
        return own.op(source.op, moved_up(g, source.inputs[0]), at="unsigned", **attrs)
    bits = g.op(CAST, data, at="bits", dtype=UINT8)
    return g.op(_PLUS_SCALAR, bits, at="unsigned", scalar=float(SIGN))
