"""Memory of saved outputs, which live from one call to a later call of another executable.

Input: types. Output: arrays in one block of memory, which belong to the caller until the last of
them and of their views is gone. Then the block is reused: writing a hundred fresh arrays of 1 MB
takes 85 ms, writing the same memory again 11 ms, because the system zeroes every new page.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np

from .._core.async_safety import holding
from .._core.fork_locks import Rank, held_at_fork
from .._core.live_set import LiveSet
from .arena import ALIGNMENT, address_of, aligned_pages

Typed = tuple[tuple[int, ...], np.dtype]

_LOCK = held_at_fork(Rank.SAVING)


class Layout:
    """Offsets of arrays of these types in one block, each aligned."""

    __slots__ = ("types", "offsets", "nbytes")

    def __init__(self, types: Sequence[Typed]) -> None:
        self.types = tuple(types)
        self.offsets: list[int] = []
        self.nbytes = 0
        for shape, dtype in types:
            self.offsets.append(-(-self.nbytes // ALIGNMENT) * ALIGNMENT)
            self.nbytes = self.offsets[-1] + math.prod(shape) * dtype.itemsize


class _Block:
    """A block of memory."""

    __slots__ = ("memory", "__weakref__")

    def __init__(self, nbytes: int) -> None:
        self.memory = aligned_pages(nbytes)


class _Lease:
    """The object to which the arrays of a block and their views refer; its end returns the block.

    The garbage collector may end it in any thread and with any lock held, so ``__del__`` is a
    single operation that cannot be interrupted.
    """

    __slots__ = ("__array_interface__", "_block", "_returned")

    def __init__(self, block: _Block, returned: deque[_Block]) -> None:
        self._block, self._returned = block, returned
        data = (address_of(block.memory), False)
        self.__array_interface__ = {
            "version": 3, "shape": block.memory.shape, "typestr": "|u1", "data": data,
        }  # fmt: skip

    def __del__(self) -> None:
        if hasattr(self, "_returned"):  # otherwise __init__ failed, and the block is freed
            self._returned.append(self._block)


class SavedMemory:
    """Idle blocks by size, to be reused for arrays that need as many bytes or fewer.

    Idle blocks and one call's block together are limited to the largest need of a live executable;
    beyond that, the least recently used size is freed.
    """

    def __init__(self) -> None:
        self._blocks: LiveSet[_Block] = LiveSet()
        self._most: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._idle: dict[int, list[_Block]] = {}
        self._returned: deque[_Block] = deque()

    @holding(_LOCK)
    def serve(self, executable: object, nbytes: int) -> None:
        """Reserve ``nbytes`` for calls of ``executable`` as long as it lives."""
        self._most[executable] = nbytes
        weakref.finalize(executable, self._shrink).atexit = False

    @holding(_LOCK)
    def take(self, layout: Layout) -> list[np.ndarray]:
        """An array of each type, with arbitrary contents."""
        self._collect()
        found = self._waiting(layout.nbytes)
        block = found or self._fresh(layout.nbytes)
        if self._idle:
            self._drop(self._limit() - block.memory.nbytes)
        lease = _Lease(block, self._returned)
        whole = np.asarray(lease)
        places = zip(layout.types, layout.offsets)
        return [np.ndarray(shape, dtype, whole, offset) for (shape, dtype), offset in places]

    @holding(_LOCK)
    def nbytes(self) -> tuple[int, int]:
        """Bytes held by callers, and bytes of idle blocks."""
        self._collect()
        self._drop(self._limit())
        idle = sum(size * len(blocks) for size, blocks in self._idle.items())
        return sum(block.memory.nbytes for block in self._blocks) - idle, idle

    def _collect(self) -> None:
        """Move returned blocks to the idle ones; the most recently used sizes come last."""
        while self._returned:
            block = self._returned.popleft()
            size = block.memory.nbytes
            self._idle[size] = [*self._idle.pop(size, ()), block]

    def _waiting(self, nbytes: int) -> _Block | None:
        """The smallest idle block that is large enough."""
        size = min((size for size, known in self._idle.items() if size >= nbytes and known),
                   default=None)  # fmt: skip
        return None if size is None else self._idle[size].pop()

    def _fresh(self, size: int) -> _Block:
        block = _Block(size)
        self._blocks.add(block)
        return block

    def _limit(self) -> int:
        return max(self._most.values(), default=0)

    def _drop(self, limit: int) -> None:
        """Free idle blocks until the others are at most ``limit`` bytes."""
        idle = sum(size * len(blocks) for size, blocks in self._idle.items())
        for size, blocks in [*self._idle.items()]:
            while blocks and idle > limit:
                blocks.pop()
                idle -= size
            if not blocks:
                del self._idle[size]

    def _shrink(self) -> None:
        """Free memory after the end of an executable, unless a running call will do so."""
        if not _LOCK._is_owned() and _LOCK.acquire(blocking=False):
            try:
                self._collect()
                self._drop(self._limit())
            finally:
                _LOCK.release()


SAVED = SavedMemory()
