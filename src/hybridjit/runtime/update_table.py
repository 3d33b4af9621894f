"""UpdateTable: kernels with their arguments for many arrays, run in order by one call.

Input: a row for each weight, with its arrays. Output: a function without arguments. Numbers that
change from call to call, such as learning rates, are in arrays that the kernels read.

A call is not interruptible: signals are handled when it is done, so that it writes all of its
results or none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .._core.async_safety import noted
from .._core.frozen import dataclass
from .arena import address_of
from .executable import WORTH_SHARING
from .threads import THREADS


class Loaded(Protocol):
    """A kernel, and the driver that calls it."""

    @property
    def kernel(self) -> Any: ...
    @property
    def driver(self) -> Any: ...


@dataclass(frozen=True)
class Row:
    """One kernel's work: the arrays that it reads and those that it writes, all of one size."""

    code: Loaded
    reads: tuple[np.ndarray, ...]
    writes: tuple[np.ndarray, ...]


class UpdateTable:
    """Rows with the numbers that they read: ``own`` numbers of each row, then the shared ones.

    The caller keeps the arrays alive and in place as long as the table is called.
    """

    def __init__(self, rows: Sequence[Row], own: int, shared: int) -> None:
        self.own = np.zeros((len(rows), own), np.float32)
        self.shared = np.zeros(shared, np.float32)
        self._codes = [row.code for row in rows]
        self._driver = rows[0].code.driver
        self._count = len(rows)
        self._size = sum(row.writes[0].size for row in rows)
        slots = [self._slots(i, row) for i, row in enumerate(rows)]
        flat = [slot for row_slots in slots for slot in row_slots]
        self._arguments = (ctypes.c_int64 * len(flat))(*flat)
        steps, place = [], ctypes.addressof(self._arguments)
        for row, row_slots in zip(rows, slots):
            steps += [row.code.kernel.address, place, 0]
            place += 8 * len(row_slots)
        self._steps = (ctypes.c_int64 * len(steps))(*steps)
        self._address = ctypes.addressof(self._steps)
        self._job = (ctypes.c_int64 * 4)(self._address, 0, len(rows), 0)

    def _slots(self, number: int, row: Row) -> list[int]:
        """The arguments of one kernel: see ``codegen/updates.py``."""
        own, shared = self.own[number], self.shared
        numbers = [address_of(own) + 4 * i for i in range(own.size)]
        numbers += [address_of(shared) + 4 * i for i in range(shared.size)]
        reads, writes = map(address_of, row.reads), map(address_of, row.writes)
        return [*reads, *numbers, *writes, row.writes[0].size]

    def run(self, done: list[Any]) -> None:
        """Run all rows in order; ``done`` has one element more when they are done."""
        threads = 1 if self._size < WORTH_SHARING else THREADS.count
        if threads > 1:
            pool = THREADS.pool(self._driver)
            pool.run_whole(self._address, self._count, threads, done)
        else:
            noted(done, self._driver.call, ctypes.addressof(self._job))
