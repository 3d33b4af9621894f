"""ONNX's messages as records, and the one reader and one writer of all of them.

In: a model file's bytes. Out: :class:`Model`, whose tensors are views of these bytes. Field
numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto). Fields
that no reader here asks for are passed over.

A record costs more memory than the two bytes that it may take in a file, so their number is
bounded.
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
"""Messages, texts and numbers beside the elements of tensors; ResNet-50 has 5,000."""
_MAX_DEPTH = 32  # graphs within graphs, five messages each time

M = TypeVar("M")


class Slot(NamedTuple):
    """How a record keeps a field: ``read`` makes a value of the file's, ``write`` the bytes."""

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
    """A text, empty where the file has none."""
    return _slot(number, "text", "")  # type: ignore[return-value]


def texts(number: int) -> Sequence[str]:
    """Several texts."""
    return _slot(number, "text", ())  # type: ignore[return-value]


def integer(number: int) -> int:
    """A signed number, 0 where the file has none."""
    return _slot(number, "integer", 0)  # type: ignore[return-value]


def maybe_integer(number: int) -> int | None:
    """A signed number, None where the file has none."""
    return _slot(number, "integer", None)  # type: ignore[return-value]


def integers(number: int) -> Sequence[int]:
    """Several signed numbers, packed or not."""
    return _slot(number, "integer", ())  # type: ignore[return-value]


def maybe_real(number: int) -> float | None:
    """A float of 32 bits, None where the file has none."""
    return _slot(number, "real", None)  # type: ignore[return-value]


def reals(number: int) -> Sequence[float]:
    """Several floats, packed or not."""
    return _slot(number, "real", ())  # type: ignore[return-value]


def maybe_raw(number: int) -> memoryview | None:
    """Bytes as they are, None where the file has none."""
    return _slot(number, "raw", None)  # type: ignore[return-value]


def raws(number: int) -> Sequence[memoryview]:
    """Several pieces of bytes; of a packed field there is one for each time that it stands."""
    return _slot(number, "raw", ())  # type: ignore[return-value]


def one(number: int, message: Callable[[], type[M]]) -> M | None:
    """A message, None where the file has none."""
    return _slot(number, "message", None, message)  # type: ignore[return-value]


def many(number: int, message: Callable[[], type[M]]) -> Sequence[M]:
    """Several messages."""
    return _slot(number, "message", (), message)  # type: ignore[return-value]


@dataclass(slots=True)
class Entry:
    """A key and its value."""

    key: str = text(1)
    value: str = text(2)


@dataclass(slots=True)
class Tensor:
    """An array. Its elements stand in ``raw_data``, or by type in one of the other five.

    These are the pieces of packed fields, floats and doubles of fixed size and varints else.
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
    """A node's attribute; ``type`` says which of the values counts."""

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
    """One use of an operator; inputs and outputs by name, "" for those left out."""

    input: Sequence[str] = texts(1)
    output: Sequence[str] = texts(2)
    name: str = text(3)
    op_type: str = text(4)
    attribute: Sequence[Attribute] = many(5, lambda: Attribute)
    domain: str = text(7)


@dataclass(slots=True)
class Dimension:
    """A size, or the name of one that is not known."""

    dim_value: int | None = maybe_integer(1)
    dim_param: str = text(2)


@dataclass(slots=True)
class Shape:
    """Sizes of all axes."""

    dim: Sequence[Dimension] = many(1, lambda: Dimension)


@dataclass(slots=True)
class TensorType:
    """Element type and shape; no shape where the number of axes is unknown."""

    elem_type: int = integer(1)
    shape: Shape | None = one(2, lambda: Shape)


@dataclass(slots=True)
class Type:
    """What a value is; None for all that is no tensor: sequences, maps, optional values."""

    tensor_type: TensorType | None = one(1, lambda: TensorType)


@dataclass(slots=True)
class ValueInfo:
    """A value's name and type."""

    name: str = text(1)
    type: Type | None = one(2, lambda: Type)


@dataclass(slots=True)
class Graph:
    """Nodes in an order in which they can be computed."""

    node: Sequence[Node] = many(1, lambda: Node)
    name: str = text(2)
    initializer: Sequence[Tensor] = many(5, lambda: Tensor)
    input: Sequence[ValueInfo] = many(11, lambda: ValueInfo)
    output: Sequence[ValueInfo] = many(12, lambda: ValueInfo)
    value_info: Sequence[ValueInfo] = many(13, lambda: ValueInfo)


@dataclass(slots=True)
class OperatorSet:
    """A set of operators and its version; the domain of ONNX's own is ""."""

    domain: str = text(1)
    version: int = integer(2)


@dataclass(slots=True)
class Function:
    """An operator that is defined by nodes in the file itself."""

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
    """A file."""

    ir_version: int = integer(1)
    producer_name: str = text(2)
    producer_version: str = text(3)
    graph: Graph | None = one(7, lambda: Graph)
    opset_import: Sequence[OperatorSet] = many(8, lambda: OperatorSet)
    metadata_props: Sequence[Entry] = many(14, lambda: Entry)
    functions: Sequence[Function] = many(25, lambda: Function)


_SLOTS: dict[type, dict[int, Slot]] = {}


def slots(message: type) -> dict[int, Slot]:
    """The fields of a record by their numbers."""
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
    """A model; its tensors are views of ``data``. Raises ModelFormatError for what is none."""
    model = _Reader().read(Model, memoryview(data), 0)
    if model.graph is None or not model.ir_version:
        raise ModelFormatError("not an ONNX model: it has no graph or no version")
    return model


def read_tensor(data: bytes | memoryview) -> Tensor:
    """A tensor alone, as test data is stored. Raises ModelFormatError."""
    return _Reader().read(Tensor, memoryview(data), 0)


class _Reader:
    """Counts what it makes."""

    def __init__(self) -> None:
        self._made = 0

    def read(self, message: type[M], data: memoryview, depth: int) -> M:
        if depth > 5 * _MAX_DEPTH:
            raise ModelFormatError(f"graphs stand in graphs more than {_MAX_DEPTH} deep")
        known = slots(message)
        values: dict[str, list[object]] = {}
        for field in wire.read_fields(data):
            slot = known.get(field.number)
            if slot is not None:
                values.setdefault(slot.name, []).extend(self._values(slot, field, depth))
        names = {slot.name: slot.is_repeated for slot in known.values()}
        return message(**{n: v if names[n] else v[-1] for n, v in values.items() if v})

    def _values(self, slot: Slot, field: Field, depth: int) -> Iterator[object]:
        for value in _read_values(slot, field):
            self._made += 1
            if self._made > MAX_RECORDS:
                raise ModelFormatError(f"the model has more than {MAX_RECORDS} parts")
            if slot.message is not None:
                assert isinstance(value, memoryview)
                value = self.read(slot.message(), value, depth + 1)
            yield value


def _read_values(slot: Slot, field: Field) -> Iterator[object]:
    """The values of one field: several where numbers are packed."""
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
    """A lone number of a field that is kept as bytes, as these bytes."""
    if slot.kind != "raw" or not isinstance(field.value, int):
        raise ModelFormatError(
            f"the field '{slot.name}' is of kind {field.kind} (at byte {field.offset})"
        )
    yield memoryview(wire.varint(field.value))


def _read_floats(value: memoryview, field: Field) -> Iterator[float]:
    if field.kind not in (FIXED32, BYTES) or len(value) % 4:
        raise ModelFormatError(f"{len(value)} bytes are no floats (at byte {field.offset})")
    yield from (number for (number,) in struct.iter_unpack("<f", value))


def _as_text(value: memoryview, offset: int) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise ModelFormatError(f"a text is not UTF-8 (at byte {offset})") from None


# Writing


def write(record: object) -> list[bytes | memoryview]:
    """The bytes of a record in pieces; the arrays in it are not copied."""
    pieces: list[bytes | memoryview] = []
    for number, slot in sorted(slots(type(record)).items()):
        value = getattr(record, slot.name)
        values = value if slot.is_repeated else [value]
        for item in values:
            if slot.is_repeated or item != slot.default:
                pieces += _field(number, slot, item)
    return pieces


def _field(number: int, slot: Slot, value: object) -> list[bytes | memoryview]:
    if slot.kind == "integer":
        assert isinstance(value, int)
        return [wire.number_field(number, value)]
    if slot.kind == "real":
        assert isinstance(value, float)
        return [wire.float_field(number, value)]
    pieces: list[bytes | memoryview]
    if isinstance(value, str):
        pieces = [value.encode()]
    elif isinstance(value, memoryview):
        pieces = [value]
    else:
        pieces = write(value)
    return [wire.bytes_header(number, sum(map(len, pieces))), *pieces]
