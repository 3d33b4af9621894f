"""Putting the weights into an object file: ELF, 64 bits, little-endian.

In: an object with a section of a few bytes. Out: the same object whose section is as long as the
weights, which follow at its end: no compiler has to read them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ..errors import InternalError
from .interface import ALIGNMENT

_IDENT = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET, _SIZE = 4, 5  # of a section's header, what is changed


def with_section(
    code: bytes, name: str, pieces: Iterable[bytes | memoryview], nbytes: int
) -> Iterator[bytes | memoryview]:
    """The object with ``pieces``, ``nbytes`` in all, as the section ``name``."""
    if not code.startswith(_IDENT):
        raise InternalError("bug in hybridjit: an object of a library is no ELF file")
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
    """Where the headers of sections begin, how many there are, and which has their names."""
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
