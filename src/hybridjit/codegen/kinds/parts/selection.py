"""The first few elements of a long row in order, without sorting it.

Input: a row of numbers. Output: the first elements and their indices; stable, NaN last. The row is
read once, vector by vector: elements that do not precede the last selected one are skipped. Of
30,000 random numbers 45 enter a list of five, and of a million 920 a list of a hundred. Lists are
sorted up to :data:`FEW` elements; longer ones are heaps, in which a new element moves past fewer.
"""

from __future__ import annotations

import numpy as np

from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value, constant_of
from ...math.numbers import is_integer, numbers_of

FEW = 32
# Largest number of selected elements, and the depth of a heap with this number.
MOST, _DEPTH = 256, 8
# Distance of the elements of a sample, and the ratio of a row's length to the number of selected
# elements from which on it is taken.
_APART, LONG_HEAP = 64, 128


def precedes(b: LoopBuilder, one: Value, other: Value, ascending: bool) -> Value:
    """Whether ``one`` comes before ``other`` in the order; scalars or vectors."""
    numbers = numbers_of(b, one, b.dtype)
    is_before = numbers.lt(one, other) if ascending else numbers.gt(one, other)
    if is_integer(b.dtype):
        return is_before
    is_number = b.b.and_(numbers.ne(other, other), numbers.eq(one, one))
    return b.b.or_(is_before, is_number)


class Selection:
    """The first ``most`` elements of a row, in order in y, and their indices in ``places``.

    ``last`` is the index of the last selected element while the row is read.
    """

    def __init__(
        self, b: LoopBuilder, x: Value, y: Value, places: Value, most: Index, ascending: bool
    ) -> None:
        self.b, self.x, self.y, self.places = b, x, y, places
        self.most, self.ascending = most, ascending
        self.last = b.sub(most, 1)

    def emit(self, count: Index) -> None:
        """Select from a row of ``count`` elements, at least ``most``."""
        b = self.b
        with b.loop("first", 0, self.most) as first:
            self._put(first.index, b.load_scalar(self.x, first.index), first.index)
            self._add(first.index)
        self._begin()
        rest = b.sub(count, self.most)
        whole = b.add(self.most, b.sub(rest, b.divmod(rest, b.lanes)[1]))
        with b.loop("vector", self.most, whole, b.lanes) as vector:
            found = self._is_near(b.load(self.x, vector.index))
            with b.when(self._is_any(found)), b.loop("lane", 0, b.lanes) as lane:
                self._consider(b.add(vector.index, lane.index))
        with b.loop("left", whole, count) as left:
            self._consider(left.index)
        self._end()

    def _is_near(self, x: Value) -> Value:
        """Whether elements of a vector may be among the selected ones."""
        last = self.b.splat(self.b.load_scalar(self.y, self.last))
        return precedes(self.b, x, last, self.ascending)

    def _is_any(self, mask: Value) -> Value:
        bits = ir.IntType(self.b.lanes)
        return self.b.b.icmp_signed("!=", self.b.b.bitcast(mask, bits), ir.Constant(bits, 0))

    def _consider(self, place: Value) -> None:
        """Replace the last selected element by the one at ``place`` if that precedes it."""
        b = self.b
        x = b.load_scalar(self.x, place)
        enters = precedes(b, x, b.load_scalar(self.y, self.last), self.ascending)
        with b.when(enters):
            self._put(self.last, x, place)
            self._enter()

    def _put(self, index: Index, x: Value, place: Value) -> None:
        b = self.b
        b.store(x, self.y, index)
        b.b.store(place, b.at(self.places, index, I64), align=8)

    def _place(self, index: Index) -> Value:
        return self.b.b.load(self.b.at(self.places, index, I64), typ=I64, align=8)

    def _add(self, index: Value) -> None:
        """Sort one of the first elements into those before it."""
        self._sift(index)

    def _begin(self) -> None:
        """Arrange the first elements."""

    def _enter(self) -> None:
        """Move the new element, which replaces the last one."""
        self._sift(self.b.i64(self.last))

    def _end(self) -> None:
        """Sort the selected elements."""

    def _sift(self, start: Value) -> None:
        """Move the element at ``start`` before all elements that it precedes."""
        b = self.b
        x, place = b.load_scalar(self.y, start), self._place(start)
        with b.loop("step", 0, start, carry=[start], most=FEW) as step:
            here = b.sub(b.sub(start, step.index), 1)
            other = b.load_scalar(self.y, here)
            moves = precedes(b, x, other, self.ascending)
            with b.when(moves):
                self._put(b.add(here, 1), other, self._place(here))
            step.yields([b.b.select(moves, here, step.carried[0])])
        self._put(step.results[0], x, place)


class HeapSelection(Selection):
    """The same with the selected elements in a heap, the last of them in front.

    A long row is sampled first: elements that follow the last selected one of the sample are not
    among the first. So few elements of a row enter the heap that begins with its last ones: 1.1 ms
    for a hundred of a million in the wrong order instead of 44.
    """

    def __init__(
        self, b: LoopBuilder, x: Value, y: Value, places: Value, most: Index, ascending: bool
    ) -> None:
        super().__init__(b, x, y, places, most, ascending)
        self.last = 0
        self._bound: Value | None = None

    def emit(self, count: Index) -> None:
        b = self.b
        is_long = b.less(b.mul(self.most, LONG_HEAP), b.add(b.i64(count), 1))
        samples = b.b.select(is_long, b.i64(b.divmod(count, _APART)[0]), b.i64(0))
        with b.loop("sample", 0, b.min(samples, self.most)) as sample:
            place = b.i64(b.mul(sample.index, _APART))
            self._put(sample.index, b.load_scalar(self.x, place), place)
        with b.when(is_long):
            self._begin()
        with b.loop("another", self.most, samples) as another:
            self._consider(b.i64(b.mul(another.index, _APART)))
        bound = b.splat(b.load_scalar(self.y, 0))
        self._bound = b.b.select(is_long, bound, self._end_of_order())
        super().emit(count)

    def _end_of_order(self) -> Value:
        """A vector of a number that precedes none."""
        if not is_integer(self.b.dtype):
            return self.b.constant(float("nan"))
        limits = np.iinfo(self.b.dtype)
        kind = self.b.vector_type()
        return constant_of(kind, int(limits.max if self.ascending else limits.min))

    def _is_near(self, x: Value) -> Value:
        b, near = self.b, super()._is_near(x)
        assert self._bound is not None, "emit begins with the sample"
        return b.b.and_(near, b.b.not_(precedes(b, self._bound, x, self.ascending)))

    def _add(self, index: Value) -> None:
        """Nothing: all are arranged together."""

    def _begin(self) -> None:
        b = self.b
        half = b.divmod(self.most, 2)[0]
        with b.loop("parent", 0, half) as parent:
            self._sink(b.sub(b.sub(half, parent.index), 1), self.most)

    def _enter(self) -> None:
        self._sink(self.b.i64(0), self.most)

    def _end(self) -> None:
        b = self.b
        with b.loop("taken", 1, self.most) as taken:
            size = b.sub(self.most, taken.index)
            front, place = b.load_scalar(self.y, 0), self._place(0)
            self._put(0, b.load_scalar(self.y, size), self._place(size))
            self._put(size, front, place)
            self._sink(b.i64(0), size)

    def _sink(self, start: Value, size: Index) -> None:
        """Move the element at ``start`` below all that follow it in the first ``size``."""
        b = self.b
        x, place = b.load_scalar(self.y, start), self._place(start)
        with b.loop("level", 0, _DEPTH, carry=[start]) as level:
            (node,) = level.carried
            left = b.add(b.mul(node, 2), 1)
            last = b.sub(size, 1)
            one, other = b.min(left, last), b.min(b.add(left, 1), last)
            of_one = b.load_scalar(self.y, one), self._place(one)
            of_other = b.load_scalar(self.y, other), self._place(other)
            child = b.b.select(self._follows(of_other, of_one), b.i64(other), b.i64(one))
            found = b.load_scalar(self.y, child), self._place(child)
            moves = b.b.and_(b.less(left, size), self._follows(found, (x, place)))
            with b.when(moves):
                self._put(node, *found)
            level.yields([b.b.select(moves, child, node)])
        self._put(level.results[0], x, place)

    def _follows(self, one: tuple[Value, Value], other: tuple[Value, Value]) -> Value:
        """Whether an element with its place comes after another one."""
        b = self.b
        before = precedes(b, one[0], other[0], self.ascending)
        after = precedes(b, other[0], one[0], self.ascending)
        is_equal = b.b.icmp_signed("==", before, after)
        return b.b.or_(after, b.b.and_(is_equal, b.less(other[1], one[1])))


def selection_of(
    b: LoopBuilder, x: Value, y: Value, places: Value, most: Index, ascending: bool, in_heap: bool
) -> Selection:
    """A selection by a sorted list of at most :data:`FEW` elements, or by a heap."""
    kind = HeapSelection if in_heap else Selection
    return kind(b, x, y, places, most, ascending)
