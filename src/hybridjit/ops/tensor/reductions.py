"""Reductions over axes: sum, mean, prod, max, min, norm, cumsum, and others.

Input: arrays of any numeric dtype (also bool for sum, mean, prod, max and min). Output: the
operand's dtype. ``axis`` None or () means all axes with result shape (1,); ``exclude`` selects the
other axes. Floats are accumulated in double precision; integer sums wrap in their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT64, TensorType, product
from ...errors import AttributeValueError, DTypeError, ShapeError
from ..algebra import as_shape, div, equals, in_dtype, mul, scaled, total, zeros_like
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import convert
from ..record import OpDef, Samples, Traits
from ..registry import lookup, register
from ..rules import (
    forward,
    normalized_axis,
    reduced_axes,
    reduced_shape,
    refuse_bool,
    require_float,
    same_dtype,
)
from ..signatures import Gradient
from .primitives import broadcast

Shape = tuple[int, ...]
_AXES = "axis:shape?=None keepdims:bool=False exclude:bool=False"


def _spans(data: TensorType, axis: Shape | None, keepdims: bool, exclude: bool = False) -> Shape:
    return reduced_shape(data.dims, reduced_axes(data.ndim, axis, exclude), keepdims)


def _refuse_empty(what: str, data: TensorType, shape: Shape) -> None:
    """Raise ShapeError if an output element would have no input elements."""
    if data.size == 0 and product(shape) > 0:
        raise ShapeError(f"{what} of no elements: data is {data}")


def accumulator(dtype: np.dtype) -> np.dtype:
    """Dtype of accumulation: double for floats, otherwise the operand's."""
    return FLOAT64 if dtype.kind == "f" else dtype


def _sum(data: np.ndarray, axes: Shape) -> np.ndarray:
    return np.sum(data, axis=axes, dtype=accumulator(data.dtype))


def _prod(data: np.ndarray, axes: Shape) -> np.ndarray:
    return np.prod(data, axis=axes, dtype=accumulator(data.dtype))


def _mean(data: np.ndarray, axes: Shape) -> np.ndarray:
    """Sum divided by count; integers wrap in their dtype and the quotient is an integer.

    A sum beyond float32 is infinite, as in kernels and in MXNet, unless the data are float64.
    """
    if data.dtype.kind == "b":
        return np.any(data, axis=axes)
    count = product(tuple(data.shape[a] for a in axes))
    total = _sum(data, axes)
    if data.dtype.kind == "f":
        held = total if data.dtype == FLOAT64 else convert(total, FLOAT32)
        return held / np.float64(count)
    divisor = int(np.asarray(count).astype(data.dtype)) or 1
    sign = np.where(total < 0, -1, 1) * (1 if divisor > 0 else -1)
    return sign * (np.abs(total.astype(np.int64)) // abs(divisor))


def _without_nan(data: np.ndarray, value: float) -> np.ndarray:
    return np.where(np.isnan(data), data.dtype.type(value), data)


Slope = Callable[..., Any]


def _back(slope: Slope) -> Gradient:
    """Gradient rule of a reduction: ``slope(g, x, y, d, count)``.

    y and d have the shape with keepdims; count is the number of elements that each reduces."""

    def grad(
        g: Builder[X],
        ins: Many[X],
        outs: Many[X],
        douts: Many[X],
        *,
        axis: Shape | None,
        keepdims: bool,
        exclude: bool = False,
        **attrs: AttrValue,
    ) -> X:
        (x,) = ins
        dims = g.type(x).dims
        axes = reduced_axes(len(dims), axis, exclude)
        kept = reduced_shape(dims, axes, True)
        y, d = (as_shape(g, side[0], kept) for side in (outs, douts))
        found = slope(g, x, y, d, product(tuple(dims[a] for a in axes)), **attrs)
        return broadcast(g, found, dims)

    return grad


def _slope_of_extreme(g: Builder[X], x: X, y: X, d: X, count: int) -> X:
    """Gradient of extrema: all elements that tie receive the whole gradient."""
    return mul(g, equals(g, x, y), d)


def _slope_of_product(g: Builder[X], x: X, y: X, d: X, count: int) -> X:
    """d y / x, which is NaN for x = 0."""
    return mul(g, d, div(g, y, x))


def _where_number(g: Builder[X], x: X, d: X) -> X:
    """d, but 0 where x is NaN."""
    return g.op(lookup("where"), equals(g, x, x), d, zeros_like(g, d), at="numbers")


def _slope_of_norm(
    g: Builder[X], x: X, y: X, d: X, count: int, *, ord: int, out_dtype: np.dtype | None
) -> X:
    d, y = in_dtype(g, d, g.type(x)), in_dtype(g, y, g.type(x))
    if ord == 1:
        return mul(g, d, g.op(lookup("sign"), x, at="sign"))
    return mul(g, d, div(g, x, y))


def reduction(
    name: str,
    compute: Callable[[np.ndarray, Shape], np.ndarray],
    slope: Slope,
    doc: str,
    *,
    aliases: str = "",
    of_empty: bool = True,
    samples: Samples = Samples.MIXED,
) -> OpDef:
    """Register ``compute(data, axes)``; ``of_empty`` is true if empty reductions have a result."""

    def rule(data: TensorType, *, axis: Shape | None, keepdims: bool, exclude: bool) -> TensorType:
        shape = _spans(data, axis, keepdims, exclude)
        if not of_empty:
            _refuse_empty(name, data, shape)
        return data.with_shape(shape)

    def ref(data: np.ndarray, *, axis: Shape | None, keepdims: bool, exclude: bool) -> np.ndarray:
        axes = reduced_axes(data.ndim, axis, exclude)
        result = np.array(compute(data, axes), order="C")
        shape = reduced_shape(data.shape, axes, keepdims)
        return convert(result, data.dtype).reshape(shape)

    return register(
        name,
        "data",
        _AXES,
        kernel="reduce",
        infer=forward(rule),
        ref=ref,
        grad=_back(slope),
        aliases=aliases,
        traits=Traits(samples=samples),
        doc=doc,
    )


def _extreme(of: Callable[..., np.ndarray], data: np.ndarray, axes: Shape) -> np.ndarray:
    """NumPy's extremum, extended to empty results along empty axes."""
    return of(data, axis=axes) if data.size else np.sum(data, axis=axes, dtype=data.dtype)


SUM = reduction(
    "sum",
    _sum,
    lambda g, x, y, d, count: d,
    "Sum over axes.",
    aliases="sum_axis _sparse_sum",
    samples=Samples.REDUCED,
)
MEAN = reduction(
    "mean",
    _mean,
    lambda g, x, y, d, count: scaled(g, d, 1.0 / count),
    "Mean over axes.",
    aliases="_sparse_mean",
    samples=Samples.REDUCED,
)
PROD = reduction("prod", _prod, _slope_of_product, "Product over axes.")
MAX = reduction(
    "max",
    lambda data, axes: _extreme(np.max, data, axes),
    _slope_of_extreme,
    "Maximum over axes; NaN if one is NaN.",
    aliases="max_axis",
    of_empty=False,
    samples=Samples.REDUCED,
)
MIN = reduction(
    "min",
    lambda data, axes: _extreme(np.min, data, axes),
    _slope_of_extreme,
    "Minimum over axes; NaN if one is NaN.",
    aliases="min_axis",
    of_empty=False,
    samples=Samples.REDUCED,
)
NANSUM = reduction(
    "nansum",
    lambda data, axes: _sum(_without_nan(data, 0), axes),
    lambda g, x, y, d, count: _where_number(g, x, broadcast(g, d, g.type(x).dims)),
    "Sum over axes; NaN counts as 0.",
)
NANPROD = reduction(
    "nanprod",
    lambda data, axes: _prod(_without_nan(data, 1), axes),
    lambda g, x, y, d, count: _where_number(g, x, _slope_of_product(g, x, y, d, count)),
    "Product over axes; NaN counts as 1.",
)


def _about_type(
    data: TensorType, about: TensorType, *, axis: Shape | None, keepdims: bool
) -> TensorType:
    return data.with_shape(_spans(data, axis, keepdims))


def mean_square_about(
    data: np.ndarray, about: np.ndarray, *, axis: Shape | None, keepdims: bool
) -> np.ndarray:
    """Mean of (data - about)^2 over axes, along which ``about`` has size 1."""
    axes = reduced_axes(data.ndim, axis)
    squares = np.square(data.astype(FLOAT64) - about)
    return convert(_mean(squares, axes), data.dtype).reshape(
        reduced_shape(data.shape, axes, keepdims)
    )


def _grad_about(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    axis: Shape | None,
    keepdims: bool,
) -> tuple[X, X]:
    """2 (x - about) d / count, and the negative of its sum for ``about``."""
    x, about = ins
    dims = g.type(x).dims
    axes = reduced_axes(len(dims), axis)
    distance = g.op(lookup("broadcast_sub"), x, about, at="distance")
    d = as_shape(g, douts[0], reduced_shape(dims, axes, True))
    slope = scaled(g, mul(g, distance, d), 2.0 / product(tuple(dims[a] for a in axes)))
    repeated = tuple(i for i, n in enumerate(g.type(about).dims) if n == 1)
    back = total(g, slope, repeated)
    return slope, g.op(lookup("negative"), back, at="back")


MEAN_SQUARE_ABOUT = register(
    "_mean_square_about",
    "data about",
    "axis:shape?=None keepdims:bool=False",
    internal=True,
    kernel="reduce",
    infer=forward(_about_type),
    ref=mean_square_about,
    grad=_grad_about,
    doc="Mean of the squared difference from an operand of size 1 along the axes.",
)


def _norm_type(
    data: TensorType,
    *,
    ord: int,
    axis: Shape | None,
    out_dtype: np.dtype | None,
    keepdims: bool,
) -> TensorType:
    refuse_bool(data)
    if ord not in (1, 2):
        raise AttributeValueError(f"norm's ord must be 1 or 2, got {ord}")
    return TensorType(_spans(data, axis, keepdims), out_dtype or data.dtype)


def norm(
    data: np.ndarray,
    *,
    ord: int,
    axis: Shape | None,
    out_dtype: np.dtype | None,
    keepdims: bool,
) -> np.ndarray:
    """Sum of absolute values (ord 1), or root of the sum of squares (ord 2)."""
    axes = reduced_axes(data.ndim, axis)
    wide = data.astype(FLOAT64)
    if ord == 1:
        result = np.sum(np.abs(wide), axis=axes)
    else:
        result = np.sqrt(np.sum(wide * wide, axis=axes))
    shape = reduced_shape(data.shape, axes, keepdims)
    return convert(np.asarray(result), out_dtype or data.dtype).reshape(shape)


NORM = register(
    "norm",
    "data",
    "ord:int=2 axis:shape?=None out_dtype:dtype?=None keepdims:bool=False",
    kernel="reduce",
    infer=forward(_norm_type),
    ref=norm,
    grad=_back(_slope_of_norm),
    aliases="_sparse_norm",
    doc="Sum of |x| over axes (ord 1), or root of the sum of squares (ord 2).",
)


def _cumsum_type(data: TensorType, *, axis: int | None, dtype: np.dtype | None) -> TensorType:
    if axis is not None:
        normalized_axis(axis, data.ndim)
    shape = (data.size,) if axis is None else data.dims
    return TensorType(shape, dtype or _sum_type(data.dtype))


def _sum_type(dtype: np.dtype | None) -> np.dtype | None:
    """Dtype of cumulative sums: int64 for bools."""
    return INT64 if dtype == np.bool_ else dtype


def cumsum(data: np.ndarray, *, axis: int | None, dtype: np.dtype | None) -> np.ndarray:
    """Cumulative sums in the output's dtype; as in MXNet, each is rounded."""
    result = dtype or _sum_type(data.dtype)
    assert result is not None
    whole = convert(data, result)
    if axis is None or whole.size < _MANY * whole.shape[axis]:
        return np.cumsum(whole, axis=axis, dtype=result)
    sums = np.empty(whole.shape, result)
    steps, made = np.moveaxis(whole, axis, 0), np.moveaxis(sums, axis, 0)
    made[:1] = steps[:1]
    for number in range(1, len(steps)):
        np.add(made[number - 1], steps[number], out=made[number])
    return sums


# Elements beside an axis that are worth a call for each step along it. NumPy adds element by
# element: 33 x 77 x 129 along the second axis in 1.1 ms, by calls in 0.3; 1000 x 1000 along the
# first in 4.0 and 1.1.
_MANY = 2048


def _grad_cumsum(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int | None, dtype: object
) -> X:
    """Cumulative sums from the end."""
    t = g.type(ins[0])
    along = 0 if axis is None else axis % t.ndim
    flipped = g.op(lookup("reverse"), in_dtype(g, douts[0], t), at="flipped", axis=(along,))
    sums = g.op(lookup("_np_cumsum"), flipped, at="sums", axis=along)
    return as_shape(g, g.op(lookup("reverse"), sums, axis=(along,)), t.dims)


register(
    "_np_cumsum",
    "a",
    "axis:int?=None dtype:dtype?=None",
    infer=forward(_cumsum_type),
    ref=cumsum,
    grad=_grad_cumsum,
    aliases="cumsum",
    doc="Cumulative sums along an axis; of the flattened array if axis is None.",
)


def _and(old: np.ndarray, new: np.ndarray, *, init_output: bool, **attrs: AttrValue) -> np.ndarray:
    """New flag, combined with the old one unless ``init_output``."""
    return new if init_output else new * (old != 0).astype(new.dtype)


def all_finite(data: np.ndarray, *, init_output: bool) -> np.ndarray:
    return np.array([np.isfinite(data).all()], FLOAT32)


register(
    "all_finite",
    "data",
    "init_output:bool=True",
    infer=forward(lambda data, init_output: TensorType((1,), FLOAT32)),
    ref=all_finite,
    traits=Traits(names_data=True, merge=_and),
    doc="1 if no element is infinite or NaN, else 0.",
)


@forward
def _multi_finite_type(*arrays: TensorType, **attrs: AttrValue) -> TensorType:
    """Type (1,), float32. Raises DTypeError unless all arrays have equal floating dtypes."""
    same_dtype(*arrays)
    require_float("multi_all_finite", arrays[0])
    return TensorType((1,), FLOAT32)


def multi_all_finite(*arrays: np.ndarray, num_arrays: int, init_output: bool) -> np.ndarray:
    return np.array([all(np.isfinite(a).all() for a in arrays)], FLOAT32)


register(
    "multi_all_finite",
    lambda num_arrays, **attrs: tuple(f"array_{i}" for i in range(num_arrays)),
    "num_arrays:int[1,16384]=1 init_output:bool=True",
    infer=_multi_finite_type,
    ref=multi_all_finite,
    traits=Traits(merge=_and),
    doc="1 if no element of any array is infinite or NaN, else 0.",
)


def _allclose_type(a: TensorType, b: TensorType, **attrs: AttrValue) -> TensorType:
    if a != b:
        raise (DTypeError if a.shape == b.shape else ShapeError)(
            f"operands must have equal types, got {a} and {b}"
        )
    return TensorType((), np.dtype("uint8"))


register(
    "_contrib_allclose",
    "a b",
    "rtol:float=1e-05 atol:float=1e-08 equal_nan:bool=True",
    infer=forward(_allclose_type),
    ref=lambda a, b, **attrs: np.array(np.allclose(a, b, **attrs), np.uint8),
    doc="1 if |a - b| <= atol + rtol * |b| everywhere, else 0.",
)
