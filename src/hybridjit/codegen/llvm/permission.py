"""Permission to use the tile registers of AMX, which Linux grants to a process on request.

The permission applies to all threads of the process and to processes that it forks. Linux denies it
if a thread has an alternative signal stack that is too small for the registers.
"""

from __future__ import annotations

import ctypes
import sys

_ARCH_PRCTL = 158
_REQUEST, _TILE_DATA = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA


def allows_tiles() -> bool:
    """Request the permission and return whether Linux grants it; for x86-64 only."""
    if sys.platform != "linux":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    numbers = (ctypes.c_long(n) for n in (_ARCH_PRCTL, _REQUEST, _TILE_DATA))
    return bool(syscall(*numbers) == 0)
