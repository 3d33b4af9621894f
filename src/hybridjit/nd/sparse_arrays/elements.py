"""Elementwise functions on stored values of NumPy arrays.

Two arrays are first extended to the union of their indices; a missing value is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...formats.stored import CSR, ROW_SPARSE, Stored, starts_of

Function = Callable[..., np.ndarray]


def on_values(x: Stored, function: Function) -> Stored:
    """Apply ``function``, which must map 0 to 0, to every stored value."""
    return _copy_of(x, function(x.values))


def on_union(xs: Sequence[Stored], function: Function, in_both: bool = False) -> Stored:
    """Apply ``function`` to the arrays' values at every index that one of them stores.

    Rows that become zero remain stored; values of csr arrays do not. ``in_both`` restricts a csr
    result to indices that all arrays store.
    """
    kind, shape = xs[0].stype, xs[0].shape
    keys = [_keys(x) for x in xs]
    places = np.unique(np.concatenate(keys))
    width = () if kind == CSR else shape[1:]
    parts, stored_by = [], np.zeros(len(places), np.int64)
    for x, key in zip(xs, keys):
        at = np.searchsorted(places, key)
        part = np.zeros((len(places), *width), x.values.dtype)
        part[at] = x.values
        stored_by[at] += 1
        parts.append(part)
    values = function(*parts)
    if kind == ROW_SPARSE:
        return Stored(kind, shape, values, (places,))
    kept = (stored_by == len(xs)) if in_both else (values != 0)
    return _csr_at(places[kept], values[kept], shape)


def with_dense(x: Stored, dense: np.ndarray, function: Function) -> Stored:
    """``function(values, values of dense at the same indices)``; ``dense`` is broadcast."""
    whole = np.broadcast_to(dense, x.shape)
    there = whole[x.rows] if x.stype == ROW_SPARSE else whole[x.rows, x.places[1]]
    return _copy_of(x, function(x.values, there))


def part(x: Stored, begin: Sequence[int], end: Sequence[int]) -> Stored:
    """Slice of rows, and optionally columns, of a csr array from ``begin`` to ``end``."""
    starts, columns = x.places
    first, last = int(starts[begin[0]]), int(starts[end[0]])
    values, columns = x.values[first:last].copy(), columns[first:last].copy()
    starts = starts[begin[0] : end[0] + 1] - first
    shape = (end[0] - begin[0], x.shape[1])
    found = Stored(CSR, shape, values, (starts, columns))
    if len(begin) == 1:
        return found
    kept = (columns >= begin[1]) & (columns < end[1])
    rows = found.rows[kept]
    places = (starts_of(rows, shape[0]), columns[kept] - begin[1])
    return Stored(CSR, (shape[0], end[1] - begin[1]), values[kept], places)


def taken(x: Stored, rows: np.ndarray) -> Stored:
    """Rows of a csr array in the given order."""
    starts, columns = x.places
    counts = np.diff(starts)[rows]
    ends = np.cumsum(counts)
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[rows] - (ends - counts), counts)
    return Stored(
        CSR,
        (len(rows), x.shape[1]),
        x.values[at],
        (np.concatenate([[0], ends]).astype(np.int64), columns[at]),
    )


def rows_at(x: Stored, wanted: np.ndarray) -> np.ndarray:
    """Rows of a row_sparse array as a dense one; zeros for rows that are not stored."""
    (rows,) = x.places
    found = np.zeros((len(wanted), *x.shape[1:]), x.values.dtype)
    at = np.minimum(np.searchsorted(rows, wanted), max(len(rows) - 1, 0))
    hit = (rows[at] == wanted) if len(rows) else np.zeros(len(wanted), bool)
    found[hit] = x.values[at[hit]]
    return found


def values_at(x: Stored, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Values of a csr array at these indices, -1 where none is stored.

    Raises IndexError for an index out of range.
    """
    for name, at, size in (("row", rows, x.shape[0]), ("column", columns, x.shape[1])):
        if len(at) and not 0 <= at.min() <= at.max() < size:
            raise IndexError(f"{name}s {at.min()} to {at.max()} are not all below {size}")
    keys, wanted = _keys(x), rows * x.shape[1] + columns
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.full(len(wanted), -1, x.values.dtype)
    return np.where(keys[at] == wanted, x.values[at], x.values.dtype.type(-1))


def sum_rows(shape: tuple[int, ...], rows: np.ndarray, values: np.ndarray) -> Stored:
    """Row_sparse array of rows in any order; rows with equal indices are added."""
    order = np.argsort(rows, kind="stable")
    numbers = rows[order]
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sums = np.add.reduceat(values[order], firsts, axis=0) if len(firsts) else values[:0]
    kept = numbers[firsts].astype(np.int64)
    return Stored(ROW_SPARSE, shape, sums.astype(values.dtype, copy=False), (kept,))


def _keys(x: Stored) -> np.ndarray:
    """Integer key for each index pair, in ascending order."""
    return x.rows if x.stype == ROW_SPARSE else x.rows * x.shape[1] + x.places[1]


def _csr_at(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> Stored:
    rows, columns = np.divmod(places, max(shape[1], 1))
    return Stored(CSR, shape, values, (starts_of(rows, shape[0]), columns))


def _copy_of(x: Stored, values: np.ndarray) -> Stored:
    return x._replace(values=values, places=tuple(place.copy() for place in x.places))
