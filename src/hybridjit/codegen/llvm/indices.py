"""Arithmetic on indices, which are i64 values or Python ints.

Compile-time constants stay Python ints and need no instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, overload

from . import ir
from .types import Value, int64

Index: TypeAlias = Value | int  # an i64 value, or a Python int


class IndexBuilder:
    """Writes the arithmetic of indices into one function."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.module = function.module
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def i64(self, value: Index) -> Value:
        return int64(value) if isinstance(value, int) else value

    @overload
    def add(self, a: int, b: int) -> int: ...
    @overload
    def add(self, a: Value, b: Index) -> Value: ...
    @overload
    def add(self, a: Index, b: Value) -> Value: ...
    def add(self, a: Index, b: Index) -> Index:
        """a + b on indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(b, int) and b == 0:
            return a
        if isinstance(a, int) and a == 0:
            return b
        return self.b.add(self.i64(a), self.i64(b), flags=["nsw"])

    @overload
    def sub(self, a: int, b: int) -> int: ...
    @overload
    def sub(self, a: Value, b: Index) -> Value: ...
    @overload
    def sub(self, a: Index, b: Value) -> Value: ...
    def sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.b.sub(self.i64(a), self.i64(b), flags=["nsw"])

    @overload
    def mul(self, a: int, b: int) -> int: ...
    @overload
    def mul(self, a: Value, b: Value) -> Value: ...
    @overload
    def mul(self, a: Index, b: Index) -> Index: ...
    def mul(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int) and a in (0, 1):
            return b if a else 0
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return self.b.mul(self.i64(a), self.i64(b), flags=["nsw"])

    def divmod(self, a: Index, divisor: Index) -> tuple[Index, Index]:
        """Quotient and remainder of a non-negative index by a positive one."""
        if isinstance(a, int) and isinstance(divisor, int):
            return divmod(a, divisor)
        if isinstance(divisor, int) and divisor == 1:
            return a, 0
        quotient = self.b.udiv(self.i64(a), self.i64(divisor))
        return quotient, self.sub(a, self.mul(quotient, divisor))

    def split(self, a: Index, sizes: Sequence[Index]) -> list[Index]:
        """``a`` as digits in mixed base ``sizes``, the last the fastest; the first is unbounded."""
        digits: list[Index] = []
        for size in reversed(sizes[1:]):
            a, digit = self.divmod(a, size)
            digits.append(digit)
        return [a, *reversed(digits)]

    @overload
    def min(self, a: int, b: int) -> int: ...
    @overload
    def min(self, a: Value, b: Index) -> Value: ...
    @overload
    def min(self, a: Index, b: Value) -> Value: ...
    def min(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        a, b = self.i64(a), self.i64(b)
        return self.b.select(self.b.icmp_signed("<", a, b), a, b)

    @overload
    def max(self, a: int, b: int) -> int: ...
    @overload
    def max(self, a: Value, b: Index) -> Value: ...
    @overload
    def max(self, a: Index, b: Value) -> Value: ...
    def max(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        a, b = self.i64(a), self.i64(b)
        return self.b.select(self.b.icmp_signed(">", a, b), a, b)

    def dot(self, indices: Sequence[Index], strides: Sequence[Index]) -> Index:
        """The offset: the sum of index times stride."""
        total: Index = 0
        for index, stride in zip(indices, strides):
            total = self.add(total, self.mul(index, stride))
        return total

    def product(self, sizes: Sequence[Index]) -> Index:
        """The product of the sizes; 1 for none."""
        total: Index = 1
        for size in sizes:
            total = self.mul(total, size)
        return total

    def quotient_up(self, a: Index, divisor: Index) -> Value:
        """The quotient of a non-negative index by a positive one, rounded up."""
        return self.b.udiv(self.i64(self.sub(self.add(a, divisor), 1)), self.i64(divisor))

    def divided_up(self, a: Index, divisor: Index) -> Index:
        """As :meth:`quotient_up`; an int if both operands are."""
        if isinstance(a, int) and isinstance(divisor, int):
            return -(-a // divisor)
        return a if isinstance(divisor, int) and divisor == 1 else self.quotient_up(a, divisor)

    def equal(self, a: Index, b: Index) -> Value:
        return self.b.icmp_signed("==", self.i64(a), self.i64(b))

    def less(self, a: Index, b: Index) -> Value:
        return self.b.icmp_signed("<", self.i64(a), self.i64(b))
