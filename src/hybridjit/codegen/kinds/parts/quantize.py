"""Bytes of float32 vectors: one conversion that rounds, and no division where none is needed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....ops.quantized import limits
from ...llvm.builder import LoopBuilder
from ...llvm.elements import with_element
from ...llvm.types import I8, I32, Value, constant_of, intrinsic_suffix

# Scales for which no bound, reciprocal or correction is infinite or denormal.
_LEAST, _MOST = 2.0**-90, 2.0**90
# Floats on either side of a tie that are compared.
_NEAR = 16


def to_bytes(
    b: LoopBuilder, x: Value, scale: float, zero: int, dtype: np.dtype, multiply: bool
) -> Value:
    """The bytes of ``ops.quantized.TO_BYTES``.

    Values are limited before they are divided: the nearest float to k * scale divided by the scale
    is within half an integer of k, for |k| <= 255.
    """
    single = float(np.float32(scale))
    low, high = (bound - zero for bound in limits(dtype))
    if multiply or not _LEAST < single < _MOST:
        factor = b.constant(single, like=x)
        levels = b.b.fmul(x, factor) if multiply else b.b.fdiv(x, factor)
        whole = _rounded(b, _within(b, levels, low, high))
    else:
        limited = _within(b, x, low * single, high * single)
        whole = _rounded(b, _quotient(b, limited, single))
    if zero:
        whole = b.b.add(whole, constant_of(whole.type, zero))
    return b.b.trunc(whole, with_element(whole.type, I8))


def _within(b: LoopBuilder, x: Value, low: float, high: float) -> Value:
    """x limited to [low, high]; NaN becomes ``low``."""
    least, most = b.constant(low, like=x), b.constant(high, like=x)
    above = b.b.select(b.b.fcmp_ordered(">", x, least), x, least)
    return b.b.select(b.b.fcmp_ordered("<", above, most), above, most)


def _rounded(b: LoopBuilder, x: Value) -> Value:
    """The nearest int32, ties to even."""
    kind = with_element(x.type, I32)
    name = f"llvm.lrint.{intrinsic_suffix(kind)}.{intrinsic_suffix(x.type)}"
    return b.b.call(b.declare(name, kind, [x.type]), [x])


def _quotient(b: LoopBuilder, x: Value, scale: float) -> Value:
    """x / scale, or a value that rounds to the same integer: x times both parts of 1 / scale.

    A vector's division takes 10 cycles on Zen 4, two products one.
    """
    if not (b.target.has_fma and rounds_alike(scale)):
        return b.b.fdiv(x, b.constant(scale, like=x))
    first, second = parts_of_reciprocal(scale)
    less = b.b.fmul(x, b.constant(second, like=x))
    return b.intrinsic("fma", x, b.constant(first, like=x), less)


def parts_of_reciprocal(scale: float) -> tuple[float, float]:
    """1 / scale as the sum of two single-precision numbers."""
    whole = 1.0 / scale
    first = float(np.float32(whole))
    return first, float(np.float32(whole - first))


@lru_cache(maxsize=1024)
def rounds_alike(scale: float) -> bool:
    """Whether products with both parts of the reciprocal round as the quotient, up to 256.

    Both are monotone in x: it suffices to compare the floats near each tie.
    """
    ties = np.arange(-256, 256) + 0.5
    near = (ties * scale).astype(np.float32)
    steps = np.arange(-_NEAR, _NEAR + 1, dtype=np.int32)
    x = (near.view(np.int32)[:, None] + steps).view(np.float32)
    first, second = map(np.float32, parts_of_reciprocal(scale))
    less = (x * second).astype(np.float64)
    # Exact but for the last bits of a sum of 53: no float of 24 bits is a tie of these.
    product = (x.astype(np.float64) * np.float64(first) + less).astype(np.float32)
    return bool((np.rint(product) == np.rint(x / np.float32(scale))).all())
