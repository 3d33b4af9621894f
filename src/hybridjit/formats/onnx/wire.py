"""Protocol buffers' wire format: numbered fields of a message, reading and writing.

Input: arbitrary bytes. Output: fields in file order. Source of the format:
https://protobuf.dev/programming-guides/encoding.

A field is a varint of its number and kind, followed by its value. Every length is checked against
the remaining bytes of the enclosing message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import ModelFormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT = 10  # bytes of a 64-bit integer, seven bits each
_MAX_NUMBER = (1 << 29) - 1  # largest field number

Value = int | memoryview


class Field(NamedTuple):
    """Field of a message: the value of a varint, or the bytes of all other kinds."""

    number: int
    kind: int
    value: Value
    offset: int


def read_fields(data: memoryview) -> Iterator[Field]:
    """Fields of a message. Raises ModelFormatError for incomplete or invalid fields."""
    position, end = 0, len(data)
    while position < end:
        start = position
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _MAX_NUMBER:
            raise ModelFormatError(f"a field has the invalid number {number} (at byte {start})")
        value: Value
        if kind == VARINT:
            value, position = read_varint(data, position)
        else:
            length, position = _length(data, position, kind, start)
            value = data[position : position + length]
            position += length
        yield Field(number, kind, value, start)


def _length(data: memoryview, position: int, kind: int, start: int) -> tuple[int, int]:
    """Length of a value, and its offset."""
    if kind == BYTES:
        length, position = read_varint(data, position)
    elif kind in _FIXED_SIZES:
        length = _FIXED_SIZES[kind]
    else:
        raise ModelFormatError(f"a field has the unknown kind {kind} (at byte {start})")
    if length > len(data) - position:
        left = len(data) - position
        raise ModelFormatError(
            f"a field needs {length} bytes, but its message has {left} left (at byte {start})"
        )
    return length, position


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Integer below 2**64 and the offset after it. Raises ModelFormatError if it is incomplete."""
    if position < len(data) and data[position] < 128:
        return data[position], position + 1
    value = 0
    for shift, byte in enumerate(data[position : position + _MAX_VARINT]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + shift + 1
    raise ModelFormatError(f"a varint is incomplete (at byte {position} of {len(data)})")


def read_varints(data: memoryview) -> Iterator[int]:
    """Consecutive varints."""
    position = 0
    while position < len(data):
        value, position = read_varint(data, position)
        yield value


def as_signed(value: int) -> int:
    """Signed value of a 64-bit integer in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """Varint of an integer from -2**63 to 2**64 - 1."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def number_field(number: int, value: int) -> bytes:
    """Field with a varint."""
    return varint(number << 3 | VARINT) + varint(value)


def float_field(number: int, value: float) -> bytes:
    """Field with a 32-bit float."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)


def bytes_header(number: int, length: int) -> bytes:
    """Header of a field of ``length`` bytes."""
    return varint(number << 3 | BYTES) + varint(length)
