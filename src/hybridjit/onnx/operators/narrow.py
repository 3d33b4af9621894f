"""Conversion to element types of at most eight bits, held in wider types."""

from __future__ import annotations

import numpy as np

from ...formats.onnx.narrow import Narrow, NarrowFloat, NarrowWhole
from ..importer import Importer, Value

_SINGLE, _WHOLE = np.dtype("float32"), np.dtype("int32")
_TOP = 127.0  # the largest exponent of float32


def nearest_even(g: Importer, x: Value) -> Value:
    """Rounding to nearest, ties to even as in ONNX; MXNet's ``rint`` rounds ties down."""
    return g.op("_round_even", x)


def narrowed(g: Importer, x: Value, kind: Narrow, saturate: bool, direction: str) -> Value:
    """Values of ``kind`` nearest to ``x``, in float32, or in int32 for integer types.

    saturate   whether large values become the largest one, otherwise infinity or NaN
    direction  rounding of powers of 2 without mantissa: up, down or nearest
    """
    if isinstance(kind, NarrowWhole):
        return _wrapped(g, x, kind)
    single = x if g.dtype(x) == _SINGLE else g.op("Cast", x, dtype=_SINGLE, at="single")
    limit = min(
        4 * kind.largest, float(np.finfo(_SINGLE).max)
    )  # larger values are beyond the type's range
    finite = bounded(g, single, -limit, limit)
    if kind.is_signed:
        made = _on_grid(g, finite, kind)
    else:
        made = _power_of_two(g, finite, kind, direction)
    return _within(g, single, made, kind, saturate)


def bounded(g: Importer, x: Value, low: float, high: float) -> Value:
    """Values limited to an interval; NaN remains."""
    above = g.op("_maximum_scalar", x, scalar=low, at="low")
    return g.op("_minimum_scalar", above, scalar=high, at="bound")


def _wrapped(g: Importer, x: Value, kind: NarrowWhole) -> Value:
    """Lowest bits of the integer part."""
    low, high = kind.bounds
    if g.dtype(x).kind == "f":
        x = g.op("trunc", x, at="whole")
    whole = g.op("Cast", x, dtype=_WHOLE, at="whole")
    moved = g.op("_minus_scalar", whole, scalar=float(low), at="moved")
    rest = g.op("_mod_scalar", moved, scalar=float(high - low + 1), at="bits")
    return g.op("_plus_scalar", rest, scalar=float(low), at="back")


def _exponent(g: Importer, x: Value) -> Value:
    """Integer part of the logarithm to base 2.

    Where it is rounded to the wrong side of a power of 2, both exponents give the same result.
    """
    tiny = float(np.finfo(_SINGLE).tiny)
    size = g.op("_maximum_scalar", g.op("abs", x, at="size"), scalar=tiny, at="size")
    return g.op("floor", g.op("log2", size, at="log"), at="exponent")


def _power(g: Importer, exponent: Value) -> Value:
    return g.op("_rpower_scalar", exponent, scalar=2.0, at="step")


def _on_grid(g: Importer, x: Value, kind: NarrowFloat) -> Value:
    """Nearest value with the type's mantissa bits, ties to even, without the upper limit."""
    exponent = bounded(g, _exponent(g, x), float(kind.lowest_exponent), _TOP)
    step = _power(g, g.op("_minus_scalar", exponent, scalar=float(kind.mantissa), at="unit"))
    ratio = g.op("broadcast_div", x, step, at="ratio")
    return g.op("broadcast_mul", nearest_even(g, ratio), step, at="grid")


def _within(g: Importer, x: Value, made: Value, kind: NarrowFloat, saturate: bool) -> Value:
    """Values beyond the largest in the type's representation; NaN remains, or is 0 if
    unsupported."""
    bound = bounded(g, made, -kind.largest, kind.largest)
    nan = g.op("_not_equal", x, x, at="nan")
    if not saturate and (kind.nans or kind.infinite):
        is_beyond = g.op(
            "_greater_scalar", g.op("abs", made, at="size"), scalar=kind.largest, at="beyond"
        )
        outside = _filled(g, x, np.inf if kind.infinite else np.nan)
        if kind.infinite:
            outside = g.op("broadcast_mul", outside, g.op("sign", x, at="sign"), at="infinite")
        bound = g.op("where", is_beyond, outside, bound, at="beyond")
    return g.op("where", nan, _filled(g, x, np.nan if kind.nans else 0.0), bound)


def _filled(g: Importer, x: Value, number: float) -> Value:
    """Constant in the shape of ``x``."""
    zeros = g.op("zeros_like", x, at="zeros")
    return g.op("_plus_scalar", zeros, scalar=number, at="filled")


def _power_of_two(g: Importer, x: Value, kind: NarrowFloat, direction: str) -> Value:
    """Neighbouring power of 2 in a direction."""
    low = _power(g, bounded(g, _exponent(g, x), float(kind.lowest_exponent), _TOP))
    # The rounded logarithm may be too large.
    is_less = g.op("broadcast_lesser", x, low, at="less")
    low = g.op("broadcast_div", low, g.op("_plus_scalar", is_less, scalar=1.0), at="low")
    limit = {"down": np.inf, "nearest": 1.5}.get(direction, 1.0)
    ratio = g.op("broadcast_div", x, low, at="ratio")
    compare = "_greater_equal_scalar" if direction == "nearest" else "_greater_scalar"
    is_more = g.op(compare, ratio, scalar=limit, at="more")
    return g.op("broadcast_mul", low, g.op("_plus_scalar", is_more, scalar=1.0), at="power")
