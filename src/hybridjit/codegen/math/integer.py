"""The scalar protocol on integers: arithmetic that wraps around, and division.

Only formulas computed in the operands' type are here; the others are computed in f64. A quotient is
truncated towards zero, a remainder has the divisor's sign.
"""

from __future__ import annotations

import math

import numpy as np

from ...ops.casting import scalar_of
from ..llvm.builder import LoopBuilder
from ..llvm.elements import converted, with_element
from ..llvm.types import F64, Value, constant_of
from .arithmetic import Masks
from .single import VectorMath


class IntegerMath(Masks):
    """Scalar formulas on integers of the type of ``like``, scalars or vectors."""

    def __init__(self, builder: LoopBuilder, like: Value, operand: np.dtype) -> None:
        self.lb = builder
        self.b = builder.b
        self._kind = like.type
        self._dtype = operand
        self._is_signed = operand.kind == "i"

    def const(self, value: float) -> Value:
        """A number converted to the type: truncated and wrapped around."""
        return constant_of(self._kind, int(scalar_of(value, self._dtype)))

    scalar = const

    def add(self, x: Value, y: Value) -> Value:
        return self.b.add(x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.b.sub(x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.b.mul(x, y)

    def neg(self, x: Value) -> Value:
        return self.b.sub(self.const(0), x)

    def abs(self, x: Value) -> Value:
        if not self._is_signed:
            return x
        return self.select(self.lt(x, self.const(0)), self.neg(x), x)

    def xor(self, x: Value, y: Value) -> Value:
        return self.b.xor(x, y)

    def shifted_right(self, x: Value, count: int) -> Value:
        """A logical shift: the upper bits become zero for any sign."""
        return self.b.lshr(x, self.const(count))

    def floor(self, x: Value) -> Value:
        return x

    ceil = trunc = round_even = floor

    def max(self, x: Value, y: Value) -> Value:
        return self.select(self.gt(x, y), x, y)

    def min(self, x: Value, y: Value) -> Value:
        return self.select(self.lt(x, y), x, y)

    def div(self, x: Value, y: Value) -> Value:
        """Towards zero; infinity's integer for a divisor of 0; the smallest over -1 is itself."""
        divide = self.b.sdiv if self._is_signed else self.b.udiv
        quotient = divide(x, self._divisor(x, y))
        return self.select(self.eq(y, self.const(0)), self.const(math.inf), quotient)

    def mod(self, x: Value, y: Value) -> Value:
        """The remainder with the sign of y; 0 for a divisor of 0."""
        divisor, zero = self._divisor(x, y), self.const(0)
        if not self._is_signed:
            return self.select(self.eq(y, zero), zero, self.b.urem(x, divisor))
        rest = self.b.srem(x, divisor)
        wrong = self.b.xor(self.lt(rest, zero), self.lt(y, zero))
        wrong = self.mask_and(wrong, self.ne(rest, zero))
        rest = self.select(wrong, self.add(rest, y), rest)
        return self.select(self.eq(y, zero), zero, rest)

    def power(self, x: Value, y: Value) -> Value:
        """The power in single precision, truncated."""
        return self._in_single("power", x, y)

    def ratio(self, x: Value, y: Value) -> Value:
        """The quotient in single precision, truncated."""
        return self._in_single("div", x, y)

    def _in_single(self, name: str, x: Value, y: Value) -> Value:
        dtype = self._dtype.name
        single = [converted(self.lb, value, dtype, "float32") for value in (x, y)]
        result = getattr(VectorMath(self.lb, single[0]), name)(*single)
        return converted(self.lb, result, "float32", dtype)

    def _divisor(self, x: Value, y: Value) -> Value:
        """y, but 1 where the division instruction would trap."""
        refused = self.eq(y, self.const(0))
        if self._is_signed:
            smallest = constant_of(self._kind, int(np.iinfo(self._dtype).min))
            overflows = self.mask_and(self.eq(x, smallest), self.eq(y, self.const(-1)))
            refused = self.mask_or(refused, overflows)
        return self.select(refused, self.const(1), y)

    # --- masks ---

    def _compare(self, sign: str, x: Value, y: Value) -> Value:
        compare = self.b.icmp_signed if self._is_signed else self.b.icmp_unsigned
        return compare(sign, x, y)

    def eq(self, x: Value, y: Value) -> Value:
        return self.b.icmp_signed("==", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        return self.b.icmp_signed("!=", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self._compare("<", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self._compare("<=", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self._compare(">", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self._compare(">=", x, y)

    def below(self, x: Value, bound: float) -> Value:
        """x < bound, compared as numbers: the bound keeps its fraction, and may be out of range."""
        return self.b.fcmp_ordered("<", self._as_float(x), self._bound(x, bound))

    def above(self, x: Value, bound: float) -> Value:
        """x > bound, compared as numbers."""
        return self.b.fcmp_ordered(">", self._as_float(x), self._bound(x, bound))

    def _as_float(self, x: Value) -> Value:
        kind = with_element(x.type, F64)
        return self.b.sitofp(x, kind) if self._is_signed else self.b.uitofp(x, kind)

    def _bound(self, x: Value, bound: float) -> Value:
        return constant_of(with_element(x.type, F64), float(bound))
