"""The first few elements of a long row in order, without sorting it.

Input: a row of floats. Output: the first elements and their indices; stable, NaN last. The row is
read once, vector by vector: elements that do not precede the last selected one are skipped. Of
30,000 random numbers 45 enter a list of five.
"""

from __future__ import annotations

from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ...math.numbers import float_numbers_of

# Largest number of selected elements.
FEW = 32


def precedes(b: LoopBuilder, one: Value, other: Value, ascending: bool) -> Value:
    """Whether ``one`` comes before ``other`` in the order; scalars or vectors."""
    numbers = float_numbers_of(b, one, b.dtype)
    is_before = numbers.lt(one, other) if ascending else numbers.gt(one, other)
    is_number = b.b.and_(numbers.ne(other, other), numbers.eq(one, one))
    return b.b.or_(is_before, is_number)


class Selection:
    """The first ``most`` elements of a row, in order in y, and their indices in ``places``."""

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
            b.store(b.load_scalar(self.x, first.index), self.y, first.index)
            b.b.store(first.index, b.at(self.places, first.index, I64), align=8)
            self._sift(first.index)
        rest = b.sub(count, self.most)
        whole = b.add(self.most, b.sub(rest, b.divmod(rest, b.lanes)[1]))
        with b.loop("vector", self.most, whole, b.lanes) as vector:
            last = b.splat(b.load_scalar(self.y, self.last))
            found = precedes(b, b.load(self.x, vector.index), last, self.ascending)
            with b.when(self._is_any(found)), b.loop("lane", 0, b.lanes) as lane:
                self._consider(b.add(vector.index, lane.index))
        with b.loop("left", whole, count) as left:
            self._consider(left.index)

    def _is_any(self, mask: Value) -> Value:
        bits = ir.IntType(self.b.lanes)
        return self.b.b.icmp_signed("!=", self.b.b.bitcast(mask, bits), ir.Constant(bits, 0))

    def _consider(self, place: Value) -> None:
        """Replace the last selected element by the one at ``place`` if that precedes it."""
        b = self.b
        x = b.load_scalar(self.x, place)
        enters = precedes(b, x, b.load_scalar(self.y, self.last), self.ascending)
        with b.when(enters):
            b.store(x, self.y, self.last)
            b.b.store(place, b.at(self.places, self.last, I64), align=8)
            self._sift(b.i64(self.last))

    def _sift(self, start: Value) -> None:
        """Move the element at ``start`` before all elements that it precedes."""
        b = self.b
        x = b.load_scalar(self.y, start)
        place = b.b.load(b.at(self.places, start, I64), typ=I64, align=8)
        with b.loop("step", 0, start, carry=[start], most=FEW) as step:
            here = b.sub(b.sub(start, step.index), 1)
            other = b.load_scalar(self.y, here)
            moves = precedes(b, x, other, self.ascending)
            with b.when(moves):
                above = b.add(here, 1)
                b.store(other, self.y, above)
                known = b.b.load(b.at(self.places, here, I64), typ=I64, align=8)
                b.b.store(known, b.at(self.places, above, I64), align=8)
            step.yields([b.b.select(moves, here, step.carried[0])])
        (final,) = step.results
        b.store(x, self.y, final)
        b.b.store(place, b.at(self.places, final, I64), align=8)
