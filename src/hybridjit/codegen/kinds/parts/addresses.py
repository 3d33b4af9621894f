"""Tables of the addresses of a tile's positions; positions outside have the address of safe memory.

So a tile that exceeds an edge uses the same code as all others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ...llvm.builder import LoopBuilder
from ...llvm.types import PTR, Pointer, Value


class Places(ABC):
    """The addresses of a tile's positions, by slots."""

    @abstractmethod
    def noted(self, slot: int, like: Value) -> Value:
        """The stored address, of elements with the type of ``like``."""

    @abstractmethod
    def _note(self, slot: int, inside: Value, pointer: Value, outside: Value) -> None:
        """Store one position's address, or that of safe memory."""

    def note(
        self,
        base: int,
        sides: tuple[int, int],
        at: Callable[[int, int], tuple[Value, Value]],
        outside: Value,
    ) -> None:
        """Store addresses of rows x columns; ``at`` returns (is inside, address)."""
        rows, columns = sides
        for r in range(rows):
            for q in range(columns):
                self._note(base + r * columns + q, *at(r, q), outside)


class Inside(Places):
    """Positions of a tile that exceeds no edge: each is at a constant offset from the first."""

    def __init__(self) -> None:
        self._noted: dict[int, Value] = {}

    def noted(self, slot: int, like: Value) -> Value:
        return self._noted[slot]

    def _note(self, slot: int, inside: Value, pointer: Value, outside: Value) -> None:
        self._noted[slot] = pointer


class Addresses(Places):
    """A table of ``count`` addresses on the stack of one function."""

    def __init__(self, b: LoopBuilder, count: int) -> None:
        self._b = b
        self._table = b.b.alloca(PTR, count)

    def noted(self, slot: int, like: Value) -> Value:
        noted = self._b.b.load(self._place(slot), typ=PTR, align=8)
        return Pointer(noted.ref, like.dtype, like.stored) if isinstance(like, Pointer) else noted

    def _note(self, slot: int, inside: Value, pointer: Value, outside: Value) -> None:
        chosen = self._b.b.select(inside, pointer, outside)
        self._b.b.store(chosen, self._place(slot), align=8)

    def _place(self, slot: int) -> Value:
        b = self._b
        return b.b.gep(self._table, [b.i64(slot)], True, source_etype=PTR)
