"""Arithmetic on f64 that keeps rounding errors, and integers in f64.

A pair represents the unevaluated sum of two numbers, the second below half a unit in the last place
of the first (Dekker 1971, Knuth 4.2.2). Not exact beyond the range of f64.
"""

from __future__ import annotations

from ..llvm.types import Value
from .arithmetic import FloatArithmetic

Pair = tuple[Value, Value]

MAGIC = 1.5 * 2.0**52  # adding it rounds to the nearest integer
_MAGIC_BITS = 0x4338000000000000
_SPLITTER = 2.0**27 + 1  # Veltkamp's


class ExactArithmetic(FloatArithmetic):
    """Sums, products and quotients of f64 as pairs; powers of two."""

    def _two_sum(self, x: Value, y: Value) -> Pair:
        total = self.add(x, y)
        part = self.sub(total, x)
        return total, self.add(self.sub(x, self.sub(total, part)), self.sub(y, part))

    def _fast_sum(self, x: Value, y: Value) -> Pair:
        """The pair of x + y for |x| >= |y|."""
        total = self.add(x, y)
        return total, self.sub(y, self.sub(total, x))

    def _two_product(self, x: Value, y: Value) -> Pair:
        product = self.mul(x, y)
        if self.lb.target.has_fma:
            return product, self.lb.fma(x, y, self.neg(product))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        rest = self.sub(self.mul(a, c), product)
        rest = self.add(self.add(rest, self.mul(a, d)), self.mul(b, c))
        return product, self.add(rest, self.mul(b, d))

    def _halves(self, x: Value) -> Pair:
        """x as the sum of two numbers of 26 bits."""
        big = self.mul(x, self.const(_SPLITTER))
        high = self.sub(big, self.sub(big, x))
        return high, self.sub(x, high)

    def _less_product(self, x: Value, y: Value, z: Value) -> Value:
        """x - y * z, rounded once: exact if the result is representable."""
        if self.lb.target.has_fma:
            return self.lb.fma(self.neg(y), z, x)
        # Splitting a number multiplies it: large ones are scaled down first.
        one, down, up = (self.const(2.0**k) for k in (0, -100, 100))
        limit = self.const(2.0**900)
        large = self.mask_or(self.gt(self.abs(x), limit), self.gt(self.abs(y), limit))
        first = self.gt(self.abs(y), self.const(2.0**500))
        factor, back = self.select(large, down, one), self.select(large, up, one)
        y = self.mul(y, self.select(first, factor, one))
        z = self.mul(z, self.select(first, one, factor))
        product, rest = self._two_product(y, z)
        return self.mul(self.sub(self.sub(self.mul(x, factor), product), rest), back)

    def _nearest(self, x: Value) -> Value:
        """The nearest integer, for |x| < 2**51."""
        magic = self.const(MAGIC)
        return self.sub(self.add(x, magic), magic)

    def _whole_bits(self, n: Value) -> Value:
        """An integer |n| < 2**51 as an i64: AVX2 lacks a conversion."""
        bits = self._to_bits(self.add(n, self.const(MAGIC)))
        return self.b.sub(bits, self._int(_MAGIC_BITS))

    def _from_whole(self, n: Value) -> Value:
        """An i64 |n| < 2**51 as f64."""
        moved = self._from_bits(self.b.add(n, self._int(_MAGIC_BITS)))
        return self.sub(moved, self.const(MAGIC))

    def _scale(self, x: Value, n: Value) -> Value:
        """x * 2**n for integers -2044 <= n <= 2046, in two factors so that neither overflows."""
        whole = self._whole_bits(n)
        half = self.b.ashr(whole, self._int(1))
        for part in (half, self.b.sub(whole, half)):
            biased = self.b.shl(self.b.add(part, self._int(1023)), self._int(52))
            x = self.mul(x, self._from_bits(biased))
        return x

    def _parts(self, x: Value) -> tuple[Value, Value]:
        """e and m with x = m 2**e and sqrt(1/2) <= m < sqrt(2), for x > 0; e as f64."""
        tiny = self.lt(x, self.const(2.0**-1022))
        scaled = self.select(tiny, self.mul(x, self.const(2.0**54)), x)
        bits = self._to_bits(scaled)
        # Subtracting sqrt(1/2) carries the upper half of the mantissas into the exponent.
        moved = self.b.sub(bits, self._int(_SQRT_HALF_BITS))
        exponent = self.b.ashr(moved, self._int(52))
        m = self._from_bits(self.b.sub(bits, self.b.shl(exponent, self._int(52))))
        e = self._from_whole(exponent)
        e = self.sub(e, self.select(tiny, self.const(54.0), self.const(0.0)))
        return e, m


_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
