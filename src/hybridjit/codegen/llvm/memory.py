"""Memory for machine code, on POSIX systems.

Blocks are objects of the standard library's ``mmap``, which are freed by C code: an asynchronous
exception (Ctrl-C) in Python code of a finaliser would be lost. When the interpreter ends, blocks
stay: other threads may execute their code.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import mmap
from functools import lru_cache

from ..._core.limits import limit_text
from ..._core.live_set import LiveSet
from ...errors import MXNetError, OutOfMemoryError

CONSTANTS = mmap.PROT_READ
CODE, VARIABLES = CONSTANTS | mmap.PROT_EXEC, CONSTANTS | mmap.PROT_WRITE
_LIVE: LiveSet[mmap.mmap] = LiveSet()


def new_block(size: int) -> mmap.mmap:
    """Memory that can be written. Raises OutOfMemoryError."""
    try:
        block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, VARIABLES)
    except OSError:
        raise _too_little(size) from None
    _LIVE.add(block)
    return block


def _too_little(size: int) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"there is no memory for {size} bytes of machine code{limit_text('AS')}: raise the limit, "
        "or stay with eager calls (do not hybridize)"
    )


def address_of(block: mmap.mmap) -> int:
    """Its address; only as long as it can be written."""
    return ctypes.addressof(ctypes.c_char.from_buffer(block))


def protect(start: int, size: int, rights: int) -> None:
    """Allow ``CODE``, ``CONSTANTS`` or ``VARIABLES`` in this memory.

    Raises OutOfMemoryError, and MXNetError for code on systems that execute files alone.
    """
    # A private prototype: other modules may set the types of the shared function object.
    kinds = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    allow = ctypes.CFUNCTYPE(*kinds, use_errno=True)(("mprotect", process()))
    if size and allow(start, size, rights):
        if ctypes.get_errno() == errno.ENOMEM:
            raise _too_little(size)
        raise MXNetError(
            "this system does not let a process execute code that it has written (SELinux's "
            "execmem, systemd's MemoryDenyWriteExecute): allow it, stay with NumPy (do not "
            "hybridize, and set HYBRIDJIT_EAGER=numpy), or call a C library of the network, which "
            "`hybridjit compile --library` makes elsewhere"
        )


@lru_cache(maxsize=1)
def process() -> ctypes.CDLL:
    """The symbols of the process."""
    return ctypes.CDLL(None)


@atexit.register
def _keep() -> None:
    for block in _LIVE:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(block))
