"""MXNet's binary array files: ``.params`` and other files of ``nd.save``.

Input: a file of any MXNet version; 2.0 writes NumPy's, which ``npz.py`` reads. Output: NumPy
arrays, by name or in order. Sparse records become
dense unless the caller requests sparse ones, and bfloat16 becomes float32. The writer uses the
current layout only. The file is untrusted: every count and size is checked against the remaining
bytes before memory is allocated for it.

Layout (little-endian): u64 0x112, u64 reserved, u64 count, the records, u64 number of names (the
count, or 0), each name as u64 length and bytes. :func:`_read_record` describes records.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from ..._core.lazy import Late
from ..._core.safe_open import open_file
from ..._core.shapes import is_np_shape
from ..._core.types import CODE_OF_DTYPE, DTYPE_CODES, FLOAT32, MAX_DIMS, product
from ...errors import DTypeError
from ..atomic import Path, system_errors, write_atomically
from ..stored import CSR, INDEX, ROW_SPARSE, Stored
from .reader import PIECE, PIPE_BYTES, Reader

npz: Any = Late(".npz", __package__)

Arrays = dict[str, np.ndarray] | list[np.ndarray]
AnyArray = np.ndarray | Stored
AnyArrays = dict[str, AnyArray] | list[AnyArray]

_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DENSE, _ROW_SPARSE, _CSR = 0, 1, 2
_AUX_COUNT = {_DENSE: 0, _ROW_SPARSE: 1, _CSR: 2}
_KINDS = {_ROW_SPARSE: ROW_SPARSE, _CSR: CSR}
_CODES = {kind: code for code, kind in _KINDS.items()}
_BFLOAT16 = 12
_INDEX_CODES = (4, 6)  # int32, int64
_CPU = (1, 0)

_MAX_ARRAYS = 1 << 16  # each is a Python object: 8 MB for a file of empty records


def load(path: Path) -> Arrays:
    """Read a file or a pipe: a dict if it has names (the last of equal ones wins), else a list.

    Arrays are new, aligned and writable. Raises MXNetError if the file cannot be opened and
    ModelFormatError if it does not have this format.
    """
    return load_any(path, sparse=False)  # type: ignore[return-value]


def load_any(path: Path, sparse: bool = True) -> AnyArrays:
    """:func:`load`; with ``sparse``, sparse records remain sparse."""
    with system_errors(path), open_file(path, PIPE_BYTES) as file:
        return _read_container(Reader(file, os.fspath(path), sparse))


def loads(data: bytes | bytearray | memoryview) -> Arrays:
    """:func:`load` for the contents of a file."""
    return loads_any(data, sparse=False)  # type: ignore[return-value]


def loads_any(data: bytes | bytearray | memoryview, sparse: bool = True) -> AnyArrays:
    """:func:`load_any` for the contents of a file."""
    return _read_container(Reader(io.BytesIO(data), "buffer", sparse))


def read_record(data: bytes | bytearray | memoryview, sparse: bool = False) -> AnyArray:
    """Array of a record without container, as in MXNet's pickles. Raises ModelFormatError."""
    return _read_record(Reader(io.BytesIO(data), "buffer", sparse))


def dump_record(array: AnyArray) -> bytes:
    """Record of an array, for :func:`read_record`. Raises DTypeError as :func:`save` does."""
    _check_dtypes([array])
    return b"".join(_record_pieces(array))


def save(path: Path, arrays: Mapping[str, AnyArray] | Sequence[AnyArray]) -> None:
    """Write arrays byte for byte as MXNet 1.9.1; an old file is replaced only by a complete one.

    Raises DTypeError for an element type that the format lacks, MXNetError if writing fails.
    """
    _check_dtypes(arrays)
    write_atomically(path, _pieces(arrays))


def dumps(arrays: Mapping[str, AnyArray] | Sequence[AnyArray]) -> bytes:
    """Bytes that :func:`save` writes."""
    _check_dtypes(arrays)
    return b"".join(_pieces(arrays))


# Reading


_CONVERT = "; save its arrays with nd.save(path, {name: nd.array(values)})"
_OTHERS = {  # the first bytes of files that are taken for files of parameters
    b"\x80": f"it is a pickle{_CONVERT}",
    b"\x89HDF": f"it is an HDF5 file{_CONVERT}",
    b"{": "it is JSON: graphs are read by gluon.SymbolBlock.imports",
}


def _read_container(reader: Reader) -> AnyArrays:
    if not reader.is_pipe and _is_numpys(reader.file):
        found: AnyArrays = npz.read(reader.file, reader.name)
        return found
    magic, _, count = reader.unpack("<QQQ", "header")
    if magic != _MAGIC:
        start = magic.to_bytes(8, "little")
        kind = next((f": {text}" for key, text in _OTHERS.items() if start.startswith(key)), "")
        reader.fail(f"magic number is {magic:#x}, not {_MAGIC:#x}{kind}", 0)
    if count > min(_MAX_ARRAYS, reader.left // 4):
        reader.fail(f"{count} arrays cannot be in {reader.left} bytes", 16)
    arrays = []
    for index in range(count):
        reader.place = f"array {index} of {count}"
        arrays.append(_read_record(reader))
    reader.place = "the names"
    names = _read_names(reader, count)
    reader.finish()
    return dict(zip(names, arrays)) if names else arrays


def _is_numpys(file: BinaryIO) -> bool:
    """Test whether a file begins as NumPy's archives and arrays. It is read from the start."""
    start = file.read(6)
    file.seek(0)
    return start == b"\x93NUMPY" or start.startswith(b"PK\x03\x04")


def _read_names(reader: Reader, arrays: int) -> list[str]:
    (count,) = reader.unpack("<Q", "number of names")
    if count not in (0, arrays):
        reader.fail(f"{count} names for {arrays} arrays", reader.offset - 8)
    names = []
    for index in range(count):
        reader.place = f"name {index} of {count}"
        (length,) = reader.unpack("<Q", "length of name")
        names.append(reader.text(length))
    return names


def _read_record(reader: Reader) -> AnyArray:
    """Array of any version.

    V2, V3: u32 magic, i32 storage type, [i32 ndim + i64 dims of the stored values,] i32 ndim, i64
    dims, i32 device type, i32 device id, i32 dtype, [per index array i32 dtype, i32 ndim, i64
    dims,] values, [index arrays]; bracketed parts only in sparse records. V1: without storage type.
    V0: without magic number, u32 ndim and u32 dims. An array without dimensions ends after its
    shape, except in V3, where it is a scalar.
    """
    (magic,) = reader.unpack("<I", "magic number of the array")
    storage = _DENSE
    stored: tuple[int, ...] | None = ()
    if magic in (_V2, _V3):
        storage = _read_storage_type(reader)
        if storage != _DENSE:
            stored = _read_shape(reader)
    shape = _read_old_shape(reader, magic) if magic < _V1 else _read_shape(reader)
    if shape is None or (shape == () and magic != _V3):
        return np.zeros((0,), FLOAT32)
    reader.unpack("<ii", "device")  # device of the array; ignored
    code = _read_dtype_code(reader)
    if storage == _DENSE:
        return _read_values(reader, shape, code, later=True)
    if not stored:
        reader.fail("the stored values of a sparse array do not have a shape")
    start = reader.offset
    found = _read_sparse(reader, storage, stored, shape, code)
    return found if reader.sparse else _made_dense(reader, found, start)


def _read_storage_type(reader: Reader) -> int:
    (storage,) = reader.unpack("<i", "storage type")
    if storage not in _AUX_COUNT:
        reader.fail(f"Unknown storage type {storage}", reader.offset - 4)
    return storage


def _read_old_shape(reader: Reader, ndim: int) -> tuple[int, ...]:
    """Dims of a V0 record, whose first integer is the number of dimensions."""
    if ndim > MAX_DIMS:
        reader.fail(
            f"{ndim:#x} is neither a magic number nor a number of dimensions", reader.offset - 4
        )
    return reader.unpack(f"<{ndim}I", "dims")


def _read_shape(reader: Reader) -> tuple[int, ...] | None:
    """Shape; None for ndim -1, which np-shape files have for an array of unknown shape."""
    (ndim,) = reader.unpack("<i", "number of dimensions")
    if ndim == -1:
        return None
    if not 0 <= ndim <= MAX_DIMS:
        reader.fail(f"{ndim} dimensions, but 0 to {MAX_DIMS} are supported", reader.offset - 4)
    dims = reader.unpack(f"<{ndim}q", "dims")
    if any(d < 0 for d in dims):
        reader.fail(f"negative size in shape {dims}", reader.offset - 8 * ndim)
    reader.require_small(dims, reader.offset - 8 * ndim)
    return dims


def _read_dtype_code(reader: Reader) -> int:
    (code,) = reader.unpack("<i", "element type")
    if code not in DTYPE_CODES and code != _BFLOAT16:
        reader.fail(f"Unknown type enum {code}", reader.offset - 4)
    return code


def _read_values(
    reader: Reader, shape: tuple[int, ...], code: int, later: bool = False
) -> np.ndarray:
    if code == _BFLOAT16:
        return _read_bfloat16(reader, shape)
    dtype = DTYPE_CODES[code]
    if dtype.kind == "b":  # files may have any byte, NumPy bools only 0 and 1
        return reader.array(shape, np.dtype("uint8"), "data") != 0
    return reader.array(shape, dtype, "data", later)


def _read_bfloat16(reader: Reader, shape: tuple[int, ...]) -> np.ndarray:
    """Upper halves of float32, in chunks: reading all at once needs three times the memory of
    both."""
    reader.require_small(shape, reader.offset)
    wide = bytearray()
    for halves in reader.pieces(product(shape), np.dtype("uint16"), f"data of shape {shape}"):
        wide += (halves.astype("<u4") << 16).data
    return np.frombuffer(wide, "<f4").reshape(shape)


# Sparse records


def _read_sparse(
    reader: Reader, storage: int, stored: tuple[int, ...], shape: tuple[int, ...], code: int
) -> Stored:
    start = reader.offset
    heads = [_read_index_head(reader) for _ in range(_AUX_COUNT[storage])]
    # MXNet may write 0 as the number of stored values; the length of the index array is valid.
    values = _read_values(reader, (heads[-1][1], *stored[1:]), code)
    indices = [_read_values(reader, (count,), index_code) for index_code, count in heads]
    (_check_csr if storage == _CSR else _check_rows)(reader, values, indices, shape, start)
    places = tuple(part.astype(INDEX) if reader.sparse else part for part in indices)
    return Stored(_KINDS[storage], shape, values, places)


def _made_dense(reader: Reader, x: Stored, start: int) -> np.ndarray:
    dense = _zeros(reader, x.shape, x.values.dtype, start)
    for first in range(0, len(x.values), PIECE):  # indices take 8 bytes in memory
        piece = slice(first, first + PIECE)
        at = x.places[-1][piece]
        if x.stype == CSR:
            stored_at = np.arange(first, first + len(at))
            dense[np.searchsorted(x.places[0], stored_at, "right") - 1, at] = x.values[piece]
        else:
            dense[at] = x.values[piece]
    return dense


def _read_index_head(reader: Reader) -> tuple[int, int]:
    """Element type and length of an index array."""
    code = _read_dtype_code(reader)
    if code not in _INDEX_CODES:
        reader.fail(
            f"the index array of a sparse array has the type {DTYPE_CODES.get(code)}",
            reader.offset - 4,
        )
    shape = _read_shape(reader)
    if shape is None or len(shape) != 1:
        reader.fail(
            f"the index array of a sparse array has shape {shape}, it must have one dimension"
        )
    return code, shape[0]


def _check_csr(
    reader: Reader,
    values: np.ndarray,
    indices: list[np.ndarray],
    shape: tuple[int, ...],
    start: int,
) -> None:
    starts, columns = indices
    if len(shape) != 2 or values.ndim != 1 or len(starts) != shape[0] + 1:
        reader.fail(f"csr array of shape {shape} has {len(starts)} row starts", start)
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] != len(columns):
        reader.fail("row starts of a csr array do not ascend from 0 to its number of values", start)
    _check_indices(reader, values, columns, shape[1], start)


def _check_rows(
    reader: Reader,
    values: np.ndarray,
    indices: list[np.ndarray],
    shape: tuple[int, ...],
    start: int,
) -> None:
    if not shape or values.shape[1:] != shape[1:]:
        reader.fail(
            f"rows of shape {values.shape[1:]} do not match an array of shape {shape}", start
        )
    _check_indices(reader, values, indices[0], shape[0], start)


def _check_indices(
    reader: Reader, values: np.ndarray, indices: np.ndarray, bound: int, start: int
) -> None:
    if len(indices) != len(values):
        reader.fail(f"{len(indices)} indices for {len(values)} stored values", start)
    if len(indices) and (indices.min() < 0 or indices.max() >= bound):
        reader.fail(f"indices from {indices.min()} to {indices.max()} for size {bound}", start)


def _zeros(reader: Reader, shape: tuple[int, ...], dtype: np.dtype, start: int) -> np.ndarray:
    """Zeros for a dense copy, within the common limit of all sparse records of a file."""
    needed = product(shape) * dtype.itemsize
    if needed > reader.dense_left():
        reader.fail(
            f"sparse array of shape {shape} needs {needed} bytes when dense, "
            f"but the file may grow by {reader.dense_left()} only",
            start,
        )
    reader.dense_bytes += needed
    return np.zeros(shape, dtype)


# Writing


def _check_dtypes(arrays: Mapping[str, AnyArray] | Sequence[AnyArray]) -> None:
    """Check dtypes before the first byte is written, to preserve the old file."""
    items = arrays.items() if isinstance(arrays, Mapping) else enumerate(arrays)
    for name, given in items:
        array = given.values if isinstance(given, Stored) else given
        if array.dtype.newbyteorder("=") not in CODE_OF_DTYPE:
            known = ", ".join(dtype.name for dtype in CODE_OF_DTYPE)
            raise DTypeError(
                f"array {name!r} has the type {array.dtype}; the file format has {known}"
            )


def _pieces(
    arrays: Mapping[str, AnyArray] | Sequence[AnyArray],
) -> Iterator[bytes | memoryview]:
    names = list(arrays) if isinstance(arrays, Mapping) else []
    values = list(arrays.values()) if isinstance(arrays, Mapping) else arrays
    yield struct.pack("<QQQ", _MAGIC, 0, len(values))
    for array in values:
        yield from _record_pieces(array)
    yield struct.pack("<Q", len(names))
    for name in names:
        data = name.encode("utf-8")
        yield struct.pack("<Q", len(data))
        yield data


def _record_pieces(array: AnyArray) -> Iterator[bytes | memoryview]:
    """Record of an array: V2; V3 with ``np_shape`` and for a scalar, which V2 cannot represent."""
    if isinstance(array, Stored):
        yield from _sparse_pieces(array)
        return
    magic = _V2 if array.ndim and not is_np_shape() else _V3
    code = CODE_OF_DTYPE[array.dtype.newbyteorder("=")]
    yield struct.pack("<Iii", magic, _DENSE, array.ndim)
    yield struct.pack(f"<{array.ndim}q", *array.shape)
    yield struct.pack("<iii", *_CPU, code)
    yield _bytes_of(array)


def _sparse_pieces(x: Stored) -> Iterator[bytes | memoryview]:
    """Record of a sparse array, with the shape of stored values and each index array's type."""
    yield struct.pack("<Ii", _V3 if is_np_shape() else _V2, _CODES[x.stype])
    for shape in (x.values.shape, x.shape):
        yield struct.pack(f"<i{len(shape)}q", len(shape), *shape)
    yield struct.pack("<iii", *_CPU, CODE_OF_DTYPE[x.values.dtype.newbyteorder("=")])
    for place in x.places:
        yield struct.pack("<iiq", CODE_OF_DTYPE[place.dtype], 1, len(place))
    yield from map(_bytes_of, (x.values, *x.places))


def _bytes_of(array: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    return flat.view(np.uint8).data
