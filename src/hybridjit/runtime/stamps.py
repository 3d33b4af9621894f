"""Times that native code writes while a pool runs steps: see ``codegen.emit.driver.emit_run``.

Input: the numbers of steps and of threads. Output: arrays of nanoseconds.
"""

from __future__ import annotations

import time

import numpy as np


class Stamps:
    """Memory for the times of up to ``steps`` steps on up to ``threads`` threads.

    The first pair has the number of the clock that native code reads.
    """

    def __init__(self, steps: int, threads: int) -> None:
        self._threads = threads
        self._memory = np.zeros((1 + threads * (2 * steps + 1), 2), np.int64)

    def clear(self, clock: int = time.CLOCK_MONOTONIC) -> int:
        """Discard all times. Returns the address for the next run, which reads ``clock``."""
        self._memory.fill(0)
        self._memory[0] = clock
        return int(self._memory.ctypes.data)

    def bounds(self, steps: int) -> np.ndarray:
        """Of a run of ``steps`` steps: the times before each step and after the last one, on the
        calling thread."""
        bounds: np.ndarray = self._times(steps)[0, ::2]
        return bounds

    def spans(self, steps: int) -> np.ndarray:
        """Begin and end of each thread's part of each step: (steps, threads, 2).

        Both are 0 for a thread that took no part in the run.
        """
        parts = self._times(steps)[:, :-1]
        spans: np.ndarray = parts.reshape(self._threads, steps, 2).transpose(1, 0, 2)
        return spans

    def _times(self, steps: int) -> np.ndarray:
        used = self._memory[1 : 1 + self._threads * (2 * steps + 1)]
        times: np.ndarray = used @ np.array([1_000_000_000, 1])
        return times.reshape(self._threads, -1)
