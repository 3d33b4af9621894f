"""Static library: an ``ar`` archive of one object, with the symbol index that linkers read.

Input: the chunks of an object and its symbols. Output: the chunks of the archive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

_MAGIC = b"!<arch>\n"


def archive(
    name: str, pieces: Iterable[bytes | memoryview], nbytes: int, symbols: Sequence[str]
) -> Iterator[bytes | memoryview]:
    """The archive of one object of ``nbytes`` that defines ``symbols``."""
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    index_bytes = 4 + 4 * len(symbols) + len(names)
    padded = index_bytes + index_bytes % 2
    long_name = f"{name}.o/\n".encode()
    long_name += b"\n" * (len(long_name) % 2)
    member = len(_MAGIC) + 60 + padded + 60 + len(long_name)
    yield _MAGIC + _head("/", padded)
    yield struct.pack(f">I{len(symbols)}I", len(symbols), *[member] * len(symbols)) + names
    yield bytes(padded - index_bytes)
    yield _head("//", len(long_name)) + long_name
    yield _head("/0", nbytes)
    yield from pieces
    yield b"\n" * (nbytes % 2)


def _head(name: str, nbytes: int) -> bytes:
    """Header of an archive member, without date and owner: equal libraries are equal files."""
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{nbytes:<10}`\n".encode()
