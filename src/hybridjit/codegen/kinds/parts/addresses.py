"""Tables of the addresses of a tile's positions; positions outside have the address of safe memory.

So a tile that exceeds an edge uses the same code as all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...._core.frozen import dataclass
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import PTR, Pointer, Value

# Positions of a tile up to which code for each of them takes LLVM no longer than a loop over rows.
FEW_POSITIONS = 16


@dataclass(frozen=True)
class Corner:
    """The first position of a tile, and the elements from row to row and from column to column."""

    pointer: Value
    below: Index
    beside: Index

    def row(self, b: LoopBuilder, r: Index) -> Value:
        """The address of the first position of a row."""
        return b.at(self.pointer, b.mul(r, self.below))

    def position(self, b: LoopBuilder, r: Index, q: Index) -> Value:
        """The address of a position."""
        return b.at(self.row(b, r), b.mul(q, self.beside))


# Rows that are addressed from one base: x86 adds a register to it, or twice a register.
_ROWS_OF_A_BASE = 3


@dataclass(frozen=True)
class StridedRows:
    """Rows whose distance the call gives.

    One base for three rows: those of a tile of 12 rows need 5 registers, and no multiplication.
    """

    bases: tuple[Value, ...]
    step: Value

    @staticmethod
    def of(b: LoopBuilder, first: Value, step: Value, count: int) -> StridedRows:
        """``count`` rows, the first of which begins at the address ``first``."""
        bases, further = [first], b.mul(step, _ROWS_OF_A_BASE)
        for _ in range(_ROWS_OF_A_BASE, count, _ROWS_OF_A_BASE):
            bases.append(b.at(bases[-1], further))
        return StridedRows(tuple(bases), step)

    def pointers(self, b: LoopBuilder, count: int, offset: Index = 0) -> list[Value]:
        """The addresses of element ``offset`` of the rows. They have to be taken in the block that
        uses them: LLVM then adds the distance where it loads.
        """
        bases = [b.at(base, offset) for base in self.bases]
        steps = [b.mul(n, self.step) for n in range(min(count, _ROWS_OF_A_BASE))]
        return [b.at(bases[m // _ROWS_OF_A_BASE], steps[m % _ROWS_OF_A_BASE]) for m in range(count)]


class Places(ABC):
    """The addresses of a tile's positions."""

    @abstractmethod
    def noted(self, r: Index, q: Index) -> Value:
        """The address of the position in row ``r`` and column ``q``."""

    @abstractmethod
    def note(
        self,
        corner: Corner,
        is_row_inside: Callable[[Index], Value],
        are_inside: Sequence[Value],
        outside: Value,
    ) -> None:
        """Note the addresses of a tile: a position is inside if its row and its column are."""


class Inside(Places):
    """Positions of a tile that exceeds no edge."""

    def __init__(self, b: LoopBuilder) -> None:
        self._b = b
        self._corner: Corner | None = None

    def noted(self, r: Index, q: Index) -> Value:
        assert self._corner is not None
        return self._corner.position(self._b, r, q)

    def note(
        self,
        corner: Corner,
        is_row_inside: Callable[[Index], Value],
        are_inside: Sequence[Value],
        outside: Value,
    ) -> None:
        self._corner = corner


class Addresses(Places):
    """A table of addresses on the stack of one function."""

    def __init__(self, b: LoopBuilder, rows: int, columns: int) -> None:
        self._b = b
        self._sides = rows, columns
        self._table = b.b.alloca(PTR, rows * columns)
        self._like: Value | None = None

    def noted(self, r: Index, q: Index) -> Value:
        noted, like = self._b.b.load(self._place(r, q), typ=PTR, align=8), self._like
        return Pointer(noted.ref, like.dtype, like.stored) if isinstance(like, Pointer) else noted

    def note(
        self,
        corner: Corner,
        is_row_inside: Callable[[Index], Value],
        are_inside: Sequence[Value],
        outside: Value,
    ) -> None:
        b, (rows, columns) = self._b, self._sides
        self._like = corner.pointer
        for r in b.rounds("line", rows, rows * columns <= FEW_POSITIONS):
            first, is_inside = corner.row(b, r), is_row_inside(r)
            for q, is_column_inside in enumerate(are_inside):
                here = b.at(first, b.mul(q, corner.beside))
                chosen = b.b.select(b.b.and_(is_inside, is_column_inside), here, outside)
                b.b.store(chosen, self._place(r, q), align=8)

    def _place(self, r: Index, q: Index) -> Value:
        b, (_, columns) = self._b, self._sides
        return b.at(self._table, b.add(b.mul(r, columns), q), PTR)
