"""Writing a file so that its old content survives until the new one is whole.

In: a path and the bytes in pieces. Out: the file, replaced in one step. Neither format knows how.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context

from ..errors import MXNetError

Path = str | os.PathLike[str]

# The whole files that wait for those that belong to them: (temporary, target).
_WAITING: ContextVar[list[tuple[str, str]] | None] = ContextVar("_WAITING", default=None)


def together(*writers: Callable[[], None]) -> None:
    """Call the writers; their files take their places at the end: all, or none if one fails.

    A graph and its parameters are such files. Raises MXNetError with the system's reason.
    """
    files: list[tuple[str, str]] = []
    try:
        # In a context of their own: what follows this call does not see where they wait.
        copy_context().run(_write_all, writers, files)
        _replace_all(files)
    except BaseException:
        for temporary, _ in files:
            with suppress(OSError):  # it may have taken its place
                os.unlink(temporary)
        raise


def _write_all(writers: Sequence[Callable[[], None]], files: list[tuple[str, str]]) -> None:
    _WAITING.set(files)
    for write in writers:
        write()


def _replace_all(files: list[tuple[str, str]]) -> None:
    """Put all in place. An exception that comes between two of them waits for the rest."""
    try:
        for temporary, target in files:
            with system_errors(target):
                os.replace(temporary, target)
    except BaseException:
        if files and not os.path.lexists(files[0][0]):
            with suppress(OSError):  # what the disk refused it refuses again
                for temporary, target in files:
                    if os.path.lexists(temporary):
                        os.replace(temporary, target)
        raise


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
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.part")
    waiting = _WAITING.get()
    is_new = not os.path.exists(target)
    try:
        with open(temporary, "xb", opener=_open_to_all if is_new else _open_to_user) as out:
            out.writelines(pieces)
            out.flush()
            os.fsync(out.fileno())
        if not is_new:
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        if waiting is not None:
            waiting.append((temporary, target))
        else:
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):  # not there yet, or no longer
            os.unlink(temporary)
        raise


def _open_to_all(path: str, flags: int) -> int:
    """A new file, with the permissions that the process's mask leaves."""
    return os.open(path, flags, 0o666)


def _open_to_user(path: str, flags: int) -> int:
    """A file that replaces one which perhaps not everybody may read."""
    return os.open(path, flags, 0o600)


def require_name(path: Path) -> None:
    """Raises TypeError for what is no file name: a number would be taken for an open file."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a file's name is a string or a path, got {type(path).__name__}")


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """Turn the system's file errors into MXNetError: ``<path>: No such file or directory``.

    Raises TypeError for what is no file name: a number would be taken for an open file.
    """
    require_name(path)
    try:
        yield
    except OSError as error:
        raise MXNetError(f"{os.fspath(path)}: {error.strerror or error}") from None
