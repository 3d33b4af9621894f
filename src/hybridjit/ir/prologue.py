"""Prologues: tables of conditions and expressions of a call's sizes that machine code executes.

Input: guards and expressions of a scope. Output: a function of sizes that returns the values of the
expressions, or None if a condition does not hold. Machine code from
``codegen/emit/prologue_code.py`` executes the rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, c_char
from struct import Struct, pack
from typing import Any, NamedTuple

import numpy as np
from numpy import empty, int64

from .._core.symbolic import Scope, Size
from .._core.symbolic.instructions import Instructions, Operation
from ..errors import MXNetError

# Fields of a job, 64 bits each: the counts of sizes, rows and outputs, and addresses of tables.
PROLOGUE_JOB = ("registers", "sizes", "rows", "row_count", "outputs", "output_count", "records")
# Fields of a row: an operation, two operands, and the register of the result. A condition compares
# register ``one`` with the constant ``other``. Operand ``one`` of a choice is the index of its
# record, which begins with the registers of its sizes.
PROLOGUE_ROW = ("operation", "one", "other", "result")
# Conditions and their numbers, which follow the numbers of the operations.
CONDITIONS = {
    test: len(Operation) + number for number, test in enumerate(("==", "!=", "<", "<=", ">", ">="))
}
# Functions of sizes and a record that are compiled, with their number of sizes.
FUNCTIONS = {"strassen_chunks": 1, "strassen_pays": 2, "cheapest_tile": 3}
FIRST_CHOICE = len(Operation) + len(CONDITIONS)

# Function of a job's address, packed sizes and the address of the outputs; returns whether all
# conditions hold.
RunPrologue = Callable[[int, bytes, int], int]


_from_buffer = c_char.from_buffer


class Chosen(NamedTuple):
    """The result of one of :data:`FUNCTIONS` for sizes and a record."""

    function: str
    sizes: tuple[Size | int, ...]
    record: tuple[int | float, ...]


class Condition(NamedTuple):
    """``left test right``."""

    left: Size | int | Chosen
    test: str
    right: int | float


class _Rows:
    """The rows of a prologue, their constants and their records."""

    def __init__(self, scope: Scope) -> None:
        self.made = Instructions(scope)
        self._taken = 0
        self._choices: dict[Chosen, int] = {}
        self.rows: list[tuple[int, int, int, int]] = []
        self.records = bytearray(8)
        for register in range(self.made.sizes):
            self.rows.append((CONDITIONS[">="], register, 1, 0))

    def of(self, value: Size | int | Chosen) -> int:
        """The register of a value; adds the rows that compute a new value."""
        if isinstance(value, Chosen):
            return self._choices.get(value) or self._chosen(value)
        register = self.made.of(value)
        for number in range(self._taken, len(self.made.rows)):
            operation, one, other = self.made.rows[number]
            if operation not in (Operation.CONSTANT, Operation.CHOOSE):
                self.rows.append((operation, one, other, self.made.sizes + number))
        self._taken = len(self.made.rows)
        return register

    def _chosen(self, value: Chosen) -> int:
        operands = [self.of(size) for size in value.sizes]
        operation = FIRST_CHOICE + [*FUNCTIONS].index(value.function)
        register = self._choices[value] = self.made.reserve(len(self._choices))
        self.rows.append((operation, len(self.records) // 8, 0, register))
        kinds = "".join("d" if isinstance(number, float) else "q" for number in value.record)
        self.records += pack(f"{len(operands)}q{kinds}", *operands, *value.record)
        return register

    def test(self, condition: Condition) -> None:
        """Add a condition. Raises MXNetError unless it compares integers."""
        left, test, right = condition
        if not isinstance(right, int):
            raise MXNetError(f"native code compares sizes with integers, not {right!r}")
        self.rows.append((CONDITIONS[test], self.of(left), right, 0))

    def registers(self) -> np.ndarray:
        """Initial contents of the registers: the constants, 0 elsewhere."""
        found = np.zeros(self.made.registers, np.int64)
        for number, (operation, value, _) in enumerate(self.made.rows):
            if operation == Operation.CONSTANT:
                found[self.made.sizes + number] = value
        return found


class Prologue:
    """Conditions and expressions of the sizes of a call; the conditions are tested first.

    Raises MXNetError for expressions that machine code does not compute. Sizes for which a number
    exceeds 2^62 or a divisor is less than 1 count as not satisfying the conditions.
    """

    def __init__(
        self, scope: Scope, conditions: Iterable[Condition],
        outputs: Iterable[Size | int | Chosen],
        run: RunPrologue,
    ) -> None:  # fmt: skip
        made = _Rows(scope)
        for condition in conditions:
            made.test(condition)
        places = [made.of(output) for output in outputs]
        self._count, self._records = len(places), made.records
        self._rows, self._outputs = np.array(made.rows, np.int64), np.array(places or [0], np.int64)
        self._registers = made.registers()
        at = {"sizes": made.made.sizes, "row_count": len(made.rows), "output_count": len(places)}
        at |= {
            name: _address(memory)
            for name, memory in (
                ("registers", self._registers), ("rows", self._rows), ("outputs", self._outputs),
                ("records", self._records),
            )
        }  # fmt: skip
        self._job = np.array([at[name] for name in PROLOGUE_JOB], np.int64)
        self._job_at = _address(self._job)
        self._run, self._pack = run, Struct(f"{made.made.sizes}q").pack

    def __call__(self, sizes: Sequence[int]) -> np.ndarray | None:
        """The values for these sizes, in a new array; None if a condition does not hold.

        Not thread-safe: one thread may call it at a time.
        """
        found = empty(self._count or 1, int64)
        at = addressof(_from_buffer(found))  # type: ignore[arg-type]
        return found if self._run(self._job_at, self._pack(*sizes), at) else None


def _address(memory: Any) -> int:
    return addressof(_from_buffer(memory))
