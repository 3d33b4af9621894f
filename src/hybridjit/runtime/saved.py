"""Memory of saved outputs: it lives from one call to a later one of another executable.

In: types. Out: arrays in one block of memory, which are the caller's for as long as anything refers
to one of them or to a view. Then the block is taken again: to write a hundred fresh arrays of 1 MB
takes 85 ms, to write the same memory again 11, for the system hands out every page anew and zeroed.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np

from ..forks import Rank, held_at_fork
from ..unwinding import holding
from .arena import ALIGNMENT, address_of, aligned_pages

Typed = tuple[tuple[int, ...], np.dtype]

_LOCK = held_at_fork(Rank.SAVING)


class Layout:
    """Where arrays of these types lie in one block, each on a boundary of its own."""

    __slots__ = ("types", "offsets", "nbytes")

    def __init__(self, types: Sequence[Typed]) -> None:
        self.types = tuple(types)
        self.offsets: list[int] = []
        self.nbytes = 0
        for shape, dtype in types:
            self.offsets.append(-(-self.nbytes // ALIGNMENT) * ALIGNMENT)
            self.nbytes = self.offsets[-1] + math.prod(shape) * dtype.itemsize


class _Block:
    """A piece of memory."""

    __slots__ = ("memory", "__weakref__")

    def __init__(self, nbytes: int) -> None:
        self.memory = aligned_pages(nbytes)


class _Lease:
    """What the arrays of a block and their views refer to; the last to go gives the block back.

    It goes wherever Python collects garbage, in any thread and with any lock held, so it does one
    thing that nothing can interrupt.
    """

    __slots__ = ("__array_interface__", "_block", "_returned")

    def __init__(self, block: _Block, returned: deque[_Block]) -> None:
        self._block, self._returned = block, returned
        data = (address_of(block.memory), False)
        self.__array_interface__ = {
            "version": 3, "shape": block.memory.shape, "typestr": "|u1", "data": data,
        }  # fmt: skip

    def __del__(self) -> None:
        if hasattr(self, "_returned"):  # else an exception ended __init__: the block goes
            self._returned.append(self._block)


class SavedMemory:
    """Blocks that wait to be taken again, by size.

    They and what one call takes are at most as much as one call of a live executable may take: of
    more, the size goes first that was not used for longest.
    """

    def __init__(self) -> None:
        self._blocks: weakref.WeakSet[_Block] = weakref.WeakSet()
        self._most: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._idle: dict[int, list[_Block]] = {}
        self._returned: deque[_Block] = deque()

    def serve(self, executable: object, nbytes: int) -> None:
        """While it lives, a call of ``executable`` may take ``nbytes``."""
        self._most[executable] = nbytes
        weakref.finalize(executable, self._shrink).atexit = False

    @holding(_LOCK)
    def take(self, layout: Layout) -> list[np.ndarray]:
        """An array of each type, with anything in it."""
        self._collect()
        found = self._waiting(layout.nbytes)
        if self._idle:
            self._drop(self._limit() - layout.nbytes)
        lease = _Lease(found or self._fresh(layout.nbytes), self._returned)
        whole = np.asarray(lease)
        places = zip(layout.types, layout.offsets)
        return [np.ndarray(shape, dtype, whole, offset) for (shape, dtype), offset in places]

    @holding(_LOCK)
    def nbytes(self) -> tuple[int, int]:
        """Bytes that callers hold, and bytes that wait."""
        self._collect()
        self._drop(self._limit())
        idle = sum(size * len(blocks) for size, blocks in self._idle.items())
        return sum(block.memory.nbytes for block in [*self._blocks]) - idle, idle

    def _collect(self) -> None:
        """Sort in what came back; the sizes used last come last."""
        while self._returned:
            block = self._returned.popleft()
            size = block.memory.nbytes
            self._idle[size] = [*self._idle.pop(size, ()), block]

    def _waiting(self, size: int) -> _Block | None:
        blocks = self._idle.get(size)
        return blocks.pop() if blocks else None

    def _fresh(self, size: int) -> _Block:
        block = _Block(size)
        self._blocks.add(block)
        return block

    def _limit(self) -> int:
        return max(self._most.values(), default=0)

    def _drop(self, limit: int) -> None:
        """Give the system blocks until the others are not more than ``limit`` bytes."""
        idle = sum(size * len(blocks) for size, blocks in self._idle.items())
        for size, blocks in [*self._idle.items()]:
            while blocks and idle > limit:
                blocks.pop()
                idle -= size
            if not blocks:
                del self._idle[size]

    def _shrink(self) -> None:
        """After an executable went; a call that is under way sees to it otherwise."""
        if not _LOCK._is_owned() and _LOCK.acquire(blocking=False):
            try:
                self._collect()
                self._drop(self._limit())
            finally:
                _LOCK.release()


SAVED = SavedMemory()
