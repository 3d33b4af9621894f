"""Partial results of reductions: adding a value, joining two of them, and their final result.

A partial result is a list of vectors: a sum, a product or an extreme is a single one; the index of
an extreme is a second one.
"""

from __future__ import annotations

import math

import numpy as np

from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS, converted
from ...llvm.indices import Index
from ...llvm.types import F32, I32, Value, constant_of
from ...math.integer import IntegerMath
from ...math.numbers import FloatMath, Numbers, numbers_of
from .spec import (
    AVERAGED,
    EXTREMES,
    MULTIPLIED,
    NUMBERS_ONLY,
    PLACES,
    ReduceSpec,
    Statistic,
)

Carried = list[Value]


def partial_of(b: LoopBuilder, spec: ReduceSpec, count: Index) -> Partial:
    """The partial results of a reduction of ``count`` elements."""
    return (_Place if spec.how in PLACES else Partial)(b, spec, count)


class Partial:
    """A sum, a product, or an extreme."""

    has_places = False

    def __init__(self, b: LoopBuilder, spec: ReduceSpec, count: Index) -> None:
        self.b, self.spec, self.count = b, spec, count
        self.type = spec.sums or spec.dtype
        self.kind = b.vector_type(element=ELEMENTS[self.type].held)
        self.neutral = constant_of(self.kind, self._neutral())
        self.math = numbers_of(b, self.neutral, self.type)

    def _neutral(self) -> float:
        how = self.spec.how
        if how in MULTIPLIED:
            return 1
        if how not in EXTREMES | PLACES:
            return 0
        lowest = how in (Statistic.MAX, Statistic.ARGMAX)
        if self.type.startswith("float"):
            return -math.inf if lowest else math.inf
        info = np.iinfo(self.type)
        return int(info.min if lowest else info.max)

    @property
    def floats(self) -> FloatMath:
        """The arithmetic of floats, for operators that have no other."""
        assert not isinstance(self.math, IntegerMath)
        return self.math

    def start(self) -> Carried:
        return [self.neutral]

    def taken(self, value: Value, about: Value | None = None) -> Value:
        """The contribution of a value: in the type of sums, squared or without NaN."""
        math_, how = self.math, self.spec.how
        value = converted(self.b, value, self.spec.dtype, self.type)
        if about is not None:
            distance = math_.sub(value, about)
            return math_.mul(distance, distance)
        if how is Statistic.NORM1:
            return math_.abs(value)
        if how is Statistic.NORM2:
            return math_.mul(value, value)
        if how in NUMBERS_ONLY and self.type.startswith("float"):
            return math_.select(self.floats.is_nan(value), self.neutral, value)
        return value

    def combined(self, x: Value, y: Value) -> Value:
        how = self.spec.how
        if how in EXTREMES:
            return self.math.max(x, y) if how is Statistic.MAX else self.math.min(x, y)
        return self.math.mul(x, y) if how in MULTIPLIED else self.math.add(x, y)

    def step(
        self, carried: Carried, value: Value, index: Index, lanes: Index, is_across: bool = False
    ) -> Carried:
        """The partial result with ``value`` in its first ``lanes`` lanes."""
        if lanes != self.b.lanes:
            value = self.b.b.select(self.b.mask_first(lanes), value, self.neutral)
        return [self.combined(carried[0], value)]

    def joined(self, left: Carried, right: Carried) -> Carried:
        return [self.combined(left[0], right[0])]

    def lanes_joined(self, carried: Carried) -> Carried:
        """Combine all lanes by halves, always in the same order; scalars."""
        b, width = self.b, self.b.lanes
        while width > 1:
            width //= 2
            low, high = (
                [b.shuffle(v, range(first, first + width)) for v in carried] for first in (0, width)
            )
            carried = self.joined(low, high)
        return [b.b.extract_element(v, ir.Constant(I32, 0)) for v in carried]

    def result(self, carried: Carried) -> Value:
        """The final result of a partial result, in the result's type."""
        total, how = carried[0], self.spec.how
        numbers: Numbers = numbers_of(self.b, total, self.type)
        if how in AVERAGED:
            total = self._divided(numbers, total)
        if how is Statistic.NORM2:
            assert not isinstance(numbers, IntegerMath)
            total = numbers.sqrt(total)
        return converted(self.b, total, self.type, self.spec.result or self.spec.dtype)

    def _divided(self, numbers: Numbers, total: Value) -> Value:
        """The total over the count; integers of both wrap around in their type."""
        count, b = self.count, self.b
        if not isinstance(count, int):
            # A type of 16 bits is held as f32: it lacks most counts, and those above 65504.
            is_half = self.type.startswith("float") and total.type.element == F32
            number = converted(b, count, "int64", "float32" if is_half else self.type)
            if not self.type.startswith("float"):
                zero, one = (ir.Constant(number.type, n) for n in (0, 1))
                number = b.b.select(b.b.icmp_signed("==", number, zero), one, number)
            return numbers.div(total, number if total.type.count == 1 else b.splat(number))
        if not self.type.startswith("float"):
            count = int(np.asarray(count).astype(self.type)) or 1
        return numbers.div(total, constant_of(total.type, count))


class _Place(Partial):
    """The index of the first largest or smallest element; NaN counts as both."""

    has_places = True

    def __init__(self, b: LoopBuilder, spec: ReduceSpec, count: Index) -> None:
        super().__init__(b, spec, count)
        self.none = constant_of(ir.VectorType(I32, b.lanes), 2**31 - 1)

    @property
    def floats(self) -> FloatMath:
        """The arithmetic of floats, for operators that have no other."""
        assert not isinstance(self.math, IntegerMath)
        return self.math

    def start(self) -> Carried:
        return [self.neutral, self.none]

    def step(
        self, carried: Carried, value: Value, index: Index, lanes: Index, is_across: bool = False
    ) -> Carried:
        b = self.b
        first = b.b.trunc(b.i64(index), I32)
        place = b.splat(first)
        if not is_across:
            row = ir.Constant(self.none.type, list(range(b.lanes)))
            place = b.b.add(place, row)
        if lanes != b.lanes:
            mask = b.mask_first(lanes)
            value = b.b.select(mask, value, self.neutral)
            place = b.b.select(mask, place, self.none)
        return self.joined(carried, [value, place])

    def joined(self, left: Carried, right: Carried) -> Carried:
        """The better of two; the earlier one of equal ones."""
        b, math_ = self.b.b, self.math
        (x, i), (y, j) = left, right
        better = math_.gt(y, x) if self.spec.how is Statistic.ARGMAX else math_.lt(y, x)
        equal = math_.eq(x, y)
        if self.type.startswith("float"):
            x_nan, y_nan = self.floats.is_nan(x), self.floats.is_nan(y)
            better = b.or_(better, b.and_(y_nan, b.not_(x_nan)))
            equal = b.or_(equal, b.and_(x_nan, y_nan))
        better = b.or_(better, b.and_(equal, b.icmp_signed("<", j, i)))
        return [b.select(better, y, x), b.select(better, j, i)]

    def result(self, carried: Carried) -> Value:
        return converted(self.b, carried[1], "int32", self.spec.result or self.spec.dtype)
