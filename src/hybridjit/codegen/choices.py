"""Choices that change bits, if sizes are symbolic: they are made for the sizes of a call.

Input: the inputs of a choice, with symbolic sizes. Output: the same with the sizes of one call, for
which the choice is made as for fixed sizes; and a note of its inputs, which shows whether the same
choice is valid for a call with other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from .._core.frozen import dataclass, replace
from .._core.symbolic import Scope
from ..ir.sized import Values, is_symbolic, sized

Record = TypeVar("Record")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Note:
    """A choice that was made: ``key(numbers)`` is equal for inputs that lead to equal bits.

    same  equal for notes with equal keys at all sizes: one of them is evaluated
    """

    numbers: tuple[Any, ...]
    key: Callable[[tuple[Any, ...]], Hashable]
    same: Hashable


class Choices:
    """The sizes for which a plan's kernels are chosen, and the inputs of these choices.

    memory  choices for other sizes with the same answers to the comparisons so far: if the bits
            must be the same, the kernel is too
    """

    def __init__(self, scope: Scope, values: Values, memory: dict[Hashable, Any]) -> None:
        self._scope, self._values, self._memory = scope, values, memory
        self.notes: list[Note] = []
        self._asked: dict[Hashable, str] = {}

    def as_before(self, key: Hashable, found: Found) -> Found:
        """The first record found for this key and these answers at this position of the notes."""
        for name, asked in (*self._scope.guards.items(), *self._scope.decisions.items()):
            if name not in self._asked:
                self._asked[name] = str(asked)
        answers = tuple(self._asked.values())
        kept: Found = self._memory.setdefault((len(self.notes), answers, key), found)
        return kept

    def settled(
        self,
        record: Record,
        names: Sequence[str],
        key: Callable[[Record], Hashable],
        same: Hashable,
    ) -> Record:
        """The record with the sizes of the call in the fields ``names``; noted with ``key``.

        ``same`` stands for all that the key depends on besides these fields.
        """
        numbers = tuple(getattr(record, name) for name in names)
        if not is_symbolic(numbers):
            return record

        def with_numbers(numbers: tuple[Any, ...]) -> Record:
            return replace(record, **dict(zip(names, numbers)))

        same = (same, str(numbers))
        self.notes.append(Note(numbers, lambda numbers: key(with_numbers(numbers)), same))
        return with_numbers(sized(numbers, self._values))
