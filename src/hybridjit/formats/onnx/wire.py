"""Protocol buffers' wire format: the numbered fields of a message, both ways.

In: bytes, which may be anything. Out: fields in the order of the file. Source of the format:
https://protobuf.dev/programming-guides/encoding.

A field is a varint of its number and kind, then its value. Nothing here trusts a length: it is
held against the bytes that are left in the message around it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import ModelFormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT = 10  # bytes of a number of 64 bits, seven at a time
_MAX_NUMBER = (1 << 29) - 1  # of a field

Value = int | memoryview


class Field(NamedTuple):
    """A field as it stands in the file: a varint's number, or the bytes of all other kinds."""

    number: int
    kind: int
    value: Value
    offset: int


def read_fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message. Raises ModelFormatError where the bytes end or make no field."""
    position, end = 0, len(data)
    while position < end:
        start = position
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _MAX_NUMBER:
            raise ModelFormatError(f"a field has the number {number} (at byte {start})")
        value: Value
        if kind == VARINT:
            value, position = read_varint(data, position)
        else:
            length, position = _length(data, position, kind, start)
            value = data[position : position + length]
            position += length
        yield Field(number, kind, value, start)


def _length(data: memoryview, position: int, kind: int, start: int) -> tuple[int, int]:
    """How long a value is, and where it begins."""
    if kind == BYTES:
        length, position = read_varint(data, position)
    elif kind in _FIXED_SIZES:
        length = _FIXED_SIZES[kind]
    else:
        raise ModelFormatError(f"a field is of kind {kind}, which is none (at byte {start})")
    if length > len(data) - position:
        left = len(data) - position
        raise ModelFormatError(
            f"a field takes {length} bytes, {left} are left in its message (at byte {start})"
        )
    return length, position


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number below 2**64 and the position behind it. Raises ModelFormatError if there is none."""
    value = 0
    for shift, byte in enumerate(data[position : position + _MAX_VARINT]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + shift + 1
    raise ModelFormatError(f"a number does not end (at byte {position} of {len(data)})")


def read_varints(data: memoryview) -> Iterator[int]:
    """Numbers one behind the other."""
    position = 0
    while position < len(data):
        value, position = read_varint(data, position)
        yield value


def as_signed(value: int) -> int:
    """A number of 64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """A number from -2**63 to 2**64 - 1 as a varint."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def number_field(number: int, value: int) -> bytes:
    """A field with a varint."""
    return varint(number << 3 | VARINT) + varint(value)


def float_field(number: int, value: float) -> bytes:
    """A field with a float of 32 bits."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)


def bytes_header(number: int, length: int) -> bytes:
    """What stands before ``length`` bytes that make a field."""
    return varint(number << 3 | BYTES) + varint(length)
