"""The factors of dropout: 0 with probability ``p``, else 1 / (1 - p).

With p = 1 nothing is kept and the scale is infinite: the factors are NaN, as MXNet's are.
In: a shape, the type of what is dropped. Out: factors that broadcast against it, from bits by
counter: the same whether NumPy computes them or a kernel.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.types import TensorType
from ...errors import AttributeValueError
from ..algebra import in_dtype, scaled
from ..building import Builder, X
from ..registry import lookup
from .counter import bits_by_counter, bits_of, limit_of


def _drawn(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is drawn: one factor for all of each axis in ``axes``."""
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def _factor(p: float) -> float:
    """What is kept is scaled by this. Raises AttributeValueError unless 0 <= p <= 1."""
    if not 0.0 <= p <= 1.0:
        raise AttributeValueError(f"Dropout's p lies between 0 and 1, got {p}")
    return 1.0 / (1.0 - p) if p < 1.0 else math.nan


def dropout_mask(
    shape: tuple[int, ...], p: float, axes: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """The factors for data of this shape and type; one draw for all of each axis in ``axes``.

    Raises AttributeValueError unless 0 <= p <= 1.
    """
    factor = dtype.type(_factor(p))
    kept = bits_by_counter(_drawn(shape, axes)) <= np.int32(limit_of(1.0 - p))
    return np.asarray(kept.astype(dtype) * factor, dtype)


def dropout_factors(g: Builder[X], data: TensorType, p: float, axes: tuple[int, ...]) -> X:
    """The same on any builder."""
    bits = bits_of(g, _drawn(data.dims, axes))
    limit = float(limit_of(1.0 - p))
    kept = g.op(lookup("_lesser_equal_scalar"), bits, at="kept", scalar=limit)
    return scaled(g, in_dtype(g, kept, data), _factor(p))
