"""Archives with a model: graphs and parameters are unpacked, nothing else.

In: an archive, and the endings of a model's files. Out: its files with such names in a folder.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .._core.safe_open import open_file
from ..errors import ModelFormatError
from .atomic import system_errors

MOST_BYTES = 16 << 30
"""The most bytes of an archive's content that are read."""
MOST_MEMBERS = 100_000
_CHUNK = 1 << 20
_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open,
}  # fmt: skip
_MALFORMED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError),
    *(zlib.error, EOFError, NotImplementedError),  # the last for compression methods of zip files
)


@contextmanager
def unpacked(archive: str, endings: Sequence[str], is_zip: bool) -> Iterator[str]:
    """A folder with the archive's files of these endings, which exists inside the ``with`` block.

    Raises as :func:`unpack` does.
    """
    with system_errors(archive):
        temporary = tempfile.TemporaryDirectory(prefix="hybridjit-")
    with temporary as folder:
        with system_errors(archive):
            unpack(archive, folder, tuple(endings), is_zip)
        yield folder


def unpack(archive: str, folder: str, endings: tuple[str, ...], is_zip: bool) -> None:
    """Write an archive's files of these endings into ``folder``, under their last names.

    Raises ModelFormatError for a malformed archive, for equal names, and for one with more than
    MOST_MEMBERS members or MOST_BYTES bytes.
    """
    try:
        with open_file(archive) as file:
            members = _zipped(file) if is_zip else _taped(file, archive)
            _write(members, archive, Path(folder), endings)
    except _MALFORMED as error:
        raise ModelFormatError(f"{archive}: malformed archive: {error}") from None


def _write(
    members: Iterable[tuple[str, IO[bytes]]], archive: str, folder: Path, endings: tuple[str, ...]
) -> None:
    for name, content in members:
        target = folder / PurePosixPath(name).name
        if not target.name.endswith(endings):
            continue
        if target.exists():
            raise ModelFormatError(f"{archive}: two files are named {target.name}")
        with target.open("wb") as written:
            shutil.copyfileobj(content, written, _CHUNK)


class _Bounded:
    """A stream of which at most MOST_BYTES are read, over all that share its count."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = MOST_BYTES

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(_CHUNK if count < 0 else count)
        self._left -= len(data)
        if self._left < 0:
            raise ModelFormatError(f"an archive holds at most {MOST_BYTES} bytes, this one more")
        return data


def _taped(file: IO[bytes], archive: str) -> Iterator[tuple[str, IO[bytes]]]:
    opener = _OPENERS.get(os.path.splitext(archive)[1])
    plain = opener(file) if opener else file
    with tarfile.open(fileobj=_Bounded(plain), mode="r|") as tape:  # type: ignore[call-overload]
        for number, member in enumerate(tape):
            _require_few(number)
            content = tape.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def _zipped(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        _require_few(len(members))
        if any(member.flag_bits & 1 for member in members):
            raise ModelFormatError("an encrypted archive cannot be read: unpack it first")
        left = MOST_BYTES
        for member in members:
            left -= member.file_size
            if left < 0:
                raise ModelFormatError(
                    f"an archive holds at most {MOST_BYTES} bytes, this one more"
                )
            with archive.open(member) as content:
                yield member.filename, content


def _require_few(count: int) -> None:
    if count > MOST_MEMBERS:
        raise ModelFormatError(f"an archive has at most {MOST_MEMBERS} members, this one more")
