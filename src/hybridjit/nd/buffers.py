"""Test whether the memory of arrays has been replaced; fast, and without keeping it alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import attrgetter

import numpy as np

from .memory import DenseArray

_MEMORY = attrgetter("_data")


class Places:
    """Memory of arrays at construction; an evicted array is restored first."""

    def __init__(self, arrays: Iterable[DenseArray]) -> None:
        self._arrays = list(arrays)
        self._memory = [weakref.ref(memory) for memory in self.memory()]

    def memory(self) -> list[np.ndarray]:
        """Memory of all arrays. Holding it prevents its replacement."""
        return [*map(_MEMORY, self._arrays)]

    def unmoved(self) -> list[np.ndarray] | None:
        """Memory of all arrays if none was replaced since construction, else None."""
        found = self.memory()
        same = all(reference() is memory for reference, memory in zip(self._memory, found))
        return found if same else None
