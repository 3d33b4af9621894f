"""``dot`` with a csr array on NumPy arrays. The cost depends on the stored values, not the
shape."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...formats.stored import CSR, ROW_SPARSE, Stored, starts_of, stored
from .elements import rows_at, sum_rows

_PIECE = 1 << 22  # elements of a product in memory at once


def times(x: Stored, dense: np.ndarray | Stored) -> np.ndarray:
    """Dense product of a csr matrix and a matrix."""
    result = np.zeros((x.shape[0], dense.shape[1]), x.values.dtype)
    for rows, terms in _terms(x, x.rows, x.places[1], dense):
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        if len(firsts):  # a row may continue in the next chunk
            result[rows[firsts]] += np.add.reduceat(terms, firsts, axis=0)
    return result


def transposed_times(x: Stored, dense: np.ndarray | Stored) -> Stored:
    """Product of a csr matrix's transpose and a matrix, as a row_sparse array."""
    shape = (x.shape[1], dense.shape[1])
    columns = x.places[1]
    order = np.argsort(columns, kind="stable")
    sorted_x = x._replace(values=x.values[order])
    numbers = columns[order]
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if dense.shape[1] * len(order) <= _PIECE:
        (terms,) = (terms for _, terms in _terms(sorted_x, numbers, x.rows[order], dense))
        return sum_rows(shape, numbers, terms)
    sums = np.zeros((len(firsts), shape[1]), x.values.dtype)
    ranks = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(numbers)))
    for at, terms in _terms(sorted_x, ranks, x.rows[order], dense):
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        sums[at[starts]] += np.add.reduceat(terms, starts, axis=0)
    return Stored(ROW_SPARSE, shape, sums, (numbers[firsts],))


def dense_times(dense: np.ndarray, x: Stored, transpose: bool) -> Stored:
    """Product of a matrix and a csr matrix or its transpose, as a csr array."""
    if transpose:
        whole = times(x, np.ascontiguousarray(dense.T)).T
        return stored(CSR, whole)
    reached = transposed_times(x, np.ascontiguousarray(dense.T))
    columns = np.tile(reached.places[0], len(dense))
    rows = np.repeat(np.arange(len(dense)), len(reached.places[0]))
    places = (starts_of(rows, len(dense)), columns)
    return Stored(CSR, (len(dense), x.shape[1]), reached.values.T.reshape(-1).copy(), places)


def _terms(
    x: Stored, to: np.ndarray, of: np.ndarray, dense: np.ndarray | Stored
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Chunks of (index of the result row, stored value times row ``of`` it)."""
    step = max(_PIECE // max(dense.shape[1], 1), 1)
    for first in range(0, max(len(to), 1), step):
        piece = slice(first, first + step)
        rows = rows_at(dense, of[piece]) if isinstance(dense, Stored) else dense[of[piece]]
        yield to[piece], x.values[piece, np.newaxis] * rows
