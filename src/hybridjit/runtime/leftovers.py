"""What compiling leaves in memory, and the system may have again.

That is what was freed in the middle of a heap, and LLVM's own code: Linux reads its pages from the
library's file again when they are needed. On other systems nothing is done.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import numpy as np

_DONT_NEED = 4  # MADV_DONTNEED
# Bytes of blocks that glibc maps alone from the start, and of the largest whose free it follows.
_MAPPED_ALONE, _LARGEST_COUNTED = 128 << 10, (32 << 20) - (64 << 10)
_LIBRARIES = ("libllvmlite", "libLLVM")
# glibc's; musl has no trim.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_TRIM, _ADVISE = (getattr(_LIBC, name, None) for name in ("malloc_trim", "madvise"))


def release_freed() -> None:
    """Give the system the memory that compiling has freed: 30 MB of ResNet-50's, in 3 ms.

    Where a heap is in pieces, what is allocated next takes up to 3 MB of it again, bit by bit.
    """
    if _TRIM is not None:
        _TRIM(0)


def keep_freed(nbytes: int) -> None:
    """Let malloc keep so many bytes that calls free for the next call, and copies of them.

    Else it gives them back, and each call asks for every page again: 0.9 ms for outputs of 1.3 MB
    and their copy in NumPy, 605 pages. glibc keeps twice as much as the largest block that was
    ever mapped alone and freed, so one is, without a touch; from 32 MB on it counts none.
    """
    if _TRIM is not None and nbytes >= _MAPPED_ALONE // 2:
        np.empty(min(2 * nbytes, _LARGEST_COUNTED), np.uint8)


def release_code() -> None:
    """Give the system LLVM's code: 30 to 55 MB in 1 to 3 ms, and 2 ms in the next compilation."""
    if _ADVISE is not None:
        for start, end in _code_in_memory():
            _ADVISE(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _code_in_memory() -> Iterator[tuple[int, int]]:
    """First address of LLVM's code and the one behind it; data, which are written to, are not."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:  # a system without /proc
        return
    for line in lines:
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "r-xp" and any(library in word for word in name for library in _LIBRARIES):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)
