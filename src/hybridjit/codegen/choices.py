"""Choices of symbolic plans that change bits, which are made for the sizes of one call.

Input: the inputs of a choice, with symbolic sizes. Output: the inputs with the sizes of one call,
for which the choice is made as for fixed sizes; and a note of the inputs, which determines whether
the choice is valid for a call with other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from .._core.frozen import dataclass, replace
from .._core.symbolic import Scope, Size
from ..ir.prologue import Chosen
from ..ir.sized import Values, is_symbolic, sized

Record = TypeVar("Record")
Found = TypeVar("Found")


class ByCode(NamedTuple):
    """The key of a note as a function of a number that machine code computes.

    ``key_of(number)`` is None for numbers with which the note has to compute its key.
    """

    number: Chosen | Size | int
    key_of: Callable[[int], Hashable | None]


@dataclass(frozen=True)
class Note:
    """A choice that was made: ``key(numbers)`` is equal for inputs that lead to equal bits.

    same     equal for notes with equal keys at all sizes, of which one is evaluated
    by_code  the key as a function of a number that machine code computes, or None
    """

    numbers: tuple[Any, ...]
    key: Callable[[tuple[Any, ...]], Hashable]
    same: Hashable
    by_code: ByCode | None = None


class Made(NamedTuple):
    """The choice for a step, and the notes on which it depends with their keys."""

    notes: tuple[Note, ...]
    keys: tuple[Hashable, ...]
    chosen: Any


class Choices:
    """The sizes for which a plan's kernels are chosen, and the inputs of these choices.

    memory  choices for other sizes for which all comparisons so far had the same results: if the
            bits must be the same, so must the kernel
    steps   choices by number of the step, in branches whose guards hold here; a choice is reused
            where the keys are equal
    """

    def __init__(
        self,
        scope: Scope,
        values: Values,
        memory: dict[Hashable, Any],
        steps: Mapping[int, Sequence[Made]],
    ) -> None:
        self._scope, self._values, self._memory = scope, values, memory
        self.steps = {number: tuple(made) for number, made in steps.items()}
        self.notes: list[Note] = []
        self._asked: dict[Hashable, str] = {}
        self._known: dict[Hashable, Hashable] = {}

    def of_step(self, number: int, choose: Callable[[], Found]) -> Found:
        """An earlier choice for a step with sizes that lead to the same bits, or ``choose()``."""
        for made in self.steps.get(number, ()):
            if made.keys == self._keys(made.notes):
                self.notes += made.notes
                chosen: Found = made.chosen
                return chosen
        first = len(self.notes)
        chosen = choose()
        notes = tuple(self.notes[first:])
        made = Made(notes, self._keys(notes), chosen)
        self.steps[number] = (*self.steps.get(number, ()), made)
        return chosen

    def _keys(self, notes: Sequence[Note]) -> tuple[Hashable, ...]:
        return tuple(map(self.key_of, notes))

    def key_of(self, note: Note) -> Hashable:
        """The key of a note for the sizes of the call; notes that are the same share it."""
        if note.same not in self._known:
            self._known[note.same] = note.key(sized(note.numbers, self._values))
        return self._known[note.same]

    def as_before(self, key: Hashable, found: Found) -> Found:
        """The first record for this key, with equal results of comparisons, at this note."""
        for name, asked in (*self._scope.guards.items(), *self._scope.decisions.items()):
            if name not in self._asked:
                self._asked[name] = str(asked)
        answers = tuple(self._asked.values())
        kept: Found = self._memory.setdefault((len(self.notes), answers, key), found)
        return kept

    def settled(self, record: Record, names: Sequence[str]) -> Record:
        """The record with the sizes of the call in the fields ``names``."""
        numbers = tuple(getattr(record, name) for name in names)
        if not is_symbolic(numbers):
            return record
        return replace(record, **dict(zip(names, self.settled_numbers(numbers))))

    def settled_numbers(self, numbers: tuple[Any, ...]) -> Any:
        """The numbers for the sizes of the call."""
        return sized(numbers, self._values)

    def note(
        self,
        record: Record,
        names: Sequence[str],
        key: Callable[[Record], Hashable],
        same: Hashable,
    ) -> None:
        """Note that a choice depends on the fields ``names`` only through ``key(record)``.

        ``same`` represents all other inputs of the key.
        """

        def of(numbers: tuple[Any, ...]) -> Hashable:
            return key(replace(record, **dict(zip(names, numbers))))

        self.note_numbers(tuple(getattr(record, name) for name in names), of, same)

    def note_numbers(
        self,
        numbers: tuple[Any, ...],
        key: Callable[[tuple[Any, ...]], Hashable],
        same: Hashable,
        by_code: ByCode | None = None,
    ) -> None:
        """Note that a choice depends on numbers only through ``key(numbers)``."""
        if is_symbolic(numbers):
            self.notes.append(Note(numbers, key, (same, str(numbers)), by_code))
