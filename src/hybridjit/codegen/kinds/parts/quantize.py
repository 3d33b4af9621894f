"""Quantization of float32 vectors to bytes, with a rounding conversion and without division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ....ops.quantized import limits
from ...llvm.builder import LoopBuilder
from ...llvm.elements import with_element
from ...llvm.types import I8, I16, I32, Type, Value, constant_of, intrinsic_suffix, vector_of

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
    whole = to_levels(b, x, scale, zero, dtype, multiply, _within)
    return b.b.trunc(whole, with_element(whole.type, I8))


# Limits a vector to an interval.
Limit = Callable[[LoopBuilder, Value, float, float], Value]


def to_levels(
    b: LoopBuilder,
    x: Value,
    scale: float,
    zero: int,
    dtype: np.dtype,
    multiply: bool,
    limit: Limit | None = None,
) -> Value:
    """The int32 values of :func:`to_bytes`.

    By default, values below the smallest byte may remain unlimited, and infinity and NaN may become
    the smallest integer, from which no zero point is subtracted.
    """
    limit = limit or (_within if zero < 0 else _at_most)
    single = float(np.float32(scale))
    low, high = (bound - zero for bound in limits(dtype))
    if multiply or not _LEAST < single < _MOST:
        factor = b.constant(single, like=x)
        if single != 1.0:
            x = b.b.fmul(x, factor) if multiply else b.b.fdiv(x, factor)
        whole = _rounded(b, limit(b, x, low, high))
    else:
        limited = limit(b, x, low * single, high * single)
        whole = _rounded(b, limited if single == 1.0 else _quotient(b, limited, single))
    return b.b.add(whole, constant_of(whole.type, zero)) if zero else whole


def _within(b: LoopBuilder, x: Value, low: float, high: float) -> Value:
    """x limited to [low, high]; NaN becomes ``low``."""
    least, most = b.constant(low, like=x), b.constant(high, like=x)
    above = b.b.select(b.b.fcmp_ordered(">", x, least), x, least)
    return b.b.select(b.b.fcmp_ordered("<", above, most), above, most)


def _at_most(b: LoopBuilder, x: Value, low: float, high: float) -> Value:
    """x, or ``high`` where it is greater; NaN stays."""
    most = b.constant(high, like=x)
    return b.b.select(b.b.fcmp_ordered("<", most, x), most, x)


# Instructions that narrow with saturation, by the number of bytes of a vector: from 32 to 16 bits,
# and from 16 to 8, to int8 or uint8.
_PACKS = {
    16: ("sse2.packssdw.128", "sse2.packsswb.128", "sse2.packuswb.128"),
    32: ("avx2.packssdw", "avx2.packsswb", "avx2.packuswb"),
    64: ("avx512.packssdw.512", "avx512.packsswb.512", "avx512.packuswb.512"),
}
# Vectors of int32 whose bytes fill a vector.
TOGETHER = 4


def has_packing(b: LoopBuilder) -> bool:
    """Whether instructions pack vectors of int32 to bytes."""
    return b.target.triple.startswith("x86_64") and 4 * b.lanes in _PACKS


def packed(b: LoopBuilder, words: Sequence[Value], dtype: np.dtype, in_order: bool) -> Value:
    """The saturated bytes of four vectors of int32 in one vector.

    They are in the order of the words with ``in_order``; otherwise 128-bit lane i has the four
    words of lane i of each vector.
    """
    names, lanes = _PACKS[4 * b.lanes], b.lanes
    narrow = names[1] if dtype == np.int8 else names[2]
    shorts = vector_of(I16, 2 * lanes)
    low, high = (_pack(b, names[0], shorts, *words[i : i + 2]) for i in (0, 2))
    made = _pack(b, narrow, vector_of(I8, 4 * lanes), low, high)
    if not in_order or lanes == TOGETHER:
        return made
    parts = lanes // TOGETHER
    order = [TOGETHER * part + k for k in range(TOGETHER) for part in range(parts)]
    whole = b.shuffle(b.b.bitcast(made, vector_of(I32, lanes)), order)
    return b.b.bitcast(whole, made.type)


def _pack(b: LoopBuilder, name: str, kind: Type, low: Value, high: Value) -> Value:
    function = b.declare(f"llvm.x86.{name}", kind, [low.type, high.type])
    return b.b.call(function, [low, high])


def _rounded(b: LoopBuilder, x: Value) -> Value:
    """The nearest int32, ties to even."""
    kind = with_element(x.type, I32)
    name = f"llvm.lrint.{intrinsic_suffix(kind)}.{intrinsic_suffix(x.type)}"
    return b.b.call(b.declare(name, kind, [x.type]), [x])


def _quotient(b: LoopBuilder, x: Value, scale: float) -> Value:
    """x / scale, or a value that rounds to the same integer: x times both parts of 1 / scale.

    On Zen 4, a division of vectors takes 10 cycles, two products take one.
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

    Both are monotone in x, so that comparing the floats near each tie is sufficient.
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
