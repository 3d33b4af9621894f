"""Opening of files to read that neither hangs the program nor fills its memory.

Input: a name of anything in the file system. Output: an open binary file of a known kind. The calls
do not wait: a pipe without a writing process is read as empty. Devices, directories and sockets are
refused with a message.
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
_PIECE = 1 << 20  # bytes requested from a pipe at once
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

    pipe_bytes  the most bytes that may come out of a pipe; 0 refuses pipes. A pipe is waited for
                only while a process holds it open to write
    follow      whether the name may be a link

    Raises OSError as ``open`` does, for other kinds of files, and when a pipe holds more.
    """
    flags = _FLAGS if follow else _FLAGS | getattr(os, "O_NOFOLLOW", 0)
    # The descriptor belongs to an object from the beginning: whatever is raised, it is closed once.
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
    """A pipe from which at most ``most`` bytes are read."""

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
