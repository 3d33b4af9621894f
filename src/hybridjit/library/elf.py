"""Insert the weights into an object file: ELF, 64 bits, little-endian.

Input: an object with a placeholder section of a few bytes. Output: the same object with the weights
appended as that section, so that no compiler has to read them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ..errors import InternalError
from .interface import ALIGNMENT

_IDENT = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET, _SIZE = 4, 5  # the fields of a section header that change


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
