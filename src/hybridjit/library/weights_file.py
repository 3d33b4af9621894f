"""Weights of a library: their offsets, and the file or section that contains them.

Input: arrays in the layouts of kernels, from :class:`..runtime.binding.Binding`. Output: their
offsets in one sequence of bytes. A file begins with a page that identifies its contents.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

import numpy as np

from .interface import ALIGNMENT

PAGE = 4096
HEAD = 64  # used bytes of the page; the others are 0
_MAGIC = b"HJWEIGHT"
_VERSION = 1


class Weights:
    """Contiguous arrays, each aligned to 64 bytes and stored once."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._arrays: list[np.ndarray] = []
        self.nbytes = 0

    def place(self, array: np.ndarray) -> int:
        """The offset of an array; adds it if it is new."""
        known = self._places.get(id(array))
        if known is None:
            known = self._places[id(array)] = self.nbytes
            self._arrays.append(array)
            self.nbytes += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return known

    def pieces(self) -> Iterator[bytes | memoryview]:
        """All bytes, in order."""
        for array in self._arrays:
            yield array.reshape(-1).view(np.uint8).data
            yield bytes(-array.nbytes % ALIGNMENT)

    def head(self) -> bytes:
        """First bytes of the file of these weights: magic number, version, size and digest."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return struct.pack(f"<8sQQ32s{HEAD - 56}x", _MAGIC, _VERSION, self.nbytes, digest.digest())

    def file(self, head: bytes) -> Iterator[bytes | memoryview]:
        """The bytes of a file."""
        yield head
        yield bytes(PAGE - len(head))
        yield from self.pieces()
