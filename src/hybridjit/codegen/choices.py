"""Choices that change bits, where sizes are symbolic: they are made for the sizes of a call.

In: what a choice depends on, with symbolic sizes. Out: the same with the numbers of one call, for
which the choice is made as it is for fixed sizes; and a note of what it depends on, so that a call
with other sizes finds out whether it wants the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from .._core.frozen import dataclass, replace
from ..ir.sized import Values, is_symbolic, sized

Record = TypeVar("Record")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Note:
    """That a choice was made: ``key(numbers)`` tells choices apart by the bits that they give."""

    numbers: tuple[Any, ...]
    key: Callable[[tuple[Any, ...]], Hashable]


class Choices:
    """The sizes for which a plan's kernels are chosen, and what these choices depend on.

    memory  what was chosen for other sizes: where the bits are to be the same, so is the kernel
    """

    def __init__(self, values: Values, memory: dict[Hashable, Any]) -> None:
        self._values, self._memory = values, memory
        self.notes: list[Note] = []

    def as_before(self, key: Hashable, found: Found) -> Found:
        """The record that was found first for this key at this position of the notes."""
        kept: Found = self._memory.setdefault((len(self.notes), key), found)
        return kept

    def settled(
        self, record: Record, names: Sequence[str], key: Callable[[Record], Hashable]
    ) -> Record:
        """The record with the numbers of the call in the fields ``names``; noted with ``key``."""
        numbers = tuple(getattr(record, name) for name in names)
        if not is_symbolic(numbers):
            return record

        def with_numbers(numbers: tuple[Any, ...]) -> Record:
            return replace(record, **dict(zip(names, numbers)))

        self.notes.append(Note(numbers, lambda numbers: key(with_numbers(numbers))))
        return with_numbers(sized(numbers, self._values))
