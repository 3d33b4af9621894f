"""ONNX's messages as records, with one reader and one writer for all of them.

Input: a model file's bytes. Output: :class:`Model`, whose tensors are views of these bytes. Field
numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto). Fields
without a record attribute are skipped.

A record needs more memory than the two bytes that it may have in a file, so the number of records
is limited.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ...errors import ModelFormatError
from . import wire
from .wire import BYTES, FIXED32, VARINT, Field

MAX_RECORDS = 1 << 18
"""Maximal number of messages, strings and numbers, tensor elements excluded; ResNet-50 has
5,000."""
_MAX_DEPTH = 32  # nested messages; a nested graph is five

M = TypeVar("M")


class Slot(NamedTuple):
    """Field of a record: ``read`` converts values of the file, ``write`` returns the bytes."""

    name: str
    kind: str
    default: object
    message: Callable[[], type] | None

    @property
    def is_repeated(self) -> bool:
        return self.default == ()


def _slot(
    number: int, kind: str, default: object, message: Callable[[], type] | None = None
) -> object:
    marks = {"number": number, "kind": kind, "message": message}
    return dataclasses.field(default=default, metadata=marks)


def text(number: int) -> str:
    """String field, empty if absent."""
    return _slot(number, "text", "")  # type: ignore[return-value]


def texts(number: int) -> Sequence[str]:
    """Repeated string field."""
    return _slot(number, "text", ())  # type: ignore[return-value]


def integer(number: int) -> int:
    """Signed integer field, 0 if absent."""
    return _slot(number, "integer", 0)  # type: ignore[return-value]


def maybe_integer(number: int) -> int | None:
    """Signed integer field, None if absent."""
    return _slot(number, "integer", None)  # type: ignore[return-value]


def integers(number: int) -> Sequence[int]:
    """Repeated signed integer field, packed or not."""
    return _slot(number, "integer", ())  # type: ignore[return-value]


def maybe_real(number: int) -> float | None:
    """Field of a 32-bit float, None if absent."""
    return _slot(number, "real", None)  # type: ignore[return-value]


def reals(number: int) -> Sequence[float]:
    """Repeated field of 32-bit floats, packed or not."""
    return _slot(number, "real", ())  # type: ignore[return-value]


def maybe_raw(number: int) -> memoryview | None:
    """Bytes field, None if absent."""
    return _slot(number, "raw", None)  # type: ignore[return-value]


def raws(number: int) -> Sequence[memoryview]:
    """Repeated bytes field; a packed field has one element for each occurrence."""
    return _slot(number, "raw", ())  # type: ignore[return-value]


def one(number: int, message: Callable[[], type[M]]) -> M | None:
    """Message field, None if absent."""
    return _slot(number, "message", None, message)  # type: ignore[return-value]


def many(number: int, message: Callable[[], type[M]]) -> Sequence[M]:
    """Repeated message field."""
    return _slot(number, "message", (), message)  # type: ignore[return-value]


@dataclass(slots=True)
class Entry:
    """Key and value."""

    key: str = text(1)
    value: str = text(2)


@dataclass(slots=True)
class Tensor:
    """Array. Its elements are in ``raw_data`` or, by type, in one of the other five fields.

    These hold chunks of packed fields: floats and doubles of fixed size, otherwise varints.
    """

    dims: Sequence[int] = integers(1)
    data_type: int = integer(2)
    float_data: Sequence[memoryview] = raws(4)
    int32_data: Sequence[memoryview] = raws(5)
    string_data: Sequence[memoryview] = raws(6)
    int64_data: Sequence[memoryview] = raws(7)
    name: str = text(8)
    raw_data: memoryview | None = maybe_raw(9)
    double_data: Sequence[memoryview] = raws(10)
    uint64_data: Sequence[memoryview] = raws(11)
    external_data: Sequence[Entry] = many(13, lambda: Entry)
    data_location: int = integer(14)


@dataclass(slots=True)
class Attribute:
    """Attribute of a node; ``type`` selects the valid value."""

    name: str = text(1)
    f: float | None = maybe_real(2)
    i: int | None = maybe_integer(3)
    s: memoryview | None = maybe_raw(4)
    t: Tensor | None = one(5, lambda: Tensor)
    g: Graph | None = one(6, lambda: Graph)
    floats: Sequence[float] = reals(7)
    ints: Sequence[int] = integers(8)
    strings: Sequence[memoryview] = raws(9)
    tensors: Sequence[Tensor] = many(10, lambda: Tensor)
    type: int = integer(20)
    ref_attr_name: str = text(21)


@dataclass(slots=True)
class Node:
    """Use of an operator; inputs and outputs by name, "" for missing ones."""

    input: Sequence[str] = texts(1)
    output: Sequence[str] = texts(2)
    name: str = text(3)
    op_type: str = text(4)
    attribute: Sequence[Attribute] = many(5, lambda: Attribute)
    domain: str = text(7)


@dataclass(slots=True)
class Dimension:
    """Size, or the name of a symbolic size."""

    dim_value: int | None = maybe_integer(1)
    dim_param: str = text(2)


@dataclass(slots=True)
class Shape:
    """Sizes of all axes."""

    dim: Sequence[Dimension] = many(1, lambda: Dimension)


@dataclass(slots=True)
class TensorType:
    """Element type and shape; the shape is None if the number of axes is unknown."""

    elem_type: int = integer(1)
    shape: Shape | None = one(2, lambda: Shape)


@dataclass(slots=True)
class Type:
    """Type of a value; None for types other than tensors: sequences, maps, optional values."""

    tensor_type: TensorType | None = one(1, lambda: TensorType)


@dataclass(slots=True)
class ValueInfo:
    """Name and type of a value."""

    name: str = text(1)
    type: Type | None = one(2, lambda: Type)


@dataclass(slots=True)
class Graph:
    """Graph with nodes in topological order."""

    node: Sequence[Node] = many(1, lambda: Node)
    name: str = text(2)
    initializer: Sequence[Tensor] = many(5, lambda: Tensor)
    input: Sequence[ValueInfo] = many(11, lambda: ValueInfo)
    output: Sequence[ValueInfo] = many(12, lambda: ValueInfo)
    value_info: Sequence[ValueInfo] = many(13, lambda: ValueInfo)


@dataclass(slots=True)
class OperatorSet:
    """Operator set and its version; the domain of ONNX's operators is ""."""

    domain: str = text(1)
    version: int = integer(2)


@dataclass(slots=True)
class Function:
    """Operator that nodes in the file define."""

    name: str = text(1)
    input: Sequence[str] = texts(4)
    output: Sequence[str] = texts(5)
    attribute: Sequence[str] = texts(6)
    node: Sequence[Node] = many(7, lambda: Node)
    opset_import: Sequence[OperatorSet] = many(9, lambda: OperatorSet)
    domain: str = text(10)
    attribute_proto: Sequence[Attribute] = many(11, lambda: Attribute)


@dataclass(slots=True)
class Model:
    """Model file."""

    ir_version: int = integer(1)
    producer_name: str = text(2)
    producer_version: str = text(3)
    graph: Graph | None = one(7, lambda: Graph)
    opset_import: Sequence[OperatorSet] = many(8, lambda: OperatorSet)
    metadata_props: Sequence[Entry] = many(14, lambda: Entry)
    functions: Sequence[Function] = many(25, lambda: Function)


_SLOTS: dict[type, dict[int, Slot]] = {}


def slots(message: type) -> dict[int, Slot]:
    """Fields of a record by number."""
    if message not in _SLOTS:
        _SLOTS[message] = {
            field.metadata["number"]: Slot(
                field.name, field.metadata["kind"], field.default, field.metadata["message"]
            )
            for field in dataclasses.fields(message)
        }
    return _SLOTS[message]


# Reading


def read_model(data: bytes | memoryview) -> Model:
    """Model whose tensors are views of ``data``. Raises ModelFormatError if it is malformed."""
    model = _Reader().read(Model, memoryview(data), 0)
    if model.graph is None or not model.ir_version:
        raise ModelFormatError("not an ONNX model: the graph or the version is missing")
    return model


def read_tensor(data: bytes | memoryview) -> Tensor:
    """Single tensor, as in files of test data. Raises ModelFormatError."""
    return _Reader().read(Tensor, memoryview(data), 0)


class _Reader:
    """Reader that limits the number of records."""

    def __init__(self) -> None:
        self._made = 0

    def read(self, message: type[M], data: memoryview, depth: int) -> M:
        if depth > 5 * _MAX_DEPTH:
            raise ModelFormatError(f"graphs are nested more than {_MAX_DEPTH} deep")
        known = slots(message)
        values: dict[int, list[object]] = {}
        for field in wire.read_fields(data):
            slot = known.get(field.number)
            if slot is not None:
                values.setdefault(field.number, []).extend(self._values(slot, field, depth))
        found = ((known[number], some) for number, some in values.items() if some)
        return message(**{s.name: some if s.is_repeated else some[-1] for s, some in found})

    def _values(self, slot: Slot, field: Field, depth: int) -> Iterator[object]:
        for value in _read_values(slot, field):
            self._made += 1
            if self._made > MAX_RECORDS:
                raise ModelFormatError(f"the model has more than {MAX_RECORDS} records")
            if slot.message is not None:
                assert isinstance(value, memoryview)
                value = self.read(slot.message(), value, depth + 1)
            yield value


def _read_values(slot: Slot, field: Field) -> Iterator[object]:
    """Values of one field: several if numbers are packed."""
    value = field.value
    if slot.kind == "integer" and field.kind == VARINT:
        assert isinstance(value, int)
        yield wire.as_signed(value)
    elif isinstance(value, int) or (field.kind != BYTES and slot.kind not in ("real", "raw")):
        yield from _raw_numbers(slot, field)
    elif slot.kind == "integer":
        yield from map(wire.as_signed, wire.read_varints(value))
    elif slot.kind == "real":
        yield from _read_floats(value, field)
    else:
        yield _as_text(value, field.offset) if slot.kind == "text" else value


def _raw_numbers(slot: Slot, field: Field) -> Iterator[object]:
    """Single number of a field that is stored as bytes, as its bytes."""
    if slot.kind != "raw" or not isinstance(field.value, int):
        raise ModelFormatError(
            f"the field '{slot.name}' is of kind {field.kind} (at byte {field.offset})"
        )
    yield memoryview(wire.varint(field.value))


def _read_floats(value: memoryview, field: Field) -> Iterator[float]:
    if field.kind not in (FIXED32, BYTES) or len(value) % 4:
        raise ModelFormatError(f"{len(value)} bytes are not 32-bit floats (at byte {field.offset})")
    yield from (number for (number,) in struct.iter_unpack("<f", value))


def _as_text(value: memoryview, offset: int) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise ModelFormatError(f"a string is not UTF-8 (at byte {offset})") from None


# Writing


def write(record: object) -> list[bytes | memoryview]:
    """Bytes of a record as a list of chunks; arrays are not copied."""
    chunks: list[bytes | memoryview] = []
    for number, slot in sorted(slots(type(record)).items()):
        value = getattr(record, slot.name)
        values = value if slot.is_repeated else [value]
        for item in values:
            if slot.is_repeated or item != slot.default:
                chunks += _field(number, slot, item)
    return chunks


def _field(number: int, slot: Slot, value: object) -> list[bytes | memoryview]:
    if slot.kind == "integer":
        assert isinstance(value, int)
        return [wire.number_field(number, value)]
    if slot.kind == "real":
        assert isinstance(value, float)
        return [wire.float_field(number, value)]
    chunks: list[bytes | memoryview]
    if isinstance(value, str):
        chunks = [value.encode()]
    elif isinstance(value, memoryview):
        chunks = [value]
    else:
        chunks = write(value)
    return [wire.bytes_header(number, sum(map(len, chunks))), *chunks]
