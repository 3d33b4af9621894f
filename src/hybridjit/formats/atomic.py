"""Atomic file writes: an old file is replaced only by a complete new one.

Input: a path and the bytes in chunks. Output: the file, replaced in one step. Independent of file
formats.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context

from ..errors import FileError, MissingFileError

Path = str | os.PathLike[str]

# Complete files that wait for the other files of a group: (temporary, target).
_WAITING: ContextVar[list[tuple[str, str]] | None] = ContextVar("_WAITING", default=None)


def together(*writers: Callable[[], None]) -> None:
    """Call the writers; their files replace the targets at the end: all, or none if one fails.

    A graph and its parameters are such files. Raises MXNetError with the system's reason.
    """
    files: list[tuple[str, str]] = []
    try:
        # Separate context: code after this call does not see the list of waiting files.
        copy_context().run(_write_all, writers, files)
        _replace_all(files)
    except BaseException:
        for temporary, _ in files:
            with suppress(OSError):  # it may be renamed already
                os.unlink(temporary)
        raise


def _write_all(writers: Sequence[Callable[[], None]], files: list[tuple[str, str]]) -> None:
    _WAITING.set(files)
    for write in writers:
        write()


def _replace_all(files: list[tuple[str, str]]) -> None:
    """Rename all files. If an exception interrupts this, rename the remaining files first."""
    try:
        for temporary, target in files:
            with system_errors(target):
                os.replace(temporary, target)
    except BaseException:
        if files and not os.path.lexists(files[0][0]):
            with suppress(OSError):  # a file that failed once fails again
                for temporary, target in files:
                    if os.path.lexists(temporary):
                        os.replace(temporary, target)
        raise


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write ``pieces`` to a temporary file in the same folder, flush it to disk, rename it.

    Inside :func:`together` the renaming is delayed. A failure, such as a full disk, leaves the old
    file intact and no temporary file. A path that is not a regular file (a pipe, ``/dev/stdout``)
    is written directly. Raises MXNetError with the system's reason.
    """
    with system_errors(path):
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as out:
                out.writelines(chunks)
            return
        _replace(target, chunks)


def _replace(target: str, chunks: Iterable[bytes | memoryview]) -> None:
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.part")
    waiting = _WAITING.get()
    is_new = not os.path.exists(target)
    try:
        with open(temporary, "xb", opener=_open_to_all if is_new else _open_to_user) as out:
            out.writelines(chunks)
            out.flush()
            os.fsync(out.fileno())
        if not is_new:
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        if waiting is not None:
            waiting.append((temporary, target))
        else:
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):  # not created yet, or renamed
            os.unlink(temporary)
        raise


def _open_to_all(path: str, flags: int) -> int:
    """Open a new file with the permissions of the process's mask."""
    return os.open(path, flags, 0o666)


def _open_to_user(path: str, flags: int) -> int:
    """Open a file that only the user can read; it replaces one that may have been protected."""
    return os.open(path, flags, 0o600)


def require_name(path: Path) -> None:
    """Raise TypeError unless ``path`` is a file name; ``open`` takes an int as a file
    descriptor."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a file name must be a string or a path, got {type(path).__name__}")


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Convert the system's file errors to FileError: ``<path>: No such file or directory``.

    Raises TypeError unless ``path`` is a file name; ``open`` takes an int as a file descriptor.
    """
    require_name(path)
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("no file has a null character in its name")
    except ValueError as error:  # UnicodeEncodeError as well
        raise FileError(f"{os.fspath(path)!r}: {error}") from None
    try:
        yield
    except FileError:
        raise  # of a call inside, with its own path
    except OSError as error:
        kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
        folder = os.path.dirname(os.fspath(path))
        way = f": there is no folder {folder}" if folder and not os.path.isdir(folder) else ""
        raise kind(f"{os.fspath(path)}: {error.strerror or error}{way}") from None
