"""Writing a file so that its old content survives until the new one is whole.

In: a path and the bytes in pieces. Out: the file, replaced in one step. Neither format knows how.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from ..errors import MXNetError

Path = str | os.PathLike[str]

# The whole files that wait for those that belong to them: (temporary, target).
_WAITING: ContextVar[list[tuple[str, str]] | None] = ContextVar("_WAITING", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Files that are written inside take their places at the end: all, or none if one fails.

    A graph and its parameters are such files. Raises MXNetError with the system's reason.
    """
    files: list[tuple[str, str]] = []
    token = _WAITING.set(files)
    try:
        yield
        while files:
            with system_errors(files[0][1]):
                os.replace(*files[0])
            files.pop(0)
    finally:
        _WAITING.reset(token)
        for temporary, _ in files:
            with suppress(OSError):
                os.unlink(temporary)


def write_atomically(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write ``pieces`` to a temporary file in the same folder, flush it to disk, rename it.

    Inside :func:`together` the renaming waits. A failure (a full disk, say) leaves the old file
    whole and no temporary one. A path that is not a regular file (a pipe, ``/dev/stdout``) is
    written as it stands.
    Raises MXNetError with the system's reason.
    """
    with system_errors(path):
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as out:
                out.writelines(pieces)
            return
        _replace(target, pieces)


def _replace(target: str, pieces: Iterable[bytes | memoryview]) -> None:
    mode = _mode_for(target)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(pieces)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, mode)
        waiting = _WAITING.get()
        if waiting is not None:
            waiting.append((temporary, target))
        else:
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode_for(target: str) -> int:
    """The permissions of the file to replace; of a new one, what the process's mask leaves."""
    if os.path.exists(target):
        return os.stat(target).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Turn the system's file errors into MXNetError: ``<path>: No such file or directory``.

    Raises TypeError for what is no file name: a number would be taken for an open file.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a file's name is a string or a path, got {type(path).__name__}")
    try:
        yield
    except OSError as error:
        raise MXNetError(f"{os.fspath(path)}: {error.strerror or error}") from None
