"""Permission to use the tile registers of AMX, which Linux gives a process on request.

It holds for all threads of the process, and for processes that it forks. The system refuses if a
thread has an alternative signal stack that is too small for the registers.
"""

from __future__ import annotations

import ctypes
import sys

_ARCH_PRCTL = 158
_REQUEST, _TILE_DATA = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA


def allows_tiles() -> bool:
    """Request the permission; whether the system gives it. For x86-64 alone."""
    if sys.platform != "linux":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    numbers = (ctypes.c_long(n) for n in (_ARCH_PRCTL, _REQUEST, _TILE_DATA))
    return bool(syscall(*numbers) == 0)
