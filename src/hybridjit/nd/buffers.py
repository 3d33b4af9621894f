"""Places: whether the memory of arrays is where it was, asked often and without holding it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import attrgetter

import numpy as np

from .memory import DenseArray

_MEMORY = attrgetter("_data")


class Places:
    """The memory that arrays have now; an array that is evicted gets its memory back first."""

    def __init__(self, arrays: Iterable[DenseArray]) -> None:
        self._arrays = list(arrays)
        self._memory = [weakref.ref(memory) for memory in self.memory()]

    def memory(self) -> list[np.ndarray]:
        """The memory of all arrays: as long as it is held, it stays where it is."""
        return [*map(_MEMORY, self._arrays)]

    def unmoved(self) -> list[np.ndarray] | None:
        """The same, where every array has the memory that it had; else None."""
        found = self.memory()
        same = all(reference() is memory for reference, memory in zip(self._memory, found))
        return found if same else None
