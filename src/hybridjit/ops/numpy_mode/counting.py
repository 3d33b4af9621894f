"""Operators whose result shapes depend on values: unique, nonzero, bincount; and percentile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, Shape, TensorType, product
from ...errors import AttributeValueError, DTypeError, ShapeError
from ..attrs import AttrValue
from ..casting import convert
from ..gradient import none_at_all
from ..record import Traits
from ..registry import register
from ..rules import forward, normalized_axis
from ..signatures import Arrays
from .reductions import axes_of, kept_shape

_BY_VALUES = Traits(sized_by_values=True)


def _unique_names(
    return_index: bool, return_inverse: bool, return_counts: bool, **attrs: AttrValue
) -> tuple[str, ...]:
    count = 1 + return_index + return_inverse + return_counts
    return tuple(f"output{i}" for i in range(count)) if count > 1 else ("output",)


def _unique_type(
    data: TensorType, *, axis: int | None, **wanted: bool
) -> TensorType | tuple[TensorType, ...]:
    rest: tuple[Any, ...] = ()
    if axis is not None:
        place = normalized_axis(axis, data.ndim)
        rest = (*data.dims[:place], None, *data.dims[place + 1 :])
    first = data.with_shape(rest or (None,))
    more = [TensorType((None,), INT64)] * sum(wanted.values())
    return (first, *more) if more else first


def _unique(data: np.ndarray, *, axis: int | None, **wanted: bool) -> Arrays:
    found: Any = np.unique(data, axis=axis, **wanted)  # type: ignore[call-overload]
    if not any(wanted.values()):
        return np.asarray(found)
    return (found[0], *(np.asarray(x, INT64).reshape(-1) for x in found[1:]))


register(
    "_npi_unique",
    "data",
    "return_index:bool=False return_inverse:bool=False return_counts:bool=False axis:int?=None",
    infer=forward(_unique_type),
    ref=_unique,
    grad=none_at_all,
    outputs=_unique_names,
    traits=_BY_VALUES,
    doc="Sorted unique elements, their first indices, the inverse indices and the counts.",
)
register(
    "_npx_nonzero",
    "x",
    infer=forward(lambda x: TensorType((None, max(x.ndim, 1)), INT64)),
    ref=lambda x: np.ascontiguousarray(np.argwhere(np.atleast_1d(x)), INT64),
    grad=none_at_all,
    aliases="_npi_nonzero",
    traits=_BY_VALUES,
    doc="Coordinates of the nonzero elements, one row for each.",
)


def _bincount_type(data: TensorType, *weights: TensorType, **attrs: Any) -> TensorType:
    if data.dtype is not None and data.dtype.kind not in "iu":
        raise DTypeError(f"bincount counts integers, got {data.dtype.name}")
    if data.ndim != 1 or any(w.dims != data.dims for w in weights):
        raise ShapeError(f"bincount takes a vector, and weights of its shape, got {data}")
    return TensorType((None,), (*weights, data)[0].dtype)


def _bincount(
    data: np.ndarray, *weights: np.ndarray, minlength: int, has_weights: bool
) -> np.ndarray:
    if minlength < 0 or (data.size and data.min() < 0):
        raise AttributeValueError("bincount's elements and minlength cannot be negative")
    counts = np.bincount(data, weights[0] if weights else None, minlength)
    return convert(counts, (*weights, data)[0].dtype)


register(
    "_npi_bincount",
    lambda has_weights, **attrs: ("data", "weights") if has_weights else ("data",),
    "minlength:int=0 has_weights:bool=False",
    infer=forward(_bincount_type),
    ref=_bincount,
    grad=none_at_all,
    traits=_BY_VALUES,
    doc="Count of each integer, in their type, or the sum of its weights.",
)


def _diag_indices_type(data: TensorType) -> TensorType:
    if data.ndim < 2 or len(set(data.dims)) > 1:
        raise ShapeError(f"diag_indices_from needs at least 2 axes of equal size, got {data}")
    return TensorType((data.ndim, data.dims[0]), INT64)


register(
    "_npi_diag_indices_from",
    "data",
    infer=forward(_diag_indices_type),
    ref=lambda data: np.array(np.diag_indices(data.shape[0], data.ndim), INT64),
    grad=none_at_all,
    doc="Coordinates of the main diagonal, one row for each axis.",
)

_METHODS = "higher|linear|lower|midpoint|nearest"


def _percentile_type(
    a: TensorType,
    *q: TensorType,
    axis: Shape | None,
    interpolation: str,
    keepdims: bool,
    q_scalar: float | None,
) -> TensorType:
    if q_scalar is not None and not 0 <= q_scalar <= 100:
        raise AttributeValueError(f"a percentile must be between 0 and 100, got {q_scalar:g}")
    shape = kept_shape(a.dims, axes_of(a.ndim, axis), keepdims)
    if a.size == 0 and product(shape) > 0:
        raise ShapeError(f"percentile of no elements: the operand is {a}")
    dtype = a.dtype if a.dtype in (FLOAT32, FLOAT64) else FLOAT32
    return TensorType((*(q[0].dims if q else ()), *shape), dtype)


def _percentile(
    a: np.ndarray,
    *q: np.ndarray,
    axis: Shape | None,
    interpolation: str,
    keepdims: bool,
    q_scalar: float | None,
) -> np.ndarray:
    points = q[0].astype(FLOAT64) if q else np.float64(q_scalar or 0.0)
    if not ((points >= 0) & (points <= 100)).all():
        raise ValueError("percentile exceeds the valid range: q must be between 0 and 100")
    axes = axes_of(a.ndim, axis)
    wide, dtype = a.astype(FLOAT64), a.dtype if a.dtype in (FLOAT32, FLOAT64) else FLOAT32
    found: Any = np.percentile(
        wide,
        points,
        axis=axes or None,
        keepdims=keepdims,
        method=interpolation,  # type: ignore[call-overload]
    )
    return convert(np.asarray(found), dtype)


register(
    "_npi_percentile",
    lambda q_scalar, **attrs: ("a", "q") if q_scalar is None else ("a",),
    f"axis:shape?=None interpolation:{_METHODS}=linear keepdims:bool=False q_scalar:double?=None",
    infer=forward(_percentile_type),
    ref=_percentile,
    grad=none_at_all,
    doc="Percentiles over axes; the axes of q come first in the result.",
)
