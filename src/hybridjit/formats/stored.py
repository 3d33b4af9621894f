"""Contents of a sparse array: values and indices. NumPy arrays without devices.

``row_sparse``: rows, and their indices. ``csr``: the values of a matrix row by row, the offset of
each row among them (one more than rows), and the column of each value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import product
from ..errors import ShapeError

INDEX = np.dtype(np.int64)
ROW_SPARSE, CSR = "row_sparse", "csr"


class Stored(NamedTuple):
    """Contents of one sparse array.

    places  index arrays: (row indices,), or (row offsets, columns)
    """

    stype: str
    shape: tuple[int, ...]
    values: np.ndarray
    places: tuple[np.ndarray, ...]

    @property
    def rows(self) -> np.ndarray:
        """Row index of each stored row or value."""
        if self.stype == ROW_SPARSE:
            return self.places[0]
        return np.repeat(np.arange(self.shape[0]), np.diff(self.places[0]))

    def dense(self) -> np.ndarray:
        """Dense array; of values with equal indices the last one wins."""
        whole = np.zeros(self.shape, self.values.dtype)
        whole[self.rows if self.stype == ROW_SPARSE else (self.rows, self.places[1])] = self.values
        return whole

    def fault(self, full: bool = True) -> str | None:
        """Violation of MXNet's formats, or None; with ``full`` the indices are checked too."""
        return (_fault_of_rows if self.stype == ROW_SPARSE else _fault_of_csr)(self, full)


def nothing(stype: str, shape: tuple[int, ...], dtype: np.dtype) -> Stored:
    """Sparse array of zeros."""
    if stype == ROW_SPARSE:
        empty = np.zeros((0, *shape[1:]), dtype)
        return Stored(stype, shape, empty, (np.zeros(0, INDEX),))
    starts = np.zeros(shape[0] + 1, INDEX)
    return Stored(stype, shape, np.zeros(0, dtype), (starts, np.zeros(0, INDEX)))


def stored(stype: str, dense: np.ndarray) -> Stored:
    """Nonzero rows or values of a dense array. Raises ShapeError for rows of a scalar."""
    if stype == ROW_SPARSE:
        if not dense.ndim:
            raise ShapeError("a row_sparse array needs at least 1 axis, got shape ()")
        width = product(dense.shape[1:])
        rows = np.flatnonzero((dense.reshape(len(dense), width) != 0).any(axis=1))
        return Stored(stype, dense.shape, dense[rows], (rows.astype(INDEX),))
    rows, columns = np.nonzero(dense)
    starts = starts_of(rows, dense.shape[0])
    return Stored(stype, dense.shape, dense[rows, columns], (starts, columns.astype(INDEX)))


def starts_of(rows: np.ndarray, count: int) -> np.ndarray:
    """Offset of each of ``count`` rows among values that are sorted by row."""
    starts = np.zeros(count + 1, INDEX)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return starts


def _fault_of_rows(x: Stored, full: bool) -> str | None:
    (rows,) = x.places
    if len(rows) != len(x.values) or x.values.shape[1:] != x.shape[1:]:
        return f"{len(rows)} row indices for values of shape {x.values.shape}"
    if full and len(rows) and not (rows[0] >= 0 and rows[-1] < x.shape[0] and _ascends(rows)):
        return (
            "Indices of row_sparse NDArray should be non-negative, less than the size of first "
            "dimension and in ascending order"
        )
    return None


def _fault_of_csr(x: Stored, full: bool) -> str | None:
    starts, columns = x.places
    if len(starts) != x.shape[0] + 1 or len(columns) != len(x.values):
        return f"{len(starts)} row starts and {len(columns)} columns for {len(x.values)} values"
    if starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        return "Indptr of csr NDArray should start with 0, ascend and end with the size of indices"
    if full and len(columns):
        within = np.diff(columns) > 0
        ends = starts[1:-1]
        within[ends[(ends > 0) & (ends < len(columns))] - 1] = True
        if columns.min() < 0 or columns.max() >= x.shape[1] or not within.all():
            return (
                "Indices of csr NDArray should be non-negative, in ascending order per row and "
                "less than the number of columns."
            )
    return None


def _ascends(rows: np.ndarray) -> bool:
    return bool((np.diff(rows) > 0).all())
