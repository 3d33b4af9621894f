"""Aligned storage for one run of a plan, and the check mode's poison and canaries."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

from ..errors import InternalError

ALIGNMENT = 64
CANARY_BYTES = 64
_CANARY = 0xA5
# Bytes beyond every cache: what is streamed from memory comes as fast without huge pages. An LSTM's
# step, whose 14 MB are read over and over, takes 15 % longer without them.
_STREAMED = 128 << 20

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class Arena:
    """``nbytes`` of memory, 64-byte aligned, with canaries on both sides.

    A fresh arena holds NaN in every float, so that reading what was never written shows.
    """

    def __init__(self, nbytes: int) -> None:
        self._raw = np.empty(nbytes + 2 * CANARY_BYTES + ALIGNMENT, np.uint8)
        base: int = self._raw.__array_interface__["data"][0]
        start = -(base + CANARY_BYTES) % ALIGNMENT + CANARY_BYTES
        self.nbytes = nbytes
        self.address = base + start
        self.bytes = self._raw[start : start + nbytes]
        self._low = self._raw[start - CANARY_BYTES : start]
        self._high = self._raw[start + nbytes : start + nbytes + CANARY_BYTES]
        self._low[:] = self._high[:] = _CANARY

    def poison(self, start: int = 0, stop: int | None = None) -> None:
        """Fill bytes with NaN (all bits set is a NaN in every float type)."""
        self.bytes[start:stop] = 0xFF

    def check_canaries(self, after: str) -> None:
        """Raises InternalError if something was written outside the arena."""
        if (self._low != _CANARY).any() or (self._high != _CANARY).any():
            raise InternalError(f"bug in hybridjit: {after} wrote outside the arena")


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element.

    Through the buffer protocol: 0.3 us, against 0.9 us through ``__array_interface__``, which is
    left for arrays that cannot be written or are empty.
    """
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return int(array.__array_interface__["data"][0])


def aligned_empty(size: int, dtype: np.dtype) -> np.ndarray:
    """Room for ``size`` elements on a 64-byte boundary, so that no vector crosses a cache line."""
    nbytes = size * dtype.itemsize
    return _aligned(np.empty(nbytes + ALIGNMENT, np.uint8), nbytes).view(dtype)


def aligned_pages(nbytes: int) -> np.ndarray:
    """Bytes on a 64-byte boundary, for what a step of training writes once and reads once.

    NumPy asks the system for huge pages, and many bytes do without. Where a host takes back what
    its virtual machine leaves free, it takes 5 ms to give 2 MB again: MobileNet's first step,
    nothing cached, takes 1.9 s with them and 1.5 without (AMD Zen 5), and all others as long.

    Raises MemoryError as NumPy does.
    """
    return _aligned(_pages(nbytes + ALIGNMENT), nbytes)


def _pages(nbytes: int) -> np.ndarray:
    if sys.platform == "win32" or nbytes < _STREAMED:
        return np.empty(nbytes, np.uint8)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"unable to allocate {nbytes} bytes: {error}") from error
    return np.frombuffer(pages, np.uint8)


def _aligned(raw: np.ndarray, nbytes: int) -> np.ndarray:
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + nbytes]
