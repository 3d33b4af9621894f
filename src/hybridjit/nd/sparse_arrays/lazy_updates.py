"""Optimizer steps with row_sparse gradients: update only the rows that the gradient stores.

Input: an update operator, its operands and attributes. Output: the weight and the states, written.
The operator itself computes, on these rows only; weight decay and momentum of a row are delayed
until its next gradient, which MXNet calls lazy update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...formats.stored import ROW_SPARSE, Stored
from ...ops.attrs import Attrs
from ...ops.record import OpDef
from ...ops.registry import run_ref, run_step
from ..ndarray import NDArray
from .array import BaseSparseNDArray
from .elements import rows_at


def is_lazy(inputs: Sequence[NDArray], attrs: Attrs) -> bool:
    """Test whether a call updates only the rows of its gradient."""
    return inputs[1].stype == ROW_SPARSE and bool(attrs.get("lazy_update", True))


def update(op: OpDef, inputs: Sequence[NDArray], attrs: Attrs) -> None:
    """Update the rows that a row_sparse gradient stores."""
    weight, grad, *states = inputs
    assert isinstance(grad, BaseSparseNDArray)
    rows = grad._stored.rows
    if not len(rows):
        return
    parts = [_rows(x, rows) for x in (weight, *states)]
    arrays = [parts[0], grad._stored.values, *parts[1:]]
    if op.traits.step is None:
        new = run_ref(op, arrays, attrs)
    else:
        new = run_step(op, arrays, attrs)
    for x, values in zip((weight, *states), new):
        _put(x, rows, values)


def _rows(x: NDArray, rows: np.ndarray) -> np.ndarray:
    if isinstance(x, BaseSparseNDArray):
        return rows_at(x._stored, rows)
    return x._data[rows]


def _put(x: NDArray, rows: np.ndarray, values: np.ndarray) -> None:
    """Write rows; a row_sparse array stores these rows afterwards."""
    if not isinstance(x, BaseSparseNDArray):
        x._write(values, (rows,))
        return
    held = x._stored
    places = np.union1d(held.rows, rows)
    if len(places) != len(held.rows):
        held = Stored(ROW_SPARSE, held.shape, rows_at(held, places), (places,))
    else:
        held = held._replace(values=held.values.copy())
    held.values[np.searchsorted(places, rows)] = values
    x._store(held)
