"""Arrays and shapes for tests of programs, and small functions for computing with NumPy.

Input: shapes, bounds, functions. Output: arrays; random ones come from NumPy's global generator.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

import numpy as np

from .. import nd
from .._core.types import DType, Sizes
from ..context import Context, current_context
from ..io import DataBatch, DataIter
from ..nd import NDArray

_Item = TypeVar("_Item")


def default_context() -> Context:
    """The current context."""
    return current_context()


def default_dtype() -> type[np.float32]:
    """float32."""
    return np.float32


def random_arrays(*shapes: tuple[int, ...]) -> np.ndarray | list[np.ndarray]:
    """Normally distributed float32 arrays; a single one without a list."""
    arrays = [np.array(np.random.randn(*shape), np.float32) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: DType = np.float32
) -> list[np.ndarray]:
    """Arrays of these shapes, uniform in [low, high)."""
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population: list[_Item], k: int) -> list[_Item]:
    """``k`` elements of the population, without repetition."""
    assert 0 <= k <= len(population), f"{k} samples of {len(population)}"
    shuffled = population[:]
    np.random.shuffle(shuffled)  # type: ignore[arg-type]
    return shuffled[:k]


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: DType | None = None,
    modifier_func: object = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> NDArray:
    """A uniformly distributed array in [-1, 1), or a sparse one in [0, 1)."""
    if stype != "default":
        return import_module(".sparse_examples", __package__).rand_sparse_ndarray(
            shape,
            stype,
            density,
            dtype,
            distribution,
            modifier_func=modifier_func,
            shuffle_csr_indices=shuffle_csr_indices,
            ctx=ctx,
        )[0]
    return nd.array(np.random.uniform(-1, 1, shape), ctx, dtype or np.float32)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape with sizes from 1 (or 0) to ``dim``."""
    least = 0 if allow_zero_size else 1
    return tuple(int(size) for size in np.random.randint(least, dim + 1, size=num_dim))


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape with two sizes up to these."""
    return _rand_shape((dim0, dim1), allow_zero_size)


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, ...]:
    """A shape with three sizes up to these."""
    return _rand_shape((dim0, dim1, dim2), allow_zero_size)


def _rand_shape(largest: tuple[int, ...], allow_zero_size: bool) -> tuple[int, ...]:
    return tuple(rand_shape_nd(1, size, allow_zero_size)[0] for size in largest)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """Two integers, at least the lower bounds and below the upper ones."""
    return (
        np.random.randint(x_low, x_high, dtype=np.int64),  # type: ignore[return-value]
        np.random.randint(y_low, y_high, dtype=np.int64),
    )


def create_vector(size: int, dtype: DType = np.int64) -> NDArray:
    """0, 1, ... below ``size``."""
    return nd.arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: DType = np.int64) -> NDArray:
    """Every row filled with its index."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), (rows, columns))


def np_reduce(
    dat: np.ndarray, axis: Sizes, keepdims: bool, numpy_reduce_func: Callable[..., np.ndarray]
) -> np.ndarray:
    """``numpy_reduce_func`` along one or several axes."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    found = dat
    for each in sorted((a % dat.ndim for a in axes), reverse=True):
        found = numpy_reduce_func(found, axis=each)
        if keepdims:
            found = np.expand_dims(found, each)
    return np.asarray(found)


def assign_each(the_input: np.ndarray, function: Callable[[float], float] | None) -> np.ndarray:
    """``function`` applied to every element; the array itself without a function."""
    return np.array(the_input) if function is None else np.vectorize(function)(the_input)


def assign_each2(
    input1: np.ndarray, input2: np.ndarray, function: Callable[[float, float], float] | None
) -> np.ndarray:
    """``function`` applied to every pair of elements; the first array without a function."""
    return np.array(input1) if function is None else np.vectorize(function)(input1, input2)


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the axes that broadcasting ``shape`` to the array's shape would repeat."""
    summed = a.sum(axis=tuple(range(a.ndim - len(shape))))
    repeated = [i for i, size in enumerate(shape) if size == 1 and summed.shape[i] != 1]
    return summed.sum(axis=tuple(repeated), keepdims=True)


class DummyIter(DataIter):
    """Returns the first batch of ``real_iter`` forever, for speed tests of networks."""

    def __init__(self, real_iter: DataIter) -> None:
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.the_batch = next(real_iter)

    def next(self) -> DataBatch:
        """The batch."""
        return self.the_batch
