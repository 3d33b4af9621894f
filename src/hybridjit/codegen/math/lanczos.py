"""The gamma function and its logarithm on f64, by Lanczos' approximation.

gamma(x) = sum(x) (x + G - 1/2)^(x - 1/2) / e^(x + G - 1/2) for x > 0, where the sum is a rational
function of degree 12 (C. Lanczos 1964) with coefficients for 53 bits (after G. R. Pugh 2004). Below
zero the reflection gamma(x) gamma(-x) = -pi / (x sin(pi x)).

Input: an ElementaryMath ``m`` and an f64 scalar or vector. Output: the same type.
"""

from __future__ import annotations

import math

from ..llvm.types import Value
from .elementary import ElementaryMath

G = 6.024680040776729583740234375
# Numerator and denominator of the sum, highest power first; the denominator is x(x + 1)...(x + 11).
NUMERATOR = (
    2.5066282746310002701649081771338373386264310793408,
    210.82427775157934587250973392071336271166969580291,
    8071.6720023658162106380029022722506138218516325024,
    186056.26539522349504029498971604569928220784236328,
    2876370.6289353724412254090516208496135991145378768,
    31426415.585400194380614231628318205362874684987640,
    248874557.86205415651146038641322942321632125127801,
    1439720407.3117216736632230727949123939715485786372,
    6039542586.3520280050642916443072979210699388420708,
    17921034426.037209699919755754458931112671403265390,
    35711959237.355668049440185451547166705960488635843,
    42919803642.649098768957899047001988850926355848959,
    23531376880.410759688572007674451636754734846804940,
)
DENOMINATOR = (
    1.0, 66.0, 1925.0, 32670.0, 357423.0, 2637558.0, 13339535.0, 45995730.0, 105258076.0,
    150917976.0, 120543840.0, 39916800.0, 0.0,
)  # fmt: skip


def gamma(m: ElementaryMath, x: Value) -> Value:
    """The gamma function; NaN at its negative poles, an infinity of zero's sign at zero."""
    zero, size = m.const(0.0), m.abs(x)
    # Beyond 200 the result is infinite, or zero for negative x that are not poles.
    kept = m.select(m.gt(size, m.const(200.0)), m.const(200.0), size)
    shifted, lost = m._two_sum(kept, m.const(G - 0.5))
    half = m.power(shifted, m.mul(m.sub(kept, m.const(0.5)), m.const(0.5)))
    half = m.div(half, m.exp(m.mul(shifted, m.const(0.5))))
    # The effect of the rounding error of x + G - 1/2 on the power and the exponential together
    bend = m.div(m.mul(lost, m.const(G)), shifted)
    series = _series(m, kept)
    above = m.mul(m.mul(half, m.lb.fma(m.neg(bend), series, series)), half)
    sine = _sine_of_turns(m, size)
    turned = m.div(m.const(-math.pi), m.mul(m.mul(kept, sine), series))
    below = m.div(m.div(m.lb.fma(bend, turned, turned), half), half)
    is_whole = m.eq(m.floor(x), x)
    above = m.select(is_whole, _factorial(m, kept, above), above)
    result = m.select(m.lt(x, zero), below, above)
    is_pole = m.mask_and(m.lt(x, zero), is_whole)
    result = m.select(is_pole, m.const(math.nan), result)
    at_zero = m.lt(size, m.const(1e-17))
    result = m.select(at_zero, m.div(m.const(1.0), x), result)
    return m.select(m.eq(x, m.const(math.inf)), x, m._nan_or(x, result))


def _factorial(m: ElementaryMath, x: Value, near: Value) -> Value:
    """The factorial that ``near`` approximates, exact up to 20!, which fits in 64 bits.

    From 16! on all are multiples of 2**15.
    """
    large = m.gt(near, m.const(2e13))
    down, up = (m.select(large, m.const(2.0**k), m.const(1.0)) for k in (-15, 15))
    exact = m.mul(m._nearest(m.mul(near, down)), up)
    return m.select(m.gt(x, m.const(21.0)), near, exact)


def gammaln(m: ElementaryMath, x: Value) -> Value:
    """log |gamma(x)|; infinite at the poles and at both infinities."""
    zero, one, size = m.const(0.0), m.const(1.0), m.abs(x)
    kept = m.select(m.lt(size, m.const(1e-20)), one, size)
    power = m.sub(m.log(m.add(kept, m.const(G - 0.5))), one)
    above = m.sub(m.log(_series(m, kept)), m.const(G))
    above = m.add(above, m.mul(m.sub(kept, m.const(0.5)), power))
    sine = m.abs(_sine_of_turns(m, kept))
    below = m.sub(m.sub(m.const(math.log(math.pi)), m.log(m.mul(sine, kept))), above)
    result = m.select(m.lt(x, zero), below, above)
    result = m.select(m.lt(size, m.const(1e-20)), m.neg(m.log(size)), result)
    is_whole = m.eq(m.floor(x), x)
    result = m.select(m.mask_and(m.le(x, zero), is_whole), m.const(math.inf), result)
    is_root = m.mask_or(m.eq(x, one), m.eq(x, m.const(2.0)))
    result = m.select(is_root, zero, result)
    infinite = m.eq(size, m.const(math.inf))
    return m._nan_or(x, m.select(infinite, m.const(math.inf), result))


def _series(m: ElementaryMath, x: Value) -> Value:
    """The rational function at x > 0; from 5 on in 1/x, whose powers stay in range."""
    near = m.lt(x, m.const(5.0))
    t = m.select(near, x, m.div(m.const(1.0), x))
    sums = []
    for table in (NUMERATOR, DENOMINATOR):
        total = m.const(0.0)
        for up, down in zip(table, reversed(table)):
            total = m.lb.fma(total, t, m.select(near, m.const(up), m.const(down)))
        sums.append(total)
    return m.div(*sums)


def _sine_of_turns(m: ElementaryMath, x: Value) -> Value:
    """sin(pi x) for x >= 0, exact at integers."""
    whole = m.floor(m.add(x, m.const(0.5)))
    part = m.sub(x, whole)
    sine = m.sin(m.mul(part, m.const(math.pi)))
    half = m.mul(whole, m.const(0.5))
    return m.select(m.ne(m.floor(half), half), m.neg(sine), sine)
