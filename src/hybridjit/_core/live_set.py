"""A set of objects as long as they live, which threads extend while others read it.

``weakref.WeakSet`` raises RuntimeError if an object is added during an iteration in Python code,
and its callback at the end of an object loses an asynchronous exception (Ctrl-C). Here one
operation of C code copies all references, and dead ones are dropped by later additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")
_LEAST = 64  # references from which on dead ones are dropped


class LiveSet(Generic[T]):
    """Objects that are compared by identity."""

    def __init__(self) -> None:
        self._refs: set[ref[T]] = set()
        self._most = _LEAST

    def add(self, item: T) -> None:
        """Add an object."""
        self._refs.add(ref(item))
        if len(self._refs) > self._most:
            self._refs.difference_update([each for each in [*self._refs] if each() is None])
            self._most = _LEAST + 2 * len(self._refs)

    def __iter__(self) -> Iterator[T]:
        found = [each() for each in [*self._refs]]
        return (item for item in found if item is not None)
