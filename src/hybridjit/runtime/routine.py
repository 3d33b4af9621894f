"""A routine: a kernel that one call runs on arrays, outside of a plan."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arena import address_of
from .threads import main_thread

_JOB, _STEP = ctypes.c_int64 * 4, ctypes.c_int64 * 3


class Routine:
    """A kernel of ``codegen/routines`` and the driver that calls it; it releases the GIL."""

    def __init__(self, kernel: Any, driver: Any) -> None:
        self._kernel, self._driver = kernel, driver

    def __call__(self, arrays: Sequence[np.ndarray], numbers: Sequence[int]) -> None:
        """Read and write the arrays. Raises a signal handler's exception, the work unfinished."""
        slots = [*map(address_of, arrays), *numbers]
        arguments = (ctypes.c_int64 * len(slots))(*slots)
        step = _STEP(self._kernel.address, ctypes.addressof(arguments), 0)
        job = _JOB(ctypes.addressof(step), 0, 1, main_thread())
        self._driver.call(ctypes.addressof(job))
