"""The scalar protocol of the ops registry as f32 vector code, with transcendental functions.

``VectorMath`` has the methods that an op's ``scalar`` formula may call. Each works on f32 scalars
and vectors alike. What networks spend time on has a formula in f32; the rest is computed in f64
(``double``) and rounded once. Error bounds are measured by ``tests/test_vmath.py``.

Polynomials are Taylor series or published fits, named where they stand; range reductions are the
usual ones (Cody and Waite 1980).
"""

from __future__ import annotations

import math

from ..llvm.types import Value
from .short_trigonometry import ShortTrigonometry


class VectorMath(ShortTrigonometry):
    """Scalar formulas on f32, alone or in a LoopBuilder's vectors."""

    # --- functions ---

    def _exp_parts(self, x: Value) -> tuple[Value, Value]:
        """n and r with x = n ln 2 + r, |r| <= ln 2 / 2; n as a float, exactly an integer."""
        magic = self.const(12582912.0)  # 1.5 * 2**23: adding it rounds to the nearest integer
        n = self.sub(self.add(self.mul(x, self.const(math.log2(math.e))), magic), magic)
        r = self.lb.fma(n, self.const(-0.693359375), x)
        return n, self.lb.fma(n, self.const(2.12194440e-4), r)

    def _scale(self, x: Value, n: Value) -> Value:
        """x * 2**n for -252 <= n <= 252, in two factors so that neither overflows."""
        whole = self.b.fptosi(n, self._ints())
        half = self.b.ashr(whole, self._int(1))
        rest = self.b.sub(whole, half)
        for part in (half, rest):
            biased = self.b.shl(self.b.add(part, self._int(127)), self._int(23))
            x = self.mul(x, self._from_bits(biased))
        return x

    # exp(r) - 1 - r over r*r on |r| <= ln2/2, by Taylor: the first term left out is below 2e-9
    _EXP = [1 / math.factorial(k) for k in range(8, 1, -1)]

    def exp(self, x: Value) -> Value:
        """e**x, within 2 ulp on all floats; 0 and inf where the result is out of range."""
        low, high = self.const(-104.0), self.const(89.0)
        clamped = self.select(self.lt(x, low), low, x)
        clamped = self.select(self.gt(clamped, high), high, clamped)
        n, r = self._exp_parts(clamped)
        tail = self.lb.fma(self._polynomial(r, self._EXP), self.mul(r, r), r)
        return self._nan_or(x, self._scale(self.add(tail, self.const(1.0)), n))

    def expm1(self, x: Value) -> Value:
        """e**x - 1, within 2 ulp on all floats."""
        low, high = self.const(-20.0), self.const(89.0)
        clamped = self.select(self.lt(x, low), low, x)
        clamped = self.select(self.gt(clamped, high), high, clamped)
        n, r = self._exp_parts(clamped)
        tail = self.lb.fma(self._polynomial(r, self._EXP), self.mul(r, r), r)
        # Half of the result first, exactly as the whole: 2**128 is out of range, half of it is not.
        n = self.sub(n, self.const(1.0))
        minus = self.sub(self._scale(self.const(1.0), n), self.const(0.5))
        half = self.add(self._scale(tail, n), minus)
        result = self.add(half, half)
        result = self.select(self.eq(x, self.const(0.0)), x, result)
        return self._nan_or(x, result)

    # log(1+m) = m - m*m/2 + m*m*m*p(m) on sqrt(1/2)-1 <= m <= sqrt(2)-1: the coefficients of
    # Cephes' logf, a published minimax fit.
    _LOG = [
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ]

    def log(self, x: Value) -> Value:
        """Natural logarithm, within 2 ulp; -inf at 0, NaN below."""
        tiny = self.lt(x, self.const(1.17549435e-38))
        scaled = self.select(tiny, self.mul(x, self.const(8388608.0)), x)
        bits = self._to_bits(scaled)
        exponent = self.b.sub(self.b.lshr(bits, self._int(23)), self._int(126))
        mantissa = self._from_bits(
            self.b.or_(self.b.and_(bits, self._int(0x007FFFFF)), self._int(0x3F000000))
        )
        small = self.lt(mantissa, self.const(0.70710678))
        e = self.b.sitofp(exponent, self._kind)
        e = self.sub(e, self.select(small, self.const(1.0), self.const(0.0)))
        e = self.sub(e, self.select(tiny, self.const(23.0), self.const(0.0)))
        m = self.sub(
            self.add(mantissa, self.select(small, mantissa, self.const(0.0))), self.const(1.0)
        )
        square = self.mul(m, m)
        y = self.mul(self.mul(self._polynomial(m, self._LOG), m), square)
        y = self.lb.fma(e, self.const(-2.12194440e-4), y)
        y = self.lb.fma(square, self.const(-0.5), y)
        result = self.lb.fma(e, self.const(0.693359375), self.add(m, y))
        result = self.select(self.eq(x, self.const(0.0)), self.const(-math.inf), result)
        result = self.select(self.eq(x, self.const(math.inf)), x, result)
        return self._nan_or(
            x, self.select(self.lt(x, self.const(0.0)), self.const(math.nan), result)
        )

    def log1p(self, x: Value) -> Value:
        """log(1 + x), within 2 ulp: the rounding of 1 + x is put back as a correction."""
        one = self.const(1.0)
        u = self.add(one, x)
        correction = self.div(self.sub(x, self.sub(u, one)), u)
        result = self.add(self.log(u), correction)
        result = self.select(self.eq(u, one), x, result)
        result = self.select(self.eq(u, self.const(math.inf)), u, result)
        result = self.select(self.eq(u, self.const(0.0)), self.const(-math.inf), result)
        return self._nan_or(x, result)

    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent, within 3 ulp: through expm1(2|x|)."""
        magnitude = self.abs(x)
        capped = self.select(self.gt(magnitude, self.const(10.0)), self.const(10.0), magnitude)
        e = self.expm1(self.mul(capped, self.const(2.0)))
        ratio = self.div(e, self.add(e, self.const(2.0)))
        signed = self._with_sign(ratio, x)
        return self._nan_or(x, signed)

    # erf: Abramowitz and Stegun 7.1.26 is good to 1.5e-7 only in absolute terms, so near zero the
    # Taylor series takes over.
    _ERF_SMALL = [
        2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1))
        for k in range(9, -1, -1)
    ]
    _ERFC = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592]

    def erf(self, x: Value) -> Value:
        """Error function, within 4 ulp."""
        magnitude = self.abs(x)
        square = self.mul(x, x)
        near = self.mul(self._polynomial(square, self._ERF_SMALL), magnitude)
        t = self.div(
            self.const(1.0), self.lb.fma(magnitude, self.const(0.3275911), self.const(1.0))
        )
        tail = self.mul(self._polynomial(t, self._ERFC), t)
        far = self.sub(self.const(1.0), self.mul(tail, self.exp(self.neg(square))))
        result = self.select(self.lt(magnitude, self.const(1.0)), near, far)
        return self._nan_or(x, self._with_sign(result, x))

    # --- functions that are computed in f64 ---

    def log2(self, x: Value) -> Value:
        """Logarithm to base 2, within 1 ulp, of powers of 2 exact; -inf at 0, NaN below."""
        return self._doubled("log2", x)

    def log10(self, x: Value) -> Value:
        """Logarithm to base 10, within 1 ulp; -inf at 0, NaN below."""
        return self._doubled("log10", x)

    def sinh(self, x: Value) -> Value:
        """Hyperbolic sine, within 1 ulp on all floats."""
        return self._doubled("sinh", x)

    def cosh(self, x: Value) -> Value:
        """Hyperbolic cosine, within 1 ulp on all floats."""
        return self._doubled("cosh", x)

    def arcsinh(self, x: Value) -> Value:
        """Inverse hyperbolic sine, within 1 ulp on all floats."""
        return self._doubled("arcsinh", x)

    def arccosh(self, x: Value) -> Value:
        """Inverse hyperbolic cosine, within 1 ulp; NaN below 1."""
        return self._doubled("arccosh", x)

    def arctanh(self, x: Value) -> Value:
        """Inverse hyperbolic tangent, within 1 ulp; infinite at -1 and 1, NaN outside."""
        return self._doubled("arctanh", x)

    def cbrt(self, x: Value) -> Value:
        """Cube root, within 1 ulp on all floats."""
        return self._doubled("cbrt", x)

    def erfinv(self, x: Value) -> Value:
        """The y with erf(y) = x, within 1 ulp; infinite at -1 and 1, NaN outside."""
        return self._doubled("erfinv", x)

    def gamma(self, x: Value) -> Value:
        """The gamma function, within 1 ulp; NaN at negative poles."""
        return self._doubled("gamma", x)

    def gammaln(self, x: Value) -> Value:
        """log |gamma(x)|, within 2 ulp; infinite at the poles."""
        return self._doubled("gammaln", x)

    def power(self, x: Value, y: Value) -> Value:
        """x**y, within 1 ulp, with C's rules for 0, infinities, NaN and negative x."""
        return self._doubled("power", x, y)

    def hypot(self, x: Value, y: Value) -> Value:
        """sqrt(x*x + y*y) without overflow, within 1 ulp; an infinity wins over NaN."""
        return self._doubled("hypot", x, y)

    def mod(self, x: Value, y: Value) -> Value:
        """The remainder with the sign of y, within 1 ulp; 0 for y = 0."""
        return self._doubled("mod", x, y)
