"""Conversion of ONNX tensors to NumPy arrays and back.

Input: a :class:`.messages.Tensor`, and the model's folder if elements may be stored in external
files. Output: an array, a view of the model's bytes if these are aligned.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from ..._core.safe_open import open_file
from ..._core.types import MAX_DIMS
from ...errors import DTypeError, ModelFormatError
from ..atomic import system_errors
from .messages import Tensor
from .narrow import NARROW, decoded

FLOAT16, BFLOAT16, STRING = 10, 16, 8

# Codes of TensorProto.DataType that NumPy has too; bfloat16 becomes float32.
DTYPES: dict[int, np.dtype] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    FLOAT16: np.dtype("<f2"),
    11: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
    BFLOAT16: np.dtype("<f4"),
}
CODES: dict[np.dtype, int] = {dtype: code for code, dtype in DTYPES.items() if code != BFLOAT16}
_OTHERS = {8: "string", 14: "complex64", 15: "complex128"}
_EXTERNAL = 1
_MAX_BYTES = 1 << 47


def dtype_of(code: int, what: str) -> np.dtype:
    """Element type with this code, or the wider type that holds its values.

    Raises DTypeError with ``what`` for an unknown code.
    """
    if code in NARROW:
        return NARROW[code].dtype
    if code not in DTYPES:
        known = ", ".join([*(dtype.name for dtype in CODES), *(n.name for n in NARROW.values())])
        raise DTypeError(
            f"{what} has the element type {code}{_named(code)}; supported are {known} and bfloat16"
        )
    return DTYPES[code]


def _named(code: int) -> str:
    return f" ({_OTHERS[code]})" if code in _OTHERS else ""


def read_array(tensor: Tensor, folder: str | None = None) -> np.ndarray:
    """Elements of a tensor; read-only if they are the model's own bytes.

    ``folder`` is the folder of external files; None rejects these. Raises ModelFormatError for
    sizes that do not match the elements, DTypeError for an unknown element type.
    """
    what = f"tensor '{tensor.name}'"
    dtype = dtype_of(tensor.data_type, what)
    count = _count(tensor.dims, dtype, what)
    if tensor.data_location == _EXTERNAL:
        flat = _bits(_read_external(tensor, folder, what), tensor.data_type)
    elif tensor.raw_data is not None:
        flat = _bits(tensor.raw_data, tensor.data_type)
    else:
        flat = _typed(tensor, dtype)
    if tensor.data_type in NARROW:
        flat = _unpacked(flat, count, tensor.data_type, what)
    if len(flat) != count:
        shape = tuple(tensor.dims)
        raise ModelFormatError(
            f"{what} of shape {shape} needs {count} elements, but has {len(flat)}"
        )
    return flat.reshape(tuple(tensor.dims))


def _count(dims: Sequence[int], dtype: np.dtype, what: str) -> int:
    if len(dims) > MAX_DIMS:
        raise ModelFormatError(f"{what} has {len(dims)} axes, but at most {MAX_DIMS} are supported")
    if any(size < 0 for size in dims):
        raise ModelFormatError(f"{what} has the invalid shape {tuple(dims)}")
    if math.prod(size or 1 for size in dims) * dtype.itemsize >= _MAX_BYTES:
        raise ModelFormatError(f"{what} of shape {tuple(dims)} is larger than any memory")
    return math.prod(dims)


def _bits(data: bytes | memoryview, code: int) -> np.ndarray:
    """Elements stored in their memory representation; for narrow types the packed bytes."""
    if code in NARROW:
        return np.frombuffer(data, np.uint8)
    dtype = np.dtype("<u2") if code == BFLOAT16 else DTYPES[code]
    if len(data) % dtype.itemsize:
        raise ModelFormatError(f"{len(data)} bytes are not a multiple of the size of {dtype.name}")
    flat = np.frombuffer(data, dtype)
    if not flat.flags.aligned:
        flat = flat.copy()
    return _widened(flat) if code == BFLOAT16 else flat


def _unpacked(packed: np.ndarray, count: int, code: int, what: str) -> np.ndarray:
    """Elements of a narrow type, unpacked from bytes."""
    kind = NARROW[code]
    filled = -(-count * kind.bits // 8)
    if len(packed) != filled:
        raise ModelFormatError(
            f"{what}: {count} elements of {kind.name} need {filled} bytes, but {len(packed)} are "
            f"given"
        )
    return decoded(packed, kind)[:count]


def _widened(halves: np.ndarray) -> np.ndarray:
    """float32 from the upper halves of its bits."""
    return (halves.astype("<u4") << 16).view("<f4")


def _typed(tensor: Tensor, dtype: np.dtype) -> np.ndarray:
    """Elements from the field of their type."""
    if tensor.data_type in NARROW:
        return _numbers(tensor.int32_data).astype(np.uint8)
    if dtype == np.float32 and tensor.data_type != BFLOAT16:
        return _bits(_joined(tensor.float_data), tensor.data_type)
    if dtype == np.float64:
        return _bits(_joined(tensor.double_data), tensor.data_type)
    if dtype == np.int64:
        return _numbers(tensor.int64_data).view(np.int64)
    if dtype in (np.dtype("u4"), np.dtype("u8")):
        return _numbers(tensor.uint64_data).astype(dtype)
    bits = _numbers(tensor.int32_data)
    if tensor.data_type == BFLOAT16:
        return _widened(bits.astype("<u2"))
    return bits.astype("<u2").view(dtype) if tensor.data_type == FLOAT16 else bits.astype(dtype)


def _joined(chunks: Sequence[memoryview]) -> bytes | memoryview:
    """The bytes of consecutive chunks; the only one is not copied."""
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _numbers(chunks: Sequence[memoryview]) -> np.ndarray:
    """Decode consecutive varints, from 0 to 2**64 - 1, several at a time."""
    data = np.frombuffer(_joined(chunks), np.uint8)
    ends = np.flatnonzero(data < 128)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ModelFormatError("the last varint of a tensor is incomplete")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    if len(lengths) and lengths.max() > 10:
        raise ModelFormatError("a varint of a tensor is too long")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        digits = data[starts[has] + place].astype(np.uint64) & np.uint64(127)
        values[has] |= digits << np.uint64(7 * place)
    return values


# External files


def _read_external(tensor: Tensor, folder: str | None, what: str) -> bytes:
    """Bytes of an external file, which must be in the model's folder or below it."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelFormatError(
            f"{what} is stored in '{location}', but this model was not read from a folder"
        )
    offset, length = (_number(entries, key, what) for key in ("offset", "length"))
    path = _inside(folder, location, what)
    with system_errors(path), open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        start = offset or 0
        count = size - start if length is None else length
        if not 0 <= start <= start + count <= size:
            raise ModelFormatError(
                f"{what} needs {count} bytes from byte {start} of '{location}', which has {size}"
            )
        file.seek(start)
        return file.read(count)


def _number(entries: dict[str, str], key: str, what: str) -> int | None:
    value = entries.get(key)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise ModelFormatError(f"{what} has the {key} {value[:40]!r}, which is not an integer")
    return int(value)


def _inside(folder: str, location: str, what: str) -> str:
    """Path of the file. Raises ModelFormatError if it is outside of the folder, also by links."""
    parts = location.split("/")
    root = os.path.realpath(folder)
    whole = os.path.realpath(os.path.join(root, location)) if "\0" not in location else ""
    is_inside = os.path.commonpath([root, whole]) == root if whole else False
    if not location or location.startswith("/") or ".." in parts or not is_inside:
        raise ModelFormatError(
            f"{what} is stored in {location!r}, which is outside the model's folder"
        )
    return whole


# Writing


def make_tensor(name: str, array: np.ndarray) -> Tensor:
    """Tensor of these elements, which are not copied if they are contiguous.

    Raises DTypeError for an element type that ONNX does not have.
    """
    dtype = array.dtype.newbyteorder("<")
    if dtype not in CODES:
        raise DTypeError(f"array '{name}': ONNX does not have the element type {array.dtype}")
    flat = np.ascontiguousarray(array, dtype).reshape(-1)
    data = flat.view(np.uint8).data if flat.size else memoryview(b"")
    return Tensor(dims=array.shape, data_type=CODES[dtype], name=name, raw_data=data)
