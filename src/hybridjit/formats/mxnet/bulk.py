"""Reads of the large arrays of a file, combined into few system calls without the GIL.

Input: arrays, and the offsets of their bytes. Output: the same arrays, filled. With one call per
array, each would wait to reacquire the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

CAN_READ = hasattr(os, "preadv")
WORTH_IT = 1 << 16  # minimal bytes of an array: smaller ones are mostly in the file's buffer
_CALL_BYTES = 16 << 20  # approximate bytes of a call
_CALL_BUFFERS = 512  # below 1024, the smallest system limit


class Bulk:
    """Arrays to fill from the file ``handle``, in the order of the file."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waiting: list[tuple[int, memoryview]] = []

    def add(self, array: np.ndarray, offset: int) -> None:
        """Add a contiguous array whose bytes start at ``offset``, after those of the previous
        arrays."""
        self._waiting.append((offset, array.reshape(-1).view(np.uint8).data))

    def read(self) -> None:
        """Fill all arrays. Raises EOFError if the file ends early, OSError."""
        for offset, buffers in _runs(self._waiting):
            while buffers:
                got = os.preadv(self._handle, buffers, offset)
                if got == 0:
                    raise EOFError
                offset += got
                buffers = _after(buffers, got)


def _runs(waiting: list[tuple[int, memoryview]]) -> Iterator[tuple[int, list[memoryview]]]:
    """Arguments of each call: an offset, and consecutive buffers.

    The bytes between two arrays go to one buffer that is discarded.
    """
    between = memoryview(bytearray(WORTH_IT))
    start = end = 0
    buffers: list[memoryview] = []
    for offset, data in waiting:
        gap = offset - end
        is_full = end - start > _CALL_BYTES or len(buffers) > _CALL_BUFFERS
        if buffers and (is_full or gap > len(between)):
            yield start, buffers
            buffers = []
        if not buffers:
            start = offset
        elif gap:
            buffers.append(between[:gap])
        buffers.append(data)
        end = offset + len(data)
    if buffers:
        yield start, buffers


def _after(buffers: list[memoryview], count: int) -> list[memoryview]:
    """Remaining parts of the buffers after ``count`` bytes were read."""
    for index, buffer in enumerate(buffers):
        if count < len(buffer):
            return [buffer[count:], *buffers[index + 1 :]]
        count -= len(buffer)
    return []
