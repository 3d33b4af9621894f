"""``csr_matrix``, ``row_sparse_array``, ``zeros``, ``empty`` and ``array`` of ``nd.sparse``.

Input: shapes, values with indices, dense or sparse arrays, SciPy matrices. Output: sparse arrays.
The dtype is the source's, float32 for Python numbers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..._core.recording import is_recording
from ..._core.types import FLOAT32, DType
from ...context import Context
from ...formats.stored import CSR, INDEX, ROW_SPARSE, Stored, nothing, starts_of, stored
from .. import creation
from ..memory import converted, dtype_of
from ..ndarray import NDArray
from .array import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, wrapped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Shaped: TypeAlias = int | tuple[int, ...] | list[int]
Numbers: TypeAlias = "ArrayLike | NDArray"
# A shape, a tuple of values and indices, an array, or a SciPy matrix.
Source: TypeAlias = Any

_WHOLE = (int, np.integer)


def csr_matrix(
    arg1: Source,
    shape: Shaped | None = None,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> CSRNDArray:
    """Csr array from a shape, ``(data, indices, indptr)``, ``(data, (row, col))``, or an array.

    Raises ValueError for inconsistent shapes, other kinds of sources, and shapes that cannot be
    inferred.
    """
    if isinstance(arg1, tuple) and len(arg1) == 2 and not isinstance(arg1[1], tuple):
        held = _empty_of(CSR, arg1, shape, dtype)
    elif isinstance(arg1, tuple) and len(arg1) == 2:
        held = _from_coordinates(arg1[0], arg1[1], shape, dtype)
    elif isinstance(arg1, tuple) and len(arg1) == 3:
        held = _from_definition(arg1, shape, dtype)
    elif isinstance(arg1, tuple):
        raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
    else:
        held = _from_array(CSR, arg1, shape, dtype)
    return wrapped(held, _place(ctx))  # type: ignore[return-value]


def row_sparse_array(
    arg1: Source,
    shape: Shaped | None = None,
    ctx: Context | None = None,
    dtype: DType | None = None,
) -> RowSparseNDArray:
    """Row_sparse array from a shape, ``(data, indices)`` or an array.

    Raises ValueError for inconsistent shapes and other kinds of sources.
    """
    if isinstance(arg1, tuple) and len(arg1) < 2:
        raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
    if isinstance(arg1, tuple) and (len(arg1) > 2 or isinstance(arg1[0], _WHOLE)):
        held = _empty_of(ROW_SPARSE, arg1, shape, dtype)
    elif isinstance(arg1, tuple):
        held = _from_rows(arg1, shape, dtype)
    else:
        held = _from_array(ROW_SPARSE, arg1, shape, dtype)
    return wrapped(held, _place(ctx))  # type: ignore[return-value]


def zeros(
    stype: str, shape: Shaped, ctx: Context | None = None, dtype: DType | None = None, **_: object
) -> NDArray:
    """Zeros of a storage type. Raises ValueError for an unknown type."""
    if stype == "default":
        return creation.zeros(shape, ctx, dtype)
    if stype not in (CSR, ROW_SPARSE):
        raise ValueError(f"unknown storage type{stype}")
    sizes = _sizes(shape)
    if stype == CSR:
        _require_matrix(sizes)
    return wrapped(nothing(stype, sizes, _dtype(None, dtype)), _place(ctx))


def empty(
    stype: str, shape: Shaped, ctx: Context | None = None, dtype: DType | None = None
) -> NDArray:
    """The same as :func:`zeros`."""
    return zeros(stype, shape, ctx, dtype)


def array(
    source_array: Source, ctx: Context | None = None, dtype: DType | None = None
) -> BaseSparseNDArray:
    """Copy of a sparse array of ours or of SciPy. Raises ValueError for a dense one."""
    if isinstance(source_array, (RowSparseNDArray, CSRNDArray)) and is_recording():
        return source_array.astype(dtype or source_array.dtype)
    if isinstance(source_array, RowSparseNDArray):
        return row_sparse_array(source_array, None, ctx, dtype)
    if isinstance(source_array, CSRNDArray) or is_scipys(source_array):
        return csr_matrix(source_array, None, ctx, dtype)
    raise ValueError(
        "Please use mx.nd.array to create an NDArray with source_array of type "
        f"{type(source_array)}"
    )


def is_scipys(source: object) -> bool:
    """Test whether this is a SciPy sparse matrix, without importing SciPy."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(source))


def _from_definition(
    parts: tuple[Numbers, ...], shape: Shaped | None, dtype: DType | None
) -> Stored:
    values = _values(parts[0], dtype)
    columns, starts = (_raw(part).astype(INDEX) for part in parts[1:])
    if shape is None:
        if not len(columns):
            raise ValueError("invalid shape")
        shape = (len(starts) - 1, int(columns.max()) + 1)
    sizes = _sizes(shape)
    _require_matrix(sizes)
    return Stored(CSR, sizes, values, (starts, columns))


def _from_coordinates(
    data: Numbers, places: tuple[Numbers, ...], shape: Shaped | None, dtype: DType | None
) -> Stored:
    """Csr data sorted by index; values with equal indices are added."""
    values = _values(data, dtype)
    rows, columns = map(_raw, places)
    if shape is None:
        if not len(rows):
            raise ValueError("invalid shape")
        shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    sizes = _sizes(shape)
    _require_matrix(sizes)
    return summed(sizes, values, rows.astype(INDEX), columns.astype(INDEX))


def summed(
    shape: tuple[int, ...], values: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> Stored:
    """Csr array of values with indices in any order; values with equal indices are added."""
    order = np.lexsort((columns, rows))
    values, rows, columns = values[order], rows[order], columns[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    firsts = np.flatnonzero(is_new)
    sums = np.add.reduceat(values, firsts) if len(firsts) else values
    rows, columns = rows[firsts], columns[firsts]
    return Stored(CSR, shape, sums.astype(values.dtype), (starts_of(rows, shape[0]), columns))


def _from_rows(parts: tuple[Numbers, ...], shape: Shaped | None, dtype: DType | None) -> Stored:
    data, indices = parts
    values, rows = _values(data, dtype), _raw(indices).astype(INDEX)
    if shape is None:
        if not len(rows):
            raise ValueError("invalid shape")
        shape = (int(rows.max()) + 1, *values.shape[1:])
    sizes = _sizes(shape)
    if values.ndim != len(sizes):
        raise ValueError(f"rows have {values.ndim - 1} axes, but the array has {len(sizes)}")
    return Stored(ROW_SPARSE, sizes, values, (rows,))


def _from_array(kind: str, source: Source, shape: Shaped | None, dtype: DType | None) -> Stored:
    if isinstance(source, BaseSparseNDArray):
        if source.stype != kind:
            raise ValueError(f"Unexpected input type: {type(source).__name__}")
        held = source._stored
        values, places = _values(source.data, dtype), tuple(p.copy() for p in held.places)
        held = held._replace(values=values, places=places)
    elif is_scipys(source):
        found = source.tocsr().copy()
        if kind != CSR:
            raise ValueError(f"Unexpected input type: {type(source).__name__}")
        found.sum_duplicates()
        places = (found.indptr.astype(INDEX), found.indices.astype(INDEX))
        held = Stored(CSR, tuple(found.shape), _values(found.data, dtype), places)
    else:
        dense = _values(source, dtype)
        if kind == CSR:
            _require_matrix(dense.shape)
        held = stored(kind, dense)
    _require_equal(held.shape, shape)
    return held


def _empty_of(kind: str, sizes: Shaped, shape: Shaped | None, dtype: DType | None) -> Stored:
    found = _sizes(sizes)
    _require_equal(found, shape)
    return nothing(kind, found, _dtype(None, dtype))


def _require_equal(found: tuple[int, ...], shape: Shaped | None) -> None:
    if shape is not None and _sizes(shape) != found:
        raise ValueError(f"Shape mismatch detected. {found} v.s. {_sizes(shape)}")


def _require_matrix(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {shape}"
        )


def _values(source: Numbers, dtype: DType | None) -> np.ndarray:
    """Copy of the values, in the given dtype or their own."""
    raw = _raw(source)
    return converted(raw, _dtype(source, dtype))


def _raw(source: Numbers) -> np.ndarray:
    return source._data if isinstance(source, NDArray) else np.asarray(source)


def _dtype(source: object, dtype: DType | None) -> np.dtype:
    if dtype is not None:
        return dtype_of(dtype)
    return dtype_of(source.dtype) if hasattr(source, "dtype") else FLOAT32


def _sizes(shape: Shaped) -> tuple[int, ...]:
    return tuple(int(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,)))


def _place(ctx: Context | None) -> Context | None:
    if ctx is not None:
        Context(ctx).require_host("sparse array")
    return ctx
