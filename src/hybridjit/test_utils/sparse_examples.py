"""Random sparse arrays for tests of programs.

Input: shapes and densities. Output: sparse arrays from NumPy's global generator, with the NumPy
arrays of their stored values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import nd
from .._core.types import DType
from ..context import Context
from ..nd import NDArray
from .examples import assign_each

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Modifier = Callable[[float], float] | None


def rand_sparse_ndarray(
    shape: tuple[int, ...],
    stype: str,
    density: float | None = None,
    dtype: DType | None = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: ArrayLike | None = None,
    modifier_func: Modifier = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """A sparse array of about this density (by default a random one), and its stored arrays.

    ``distribution`` "powerlaw", for csr: each row has twice as many values as the previous one.
    ``data_init`` is the value of all elements, ``rsp_indices`` are the stored rows. Raises
    AssertionError for impossible combinations.
    """
    density = float(np.random.rand()) if density is None else density
    dtype = np.float32 if dtype is None else dtype
    if stype == "row_sparse":
        assert distribution in (None, "uniform"), (
            f"Distribution {distribution} not supported for row_sparse"
        )
        rows = _rows(shape[0], density) if rsp_indices is None else np.asarray(rsp_indices)
        assert len(rows) <= shape[0], f"{len(rows)} rows for an array of {shape[0]}"
        values = _drawn((len(rows), *shape[1:]), dtype, data_init, modifier_func)
        rows_array = nd.sparse.row_sparse_array((values, rows), shape, ctx, dtype)
        return rows_array, (values, rows)
    assert stype == "csr", f"unknown storage type {stype}"
    assert len(shape) == 2, f"csr arrays have two axes, got {len(shape)}"
    starts, columns = _PLACES[distribution or "uniform"](*shape, density)
    values = _drawn((len(columns),), dtype, data_init, modifier_func)
    if shuffle_csr_indices:
        _shuffle(starts, columns)
    array = nd.sparse.csr_matrix((values, columns, starts), shape=shape, dtype=dtype, ctx=ctx)
    return array, (starts, columns, values)


def create_sparse_array(
    shape: tuple[int, ...],
    stype: str,
    data_init: float | None = None,
    rsp_indices: ArrayLike | None = None,
    dtype: DType | None = None,
    modifier_func: Modifier = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """A sparse array of this density, optionally with given rows."""
    array, _ = rand_sparse_ndarray(
        shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func,
        shuffle_csr_indices,
    )  # fmt: skip
    return array


def create_sparse_array_zd(
    shape: tuple[int, ...],
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: ArrayLike | None = None,
    dtype: DType | None = None,
    modifier_func: Modifier = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """The same, but with a density of 0 given rows are ignored."""
    if stype == "row_sparse" and density == 0.0:
        rsp_indices = []
    return create_sparse_array(
        shape, stype, data_init, rsp_indices, dtype, modifier_func, density, shuffle_csr_indices
    )


def shuffle_csr_column_indices(csr: NDArray) -> None:
    """Shuffle the column indices of each row, but not its values."""
    starts, columns = csr._aux_data(0)._data, csr._aux_data(1)._data  # type: ignore[attr-defined]
    _shuffle(starts, columns)


def _drawn(
    shape: tuple[int, ...], dtype: DType, data_init: float | None, modifier: Modifier
) -> np.ndarray:
    values = np.random.rand(*shape).astype(dtype)
    if data_init is not None:
        values.fill(data_init)
    if modifier is not None and values.size:
        values = assign_each(values, modifier).astype(dtype)
    return values


def _rows(count: int, density: float) -> np.ndarray:
    return np.flatnonzero(np.random.rand(count) < density)


def _uniform(rows: int, columns: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    count = int(np.ceil(rows * columns * density)) if density else 0
    places = np.sort(np.random.permutation(rows * columns)[:count])
    return _starts(places // columns, rows), places % columns


def _powerlaw(rows: int, columns: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    left = int(rows * columns * density) - rows
    assert left >= 0, f"density {density} leaves less than one value for each of {rows} rows"
    counts = []
    for row in range(rows):
        more = min(min(columns, 2 ** min(row + 1, 62)) - 1, left)
        counts.append(1 + more)
        left -= more
    assert left == 0, f"density {density} is too high for rows with twice as many values each"
    starts = np.concatenate([[0], np.cumsum(counts)])
    return starts, np.arange(starts[-1]) - np.repeat(starts[:-1], counts)


_PLACES = {"uniform": _uniform, "powerlaw": _powerlaw}


def _starts(rows: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])


def _shuffle(starts: np.ndarray, columns: np.ndarray) -> None:
    for first, last in zip(starts, starts[1:]):
        np.random.shuffle(columns[first:last])
