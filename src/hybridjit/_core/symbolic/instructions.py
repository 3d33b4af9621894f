"""Expressions of sizes as instructions on registers, for native code.

Registers hold 64-bit integers: first the sizes, in the order of the scope's symbols, then the
result of each instruction. Native code executes them with checks against overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ...errors import MXNetError
from .expressions import Atom, Size
from .scope import Scope


class Operation(IntEnum):
    """What an instruction does with its operands; those of CONSTANT are a number and 0, those of
    CHOOSE a number of the caller's and 0.
    """

    CONSTANT = 0
    ADD = 1
    MULTIPLY = 2
    DIVIDE = 3  # rounded down
    DIVIDE_UP = 4
    REMAINDER = 5
    MAXIMUM = 6
    CHOOSE = 7  # a register for a result that the caller computes


_OPERATIONS = {
    "//": Operation.DIVIDE,
    "ceildiv": Operation.DIVIDE_UP,
    "%": Operation.REMAINDER,
    "max": Operation.MAXIMUM,
}


class Instructions:
    """Instructions that compute expressions of a scope, each subexpression once.

    rows  operation and two operands of each instruction; its register follows those of the sizes
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[object, int] = {name: i for i, name in enumerate(scope.symbols)}
        self.sizes = len(scope.symbols)
        self.rows: list[tuple[int, int, int]] = []
        self.zero = self.of(0)

    @property
    def registers(self) -> int:
        """The number of registers."""
        return self.sizes + len(self.rows)

    def of(self, value: Size | int) -> int:
        """The register of an integer or an expression.

        Raises MXNetError for an expression that is not computed in integers.
        """
        if not isinstance(value, Size):
            if not isinstance(value, int):
                raise MXNetError(f"native code computes sizes in integers, not {value!r}")
            return self._instruction(Operation.CONSTANT, value, 0)
        terms = [self._term(monomial, factor) for monomial, factor in sorted(value.terms.items())]
        return self._chain(Operation.ADD, terms)

    def reserve(self, number: int) -> int:
        """The register of a result that the caller computes."""
        return self._instruction(Operation.CHOOSE, number, 0)

    def _term(self, monomial: Sequence[int], factor: object) -> int:
        if not isinstance(factor, int):
            raise MXNetError(f"native code computes sizes in integers, not with {factor!r}")
        atoms = [self._atom(self._scope.atoms[number]) for number in monomial]
        if factor != 1 or not atoms:
            atoms.append(self.of(factor))
        return self._chain(Operation.MULTIPLY, atoms)

    def _atom(self, atom: Atom) -> int:
        if atom.name:
            return self._known[atom.name]
        operation = _OPERATIONS.get(atom.kind)
        if operation is None:
            raise MXNetError(f"native code computes sizes in integers, not {atom}")
        args = [self.of(arg) for arg in atom.args]  # type: ignore[arg-type]
        return self._chain(operation, args)

    def _chain(self, operation: Operation, operands: Sequence[int]) -> int:
        result, *others = operands
        for operand in others:
            result = self._instruction(operation, result, operand)
        return result

    def _instruction(self, operation: Operation, a: int, b: int) -> int:
        row = (int(operation), a, b)
        if row not in self._known:
            self._known[row] = self.registers
            self.rows.append(row)
        return self._known[row]
