"""Sparse array classes: storage, dense values, assignment.

Input: a :class:`.stored.Stored`. Output: an NDArray whose ``_data`` is constructed at every access
and read-only. Arrays that share memory share the storage that holds the stored data.
"""

from __future__ import annotations

import importlib
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from ..._core.recording import FLAGS
from ..._core.types import DType, Sizes, product, shape_text
from ...base import NotSupportedForSparseNDArray
from ...context import Context
from ...errors import MXNetError, ShapeError
from ...formats.mxnet import params
from ...formats.stored import CSR, ROW_SPARSE, Stored, nothing, starts_of, stored
from ...ops.registry import lookup
from ..creation import array as dense_array
from ..memory import ON_TAPE, DenseArray, converted, dtype_of
from ..ndarray import NDArray, invoke
from ..storage import Storage
from ..tape import Entry
from ..taped import record_same
from ..undo import OPEN
from . import operators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

Self = TypeVar("Self", bound="BaseSparseNDArray")


class SparseStorage(Storage):
    """Storage of sparse arrays on the same memory, including the stored data."""

    def __init__(self, held: Stored) -> None:
        self.stored = held


class BaseSparseNDArray(NDArray):
    """Base class of both kinds of sparse arrays."""

    __slots__ = ()
    _storage: SparseStorage
    _stype = "undefined"

    def __init__(
        self, held: Stored, ctx: Context | None = None, storage: SparseStorage | None = None
    ) -> None:
        super().__init__(held.values, ctx, SparseStorage(held) if storage is None else storage)
        del self._data  # `__getattr__` constructs it

    def __getattr__(self, name: str) -> Any:
        """Construct the dense values, read-only, when ``_data`` is read."""
        if name == "_data":
            whole = self._stored.dense()
            whole.flags.writeable = False
            return whole
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _stored(self) -> Stored:
        return self._storage.stored

    def _same_memory(self: Self, entry: Entry | None = None) -> Self:
        found = type(self)(self._stored, self._ctx, self._storage)
        found._entry = entry
        return found

    def _dense(self, data: np.ndarray) -> NDArray:  # type: ignore[override]
        return NDArray(data, self._ctx)

    def _on_file(self) -> Stored:
        return self._stored

    def _untouched_zeros(self, stype: str | None) -> NDArray:
        if stype == "default":
            return NDArray(np.zeros(self.shape, self.dtype), self._ctx)
        kind = self.stype if stype is None else stype
        return wrapped(nothing(kind, self.shape, self._stored.values.dtype), self._ctx)

    # Properties

    @property
    def stype(self) -> str:
        """ "row_sparse" or "csr"."""
        return self._stype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._stored.shape

    @property
    def size(self) -> int:
        """Number of elements, including those that are not stored."""
        return product(self._stored.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._stored.shape)

    @property
    def dtype(self) -> type[np.generic]:
        """Element type, as NumPy's class."""
        return self._stored.values.dtype.type

    @property
    def data(self) -> NDArray:
        """Stored values, in this array's own memory."""
        return NDArray(self._stored.values, self._ctx)

    @property
    def indices(self) -> NDArray:
        """Column of each stored value, or index of each stored row; int64."""
        return NDArray(self._stored.places[-1], self._ctx)

    @property
    def _num_aux(self) -> int:
        return len(self._stored.places)

    def _aux_data(self, number: int) -> NDArray:
        return NDArray(self._stored.places[number], self._ctx)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError unless the index arrays have MXNet's format.

        Without ``full_check`` the indices themselves are not checked.
        """
        fault = self._stored.fault(full_check)
        if fault is not None:
            raise MXNetError(fault)

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"\n<{type(self).__name__} {sizes} @{self._ctx}>"

    def __reduce__(self) -> tuple[object, ...]:
        place = (self._ctx.device_type, self._ctx.device_id)
        return _restored, (*self._stored, *place)

    def __setstate__(self, state: dict[str, bytearray]) -> None:
        held = params.read_record(state["handle"], sparse=True)
        assert isinstance(held, Stored)
        self.__init__(held)  # type: ignore[misc]

    # Copies and conversions

    def asnumpy(self) -> np.ndarray:
        """NumPy array of all values, including zeros."""
        return self._stored.dense()

    def copy(self: Self) -> Self:
        """Copy of the array."""
        return record_same(self, type(self)(_copied(self._stored), self._ctx))

    def detach(self: Self) -> Self:
        """Array that shares the memory, without tape entry."""
        return self._same_memory()

    def astype(self: Self, dtype: DType, copy: bool = True) -> Self:
        """Array converted to ``dtype``; the array itself if the dtype is equal and copy is
        False."""
        wanted = dtype_of(np.float32 if dtype is None else dtype)
        if not copy and wanted == self._stored.values.dtype:
            return self
        values = converted(self._stored.values, wanted)
        found = type(self)(_copied(self._stored)._replace(values=values), self._ctx)
        return record_same(self, found)

    def tostype(self, stype: str) -> NDArray:
        """Copy with this storage type.

        Raises ValueError between the two sparse types, MXNetError for an unknown storage type.
        """
        return invoke(lookup("cast_storage"), [self], {"stype": stype})

    def as_in_context(self: Self, context: Context) -> Self:
        """Copy in ``context``; the array itself if it is already there. MXNetError for a GPU."""
        if context == self._ctx:
            return self
        context.require_host("_copyto")
        return record_same(self, type(self)(_copied(self._stored), context))

    def copyto(self, other: NDArray | Context) -> Any:
        """Write the values to ``other``, or copy them to another context.

        Raises TypeError for other objects, ShapeError if the shapes differ.
        """
        if isinstance(other, Context):
            other.require_host("_copyto")
            return type(self)(_copied(self._stored), other)
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other.stype not in ("default", self.stype):
            raise TypeError(f"copyto does not support destination NDArray stype {other.stype}")
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning)
            return False
        if other.shape != self.shape:
            mine, theirs = shape_text(self.shape), shape_text(other.shape)
            raise ShapeError(f"copyto: this array has shape {mine}, the other has {theirs}")
        other._receive(self)
        return record_same(self, other)

    # Writing

    def _receive(self, d: DenseArray) -> None:
        """Store the values of ``d``; from an array of this class also its stored zeros."""
        if isinstance(d, type(self)):
            values = converted(d._stored.values, self._stored.values.dtype)
            self._store(_copied(d._stored)._replace(values=values))
        else:
            self._write(d._data)

    def _write(self, values: ArrayLike, key: object = ...) -> None:
        """Replace the stored data by the nonzero elements of ``values``, broadcast."""
        if key is not ... and key != (slice(None),):
            raise MXNetError(
                f"{type(self).__name__} can only be assigned completely: x[:] = values"
            )
        try:
            whole = np.broadcast_to(values, self.shape)
        except ValueError:
            raise ShapeError(
                f"values of shape {shape_text(np.shape(values))} cannot be assigned to an array "
                f"of shape "
                f"{shape_text(self.shape)}"
            ) from None
        self._store(stored(self.stype, converted(whole, self._stored.values.dtype)))

    def _store(self, held: Stored) -> None:
        """Set the stored data. Raises MXNetError if the array is recorded."""
        if self._entry is not None and FLAGS.recording:
            raise MXNetError(ON_TAPE)
        if OPEN.undo is not None:
            OPEN.undo.note(partial(self._hold, self._stored))
        self._hold(held)

    def _hold(self, held: Stored) -> None:
        self._storage.stored = held
        self._storage.bump()

    def _set_all(self, value: object) -> None:
        if isinstance(value, NDArray):
            value.copyto(self)
        elif isinstance(value, (np.ndarray, np.generic)):
            self._write(np.asarray(value))
        else:
            raise TypeError(f"type {type(value)} not supported")

    # Python's operators: elementwise for equal shapes, because only these results are sparse

    def __add__(self, other: object) -> NDArray:
        return operators.add(self, other)

    def __iadd__(self: Self, other: object) -> Self:
        self._receive(operators.add(self, other))
        return self

    def __sub__(self, other: object) -> NDArray:
        return operators.subtract(self, other)

    def __isub__(self: Self, other: object) -> Self:
        self._receive(operators.subtract(self, other))
        return self

    def __mul__(self, other: object) -> NDArray:
        return operators.multiply(self, other)

    def __imul__(self: Self, other: object) -> Self:
        self._receive(operators.multiply(self, other))
        return self

    def __itruediv__(self: Self, other: object) -> Self:
        self._receive(self / other)
        return self

    # Unsupported methods

    def reshape(self, *shape: object, **kwargs: object) -> NoReturn:
        """Raise NotSupportedForSparseNDArray."""
        raise _unsupported("reshape", shape)

    def _slice(self, *ends: object) -> NoReturn:
        raise _unsupported("_slice", ends)

    def _at(self, *index: object) -> NoReturn:
        raise _unsupported("_at", index)

    def broadcast_to(self, shape: Sizes) -> NDArray:
        """Dense array repeated along axes of size 1."""
        return self.tostype("default").broadcast_to(shape)


class CSRNDArray(BaseSparseNDArray):
    """Matrix that stores only some values, row by row."""

    __slots__ = ()
    _stype = CSR

    @property
    def indptr(self) -> NDArray:
        """Offset of each row among the values, and the total count; int64."""
        return NDArray(self._stored.places[0], self._ctx)

    def __getitem__(self, key: object) -> CSRNDArray:
        """Rows: one by its index, or a slice without a step.

        Raises IndexError for a row out of range, ValueError for other keys.
        """
        if isinstance(key, (int, np.integer)):
            row = int(key) + (self.shape[0] if key < 0 else 0)
            if not 0 <= row < self.shape[0]:
                raise IndexError(f"row {key} is out of range for {self.shape[0]} rows")
            key = slice(row, row + 1)
        if isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        if not isinstance(key, slice):
            raise ValueError(f"Undefined behaviour for {key}")
        if key.step not in (None, 1):
            raise ValueError("CSRNDArray only supports continuous slicing on axis 0")
        if key == slice(None):
            return self
        begin, end, _ = key.indices(self.shape[0])
        return invoke(lookup("slice"), [self], {"begin": (begin,), "end": (max(begin, end),)})

    def __setitem__(self, key: object, value: object) -> None:
        """Replace all values: ``x[:] = array``. Raises ValueError or TypeError for other keys and
        values."""
        if not isinstance(key, slice):
            raise TypeError("CSRNDArray only supports [:] for assignment")
        if key != slice(None):
            raise ValueError("Assignment with slice for CSRNDArray is not implemented.")
        if isinstance(value, (int, float)):
            raise ValueError("Assigning numeric types to CSRNDArray is not implemented.")
        self._set_all(value)

    def asscipy(self) -> Any:
        """A ``scipy.sparse.csr_matrix``. Raises ImportError without SciPy."""
        scipy_sparse = importlib.import_module("scipy.sparse")
        starts, columns = self._stored.places
        parts = (self._stored.values.copy(), columns.copy(), starts.copy())
        return scipy_sparse.csr_matrix(parts, shape=self.shape, dtype=self.dtype)


class RowSparseNDArray(BaseSparseNDArray):
    """Array that stores only some rows, such as the gradient of an embedding."""

    __slots__ = ()
    _stype = ROW_SPARSE

    def __getitem__(self, key: object) -> RowSparseNDArray:
        """The array itself for ``x[:]``. Raises ValueError for all other keys."""
        if isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        if not isinstance(key, slice) or key != slice(None):
            raise ValueError(f"RowSparseNDArray only supports [:] for __getitem__, got {key}")
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Replace all values: ``x[:] = array`` or a number, which stores every row.

        Raises ValueError or TypeError for other keys and values.
        """
        if not isinstance(key, slice):
            raise TypeError("RowSparseNDArray only supports [:] for assignment")
        if key != slice(None):
            raise ValueError("Assignment with slice for RowSparseNDArray is not implemented.")
        if isinstance(value, (int, float)):
            whole = np.full(self.shape, value, self.dtype)
            self._store(all_rows(whole))
        else:
            self._set_all(value)

    def retain(self, row_ids: ArrayLike) -> RowSparseNDArray:
        """The given rows; zeros for rows that are not stored."""
        ids = row_ids if isinstance(row_ids, NDArray) else dense_array(row_ids, dtype="int64")
        return invoke(lookup("_sparse_retain"), [self, ids], {})


CLASSES: dict[str, type[BaseSparseNDArray]] = {CSR: CSRNDArray, ROW_SPARSE: RowSparseNDArray}


def wrapped(held: Stored, ctx: Context | None = None) -> BaseSparseNDArray:
    """NDArray of stored data."""
    return CLASSES[held.stype](held, ctx)


def all_rows(whole: np.ndarray) -> Stored:
    """Stored data with every row of ``whole``, also zero rows."""
    return Stored(ROW_SPARSE, whole.shape, whole, (np.arange(len(whole)),))


def join_rows(kind: str, parts: Sequence[Stored]) -> Stored:
    """Csr arrays of equal width concatenated along the rows."""
    rows = [len(part.places[0]) - 1 for part in parts]
    firsts = np.concatenate([[0], np.cumsum(rows)[:-1]])
    numbers = np.concatenate([part.rows + first for part, first in zip(parts, firsts)])
    columns = np.concatenate([part.places[1] for part in parts])
    values = np.concatenate([part.values for part in parts])
    shape = (sum(rows), parts[0].shape[1])
    return Stored(kind, shape, values, (starts_of(numbers, shape[0]), columns))


def _copied(held: Stored) -> Stored:
    places = tuple(part.copy() for part in held.places)
    return held._replace(values=held.values.copy(), places=places)


def _unsupported(name: str, given: tuple[object, ...]) -> NotSupportedForSparseNDArray:
    kinds = ", ".join(str(type(one)) for one in given)
    return NotSupportedForSparseNDArray(
        f"Function {name} with arguments ({kinds}) is not supported for SparseNDArray and only "
        "available in NDArray."
    )


def _restored(
    stype: str,
    shape: tuple[int, ...],
    values: np.ndarray,
    places: tuple[np.ndarray, ...],
    device_type: str,
    device_id: int,
) -> BaseSparseNDArray:
    return wrapped(Stored(stype, shape, values, places), Context(device_type, device_id))
