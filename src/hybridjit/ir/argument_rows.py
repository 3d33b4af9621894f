"""Rows from which machine code computes the kernel arguments of a template for given sizes.

Input: the slots of a template, some of them symbolic. Output: a row for each kernel call and for
each slot. Code from ``codegen/emit/argument_writer.py`` reads the rows; its caller is
``runtime/sized_call.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .plan_image import Tables

# Numbers of a call: 0, 1, the distinct symbolic integers, and the first and the last round but one
# of each repeated call.
ZERO, ONE, FIRST_NUMBER = 0, 1, 2
# Fields of a job, 64 bits each. All but ``call_count`` are addresses: of the numbers; of the rows
# of calls and of slots; of the base addresses; of the tables that the code writes (steps, slots
# and places); and of two integers that it stores, the numbers of steps and of places.
JOB = (
    *("numbers", "calls", "call_count", "arguments", "bases"),
    *("steps", "slots", "places", "last", "count"),
)
# Fields of the row of a kernel call: the kernel; its first row in ``arguments`` and its number of
# rows; the indices, among the numbers, of the first round and of the end of the rounds;
# ``unfenced`` as in a KernelCall, and its value in the last round.
CALL_ROW = ("kernel", "first", "width", "low", "high", "unfenced", "last")
# Fields of the row of a slot: a constant and the index of a number, which are added; the same two
# for the part that each round adds; the index of the base address; the index of an array, or -1.
ARGUMENT_ROW = ("value", "number", "step", "step_number", "base", "array")


class Rows(NamedTuple):
    """The rows of a template; in ``calls`` a kernel is its number among ``kernels``.

    repeated  the numbers of steps, slots and places in each round of the repeated calls
    once      those of all other calls together
    """

    calls: np.ndarray
    arguments: np.ndarray
    kernels: tuple[str, ...]
    repeated: list[tuple[int, int, int]]
    once: tuple[int, int, int]

    def room(self, rounds: Sequence[int]) -> tuple[int, int, int]:
        """Numbers of steps, slots and places in the tables for these rounds."""
        steps, slots, places = self.once
        for count, (_, width, filled) in zip(rounds, self.repeated):
            steps, slots, places = steps + count, slots + count * width, places + count * filled
        return steps, slots, places


def rows_of(
    once: Tables,
    first: tuple[np.ndarray, np.ndarray],
    step: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]],
    ends: Mapping[int, tuple[int, int]],
    last: Mapping[int, int],
) -> Rows:
    """The rows of a template whose tables, without repetitions, are ``once``.

    first  slots to which a number is added, and the index of the number
    step   increment of each slot per round: an integer, and a number as in ``first``
    ends   indices of the numbers at which the rounds of each repeated call begin and end
    last   ``unfenced`` in the last round of each repeated call
    """
    count = len(once.values)
    arguments = np.zeros((count, len(ARGUMENT_ROW)), np.int64)
    arguments[:, 0], arguments[:, 2], arguments[:, 4], arguments[:, 5] = (
        once.values, step[0], once.of_base, -1,
    )  # fmt: skip
    arguments[first[0], 1] = first[1]
    arguments[step[1][0], 3] = step[1][1]
    arguments[once.places[:, 1], 5] = once.places[:, 0]
    calls = np.zeros((len(once.rows), len(CALL_ROW)), np.int64)
    calls[:, [0, 1, 5]] = once.rows
    calls[:, 2] = np.diff(once.rows[:, 1], append=count)
    calls[:, 3:5] = ZERO, ONE
    calls[:, 6] = calls[:, 5]
    for number, both in ends.items():
        calls[number, 3:5] = both
        calls[number, 6] = last[number]
    width = calls[:, 2].tolist()
    filled = np.bincount(_call_of(once), minlength=len(calls)).tolist()
    each = [(1, *both) for both in zip(width, filled)]
    others = [one for number, one in enumerate(each) if number not in ends]
    totals = tuple(map(sum, zip((0, 0, 0), *others)))
    return Rows(calls, arguments, once.kernels, [each[number] for number in ends], totals)  # type: ignore[arg-type]


def _call_of(once: Tables) -> np.ndarray:
    """The number of the kernel call of each place."""
    return np.searchsorted(once.rows[:, 1], once.places[:, 1], side="right") - 1
