"""Messages for limits of memory and files, and the import that needs most memory: LLVM's.

Libraries lose the system's reason ("could not find/load shared object file"); the functions here
determine it and put it into the message.
"""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import OutOfMemoryError
from . import host

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

_OPTIONS = {"AS": "-v", "NOFILE": "-n", "FSIZE": "-f"}
_COMPILER = "hybridjit.codegen.llvm.jit"
# Bytes of address space before LLVM is loaded, and before later compilations. With 300 and 48 MB
# some compilations ended in an abort: of LLVM, or of the C library for lack of a thread's data.
_NEEDED, _NEEDED_LATER = 320 << 20, 96 << 20
_SIZES = "/proc/self/statm"
# Messages of dynamic loaders whose `mmap` fails, on Linux and on the BSDs.
_TEXTS = ("failed to map segment", "annot allocate memory", "cannot map", "no more memory")


@contextmanager
def loading_compiler() -> Iterator[None]:
    """Import the code generator, and compile. Raises OutOfMemoryError for lack of memory."""
    is_loaded = _COMPILER in sys.modules
    if _free_addresses() < (_NEEDED_LATER if is_loaded else _NEEDED):
        raise _too_little(is_loaded)  # LLVM itself would end the process
    with explained_shortage():
        yield


@contextmanager
def explained_shortage() -> Iterator[None]:
    """Import modules, maybe the code generator. Raises OutOfMemoryError for lack of memory."""
    try:
        yield
    except (ImportError, OSError, MemoryError) as error:
        if not _is_shortage(error):
            raise
        raise _too_little() from error


def _too_little(is_loaded: bool = False) -> OutOfMemoryError:
    needed = (
        f"to compile: LLVM takes up to {_NEEDED_LATER >> 20} MB of address space for it"
        if is_loaded
        else f"to load the compiler: LLVM takes about {_NEEDED >> 20} MB of address space, more "
        "for compilations"
    )
    return OutOfMemoryError(
        f"there is too little memory {needed}{limit_text('AS')}. "
        "Raise the limit, or stay with eager calls (do not hybridize)"
    )


def _free_addresses() -> float:
    """Bytes that RLIMIT_AS leaves to the process; infinity where the system does not say."""
    if resource is None:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return math.inf
    try:
        pages = int(host.system_text(_SIZES).split()[0])
    except OSError:
        return math.inf
    return soft - pages * os.sysconf("SC_PAGE_SIZE")


def _is_shortage(error: BaseException | None) -> bool:
    """Whether an exception, or its cause or context, comes from a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(text in str(error) for text in _TEXTS):
            return True
        error = error.__cause__ or error.__context__
    return False


def limit_text(name: str) -> str:
    """The process's limit ``AS``, ``NOFILE`` or ``FSIZE`` for a message; "" without a limit."""
    if resource is None:
        return ""
    soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    if soft == resource.RLIM_INFINITY:
        return ""
    said = f"{soft >> 20} MB" if name == "AS" else soft
    return f" (RLIMIT_{name} of this process, `ulimit {_OPTIONS[name]}`, is {said})"
