"""Opening files to read: what is no file neither hangs a program nor fills its memory.

In: a name, which may be anything that the system has under it. Out: an open binary file whose kind
is known. The system is never asked in a way that waits: a pipe that no process writes
to is empty. Devices, directories and sockets are refused by name.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Any

_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
)
_PIECE = 1 << 20  # bytes that a pipe is asked for at once
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_file(
    name: str | os.PathLike[str], pipe_bytes: int = 0, follow: bool = True
) -> io.BufferedReader:
    """Open a regular file to read.

    pipe_bytes  how much may come out of a pipe, which is taken as well when this is not 0; a pipe
                is waited for only while a process holds it open to write
    follow      whether the name may be a link
    Raises OSError as ``open`` does, and for what is neither; reading more from a pipe raises it.
    """
    flags = _FLAGS if follow else _FLAGS | getattr(os, "O_NOFOLLOW", 0)
    # An object has the descriptor from the beginning: whatever is raised, it is closed once.
    raw = io.FileIO(os.fspath(name), opener=lambda path, _: os.open(path, flags))
    try:
        kind = stat.S_IFMT(os.fstat(raw.fileno()).st_mode)
        if kind == stat.S_IFREG:
            return io.BufferedReader(raw)
        if kind != stat.S_IFIFO or not pipe_bytes:
            raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a file")
        os.set_blocking(raw.fileno(), True)
        return io.BufferedReader(_Pipe(raw, pipe_bytes))
    except BaseException:
        raw.close()
        raise


class _Pipe(io.RawIOBase):
    """A pipe of which at most ``most`` bytes are read."""

    def __init__(self, raw: io.FileIO, most: int) -> None:
        self._raw = raw
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.read(self._raw.fileno(), min(len(buffer), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"more than {self._most} bytes came out of the pipe")
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_PIECE), b""))

    def close(self) -> None:
        super().close()
        self._raw.close()
