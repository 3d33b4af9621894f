"""Routines: machine code for loops of some references, with sizes as arguments.

Input: a routine's name and the properties that its code depends on. Output: a function of arrays
and integers, or None; then the reference computes with NumPy. Both compute equal values, and equal
bits unless the reference selects by the sizes of one sample. Higher layers provide the routines;
HYBRIDJIT_EAGER=numpy disables them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._core.config import config

__all__ = ["WORTH_NATIVE", "provide", "routine"]

# ``routine(arrays, numbers)`` reads and writes contiguous arrays in place.
Routine = Callable[[Sequence[np.ndarray], Sequence[int]], None]
Provider = Callable[[str, tuple[object, ...]], Routine]

# Minimal elements of an operand for machine code: NumPy takes 0.1 ms for fewer.
WORTH_NATIVE = 1 << 14
_providers: list[Provider] = []
_loaded: dict[tuple[str, tuple[object, ...]], Routine] = {}


def provide(provider: Provider) -> None:
    """Set the function ``provider(name, facts)`` that loads routines."""
    _providers[:] = [provider]


def routine(name: str, *facts: object, size: int = WORTH_NATIVE) -> Routine | None:
    """Routine for these properties; None if disabled or for fewer than ``WORTH_NATIVE``
    elements."""
    if size < WORTH_NATIVE or not _providers or config.eager == "numpy":
        return None
    found = _loaded.get((name, facts))
    if found is None:
        found = _loaded[name, facts] = _providers[0](name, facts)
    return found
