"""Sine, cosine, tangent and their inverses on f32, within few units in the last place everywhere.

Up to 2**17 the argument is reduced by pi/2 in three parts, whose products a fused multiply-add
computes exactly (Cody and Waite 1980). If a lane is larger, or the target has no FMA, f64 is used:
``trigonometry``. The polynomials of sine and cosine are Taylor's; those of the inverses are Cephes'
(asinf, atanf), published minimax fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..llvm import ir
from ..llvm.types import F64, Value
from .arithmetic import FloatArithmetic
from .double import DoubleMath

_FARTHEST = 2.0**17
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which the low bits contain


def _three_parts(value: float, rest: float) -> list[float]:
    """value + rest as a sum of three floats of 24 bits."""
    parts = []
    for _ in range(3):
        part = float(np.float32(value))
        parts.append(part)
        value, rest = (value - part) + rest, 0.0
    return parts


_HALF_PI = _three_parts(math.pi / 2, 6.123233995736766e-17)
# sin(r) - r over r**3 and cos(r) - 1 + r*r/2 over r**4 on |r| <= pi/4: truncation error 3e-9
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(4, 0, -1)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(5, 1, -1)]
# arcsin(x) - x over x**3, in x*x on |x| <= 1/2; arctan(x) - x over x**3 on |x| <= tan(pi/8)
_ARCSIN = [4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1]
_ARCTAN = [8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1]

# A function of DoubleMath.
Exact = Callable[..., Value]


class ShortTrigonometry(FloatArithmetic):
    """The circular functions on f32, and the evaluation of any function in f64."""

    def _doubled(self, exact: Exact, *values: Value) -> Value:
        """``exact`` of the values as f64, rounded once."""
        kind = self._kind
        vector = isinstance(kind, ir.VectorType)
        wide = [self.b.fpext(v, ir.VectorType(F64, kind.count) if vector else F64) for v in values]
        return self.b.fptrunc(exact(DoubleMath(self.lb, wide[0]), *wide), kind)

    def sin(self, x: Value) -> Value:
        """Sine, within 2 ulp on all floats; NaN for the infinities."""
        return self._near(DoubleMath.sin, x, self._near_sine)

    def cos(self, x: Value) -> Value:
        """Cosine, within 2 ulp on all floats; NaN for the infinities."""
        return self._near(DoubleMath.cos, x, self._near_cosine)

    def tan(self, x: Value) -> Value:
        """Tangent, within 4 ulp on all floats; NaN for the infinities."""
        return self._near(DoubleMath.tan, x, self._near_tangent)

    def _near(self, exact: Exact, x: Value, near: Callable[[Value], Value]) -> Value:
        """``near`` of x; for lanes that are too large for it, the function in f64."""
        if not self.lb.target.has_fma:
            return self._doubled(exact, x)
        large = self.gt(self.abs(x), self.const(_FARTHEST))
        result = near(self.select(large, self.const(0.0), x))
        room = self.lb.scratch(result.type)
        self.b.store(result, room)
        with self.b.if_then(self._any(large)):
            self.b.store(self.select(large, self._doubled(exact, x), result), room)
        return self.b.load(room, typ=result.type)

    def _any(self, mask: Value) -> Value:
        """Whether a lane of the mask is set; an i1."""
        if not isinstance(mask.type, ir.VectorType):
            return mask
        bits = ir.IntType(mask.type.count)
        return self.b.icmp_signed("!=", self.b.bitcast(mask, bits), ir.Constant(bits, 0))

    def _reduced(self, x: Value) -> tuple[Value, Value]:
        """r = x - n pi/2 with |r| <= pi/4, and the bits of n."""
        magic = self.const(_MAGIC)
        shifted = self.lb.fma(x, self.const(2 / math.pi), magic)
        n, r = self.sub(shifted, magic), x
        for part in _HALF_PI:
            r = self.lb.fma(n, self.const(-part), r)
        return r, self._to_bits(shifted)

    def _sine(self, r: Value) -> Value:
        square = self.mul(r, r)
        return self.lb.fma(self.mul(square, r), self._polynomial(square, _SIN), r)

    def _cosine(self, r: Value) -> Value:
        square = self.mul(r, r)
        near = self.lb.fma(square, self.const(-0.5), self.const(1.0))
        return self.lb.fma(self.mul(square, square), self._polynomial(square, _COS), near)

    def _odd(self, n: Value) -> Value:
        return self.b.icmp_signed("!=", self.b.and_(n, self._int(1)), self._int(0))

    def _turned(self, x: Value, n: Value) -> Value:
        """x with its sign flipped if the second bit of n is set."""
        sign = self.b.and_(self.b.shl(n, self._int(30)), self._int(-(2**31)))
        return self._from_bits(self.b.xor(self._to_bits(x), sign))

    def _near_sine(self, x: Value) -> Value:
        r, n = self._reduced(x)
        size = self.select(self._odd(n), self._cosine(r), self._sine(r))
        return self.select(self.eq(x, self.const(0.0)), x, self._turned(size, n))

    def _near_cosine(self, x: Value) -> Value:
        r, n = self._reduced(x)
        size = self.select(self._odd(n), self._sine(r), self._cosine(r))
        return self._turned(size, self.b.add(n, self._int(1)))

    def _near_tangent(self, x: Value) -> Value:
        r, n = self._reduced(x)
        sine, cosine, odd = self._sine(r), self._cosine(r), self._odd(n)
        above = self.select(odd, self.neg(cosine), sine)
        ratio = self.div(above, self.select(odd, sine, cosine))
        return self.select(self.eq(x, self.const(0.0)), x, ratio)

    # --- inverses ---

    def _arcsin_near(self, x: Value, square: Value) -> Value:
        """arcsin(x) on |x| <= 1/2."""
        return self.lb.fma(self.mul(x, square), self._polynomial(square, _ARCSIN), x)

    def _halved(self, size: Value) -> tuple[Value, Value, Value]:
        """Whether size > 1/2, and the argument of the arcsine there with its square.

        arcsin(size) = pi/2 - 2 arcsin(sqrt((1 - size)/2)) there, else arcsin(size) itself.
        """
        half = self.const(0.5)
        far = self.gt(size, half)
        part = self.mul(self.sub(self.const(1.0), size), half)
        square = self.select(far, part, self.mul(size, size))
        return far, self.select(far, self.sqrt(part), size), square

    def arcsin(self, x: Value) -> Value:
        """Inverse sine, within 2 ulp; NaN outside of -1 to 1."""
        far, y, square = self._halved(self.abs(x))
        near = self._arcsin_near(y, square)
        beyond = self.lb.fma(self.const(-2.0), near, self.const(_HALF_PI[0]))
        beyond = self.add(beyond, self.const(_HALF_PI[1]))
        return self._nan_or(x, self._with_sign(self.select(far, beyond, near), x))

    def arccos(self, x: Value) -> Value:
        """Inverse cosine, within 2 ulp; NaN outside of -1 to 1."""
        far, y, square = self._halved(self.abs(x))
        near = self._arcsin_near(y, square)
        twice = self.add(near, near)
        below = self.gt(self.const(0.0), x)
        signed = self.select(below, self.neg(near), near)
        middle = self.add(self.sub(self.const(_HALF_PI[0]), signed), self.const(_HALF_PI[1]))
        turned = self.add(self.sub(self.const(2 * _HALF_PI[0]), twice), self.const(2 * _HALF_PI[1]))
        result = self.select(far, self.select(below, turned, twice), middle)
        return self._nan_or(x, result)

    def arctan(self, x: Value) -> Value:
        """Arctangent, within 2.5 ulp on all floats."""
        size, one = self.abs(x), self.const(1.0)
        far = self.gt(size, self.const(math.tan(3 * math.pi / 8)))
        middle = self.gt(size, self.const(math.tan(math.pi / 8)))
        above = self.select(far, self.const(-1.0), self.select(middle, self.sub(size, one), size))
        below = self.select(far, size, self.select(middle, self.add(size, one), one))
        t = self.div(above, below)
        square = self.mul(t, t)
        zero = self.const(0.0)
        base, rest = (
            self.select(far, self.const(part), self.select(middle, self.const(part / 2), zero))
            for part in _HALF_PI[:2]
        )
        curve = self.lb.fma(self.mul(t, square), self._polynomial(square, _ARCTAN), rest)
        return self._nan_or(x, self._with_sign(self.add(base, self.add(t, curve)), x))
