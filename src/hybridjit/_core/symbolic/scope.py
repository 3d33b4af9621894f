"""The scope of a compilation: its symbols, the guards and decisions on them, and branches."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .bounds import decided_by, tight_bounds
from .evaluation import Program, operated, value_of, values_function
from .expressions import INFINITE, OPERATIONS, TESTS, Atom, Number, Size, is_whole, key_of

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Guard(NamedTuple):
    """A condition on sizes: ``left test right``; ``line`` is the source line that compared.

    why  the operator that needs a number, if it is known
    """

    left: Size
    test: str
    right: int | float
    line: str
    why: str = ""

    def __str__(self) -> str:
        because = f" ({self.why})" if self.why else ""
        return f"{self.left} {self.test} {self.right}{because}"

    def is_satisfied(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these values of the symbols, by name."""
        try:
            return TESTS[self.test](value_of(self.left, values), self.right)
        except ZeroDivisionError:
            return False


class Decision(NamedTuple):
    """The condition that a function of sizes, called with integers, returns the same result.

    For choices that compare many numbers internally: a guard for each comparison would be too
    narrow. ``chosen`` is the same function for machine code, see ``ir/prologue.py``, or None.
    """

    name: str
    sizes: tuple[Size, ...]
    function: Callable[..., object]
    result: object
    chosen: Any = None

    def holds(self, values: Sequence[int]) -> bool:
        """Whether the function returns that result for these values of ``sizes``."""
        return bool(self.function(values) == self.result)

    def is_satisfied(self, values: Mapping[str, int]) -> bool:
        """Whether it holds for these values of the symbols, by name."""
        return self.holds([value_of(size, values) for size in self.sizes])

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.sizes))}) == {self.result}"


Record = TypeVar("Record")
Records: TypeAlias = Mapping[tuple[object, ...], Record]


def _beyond(shared: Records[Record], records: Records[Record]) -> Records[Record]:
    return {key: record for key, record in records.items() if key not in shared}


class Scope:
    """The symbols, atoms and guards of one compilation."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.symbols: dict[str, Size] = {}
        self.guards: dict[tuple[object, ...], Guard] = {}
        self.decisions: dict[tuple[object, ...], Decision] = {}
        self.is_closed = False
        self.why = ""  # why guards are recorded now
        self.epoch = 0  # number of the branch whose hints the atoms have; 0 outside of branches
        self._known: dict[tuple[object, ...], Size] = {}
        self._trunk: _Trunk | None = None
        self._branches = 0

    def symbol(self, name: str, hint: int, low: int = 1, high: Number = INFINITE) -> Size:
        """A size that may vary from ``low`` to ``high``."""
        made = self._atom("symbol", name, (), hint, (low, high))
        self.symbols[name] = made
        return made

    def step(self, name: str, low: int, high: Number) -> Size:
        """A counter within each call, from ``low`` to below ``high``."""
        return self._atom("step", name, (), low, (low, high))

    def operation(
        self, kind: str, args: tuple[Size | Number, ...], hint: Number, low: Number, high: Number
    ) -> Size:
        """The atom of an operation; equal operands give the same atom."""
        key = (kind, *(key_of(arg) for arg in args))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._atom(kind, "", args, hint, (low, high))
        return found

    def _atom(
        self, kind: str, name: str, args: tuple[Size | Number, ...], hint: Number,
        bounds: tuple[Number, Number],
    ) -> Size:  # fmt: skip
        assert bounds[0] <= hint <= bounds[1], (kind, name, hint, bounds)
        atom = Atom(len(self.atoms), kind, name, args, hint, bounds)
        self.atoms.append(atom)
        return Size(self, {(atom.number,): 1}, hint)

    def close(self) -> None:
        """End the recording. Sizes of a closed scope are equal only to themselves."""
        self.is_closed = True

    @contextmanager
    def branch(self, sizes: Sequence[int], within: Branch | None = None) -> Iterator[Branch]:
        """Within the block, hints are those of other ``sizes`` that satisfy the guards.

        Guards and decisions recorded in the block belong to the branch only. It begins with the
        records of ``within``, an earlier branch that these sizes satisfy, so that expressions made
        there can be used again.
        """
        if not self.is_closed or self._trunk is None:
            self._trunk = _Trunk.of(self)
        trunk, was_closed = self._trunk, self.is_closed
        trunk.restore(self)
        self.is_closed = False
        self._branches += 1
        self.epoch = self._branches
        self._set_hints(dict(zip(self.symbols, sizes)), within)
        if within is not None:
            self._adopt(within)
        branch = Branch(self)
        try:
            yield branch
        finally:
            branch.own_guards = _beyond(trunk.guards, self.guards)
            branch.own_decisions = _beyond(trunk.decisions, self.decisions)
            branch.known = self._known
            trunk.restore(self)
            self.is_closed = was_closed

    def _set_hints(self, values: Mapping[str, int], within: Branch | None) -> None:
        """Set the hints of the atoms that all branches share, and of those of ``within``, to their
        values for these sizes.
        """
        assert self._trunk is not None
        shared = len(self._trunk.atoms)
        known = () if within is None else within.known.values()
        added = sorted({n for size in known for (n,) in size.terms if n >= shared})
        for atom in (*self.atoms[:shared], *map(self.atoms.__getitem__, added)):
            atom.hint = values[atom.name] if atom.kind == "symbol" else operated(atom)

    def _adopt(self, within: Branch) -> None:
        """Begin with the guards, decisions and atoms of a branch."""
        self._known = dict(within.known)
        self.guards.update(within.own_guards)
        self.decisions.update(within.own_decisions)
        for guard in within.guards:
            if is_whole(guard.left):
                self._narrow(guard.left, guard.test, guard.right)

    def hint_before(self, size: Size) -> Number:
        """The hint of a size outside of branches."""
        if self.epoch == 0 or self._trunk is None:
            return size.hint
        try:
            return self._first_value(size)
        except ZeroDivisionError:
            return size.hint

    def _first_value(self, size: Size) -> Number:
        assert self._trunk is not None
        total: Number = 0
        for monomial, factor in size.terms.items():
            total += factor * math.prod(map(self._first_atom, monomial))
        return total

    def _first_atom(self, number: int) -> Number:
        assert self._trunk is not None
        if number < len(self._trunk.atoms):
            return self._trunk.atoms[number][2]
        atom = self.atoms[number]
        if atom.name:
            return atom.hint
        args = [self._first_value(a) if isinstance(a, Size) else a for a in atom.args]
        return OPERATIONS[atom.kind](*args)

    def decide(self, difference: Size | Number, test: str) -> bool:
        """Whether ``difference test 0`` holds for the hints; adds a guard if bounds do not tell."""
        if not isinstance(difference, Size):
            return TESTS[test](difference, 0)
        known = decided_by(difference.bounds(), test)
        if known is None:
            known = decided_by(tight_bounds(difference), test)
        if known is not None:
            return known
        if not is_whole(difference):
            return self._decide_rounded(difference, test)
        answer = TESTS[test](difference.hint, 0)
        self._record(difference, test if answer else _OPPOSITE[test])
        return answer

    def _decide_rounded(self, difference: Size, test: str) -> bool:
        """The same for rounded sums: terms are added in the order of the guard's function."""
        atoms = {atom.name: int(atom.hint) for atom in self.atoms if atom.name}
        answer = TESTS[test](value_of(difference, atoms), 0)
        test = test if answer else _OPPOSITE[test]
        self.guards.setdefault((difference.key, test), Guard(difference, test, 0, _line()))
        return answer

    def pin(self, size: Size) -> None:
        """Record guards that every symbol of an expression equals its hint."""
        for number in {number for monomial in size.terms for number in monomial}:
            atom = self.atoms[number]
            if atom.name:
                self.decide(Size(self, {(number,): 1}, atom.hint) - atom.hint, "==")
            for arg in atom.args:
                if isinstance(arg, Size):
                    self.pin(arg)

    def _record(self, difference: Size, test: str) -> None:
        if self.is_closed:
            raise RuntimeError(f"bug in hybridjit: {difference} {test} 0 after the compilation")
        constant = difference.terms.get((), 0)
        left = Size(
            self, {m: c for m, c in difference.terms.items() if m}, difference.hint - constant
        )
        key = (left.key, test, constant)
        if key not in self.guards:
            self.guards[key] = Guard(left, test, -constant, _line(), self.why)
        self._narrow(left, test, -constant)

    def _narrow(self, left: Size, test: str, right: Number) -> None:
        """Tighten the bounds of the only atom of a guard ``left test right``."""
        if len(left.terms) != 1:
            return
        ((monomial, factor),) = left.terms.items()
        if len(monomial) != 1:
            return
        atom = self.atoms[monomial[0]]
        if any(isinstance(n, float) for n in (factor, right)):
            return
        if factor < 0:
            test = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(test, test)
        quotient, remainder = divmod(right, factor)
        if test == "==" and not remainder:
            atom.low = atom.high = quotient
        elif test in (">", ">="):
            least = quotient + 1 if test == ">" or remainder else quotient
            atom.low = max(atom.low, least)
        elif test in ("<", "<="):
            most = quotient - 1 if test == "<" and not remainder else quotient
            atom.high = min(atom.high, most)
        elif test == "!=" and not remainder:
            atom.low += atom.low == quotient
            atom.high -= atom.high == quotient


def scope_of(size: Size) -> Scope:
    """The scope that a size belongs to."""
    assert isinstance(size.scope, Scope)
    return size.scope


class Branch:
    """Guards and decisions that divide the sizes satisfying the guards of a scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.own_guards: Records[Guard] = {}
        self.own_decisions: Records[Decision] = {}
        self.known: Records[Size] = {}

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(self.own_guards.values())

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(self.own_decisions.values())

    def recorded(self) -> Callable[..., bool]:
        """Whether sizes, in the order of the scope's symbols, satisfy the branch's guards too."""
        return condition(self._scope, self.guards, self.decisions)

    def __str__(self) -> str:
        return "; ".join(map(str, (*self.guards, *self.decisions)))


class _Trunk(NamedTuple):
    """The state of a scope where branches begin, with the bounds and the hint of each atom."""

    guards: dict[tuple[object, ...], Guard]
    decisions: dict[tuple[object, ...], Decision]
    known: dict[tuple[object, ...], Size]
    atoms: list[tuple[Number, Number, Number]]

    @staticmethod
    def of(scope: Scope) -> _Trunk:
        atoms = [(atom.low, atom.high, atom.hint) for atom in scope.atoms]
        return _Trunk(dict(scope.guards), dict(scope.decisions), dict(scope._known), atoms)

    def restore(self, scope: Scope) -> None:
        """Drop the records of a branch; atoms stay, because sizes refer to them."""
        scope.guards, scope.decisions = dict(self.guards), dict(self.decisions)
        scope._known = dict(self.known)
        for atom, state in zip(scope.atoms, self.atoms):
            atom.low, atom.high, atom.hint = state
        scope.epoch = 0


def _line() -> str:
    """The source line that compares: the innermost one outside of ``_core``."""
    for frame in reversed(traceback.extract_stack(limit=12)):
        if os.sep + "_core" + os.sep not in frame.filename:
            return f"{frame.filename.rpartition('hybridjit/')[2]}:{frame.lineno}"
    return ""


def guard_function(scope: Scope) -> Callable[..., bool]:
    """A function that tests all guards for sizes in the order of the scope's symbols."""
    return condition(scope, tuple(scope.guards.values()), tuple(scope.decisions.values()))


def condition(
    scope: Scope, guards: Sequence[Guard], decisions: Sequence[Decision]
) -> Callable[..., bool]:
    program = Program(scope, tuple(scope.symbols))
    tests = [f"{name} >= 1" for name in scope.symbols]
    tests += [f"{program.text(g.left)} {g.test} {g.right!r}" for g in guards]
    holds = program.compile(" and ".join(tests) or "True", "False")
    if not decisions:
        return holds
    operands = values_function(scope, tuple(scope.symbols), [d.sizes for d in decisions])

    def hold(*sizes: int) -> bool:
        try:
            return holds(*sizes) and all(map(Decision.holds, decisions, operands(*sizes)))
        except ZeroDivisionError:  # of an expression that guards exclude
            return False

    return hold
