"""Object files and shared libraries: ELF, 64 bits, little-endian.

:func:`with_section` inserts the weights into an object with a placeholder section of a few bytes:
they are appended as that section, so that no compiler has to read them. :func:`require_whole`
refuses a library that was cut off.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ..errors import InternalError, MXNetError
from .interface import ALIGNMENT

_IDENT = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET, _SIZE = 4, 5  # the fields of a section header that change


_SEGMENTS = struct.Struct("<Q14xHH")  # of a file: offset, size and number of segment headers
_SEGMENT = struct.Struct("<8xQ16xQ")  # offset and bytes in the file


def require_whole(path: str, file: BinaryIO) -> None:
    """Raise MXNetError if a segment of a library ends beyond the file: a copy that was cut off.

    The system's loader maps such a file, and the process dies at the first access.
    """
    head = file.read(64)
    if len(head) < 64 or not head.startswith(_IDENT):
        return  # the loader refuses it
    start, each, count = _SEGMENTS.unpack_from(head, 0x20)
    nbytes = file.seek(0, os.SEEK_END)
    ends = [start + each * count]
    if each >= _SEGMENT.size and ends[0] <= nbytes:
        file.seek(start)
        table = file.read(each * count)
        ends += [sum(_SEGMENT.unpack_from(table, each * i)) for i in range(count)]
    if max(ends) > nbytes:
        raise MXNetError(
            f"{path} has {nbytes} bytes, but its segments end at byte {max(ends)}: the file was "
            "cut off; copy or compile the library again"
        )


def with_section(
    code: bytes, name: str, pieces: Iterable[bytes | memoryview], nbytes: int
) -> Iterator[bytes | memoryview]:
    """The object with ``pieces``, of ``nbytes`` in total, as the section ``name``."""
    if not code.startswith(_IDENT):
        raise InternalError("bug in hybridjit: the object of a library is not an ELF file")
    headers = _headers(code)
    names = list(_section_names(code, headers))
    place = names.index(name)
    start = -(-len(code) // ALIGNMENT) * ALIGNMENT
    fields = list(headers[place])
    fields[_OFFSET], fields[_SIZE] = start, nbytes
    at = _table(code)[0] + place * _SECTION.size
    yield code[:at]
    yield _SECTION.pack(*fields)
    yield code[at + _SECTION.size :]
    yield bytes(start - len(code))
    yield from pieces


def _table(code: bytes) -> tuple[int, int, int]:
    """Offset of the section headers, their count, and the index of the section of names."""
    (start,) = struct.unpack_from("<Q", code, 0x28)
    count, names = struct.unpack_from("<HH", code, 0x3C)
    return start, count, names


def _headers(code: bytes) -> list[tuple[int, ...]]:
    start, count, _ = _table(code)
    return [_SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)]


def _section_names(code: bytes, headers: list[tuple[int, ...]]) -> Iterator[str]:
    base = headers[_table(code)[2]][_OFFSET]
    for header in headers:
        first = base + header[0]
        yield code[first : code.index(b"\0", first)].decode()
