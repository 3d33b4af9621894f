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
_NEEDED = 200 << 20  # bytes: a first compilation with 190 MB ends in an abort of LLVM
_SIZES = "/proc/self/statm"
# Messages of dynamic loaders whose `mmap` fails, on Linux and on the BSDs.
_TEXTS = ("failed to map segment", "annot allocate memory", "cannot map", "no more memory")


@contextmanager
def loading_compiler() -> Iterator[None]:
    """Import the code generator. Raises OutOfMemoryError for lack of memory."""
    if _COMPILER not in sys.modules and _free_addresses() < _NEEDED:
        raise _too_little()  # LLVM itself would end the process
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


def _too_little() -> OutOfMemoryError:
    return OutOfMemoryError(
        "there is too little memory to load the compiler: LLVM takes about "
        f"{_NEEDED >> 20} MB of address space, and more for each compilation{limit_text('AS')}. "
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
