"""Release memory that compilation leaves behind.

That is freed memory within the heap, and LLVM's own code, whose pages Linux reads from the
library's file again when they are needed. On other systems nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

from .._core import host

_DONT_NEED = 4  # MADV_DONTNEED
# Size from which glibc maps blocks separately at first, and of the largest block whose release
# adjusts this size.
_MAPPED_ALONE, _LARGEST_COUNTED = 128 << 10, (32 << 20) - (64 << 10)
_LIBRARIES = ("libllvmlite", "libLLVM")
# glibc's; musl lacks malloc_trim.
_LIBC = host.linux_libc()
_KEPT = [_MAPPED_ALONE - 1]  # bytes of the largest block that was freed for this purpose
_TRIM, _ADVISE = (getattr(_LIBC, name, None) for name in ("malloc_trim", "madvise"))


def release_freed() -> None:
    """Return the memory that compilation has freed to the system: 30 MB of ResNet-50's, in 3 ms.

    In a fragmented heap, later allocations take up to 3 MB of it again.
    """
    if _TRIM is not None:
        _TRIM(0)


def keep_freed(nbytes: int) -> None:
    """Let malloc keep ``nbytes`` that calls free for the next call, and for copies of them.

    Otherwise it returns them to the system, and each call faults in every page again: 0.9 ms for
    outputs of 1.3 MB and their copy in NumPy, 605 pages. glibc keeps twice the size of the largest
    separately mapped block that was ever freed, so one is allocated and freed, without touching it;
    blocks of 32 MB and more do not count.
    """
    size = min(2 * nbytes, _LARGEST_COUNTED)
    if _TRIM is not None and size > _KEPT[0]:
        _KEPT[0] = size
        np.empty(size, np.uint8)


def release_code() -> None:
    """Return LLVM's code to the system: 30 to 55 MB in 1 to 3 ms.

    The next compilation takes 2 ms more.
    """
    if _ADVISE is not None:
        for start, end in _code_in_memory():
            _ADVISE(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _code_in_memory() -> Iterator[tuple[int, int]]:
    """First address of LLVM's code and the one after it, without its writable data."""
    try:
        lines = host.system_text("/proc/self/maps").splitlines()
    except OSError:  # a system without /proc
        return
    for line in lines:
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "r-xp" and any(library in word for word in name for library in _LIBRARIES):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)
