"""Factors of dropout: 0 with probability ``p``, else 1 / (1 - p).

With p = 1 no element is kept and the scale is infinite: the factors are NaN, as in MXNet. Input:
the shape and type of the data. Output: factors that broadcast against it, from counter-based bits:
equal in NumPy and in kernels.
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
    """Shape of the draws: one factor for each of the ``axes``."""
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def _factor(p: float) -> float:
    """Scale of kept elements. Raises AttributeValueError unless 0 <= p <= 1."""
    if not 0.0 <= p <= 1.0:
        raise AttributeValueError(f"Dropout's p must be between 0 and 1, got {p}")
    return 1.0 / (1.0 - p) if p < 1.0 else math.nan


def dropout_mask(
    shape: tuple[int, ...], p: float, axes: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Factors for data of this shape and dtype; one draw for each of the ``axes``.

    Raises AttributeValueError unless 0 <= p <= 1.
    """
    factor = dtype.type(_factor(p))
    kept = bits_by_counter(_drawn(shape, axes)) <= np.int32(limit_of(1.0 - p))
    return np.asarray(kept.astype(dtype) * factor, dtype)


def dropout_factors(g: Builder[X], data: TensorType, p: float, axes: tuple[int, ...]) -> X:
    """:func:`dropout_mask` on any builder."""
    bits = bits_of(g, _drawn(data.dims, axes))
    limit = float(limit_of(1.0 - p))
    kept = g.op(lookup("_lesser_equal_scalar"), bits, at="kept", scalar=limit)
    return scaled(g, in_dtype(g, kept, data), _factor(p))
