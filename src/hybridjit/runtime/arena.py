"""Aligned memory for packed parameters and for one run of a plan; poison and canaries of check
mode.

Blocks of a megabyte and more begin at a huge-page boundary; NumPy requests huge pages from the
system. Each 4 KB page that is missing in the processor's table of 3,072 entries is looked up in
memory, twice in a virtual machine. Medians of six processes with such pages and of six without, AMD
Zen 4: SqueezeNet takes 3 to 5 % less time, ResNet-50 and VGG-16 2 %, DenseNet-121 1.7 %, MobileNet
0.5 %.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from .._core import host
from ..errors import InternalError

ALIGNMENT = 64
CANARY_BYTES = 64
_CANARY = 0xA5
# Bytes beyond every cache: data streamed from memory arrives as fast without huge pages. A step of
# an LSTM that reads the same 14 MB repeatedly takes 15 % longer without them.
_STREAMED = 128 << 20
# Bytes of a huge page; of a block that is worth one; and of memory for which NumPy requests them.
_HUGE_PAGE, _WORTH_A_PAGE, _ASKED_FOR = 2 << 20, 1 << 20, 4 << 20
# Bytes of the largest block that is shared by several arrays.
_MOST_TOGETHER = 64 << 20

_ALLOW_HUGE = 14  # MADV_HUGEPAGE
_ADVISE = getattr(host.linux_libc(), "madvise", None)

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class Arena:
    """``nbytes`` of memory, 64-byte aligned, with canaries on both sides.

    A fresh arena holds NaN in every float, which reveals reads of memory that was never written.
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
        """Fill bytes with NaN (all bits set is a NaN in every floating-point type)."""
        self.bytes[start:stop] = 0xFF

    def check_canaries(self, after: str) -> None:
        """Raise InternalError if something was written outside the arena."""
        if (self._low != _CANARY).any() or (self._high != _CANARY).any():
            raise InternalError(f"bug in hybridjit: {after} wrote outside the arena")


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element.

    Uses the buffer protocol: 0.3 us, against 0.9 us through ``__array_interface__``, which serves
    read-only and empty arrays.
    """
    try:
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return int(array.__array_interface__["data"][0])


def aligned_empty(size: int, dtype: np.dtype) -> np.ndarray:
    """``size`` elements at a 64-byte boundary, so that no vector crosses a cache line."""
    return aligned_bytes(size * dtype.itemsize).view(dtype)


def aligned_bytes(nbytes: int) -> np.ndarray:
    """``nbytes`` bytes at a 64-byte boundary; large blocks at a huge-page boundary."""
    if nbytes < _WORTH_A_PAGE:
        return _aligned(np.empty(nbytes + ALIGNMENT, np.uint8), nbytes)
    raw = np.empty(max(nbytes + _HUGE_PAGE, _ASKED_FOR), np.uint8)
    return _aligned(raw, nbytes, _HUGE_PAGE)


def aligned_together(sizes: Sequence[int], in_small_pages: bool = False) -> list[np.ndarray]:
    """Blocks of these sizes at 64-byte boundaries, adjacent, so that small ones share huge pages.

    Blocks that were allocated together, up to 64 MB or one larger block, are freed when the last of
    them is. ``in_small_pages`` states that they are made while calls wait: see
    :func:`aligned_pages`.
    """
    allocate = _in_small_pages if in_small_pages else aligned_bytes
    rooms: list[np.ndarray] = []
    while len(rooms) < len(sizes):
        rooms += _side_by_side(_first_together(sizes[len(rooms) :]), allocate)
    return rooms


def _first_together(sizes: Sequence[int]) -> list[int]:
    """The first sizes that fit into one allocation: at least one."""
    ends = list(accumulate(map(_up_to_boundary, sizes)))
    return list(sizes[: max(1, bisect_right(ends, _MOST_TOGETHER))])


def _side_by_side(
    sizes: Sequence[int], allocate: Callable[[int], np.ndarray]
) -> Iterator[np.ndarray]:
    starts = [0, *accumulate(map(_up_to_boundary, sizes))]
    whole = allocate(starts[-1])
    return (whole[start : start + size] for start, size in zip(starts, sizes))


def _up_to_boundary(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def aligned_pages(nbytes: int) -> np.ndarray:
    """Bytes at a 64-byte boundary, for data that a training step writes once and reads once.

    Large blocks avoid the huge pages that NumPy would request. A host that takes back free memory
    of its virtual machine needs 5 ms to provide 2 MB again: MobileNet's first step, nothing cached,
    takes 1.9 s with huge pages and 1.5 s without (AMD Zen 5); later steps take as long. Raises
    MemoryError as NumPy does.
    """
    return _aligned(_pages(nbytes + ALIGNMENT, _STREAMED), nbytes)


def _in_small_pages(nbytes: int) -> np.ndarray:
    """Bytes at a 64-byte boundary, never in huge pages that NumPy requests."""
    return _aligned(_pages(nbytes + ALIGNMENT, _ASKED_FOR), nbytes)


def allow_huge_pages(written: np.ndarray) -> None:
    """Let Linux move an array that was written in small pages to huge ones, in the background.

    Its thread moves 16 MB in 10 s, by default, and takes no time of this process. ResNet-18 after
    24 image sizes, 192 MB in small pages: calls take 0.98 of the time after 2.5 minutes (AMD Zen
    4, virtual machine). Other systems, and those that refuse, keep the pages.
    """
    if _ADVISE is not None and written.nbytes >= _WORTH_A_PAGE:
        start = address_of(written) // mmap.PAGESIZE * mmap.PAGESIZE
        nbytes = address_of(written) + written.nbytes - start
        _ADVISE(ctypes.c_void_p(start), ctypes.c_size_t(nbytes), _ALLOW_HUGE)


def _pages(nbytes: int, least: int) -> np.ndarray:
    """Bytes for which no huge pages are requested, from ``least`` bytes on."""
    if sys.platform == "win32" or nbytes < least:
        return np.empty(nbytes, np.uint8)
    try:
        pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"unable to allocate {nbytes} bytes: {error}") from error
    return np.frombuffer(pages, np.uint8)


def _aligned(raw: np.ndarray, nbytes: int, boundary: int = ALIGNMENT) -> np.ndarray:
    start = -address_of(raw) % boundary
    return raw[start : start + nbytes]
