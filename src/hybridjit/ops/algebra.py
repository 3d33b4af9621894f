"""Arithmetic on any builder, for gradient rules and expansions.

Operands broadcast as in NumPy. Operators are looked up at the time of use, because the families
that register them may use these functions in their own rules.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .._core.symbolic import Size
from .._core.types import FLOAT32, Shape, TensorType
from .building import Builder, X
from .registry import lookup


def add(g: Builder[X], x: X, y: X) -> X:
    return g.op(lookup("broadcast_add"), x, y, at="sum")


def sub(g: Builder[X], x: X, y: X) -> X:
    return g.op(lookup("broadcast_sub"), x, y, at="difference")


def mul(g: Builder[X], x: X, y: X) -> X:
    return g.op(lookup("broadcast_mul"), x, y, at="product")


def div(g: Builder[X], x: X, y: X) -> X:
    return g.op(lookup("broadcast_div"), x, y, at="quotient")


def scaled(g: Builder[X], x: X, factor: float | Size) -> X:
    """``x`` times a scalar.

    A factor that depends on symbolic sizes is an array, because scalars are constants of kernels.
    """
    if isinstance(factor, Size) and g.type(x).dtype in (np.float16, np.float32, np.float64):
        return mul(g, x, _sized_scalar(g, x, factor, "factor"))
    if factor == 1.0:
        return x
    return g.op(lookup("_mul_scalar"), x, at="scaled", scalar=cast(float, factor))


def _sized_scalar(g: Builder[X], x: X, value: Size, at: str) -> X:
    """An array of one element that broadcasts to ``x``, with a value that sizes give."""
    t = g.type(x)
    given: dict[str, Any] = {"shape": (1,) * t.ndim, "dtype": t.dtype, "value": value}
    return g.op(lookup("_full"), at=at, **given)


def clipped(g: Builder[X], x: X, low: float, high: float | Size) -> X:
    """``x`` within [low, high]; ``high`` may depend on symbolic sizes, as in :func:`scaled`."""
    if not isinstance(high, Size):
        return g.op(lookup("clip"), x, at="within", a_min=low, a_max=float(high))
    above = g.op(lookup("_maximum_scalar"), x, at="above", scalar=low)
    return g.op(lookup("broadcast_minimum"), above, _sized_scalar(g, x, high, "most"), at="within")


def remainder(g: Builder[X], x: X, divisor: float | Size) -> X:
    """``x`` modulo a number, which may depend on symbolic sizes, as in :func:`scaled`."""
    if isinstance(divisor, Size):
        most = _sized_scalar(g, x, divisor, "most")
        return g.op(lookup("broadcast_mod"), x, most, at="within")
    return g.op(lookup("_mod_scalar"), x, at="within", scalar=float(divisor))


def shifted(g: Builder[X], x: X, number: float) -> X:
    """``x`` plus a scalar."""
    return g.op(lookup("_plus_scalar"), x, at="shifted", scalar=number)


def negated(g: Builder[X], x: X) -> X:
    return g.op(lookup("negative"), x, at="negated")


def equals(g: Builder[X], x: X, y: X) -> X:
    """1 where two operands are equal, else 0, in their dtype."""
    return g.op(lookup("broadcast_equal"), x, y, at="equal")


def zeros_like(g: Builder[X], x: X) -> X:
    return g.op(lookup("zeros_like"), x, at="zeros")


def ones_like(g: Builder[X], x: X) -> X:
    return g.op(lookup("ones_like"), x, at="ones")


def total(g: Builder[X], x: X, axes: Shape, keepdims: bool = True) -> X:
    """Sum over ``axes``; ``x`` itself without axes."""
    return g.op(lookup("sum"), x, at="total", axis=axes, keepdims=keepdims) if axes else x


def average(g: Builder[X], x: X, axes: Shape, keepdims: bool = True) -> X:
    """Mean over ``axes``; ``x`` itself without axes."""
    return g.op(lookup("mean"), x, at="average", axis=axes, keepdims=keepdims) if axes else x


def as_shape(g: Builder[X], x: X, shape: Shape) -> X:
    """``x`` reshaped."""
    if g.type(x).shape == shape:
        return x
    return g.op(lookup("_reshape_to"), x, at="reshaped", shape=shape)


def in_dtype(g: Builder[X], x: X, like: TensorType) -> X:
    """``x`` cast to the dtype of ``like``."""
    if g.type(x).dtype == like.dtype:
        return x
    return g.op(lookup("Cast"), x, at="cast", dtype=like.dtype)


def in_single(g: Builder[X], x: X) -> X:
    """float16 cast to float32, for expansions that would round after every step."""
    t = g.type(x)
    return in_dtype(g, x, t.with_dtype(FLOAT32)) if t.dtype == np.float16 else x


def fitted(g: Builder[X], d: X, like: TensorType) -> X:
    """Gradient summed over the axes along which the operand was broadcast, and reshaped to it."""
    found, wanted = g.type(d).dims, like.dims
    if found != wanted:
        lead = len(found) - len(wanted)
        sizes = (1,) * lead + wanted
        d = total(g, d, tuple(i for i, (a, b) in enumerate(zip(found, sizes)) if a != b))
        d = as_shape(g, d, wanted)
    return in_dtype(g, d, like)
