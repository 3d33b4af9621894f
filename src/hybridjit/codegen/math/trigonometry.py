"""Sine, cosine, tangent and their inverses on f64, within few units in the last place everywhere.

Arguments up to 2**20 are reduced by pi/2 in four parts (Cody and Waite), larger ones by 192 bits of
2/pi selected by the argument's exponent (Payne and Hanek 1983), one lane at a time: large arguments
are rare, so only their accuracy matters. Polynomials are Taylor's.
"""

from __future__ import annotations

import math

from ..llvm import ir
from ..llvm.types import F64, I64, Value
from .exact import ExactArithmetic

_TABLE_WORDS = 20  # 64 zeros and 1216 bits of 2/pi: the largest exponent needs 1023 + 192


def _pi_bits(bits: int) -> int:
    """pi * 2**bits, truncated: Machin's formula in integers."""
    one = 1 << (bits + 32)

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> 32


def _parts_of(value: int, bits: int, sizes: tuple[int, ...]) -> list[float]:
    """value / 2**bits as a sum of floats with these numbers of bits."""
    parts = []
    for size in sizes:
        shift = max(value.bit_length() - size, 0)
        top = value >> shift << shift
        parts.append(math.ldexp(top >> shift, shift - bits))
        value -= top
    return parts


_PI = _pi_bits(1400)
# Three parts of 33 bits: their products with integers of 20 bits are exact.
_HALF_PI = _parts_of(_PI, 1401, (33, 33, 33, 53))
HALF_PI, HALF_PI_REST = _parts_of(_PI, 1401, (53, 53))
_TWO_OVER_PI = (1 << (1400 + 64 * (_TABLE_WORDS - 1) + 1)) // _PI

# sin(r) - r over r**3 and cos(r) - 1 + r*r/2 over r**4 on |r| <= pi/4: truncation below 1e-19
_SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1)]
_COS = [(-1) ** k / math.factorial(2 * k) for k in range(9, 1, -1)]
# arctan(t) - t over t**3 on |t| <= 7/16, arcsin(t) - t over t**3 on |t| <= 1/2
_ARCTAN = [(-1) ** k / (2 * k + 1) for k in range(22, 0, -1)]
_ARCSIN = [math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(25, 0, -1)]
# Expansion points of the arctangent: up to the first number, around the second one.
_ARCTAN_STEPS = ((7 / 16, 0.0), (11 / 16, 0.5), (19 / 16, 1.0), (39 / 16, 1.5))


class Trigonometry(ExactArithmetic):
    """The circular functions on f64."""

    def sin(self, x: Value) -> Value:
        """Sine, within 1 ulp on all floats; NaN for the infinities."""
        r, rest, quadrant = self._reduced(x)
        swapped = self._is_odd(quadrant)
        size = self.select(swapped, self._cosine(r, rest), self._sine(r, rest))
        turned = self._xor_sign(size, self.b.shl(quadrant, self._int(62)))
        return self._nan_or(x, self.select(self.eq(x, self.const(0.0)), x, turned))

    def cos(self, x: Value) -> Value:
        """Cosine, within 1 ulp on all floats; NaN for the infinities."""
        r, rest, quadrant = self._reduced(x)
        swapped = self._is_odd(quadrant)
        size = self.select(swapped, self._sine(r, rest), self._cosine(r, rest))
        next_quadrant = self.b.add(quadrant, self._int(1))
        return self._nan_or(x, self._xor_sign(size, self.b.shl(next_quadrant, self._int(62))))

    def tan(self, x: Value) -> Value:
        """Tangent, within 3 ulp on all floats; NaN for the infinities."""
        r, rest, quadrant = self._reduced(x)
        swapped = self._is_odd(quadrant)
        sine, cosine = self._sine(r, rest), self._cosine(r, rest)
        ratio = self.div(
            self.select(swapped, self.neg(cosine), sine), self.select(swapped, sine, cosine)
        )
        return self._nan_or(x, self.select(self.eq(x, self.const(0.0)), x, ratio))

    def _is_odd(self, quadrant: Value) -> Value:
        return self.b.icmp_signed("!=", self.b.and_(quadrant, self._int(1)), self._int(0))

    def _xor_sign(self, x: Value, bits: Value) -> Value:
        """x with its sign flipped if the top bit is set."""
        top = self.b.and_(bits, self._int(-(2**63)))
        return self._from_bits(self.b.xor(self._to_bits(x), top))

    def _sine(self, r: Value, rest: Value) -> Value:
        """sin(r + rest) on |r| <= pi/4."""
        square = self.mul(r, r)
        cubic = self.mul(self.mul(square, r), self._polynomial(square, _SIN))
        slope = self.lb.fma(square, self.const(-0.5), self.const(1.0))
        return self.add(r, self.lb.fma(rest, slope, cubic))

    def _cosine(self, r: Value, rest: Value) -> Value:
        """cos(r + rest) on |r| <= pi/4, corrected for the rounding of 1 - r*r/2."""
        one, square = self.const(1.0), self.mul(r, r)
        half = self.mul(square, self.const(0.5))
        near = self.sub(one, half)
        lost = self.sub(self.sub(one, near), half)
        quartic = self.mul(self.mul(square, square), self._polynomial(square, _COS))
        return self.add(near, self.add(lost, self.lb.fma(self.neg(r), rest, quartic)))

    # --- reduction ---

    def _reduced(self, x: Value) -> tuple[Value, Value, Value]:
        """r + rest = x - quadrant pi/2 with |r| <= pi/4; the quadrant as an i64."""
        large = self.gt(self.abs(x), self.const(2.0**20))
        kept = self.select(large, self.const(0.0), x)
        n = self._nearest(self.mul(kept, self.const(2 / math.pi)))
        r, rest = self._less_multiple(kept, n)
        quadrant = self._whole_bits(n)
        rooms = [self.lb.scratch(value.type) for value in (r, rest, quadrant)]
        for value, room in zip((r, rest, quadrant), rooms):
            self.b.store(value, room)
        with self.b.if_then(self._any(large)):
            self._reduce_large(x, large, rooms)
        return tuple(self.b.load(room, typ=v.type) for room, v in zip(rooms, (r, rest, quadrant)))  # type: ignore[return-value]

    def _less_multiple(self, x: Value, n: Value) -> tuple[Value, Value]:
        """x - n pi/2 as a pair, for integers |n| < 2**20."""
        first, second, third, last = (self.const(p) for p in _HALF_PI)
        r = self.sub(x, self.mul(n, first))  # exact: Sterbenz
        r, rest = self._two_sum(r, self.neg(self.mul(n, second)))
        r, more = self._two_sum(r, self.neg(self.mul(n, third)))
        rest = self.sub(self.add(rest, more), self.mul(n, last))
        return self._fast_sum(r, rest)

    def _any(self, mask: Value) -> Value:
        """Whether a lane of the mask is set; an i1."""
        if not isinstance(mask.type, ir.VectorType):
            return mask
        bits = ir.IntType(mask.type.count)
        return self.b.icmp_signed("!=", self.b.bitcast(mask, bits), ir.Constant(bits, 0))

    def _reduce_large(self, x: Value, large: Value, rooms: list[Value]) -> None:
        """Store the reduction of every large lane of ``x`` in the rooms."""
        b = self.b
        if not isinstance(x.type, ir.VectorType):
            for value, room in zip(self._payne_hanek(x), rooms):
                b.store(value, room)
            return
        source = self.lb.scratch(x.type)
        b.store(x, source)
        with self.lb.loop("lane", 0, x.type.count) as lane:
            value = self.lb.load_scalar(source, lane.index, F64)
            size = b.call(self.lb.declare("llvm.fabs.f64", F64, [F64]), [value])
            with b.if_then(b.fcmp_ordered(">", size, ir.Constant(F64, 2.0**20))):
                for part, room in zip(self._payne_hanek(value), rooms):
                    self.lb.store(part, room, lane.index)

    def _payne_hanek(self, x: Value) -> tuple[Value, Value, Value]:
        """The reduction of one f64 beyond 2**20; NaN for an infinity."""
        b = self.b
        i64, i128 = self.lb.i64, ir.IntType(128)
        bits = b.bitcast(x, I64)
        biased = b.and_(b.lshr(bits, i64(52)), i64(0x7FF))
        mantissa = b.or_(b.and_(bits, i64(2**52 - 1)), i64(2**52))
        # x = mantissa 2**E; bits of 2/pi that contribute multiples of 4 are skipped, so the first
        # relevant one is bit E - 1 of the table, which begins with 64 zeros.
        start = b.add(b.sub(biased, i64(1075)), i64(62))
        start = b.select(b.icmp_signed(">", biased, i64(0x7FE)), i64(0), start)
        high, middle, low = self._table_bits(start)
        # The product modulo 2**192: bits above are multiples of 4.
        product = [b.mul(b.zext(mantissa, i128), b.zext(word, i128)) for word in (low, middle)]
        tail = b.add(product[1], b.lshr(product[0], ir.Constant(i128, 64)))
        top = b.add(b.mul(mantissa, high), b.trunc(b.lshr(tail, ir.Constant(i128, 64)), I64))
        whole = b.or_(
            b.shl(b.zext(top, i128), ir.Constant(i128, 64)), b.zext(b.trunc(tail, I64), i128)
        )
        fraction = b.shl(whole, ir.Constant(i128, 2))  # signed, in units of 2**-128 quarter turns
        quadrant = b.add(b.lshr(top, i64(62)), b.lshr(b.trunc(
            b.lshr(fraction, ir.Constant(i128, 64)), I64), i64(63)))  # fmt: skip
        r, rest = self._quarter_turns(fraction)
        negative = b.icmp_signed("<", bits, i64(0))
        flip = [b.select(negative, b.fneg(v), v) for v in (r, rest)]
        nan = b.icmp_signed("==", biased, i64(0x7FF))
        r = b.select(nan, ir.Constant(F64, math.nan), flip[0])
        return r, flip[1], b.select(negative, b.sub(i64(0), quadrant), quadrant)

    def _table_bits(self, start: Value) -> tuple[Value, Value, Value]:
        """192 bits of the table from bit ``start`` on, as three words."""
        b, i64 = self.b, self.lb.i64
        table = self._table()
        word, shift = b.lshr(start, i64(6)), b.and_(start, i64(63))
        words = [
            b.load(b.gep(table, [b.add(word, i64(k))], source_etype=I64), typ=I64, align=8)
            for k in range(4)
        ]
        funnel = self.lb.declare("llvm.fshl.i64", I64, [I64] * 3)
        first, second, third = (b.call(funnel, [p, q, shift]) for p, q in zip(words, words[1:]))
        return first, second, third

    def _table(self) -> Value:
        """64 zeros and the bits of 2/pi, in words, most significant first."""
        name = "two_over_pi"
        known = self.lb.module.globals.get(name)
        if known is not None:
            return known
        words = [
            _TWO_OVER_PI >> 64 * (_TABLE_WORDS - 1 - k) & 2**64 - 1 for k in range(_TABLE_WORDS)
        ]
        return ir.Table(self.lb.module, I64, [*words, 0], name)

    def _quarter_turns(self, fraction: Value) -> tuple[Value, Value]:
        """A signed i128 in units of 2**-128 quarter turns, times pi/2, as a pair."""
        b, i64, i128 = self.b, self.lb.i64, ir.IntType(128)
        negative = b.icmp_signed("<", fraction, ir.Constant(i128, 0))
        size = b.select(negative, b.sub(ir.Constant(i128, 0), fraction), fraction)
        count = self.lb.declare("llvm.ctlz.i128", i128, [i128, ir.IntType(1)])
        zeros = b.call(count, [size, ir.Constant(ir.IntType(1), 0)])
        zeros = b.and_(zeros, ir.Constant(i128, 127))
        full = b.shl(size, zeros)
        high = b.trunc(b.lshr(full, ir.Constant(i128, 75)), I64)  # the first 53 bits
        low = b.and_(b.trunc(b.lshr(full, ir.Constant(i128, 22)), I64), i64(2**53 - 1))
        exponent = b.sub(i64(1023), b.trunc(zeros, I64))
        unit = b.bitcast(b.shl(exponent, i64(52)), F64)
        unit = b.select(negative, b.fneg(unit), unit)
        h = b.fmul(b.fmul(b.sitofp(high, F64), ir.Constant(F64, 2.0**-53)), unit)
        t = b.fmul(b.fmul(b.sitofp(low, F64), ir.Constant(F64, 2.0**-106)), unit)
        lone = type(self)(self.lb, h)
        r, rest = lone._two_product(h, lone.const(HALF_PI))
        rest = b.fadd(rest, b.fmul(h, lone.const(HALF_PI_REST)))
        return lone._fast_sum(r, b.fadd(rest, b.fmul(t, lone.const(HALF_PI))))

    # --- inverses ---

    def arctan(self, x: Value) -> Value:
        """Arctangent, within 2 ulp on all floats."""
        size = self.abs(x)
        above, below = self.const(-1.0), size
        base, rest = self.const(HALF_PI), self.const(HALF_PI_REST)
        for limit, point in reversed(_ARCTAN_STEPS):
            near = self.lt(size, self.const(limit))
            value = math.atan(point)
            p = self.const(point)
            above = self.select(near, self.sub(size, p), above)
            below = self.select(near, self.lb.fma(size, p, self.const(1.0)), below)
            base = self.select(near, self.const(value), base)
            rest = self.select(near, self.const(_ARCTAN_RESTS[point]), rest)
        t = self.div(above, below)
        square = self.mul(t, t)
        curve = self.mul(self.mul(square, t), self._polynomial(square, _ARCTAN))
        result = self.add(base, self.add(t, self.add(curve, rest)))
        return self._nan_or(x, self._with_sign(result, x))

    def _arcsin_curve(self, x: Value, square: Value) -> Value:
        """arcsin(x) - x on |x| <= 1/2."""
        return self.mul(self.mul(x, square), self._polynomial(square, _ARCSIN))

    def arcsin(self, x: Value) -> Value:
        """Inverse sine, within 2 ulp; NaN outside of -1 to 1."""
        half, size = self.const(0.5), self.abs(x)
        far = self.gt(size, half)
        square = self.select(far, self.mul(self.sub(self.const(1.0), size), half), self.mul(x, x))
        root = self.sqrt(square)
        y = self.select(far, root, size)
        curve = self._arcsin_curve(y, square)
        lost = self._root_rest(square, root)
        twice = self.mul(self.const(-2.0), self.add(curve, lost))
        beyond = self.add(self.sub(self.const(HALF_PI), self.add(y, y)), self.add(
            twice, self.const(HALF_PI_REST)))  # fmt: skip
        return self._nan_or(x, self._with_sign(self.select(far, beyond, self.add(y, curve)), x))

    def _root_rest(self, square: Value, root: Value) -> Value:
        """sqrt(square) - root, the rounding error of the root."""
        gap = self._less_product(square, root, root)
        rest = self.div(gap, self.add(root, root))
        return self.select(self.eq(root, self.const(0.0)), self.const(0.0), rest)

    def arccos(self, x: Value) -> Value:
        """Inverse cosine, within 2 ulp; NaN outside of -1 to 1."""
        half, size = self.const(0.5), self.abs(x)
        far = self.gt(size, half)
        square = self.select(far, self.mul(self.sub(self.const(1.0), size), half), self.mul(x, x))
        root = self.sqrt(square)
        y = self.select(far, root, x)
        curve = self._arcsin_curve(y, square)
        near = self.sub(self.const(HALF_PI), self.sub(y, self.sub(
            self.const(HALF_PI_REST), curve)))  # fmt: skip
        bent = self.add(curve, self._root_rest(square, root))
        small = self.mul(self.const(2.0), self.add(y, bent))
        rest = self.sub(self.const(HALF_PI_REST), bent)
        turned = self.mul(self.const(2.0), self.add(self.sub(self.const(HALF_PI), y), rest))
        beyond = self.select(self.gt(x, self.const(0.0)), small, turned)
        return self._nan_or(x, self.select(far, beyond, near))


def _arctan_rest(point: float) -> float:
    """arctan(point) minus its float64 value, by the series in integers over 2**160."""
    if point == 0.0:
        return 0.0
    if point == 1.5:  # arctan 1.5 = pi/2 - arctan 2/3
        top, bottom, sign, start = 2, 3, -1, _PI >> (1400 - 159)
    elif point == 1.0:
        return _parts_of(_PI, 1402, (53, 53))[1]
    else:
        top, bottom, sign, start = 1, 2, 1, 0
    total, power, k = 0, (top << 160) // bottom, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power = power * top * top // (bottom * bottom)
        k += 1
    exact = start + sign * total
    return (exact - int(math.ldexp(math.atan(point), 160))) / 2.0**160


_ARCTAN_RESTS = {point: _arctan_rest(point) for _, point in _ARCTAN_STEPS}
