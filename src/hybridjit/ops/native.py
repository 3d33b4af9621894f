"""Routines: machine code for the loops of some references, with sizes as arguments.

In: a routine's name and what its code depends on. Out: a function of arrays and numbers, or None,
and then the reference computes by NumPy. Both ways give the same numbers; the same bits, unless the
reference chooses by the sizes of one sample. Layers above provide the
routines; HYBRIDJIT_EAGER=numpy leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._core.config import config

__all__ = ["WORTH_NATIVE", "provide", "routine"]

# ``routine(arrays, numbers)`` reads and writes contiguous arrays where they are.
Routine = Callable[[Sequence[np.ndarray], Sequence[int]], None]
Provider = Callable[[str, tuple[object, ...]], Routine]

# Elements of an operand from which on machine code is loaded: NumPy takes 0.1 ms for fewer.
WORTH_NATIVE = 1 << 14
_providers: list[Provider] = []
_loaded: dict[tuple[str, tuple[object, ...]], Routine] = {}


def provide(provider: Provider) -> None:
    """Let ``provider(name, facts)`` load the routines."""
    _providers[:] = [provider]


def routine(name: str, *facts: object, size: int = WORTH_NATIVE) -> Routine | None:
    """The routine for these facts; None where the switch or ``size`` elements leave it out."""
    if size < WORTH_NATIVE or not _providers or config.eager == "numpy":
        return None
    found = _loaded.get((name, facts))
    if found is None:
        found = _loaded[name, facts] = _providers[0](name, facts)
    return found
