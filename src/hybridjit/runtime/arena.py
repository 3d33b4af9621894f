"""Aligned storage for packed parameters and for one run of a plan; the check mode's poison and
canaries.

Memory of a megabyte and more begins where a huge page does, for which NumPy asks the system. Each
page of 4 KB that the processor's table of 3,072 does not hold is looked up in memory, in a virtual
machine twice. Measured on AMD Zen 4, medians of six processes with such pages and of six without:
SqueezeNet 3 to 5 % less time, ResNet-50 and VGG-16 2 %, DenseNet-121 1.7 %, MobileNet 0.5 %.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from ..errors import InternalError

ALIGNMENT = 64
CANARY_BYTES = 64
_CANARY = 0xA5
# Bytes beyond every cache: what is streamed from memory comes as fast without huge pages. An LSTM's
# step, whose 14 MB are read over and over, takes 15 % longer without them.
_STREAMED = 128 << 20
# Bytes of a huge page; so many of them that one is worth it; and of memory for which NumPy asks.
_HUGE_PAGE, _WORTH_A_PAGE, _ASKED_FOR = 2 << 20, 1 << 20, 4 << 20
# Bytes that are asked for at once, where that is several arrays.
_MOST_TOGETHER = 64 << 20

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class Arena:
    """``nbytes`` of memory, 64-byte aligned, with canaries on both sides.

    A fresh arena holds NaN in every float, so that reading what was never written shows.
    """

    def __init__(self, nbytes: int) -> None:
        whole = aligned_bytes(nbytes + 2 * CANARY_BYTES)
        stop = CANARY_BYTES + nbytes
        self.nbytes = nbytes
        self.bytes = whole[CANARY_BYTES:stop]
        self.address = address_of(whole) + CANARY_BYTES
        self._low, self._high = whole[:CANARY_BYTES], whole[stop:]
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
    return aligned_bytes(size * dtype.itemsize).view(dtype)


def aligned_bytes(nbytes: int) -> np.ndarray:
    """So many bytes on a 64-byte boundary; many of them on that of a huge page."""
    if nbytes < _WORTH_A_PAGE:
        return _aligned(np.empty(nbytes + ALIGNMENT, np.uint8), nbytes)
    raw = np.empty(max(nbytes + _HUGE_PAGE, _ASKED_FOR), np.uint8)
    return _aligned(raw, nbytes, _HUGE_PAGE)


def aligned_together(sizes: Sequence[int]) -> list[np.ndarray]:
    """So many bytes each, on 64-byte boundaries: side by side, so that small ones share huge pages.

    What was asked for at once is freed when the last of it is: 64 MB, or one that is larger.
    """
    rooms: list[np.ndarray] = []
    while len(rooms) < len(sizes):
        rooms += _side_by_side(_first_together(sizes[len(rooms) :]))
    return rooms


def _first_together(sizes: Sequence[int]) -> list[int]:
    """As many of the first as are asked for at once: one at least."""
    ends = list(accumulate(map(_up_to_boundary, sizes)))
    return list(sizes[: max(1, bisect_right(ends, _MOST_TOGETHER))])


def _side_by_side(sizes: Sequence[int]) -> Iterator[np.ndarray]:
    starts = [0, *accumulate(map(_up_to_boundary, sizes))]
    whole = aligned_bytes(starts[-1])
    return (whole[start : start + size] for start, size in zip(starts, sizes))


def _up_to_boundary(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


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


def _aligned(raw: np.ndarray, nbytes: int, boundary: int = ALIGNMENT) -> np.ndarray:
    start = -address_of(raw) % boundary
    return raw[start : start + nbytes]
