"""The large arrays of a file, read together: few system calls, in which Python runs elsewhere.

In: arrays, and where their bytes are. Out: the same arrays, filled. One array at a time, each
would wait for its turn among the threads that run Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

CAN_READ = hasattr(os, "preadv")
WORTH_IT = 1 << 16  # bytes of an array: less is in the buffer of the file already, or nearly
_CALL_BYTES = 16 << 20  # what is read in one call, about
_CALL_BUFFERS = 512  # of 1024, which is the least limit that systems have


class Bulk:
    """Arrays that wait for their bytes from the file ``handle``, in the order of the file."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waiting: list[tuple[int, memoryview]] = []

    def add(self, array: np.ndarray, offset: int) -> None:
        """A contiguous array whose bytes begin at ``offset``, after all that were added before."""
        self._waiting.append((offset, array.reshape(-1).view(np.uint8).data))

    def read(self) -> None:
        """Fill all arrays. Raises EOFError when the file ends before that, OSError."""
        for offset, buffers in _runs(self._waiting):
            while buffers:
                got = os.preadv(self._handle, buffers, offset)
                if got == 0:
                    raise EOFError
                offset += got
                buffers = _after(buffers, got)


def _runs(waiting: list[tuple[int, memoryview]]) -> Iterator[tuple[int, list[memoryview]]]:
    """What is read in one call: an offset, and buffers for all bytes from there on.

    The bytes between two arrays go into one buffer, which nobody reads.
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
    """What is left of buffers when the first ``count`` bytes are filled."""
    for index, buffer in enumerate(buffers):
        if count < len(buffer):
            return [buffer[count:], *buffers[index + 1 :]]
        count -= len(buffer)
    return []
