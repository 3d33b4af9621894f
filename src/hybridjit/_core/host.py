"""Facts and functions of the system: what Linux alone has, each with a portable form.

``HYBRIDJIT_PORTABLE=1`` selects the portable forms on Linux too, so that tests cover them. The
switch is read at import.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING

from .config import config
from .lazy import Late

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = Late("tempfile")  # for batches on systems without memfd; it imports ten modules


def is_portable() -> bool:
    """Whether only functions that all systems have are used."""
    return config.portable or sys.platform != "linux"


def system_text(path: str) -> str:
    """Text of a file in ``/proc`` or ``/sys``. Raises OSError where there are none."""
    if is_portable():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def usable_cpus() -> set[int] | None:
    """Numbers of the CPUs that this process may use; None if the system does not say."""
    if is_portable() or not hasattr(os, "sched_getaffinity"):
        return None
    return os.sched_getaffinity(0)


def linux_libc() -> ctypes.CDLL | None:
    """The C library, for functions of glibc; None on other systems."""
    return None if is_portable() else ctypes.CDLL(None)


def unnamed_file(label: str) -> int:
    """A descriptor of an empty file without a name: in memory on Linux, else in the folder of
    temporary files. Raises OSError."""
    if not is_portable() and hasattr(os, "memfd_create"):
        return os.memfd_create(label, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
