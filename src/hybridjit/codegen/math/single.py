"""The scalar protocol of the operator registry as f32 vector code, with transcendental functions.

``VectorMath`` has the methods that an operator's ``scalar`` formula may call. Each works on f32
scalars and vectors. Functions that take much of networks' time have a formula in f32; the others
are computed in f64 (``double``) and rounded once. Error bounds are measured by
``tests/unit/test_vmath.py``.

Polynomials are Taylor series or published fits, which comments name; range reductions are the usual
ones (Cody and Waite 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..llvm import ir
from ..llvm.types import F32, I16, I32, Value, constant_of
from .double import DoubleMath
from .short_trigonometry import ShortTrigonometry
from .tables import ENTRIES, OddTable, odd_table

_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to the nearest integer
# The narrowest intervals whose last one begins where the function is 1 in single precision.
_TANH_TABLE, _ERF_TABLE = odd_table(math.tanh, 39 / 64, 7), odd_table(math.erf, 67 / 256, 5)


class VectorMath(ShortTrigonometry):
    """Scalar formulas on f32 scalars or vectors of a LoopBuilder."""

    # --- functions ---

    def _exp_parts(self, x: Value) -> tuple[Value, Value]:
        """n and r with x = n ln 2 + r, |r| <= ln 2 / 2; n as a float, exactly an integer."""
        magic = self.const(_MAGIC)
        n = self.sub(self.add(self.mul(x, self.const(math.log2(math.e))), magic), magic)
        r = self.lb.fma(n, self.const(-0.693359375), x)
        return n, self.lb.fma(n, self.const(2.12194440e-4), r)

    def _scale(self, x: Value, n: Value) -> Value:
        """x * 2**n for -252 <= n <= 252; by one instruction, or in two factors of which neither
        overflows.
        """
        if self._kind == ir.VectorType(F32, 16) and self.lb.target.has_scaling:
            return self._scaled_at_once(x, n)
        whole = self.b.fptosi(n, self._ints())
        half = self.b.ashr(whole, self._int(1))
        rest = self.b.sub(whole, half)
        for part in (half, rest):
            biased = self.b.shl(self.b.add(part, self._int(127)), self._int(23))
            x = self.mul(x, self._from_bits(biased))
        return x

    def _scaled_at_once(self, x: Value, n: Value) -> Value:
        """vscalefps, which has no generic LLVM instruction: all lanes, default rounding."""
        kind, as_usual = self._kind, ir.Constant(I32, 4)
        types = [kind, kind, kind, I16, I32]
        scale = self.lb.declare("llvm.x86.avx512.mask.scalef.ps.512", kind, types)
        return self.b.call(scale, [x, n, x, ir.Constant(I16, -1), as_usual])

    # exp(r) - 1 - r over r*r on |r| <= ln2/2, by Taylor: the first omitted term is below 2e-9
    _EXP = [1 / math.factorial(k) for k in range(8, 1, -1)]

    def exp(self, x: Value) -> Value:
        """e**x, within 2 ulp on all floats; 0 and inf where the result is out of range.

        On targets with table look-ups by lane, powers of 2 in sixteenths are a table.
        """
        low, high = self.const(-104.0), self.const(89.0)
        clamped = self.select(self.lt(x, low), low, x)
        clamped = self.select(self.gt(clamped, high), high, clamped)
        if self.lb.target.has_tables:
            return self._in_16_lanes(clamped, VectorMath._exp_by_table)
        n, r = self._exp_parts(clamped)
        tail = self.lb.fma(self._polynomial(r, self._EXP), self.mul(r, r), r)
        return self._nan_or(x, self._scale(self.add(tail, self.const(1.0)), n))

    def exp_of_distance(self, x: Value) -> Value:
        """e**x for x <= 0, with an absolute error of at most 1.2e-7; propagates NaN.

        With look-ups by lane, it has half the multiplications of :meth:`exp`: the product with
        log2(e) is rounded, whose error grows with the distance as slowly as the result shrinks.
        """
        if not self.lb.target.has_tables:
            return self.exp(x)
        low = self.const(-104.0)
        clamped = self.select(self.lt(x, low), low, x)
        return self._in_16_lanes(clamped, VectorMath._exp_of_distance_by_table)

    def _exp_of_distance_by_table(self, x: Value) -> Value:
        """2**floor(n) 2**(n - floor(n)) 2**r with n in sixteenths, x log2(e) = n + r."""
        magic, factor = self.const(_MAGIC / ENTRIES), self.const(math.log2(math.e))
        shifted = self.lb.fma(x, factor, magic)
        n = self.sub(shifted, magic)
        r = self.lb.fma(x, factor, self.neg(n))
        roots = tuple(2 ** (k / ENTRIES) for k in range(ENTRIES))
        root = self._entry(roots, self._to_bits(shifted))
        slope, square, cube = (math.log(2) ** k / math.factorial(k) for k in (1, 2, 3))
        tail = self.lb.fma(self.const(cube), r, self.const(square))
        tail = self.lb.fma(tail, r, self.const(slope))
        return self._scaled_at_once(self.lb.fma(tail, self.mul(root, r), root), n)

    def _short_exp(self, x: Value) -> Value:
        """e**x, within 2 ulp for -87 <= x <= 88; undefined for NaN."""
        magic = self.const(_MAGIC)
        shifted = self.lb.fma(x, self.const(math.log2(math.e)), magic)
        n = self.sub(shifted, magic)
        r = self.lb.fma(n, self.const(-0.693359375), x)
        r = self.lb.fma(n, self.const(2.12194440e-4), r)
        tail = self.lb.fma(self._polynomial(r, self._EXP), self.mul(r, r), r)
        # The lowest bits of the sum that rounded are n: they are added to the exponent.
        bits = self.b.shl(self._to_bits(shifted), self._int(23))
        return self._from_bits(self.b.add(self._to_bits(self.add(tail, self.const(1.0))), bits))

    def expm1(self, x: Value) -> Value:
        """e**x - 1, within 2 ulp on all floats."""
        low, high = self.const(-20.0), self.const(89.0)
        clamped = self.select(self.lt(x, low), low, x)
        clamped = self.select(self.gt(clamped, high), high, clamped)
        n, r = self._exp_parts(clamped)
        tail = self.lb.fma(self._polynomial(r, self._EXP), self.mul(r, r), r)
        # Half of the result first, with the same bits: 2**128 is out of range, half of it is in
        # range.
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
        result = self._log_near_one(m, e)
        result = self.select(self.eq(x, self.const(0.0)), self.const(-math.inf), result)
        result = self.select(self.eq(x, self.const(math.inf)), x, result)
        return self._nan_or(
            x, self.select(self.lt(x, self.const(0.0)), self.const(math.nan), result)
        )

    def log1p(self, x: Value) -> Value:
        """log(1 + x), within 2 ulp: the rounding error of 1 + x is added to the mantissa."""
        one, b = self.const(1.0), self.b
        u = self.add(one, x)
        bits = self._to_bits(u)
        # The exponent for a mantissa from sqrt(1/2) to sqrt(2), whose bits are 0x3F3504F3 there.
        exponent = b.ashr(b.sub(bits, self._int(0x3F3504F3)), self._int(23))
        shift = b.shl(exponent, self._int(23))
        mantissa = self.sub(self._from_bits(b.sub(bits, shift)), one)
        # 2 to the power of minus the exponent, or 0 where that would be 2**-128.
        twice = self._from_bits(b.sub(self._int(0x40000000), shift))
        scale = self.mul(twice, self.const(0.5))
        m = self.lb.fma(self.sub(x, self.sub(u, one)), scale, mantissa)
        result = self._log_near_one(m, b.sitofp(exponent, self._kind))
        result = self.select(self.eq(x, self.const(0.0)), x, result)
        result = self.select(self.eq(u, self.const(0.0)), self.const(-math.inf), result)
        result = self.select(self.lt(u, self.const(0.0)), self.const(math.nan), result)
        return self.select(self.lt(x, self.const(math.inf)), result, x)  # also NaN

    def _log_near_one(self, m: Value, e: Value) -> Value:
        """log(1 + m) + e log(2), for m as in ``_LOG``."""
        square = self.mul(m, m)
        y = self.mul(self.mul(self._polynomial(m, self._LOG), m), square)
        y = self.lb.fma(e, self.const(-2.12194440e-4), y)
        y = self.lb.fma(square, self.const(-0.5), y)
        return self.lb.fma(e, self.const(0.693359375), self.add(m, y))

    # tanh(x)/x - 1 over x*x, in x*x on |x| <= 0.6, and the three of erf: minimax fits with relative
    # errors of the result of at most 2e-8.
    _TANH = [-5.8951582e-3, 2.07959718e-2, -5.37838303e-2, 1.33319241e-1, -3.3333298e-1]

    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent, within 2 ulp: 1 - 2 / (exp(2|x|) + 1), by a polynomial near 0.

        By polynomials only, on targets with look-ups of coefficients by lane: 0.6 of the time.
        """
        if self.lb.target.has_tables:
            return self._in_16_lanes(x, lambda m, v: m._by_table(v, _TANH_TABLE))
        one, two, size = self.const(1.0), self.const(2.0), self.abs(x)
        square = self.mul(x, x)
        near = self.lb.fma(self._polynomial(square, self._TANH), self.mul(square, size), size)
        capped = self._at_most(size, 10.0)
        grown = self.add(self._short_exp(self.mul(capped, two)), one)
        far = self.sub(one, self.div(two, grown))
        result = self.select(self.lt(size, self.const(0.6)), near, far)
        return self._nan_or(x, self._with_sign(result, x))

    # erf(x)/x - 1 in x*x on |x| <= 0.93, and log(1 - erf(x)) in x on 0.92 <= x <= 4, beyond which
    # erf is 1.
    _ERF = [-5.95374179e-4, 4.98594062e-3, -2.67617199e-2, 1.12816825e-1, -3.76124811e-1]
    _ERF += [1.28379148e-1]
    _LOG_ERFC = [1.95937239e-4, -3.04321742e-3, 2.22269204e-2, -1.03931597e-1, -6.37182247e-1]
    _LOG_ERFC += [-1.12767563, -1.95675571e-4]

    def erf(self, x: Value) -> Value:
        """Error function, within 2 ulp: 1 - exp(polynomial), near 0 by a polynomial only.

        By polynomials only, on targets with look-ups of coefficients by lane: 0.4 of the time.
        """
        if self.lb.target.has_tables:
            return self._in_16_lanes(x, lambda m, v: m._by_table(v, _ERF_TABLE))
        size = self._at_most(self.abs(x), 4.0)
        near = self.lb.fma(self._polynomial(self.mul(size, size), self._ERF), size, size)
        rest = self._short_exp(self._polynomial(size, self._LOG_ERFC))
        far = self.sub(self.const(1.0), rest)
        result = self.select(self.lt(size, self.const(0.93)), near, far)
        return self._nan_or(x, self._with_sign(result, x))

    def _in_16_lanes(self, x: Value, function: Callable[[VectorMath, Value], Value]) -> Value:
        """A function with table look-ups, on any number of lanes, with the same bits."""
        if self._kind == ir.VectorType(F32, ENTRIES):
            return function(self, x)
        zeros, first = constant_of(ir.VectorType(F32, ENTRIES), 0.0), ir.Constant(I32, 0)
        wide = VectorMath(self.lb, zeros)
        if not isinstance(self._kind, ir.VectorType):
            result = function(wide, self.b.insert_element(zeros, x, first))
            return self.b.extract_element(result, first)
        if self._kind.count > ENTRIES:
            parts = (range(i, i + ENTRIES) for i in range(0, self._kind.count, ENTRIES))
            return self._joined([function(wide, self.lb.shuffle(x, part)) for part in parts])
        few = list(range(self._kind.count))
        lanes = few + [0] * (ENTRIES - len(few))
        return self.lb.shuffle(function(wide, self.lb.shuffle(x, lanes)), few)

    def _joined(self, parts: list[Value]) -> Value:
        """Vectors of one type, a power of 2 of them, one after the other in a vector."""
        while len(parts) > 1:
            count = 2 * parts[0].type.count
            order = ir.Constant(ir.VectorType(I32, count), list(range(count)))
            pairs = zip(parts[::2], parts[1::2])
            parts = [self.b.shuffle_vector(low, high, order) for low, high in pairs]
        return parts[0]

    def _exp_by_table(self, x: Value) -> Value:
        """e**x = 2**floor(n) 2**(n - floor(n)) e**r, n in sixteenths; propagates NaN."""
        # Adding 1.5 * 2**19 rounds to sixteenths, whose number is then in the lowest bits.
        magic = self.const(_MAGIC / ENTRIES)
        shifted = self.lb.fma(x, self.const(math.log2(math.e)), magic)
        n = self.sub(shifted, magic)
        r = self.lb.fma(n, self.const(-0.693359375), x)
        r = self.lb.fma(n, self.const(2.12194440e-4), r)
        roots = tuple(2 ** (k / ENTRIES) for k in range(ENTRIES))
        root = self._entry(roots, self._to_bits(shifted))
        tail = self.mul(self.lb.fma(r, self.const(1 / 6), self.const(1 / 2)), r)
        tail = self.lb.fma(tail, r, r)
        return self._scaled_at_once(self.lb.fma(root, tail, root), n)

    def _by_table(self, x: Value, table: OddTable) -> Value:
        """The function of a table: each lane looks up its coefficients; propagates NaN."""
        size = self._at_most(self.abs(x), table.limit)
        # The lowest bits of the sum that rounded are the number of the interval.
        shifted = self.lb.fma(size, self.const(1 / table.width), self.const(_MAGIC))
        number = self.sub(shifted, self.const(_MAGIC))
        distance = self.lb.fma(number, self.const(-table.width), size)
        constant, *columns = (self._entry(c, self._to_bits(shifted)) for c in table.columns)
        result = columns.pop()
        while columns:
            result = self.lb.fma(result, distance, columns.pop())
        near = self.eq(number, self.const(0.0))
        result = self.lb.fma(result, distance, self.select(near, size, constant))
        return self._with_sign(result, x)

    def _entry(self, column: tuple[float, ...], index: Value) -> Value:
        """In each lane, the element of the column that the lowest four bits of its index select."""
        kind, element = self._kind, self._kind.element
        numbers = ir.Constant(kind, [ir.Constant(element, number) for number in column])
        look_up = self.lb.declare("llvm.x86.avx512.permvar.sf.512", kind, [kind, index.type])
        return self.b.call(look_up, [numbers, index])

    def _at_most(self, x: Value, limit: float) -> Value:
        """The minimum of x and limit; propagates NaN."""
        return self.select(self.gt(x, self.const(limit)), self.const(limit), x)

    # --- functions that are computed in f64 ---

    def log2(self, x: Value) -> Value:
        """Logarithm to base 2, within 1 ulp, exact for powers of 2; -inf at 0, NaN below."""
        return self._doubled(DoubleMath.log2, x)

    def log10(self, x: Value) -> Value:
        """Logarithm to base 10, within 1 ulp; -inf at 0, NaN below."""
        return self._doubled(DoubleMath.log10, x)

    def sinh(self, x: Value) -> Value:
        """Hyperbolic sine, within 1 ulp on all floats."""
        return self._doubled(DoubleMath.sinh, x)

    def cosh(self, x: Value) -> Value:
        """Hyperbolic cosine, within 1 ulp on all floats."""
        return self._doubled(DoubleMath.cosh, x)

    def arcsinh(self, x: Value) -> Value:
        """Inverse hyperbolic sine, within 1 ulp on all floats."""
        return self._doubled(DoubleMath.arcsinh, x)

    def arccosh(self, x: Value) -> Value:
        """Inverse hyperbolic cosine, within 1 ulp; NaN below 1."""
        return self._doubled(DoubleMath.arccosh, x)

    def arctanh(self, x: Value) -> Value:
        """Inverse hyperbolic tangent, within 1 ulp; infinite at -1 and 1, NaN outside."""
        return self._doubled(DoubleMath.arctanh, x)

    def cbrt(self, x: Value) -> Value:
        """Cube root, within 1 ulp on all floats."""
        return self._doubled(DoubleMath.cbrt, x)

    def erfinv(self, x: Value) -> Value:
        """The y with erf(y) = x, within 1 ulp; infinite at -1 and 1, NaN outside."""
        return self._doubled(DoubleMath.short_erfinv, x)

    def gamma(self, x: Value) -> Value:
        """The gamma function, within 1 ulp; NaN at negative poles."""
        return self._doubled(DoubleMath.gamma, x)

    def gammaln(self, x: Value) -> Value:
        """log |gamma(x)|, within 2 ulp; infinite at the poles."""
        return self._doubled(DoubleMath.gammaln, x)

    def power(self, x: Value, y: Value) -> Value:
        """x**y, within 1 ulp, with C's rules for 0, infinities, NaN and negative x."""
        return self._doubled(DoubleMath.power, x, y)

    def hypot(self, x: Value, y: Value) -> Value:
        """sqrt(x*x + y*y) without overflow, within 1 ulp; an infinity wins over NaN."""
        return self._doubled(DoubleMath.hypot, x, y)

    def mod(self, x: Value, y: Value) -> Value:
        """The remainder with the sign of y, within 1 ulp; 0 for y = 0."""
        return self._doubled(DoubleMath.mod, x, y)
