"""``mx.recordio``: files of records, in MXNet's format, byte for byte.

Input: records as bytes, or images with a header. Output: a ``.rec`` file, and an ``.idx`` file with
the position of each record. A record is a chunk: a magic number, its length, the bytes, zeros up to
a multiple of four. A record that contains the magic number at a multiple of four is split there
into several chunks.
"""

from __future__ import annotations

import io
import numbers
import os
import struct
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ._core.frames import public, public_methods
from ._core.image_codecs import decoded, encoded
from ._core.safe_open import open_file
from .errors import MXNetError
from .formats.atomic import system_errors

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]

Header: TypeAlias = Any  # an IRHeader, or a tuple of its four values
Key: TypeAlias = Any  # result of ``key_type`` for a string of the index

_MAGIC = struct.pack("<I", 0xCED7230A)
_HEAD = struct.Struct("<4sI")
_LENGTH_BITS = 29
_MOST = (1 << _LENGTH_BITS) - 1  # bytes of a chunk
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_LINE = 4096  # characters of a line in an index
_FARTHEST = 2**63 - 1  # position in a file

IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])  # type: ignore[name-match]  # noqa: PYI024
_IR = struct.Struct("<IfQQ")


@public_methods
class MXRecordIO:
    """A file of records, read or written from its beginning.

    In a process other than the one that opened it, a file for reading is opened again; a file for
    writing raises RuntimeError.

    Parameters
    ----------
    uri : str or os.PathLike
        Path of the ``.rec`` file.
    flag : str
        "r" to read, "w" to write a new file.

    Raises
    ------
    ValueError
        For another ``flag``.
    MXNetError
        For a file that cannot be opened, and for a file that is not made of records.

    Examples
    --------
    >>> file = mx.recordio.MXRecordIO("notes.rec", "w")
    >>> file.write(b"first"); file.write(b"second")
    >>> file.close()
    >>> file = mx.recordio.MXRecordIO("notes.rec", "r")
    >>> file.read(), file.read(), file.read()
    (b'first', b'second', None)
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.writable = False
        self.handle: Any = None
        self.open()

    def open(self) -> None:
        """Open the file; truncate it for writing. Raises the constructor's exceptions."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {self.flag}")
        self.writable = self.flag == "w"
        with system_errors(self.uri):
            self.handle = (
                io.BufferedWriter(io.FileIO(self.uri, "w"))
                if self.writable
                else open_file(self.uri)
            )
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file, and flush written records."""
        if self.is_open:
            self.is_open = False
            self.pid = None
            with system_errors(self.uri):
                self.handle.close()

    def reset(self) -> None:
        """Return to the beginning; a file for writing is truncated."""
        self.close()
        self.open()

    def __del__(self) -> None:
        if getattr(self, "is_open", False) and self.pid == os.getpid():
            self.close()

    def __getstate__(self) -> dict[str, object]:
        """State without the open file, which a copy opens again."""
        return {**self.__dict__, "handle": None, "pid": None}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        was_open, self.is_open = self.is_open, False
        if was_open:
            self.open()

    def write(self, buf: bytes) -> None:
        """Append a record. Raises MXNetError for one of 2**29 bytes or more."""
        assert self.writable, "the file was opened to read"
        self._check_pid(allow_reset=False)
        parts = list(_parts(bytes(buf)))
        for part in parts:
            if len(part) > _MOST:
                raise MXNetError(f"a record has at most {_MOST} bytes, got {len(buf)}")
        with system_errors(self.uri):
            for number, part in enumerate(parts):
                word = _flag(number, len(parts)) << _LENGTH_BITS | len(part)
                self.handle.write(_HEAD.pack(_MAGIC, word) + part + bytes(-len(part) % 4))

    def read(self) -> bytes | None:
        """The next record, None at the end. Raises MXNetError for malformed bytes."""
        assert not self.writable, "the file was opened to write"
        self._check_pid(allow_reset=True)
        with system_errors(self.uri):
            flag, part = self._chunk()
            if flag is None:
                return None
            if flag in (_MIDDLE, _LAST):
                raise self._damaged("a record begins with the last chunk of another one")
            parts = [part]
            while flag not in (_WHOLE, _LAST):
                flag, part = self._chunk()
                if flag not in (_MIDDLE, _LAST):
                    raise self._damaged("a record of several chunks has no last chunk")
                parts.append(part)
            return _MAGIC.join(parts)

    def go_to(self, position: int) -> None:
        """Continue reading at ``position``. Beyond the end of the file read() returns None."""
        self._check_pid(allow_reset=True)
        with system_errors(self.uri):
            size = os.fstat(self.handle.fileno()).st_size
            self.handle.seek(
                min(position, size)
            )  # operating systems reject positions far beyond it

    def _chunk(self) -> tuple[int | None, bytes]:
        """Flag and bytes of the next chunk; None as flag at the end. Lengths are checked."""
        head = self.handle.read(_HEAD.size)
        if not head:
            return None, b""
        if len(head) < _HEAD.size:
            raise self._damaged(f"a chunk's head has {_HEAD.size} bytes, {len(head)} are left")
        magic, word = _HEAD.unpack(head)
        if magic != _MAGIC:
            raise self._damaged(f"a chunk begins with {_MAGIC.hex()}, got {magic.hex()}")
        flag, length = word >> _LENGTH_BITS, word & _MOST
        left = os.fstat(self.handle.fileno()).st_size - self.handle.tell()
        if length > left:
            raise self._damaged(f"a chunk has {length} bytes, {left} are left")
        part = self.handle.read(length)
        self.handle.read(-length % 4)
        if len(part) < length:
            raise self._damaged(f"a chunk has {length} bytes, {len(part)} could be read")
        return flag, part

    def _damaged(self, why: str) -> MXNetError:
        return MXNetError(
            f"{self.uri} is not a complete record file: {why} (byte {self.handle.tell()})"
        )

    def _check_pid(self, allow_reset: bool) -> None:
        if not self.is_open:
            raise MXNetError(f"{self.uri} is closed")
        if self.pid != os.getpid():
            if not allow_reset:
                raise RuntimeError("Forbidden operation in multiple processes")
            self.handle = None  # belongs to the other process, with another position
            self.open()


def record_places(file: MXRecordIO) -> list[int]:
    """The position of each record of a file, found by reading all."""
    places: list[int] = []
    while True:
        at = file.handle.tell()
        if file.read() is None:
            return places
        places.append(at)


def _parts(record: bytes) -> Iterator[bytes]:
    """A record split at each magic number at a multiple of four, which is removed."""
    begin = start = 0
    while (found := record.find(_MAGIC, start)) >= 0:
        if found % 4:
            start = found + 1
            continue
        yield record[begin:found]
        begin = start = found + 4
    yield record[begin:]


def _flag(number: int, count: int) -> int:
    if count == 1:
        return _WHOLE
    return _FIRST if number == 0 else _LAST if number == count - 1 else _MIDDLE


@public_methods
class MXIndexedRecordIO(MXRecordIO):
    """A file of records that are accessed by key, with an index file.

    ``idx`` has the position of each key's record, ``keys`` the keys in the order of the index.

    Parameters
    ----------
    idx_path : str or os.PathLike
        Path of the index: lines of a key, a tab and a position.
    uri : str or os.PathLike
        Path of the ``.rec`` file.
    flag : str
        "r" to read, "w" to write new files.
    key_type : callable
        Converts the keys of the index, which are strings.

    Raises
    ------
    ValueError
        For another ``flag``.
    MXNetError
        For files that cannot be opened, and for an index with other lines.

    Examples
    --------
    >>> file = mx.recordio.MXIndexedRecordIO("notes.idx", "notes.rec", "w")
    >>> file.write_idx(7, b"seventh")
    >>> file.close()
    >>> mx.recordio.MXIndexedRecordIO("notes.idx", "notes.rec", "r").read_idx(7)
    b'seventh'
    """

    def __init__(
        self,
        idx_path: str | os.PathLike[str],
        uri: str | os.PathLike[str],
        flag: str,
        key_type: Callable[[Any], Key] = int,
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.key_type = key_type
        self.fidx: Any = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files; for reading, read the complete index."""
        super().open()
        self.idx, self.keys = {}, []
        with system_errors(self.idx_path):
            if self.writable:
                self.fidx = io.TextIOWrapper(io.FileIO(self.idx_path, "w"), "utf-8")
                return
            with open_file(self.idx_path) as file:
                self._read_index(file)

    def _read_index(self, file: io.BufferedReader) -> None:
        number = 0
        while line := file.readline(_LINE):
            number += 1
            try:
                key, position = line.decode().rstrip("\n").split("\t")
                self.keys.append(self.key_type(key))
                self.idx[self.keys[-1]] = _position(position)
            except (ValueError, ArithmeticError, LookupError, TypeError):
                raise MXNetError(
                    f"{self.idx_path}: line {number} must be a key, a tab and a position "
                    f"(an integer from 0 to {_FARTHEST}), got {line[:80]!r}"
                ) from None

    def close(self) -> None:
        """Close both files."""
        if self.is_open:
            super().close()
            if self.fidx is not None:
                with system_errors(self.idx_path):
                    self.fidx.close()
                self.fidx = None

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "fidx": None}

    def seek(self, idx: object) -> None:
        """Continue reading at the record of a key. Raises KeyError."""
        assert not self.writable, "the file was opened to write"
        if idx not in self.idx:
            raise KeyError(f"{idx!r}: {self.idx_path} has {len(self.idx)} keys{_some(self.keys)}")
        self.go_to(self.idx[idx])

    def tell(self) -> int:
        """Position of the next record."""
        assert self.writable, "the file was opened to read"
        return int(self.handle.tell())

    def read_idx(self, idx: object) -> bytes | None:
        """The record of a key. Raises KeyError."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: object, buf: bytes) -> None:
        """Append a record under a key."""
        key, position = self.key_type(idx), self.tell()
        self.write(buf)
        with system_errors(self.idx_path):
            self.fidx.write(f"{key}\t{position}\n")
        self.idx[key] = position
        self.keys.append(key)


def _position(text: str) -> int:
    """The integer in a line of an index. Raises ValueError for other strings."""
    if not (text.isascii() and text.strip().isdigit()) or int(text) > _FARTHEST:
        raise ValueError(text)
    return int(text)


# Headers


@public
def pack(header: Header, s: bytes) -> bytes:
    """Make a record of a header and bytes.

    Parameters
    ----------
    header : IRHeader
        ``(flag, label, id, id2)``. A label of several numbers is stored between header and bytes
        as float32, and ``flag`` becomes their count.
    s : bytes
        The content, such as an encoded image.

    Examples
    --------
    >>> record = mx.recordio.pack(mx.recordio.IRHeader(0, 3.0, 7, 0), b"content")
    >>> mx.recordio.unpack(record)
    (HEADER(flag=0, label=3.0, id=7, id2=0), b'content')
    """
    flag, label, number, second = header
    if isinstance(label, numbers.Number):
        return _IR.pack(0, label, number, second) + s
    labels = np.asarray(label, dtype=np.float32)
    return _IR.pack(labels.size, 0, number, second) + labels.tobytes() + s


@public
def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Split a record into its header and its bytes.

    Parameters
    ----------
    s : bytes
        A record of :func:`pack`.

    Raises
    ------
    MXNetError
        For a record that is too short for a header, or for the labels that its header counts.

    Examples
    --------
    >>> record = mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2], 7, 0), b"content")
    >>> header, content = mx.recordio.unpack(record)
    >>> header.label
    array([1., 2.], dtype=float32)
    """
    if len(s) < _IR.size:
        raise MXNetError(f"a record's header has {_IR.size} bytes, but the record has {len(s)}")
    header, rest = IRHeader(*_IR.unpack_from(s)), s[_IR.size :]
    if header.flag == 0:
        return header, rest
    size = 4 * header.flag
    if size > len(rest):
        raise MXNetError(
            f"a record has {header.flag} labels of 4 bytes, but only {len(rest)} bytes"
        )
    return header._replace(label=np.frombuffer(rest[:size], "<f4")), rest[size:]


@public
def pack_img(header: Header, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Make a record of a header and an image, which is encoded.

    Parameters
    ----------
    header : IRHeader
        As for :func:`pack`.
    img : numpy.ndarray
        Pixels of uint8: (height, width, 3) in the order blue, green, red, or grey
        (height, width).
    quality : int
        Of JPEG from 1 to 100, or PNG's compression from 0 to 9.
    img_fmt : str
        ".jpg", ".jpeg" or ".png".

    Raises
    ------
    AssertionError
        For another format.
    MXNetError
        Without OpenCV and Pillow.

    Examples
    --------
    >>> pixels = np.zeros((4, 6, 3), np.uint8)
    >>> record = mx.recordio.pack_img((0, 1.0, 0, 0), pixels, quality=3, img_fmt=".png")
    >>> mx.recordio.unpack_img(record)[1].shape
    (4, 6, 3)
    """
    kind = img_fmt.lower()
    assert kind in (".jpg", ".jpeg", ".png"), f"img_fmt must be .jpg, .jpeg or .png, got {img_fmt}"
    pixels = img[:, :, ::-1] if img.ndim == 3 else img
    return pack(header, encoded(pixels, ".jpg" if kind == ".jpeg" else kind, quality))


@public
def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray]:
    """Split a record into its header and its decoded image.

    The pixels are (height, width, 3) of uint8 in the order blue, green, red, or grey
    (height, width).

    Parameters
    ----------
    s : bytes
        A record of :func:`pack_img`.
    iscolor : int
        0 for grey; other numbers for colours.

    Raises
    ------
    MXNetError
        For other bytes, and without OpenCV and Pillow.

    Examples
    --------
    >>> record = mx.recordio.pack_img((0, 1.0, 0, 0), np.zeros((4, 6), np.uint8), 3, ".png")
    >>> mx.recordio.unpack_img(record, iscolor=0)[1].shape
    (4, 6)
    """
    header, data = unpack(s)
    pixels = decoded(data, bool(iscolor))
    return header, np.ascontiguousarray(pixels[:, :, ::-1] if iscolor else pixels[:, :, 0])


def _some(keys: Sequence[object]) -> str:
    """``: 0, 1, ... 9`` for a message; "" for no keys."""
    shown = ", ".join(map(repr, keys[:2]))
    return f": {shown}{', ... ' + repr(keys[-1]) if len(keys) > 2 else ''}" if keys else ""
