"""Pairs of statistics computed in one pass, for normalization by batch statistics.

Input: floats. Output: results of the data's dtype, with the shape of a reduction over ``axis``.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT64, TensorType, product
from ..algebra import add, as_shape, mul, scaled, sub, total
from ..building import Builder, Many, Reached, X
from ..casting import convert
from ..registry import register
from ..rules import forward, reduced_axes, reduced_shape, require_float
from .primitives import broadcast

Shape = tuple[int, ...]
Pair = tuple[np.ndarray, np.ndarray]
_AXES = "axis:shape?=None keepdims:bool=False"


def _pair_type(
    data: TensorType, *others: TensorType, axis: Shape | None, keepdims: bool
) -> tuple[TensorType, TensorType]:
    require_float("a pair of statistics", data)
    found = data.with_shape(reduced_shape(data.dims, reduced_axes(data.ndim, axis), keepdims))
    return found, found


def _in_type(found: np.ndarray, like: np.ndarray, axes: Shape, keepdims: bool) -> np.ndarray:
    return convert(found, like.dtype).reshape(reduced_shape(like.shape, axes, keepdims))


def moments(data: np.ndarray, *, axis: Shape | None, keepdims: bool) -> Pair:
    """Mean over axes, and mean of the squared difference from it."""
    axes, wide = reduced_axes(data.ndim, axis), data.astype(FLOAT64)
    mean = wide.mean(axes, keepdims=True)
    spread = np.square(wide - mean).mean(axes)
    return _in_type(mean, data, axes, keepdims), _in_type(spread, data, axes, keepdims)


def sums_about(
    data: np.ndarray, other: np.ndarray, about: np.ndarray, *, axis: Shape | None, keepdims: bool
) -> Pair:
    """Sums of data and of data (other - about) over axes, along which ``about`` has size 1."""
    axes, wide = reduced_axes(data.ndim, axis), data.astype(FLOAT64)
    products = wide * (other.astype(FLOAT64) - about)
    total, by_distance = (_in_type(v.sum(axes), data, axes, keepdims) for v in (wide, products))
    return total, by_distance


def _over(g: Builder[X], x: X, axis: Shape | None) -> tuple[Shape, Shape]:
    """Reduced axes, and the shape with keepdims."""
    dims = g.type(x).dims
    axes = reduced_axes(len(dims), axis)
    return axes, reduced_shape(dims, axes, True)


def _grad_moments(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    axis: Shape | None,
    keepdims: bool,
) -> Reached[X]:
    """dmean / n + 2 (x - mean) dspread / n, for n elements per mean."""
    (x,), (dmean, dspread) = ins, douts
    axes, kept = _over(g, x, axis)
    part = 1 / max(1, product(tuple(g.type(x).dims[a] for a in axes)))
    found = None
    if dspread is not None:
        distance = sub(g, x, as_shape(g, outs[0], kept))
        found = mul(g, distance, scaled(g, as_shape(g, dspread, kept), 2 * part))
    if dmean is not None:
        level = broadcast(g, scaled(g, as_shape(g, dmean, kept), part), g.type(x).dims)
        found = level if found is None else add(g, found, level)
    return found


def _grad_sums(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    axis: Shape | None,
    keepdims: bool,
) -> tuple[Reached[X], ...]:
    """dsum + (other - about) dproducts, data dproducts, and its negative sum for ``about``."""
    x, other, about = ins
    dsum, dproducts = douts
    dims, (_, kept) = g.type(x).dims, _over(g, x, axis)
    level = None if dsum is None else broadcast(g, as_shape(g, dsum, kept), dims)
    if dproducts is None:
        return level, None, None
    d = as_shape(g, dproducts, kept)
    by_data, by_other = mul(g, sub(g, other, about), d), mul(g, x, d)
    repeated = tuple(i for i, n in enumerate(g.type(about).dims) if n == 1)
    by_about = scaled(g, total(g, by_other, repeated), -1.0)
    return by_data if level is None else add(g, by_data, level), by_other, by_about


MOMENTS = register(
    "_moments",
    "data",
    _AXES,
    internal=True,
    kernel="reduce",
    infer=forward(_pair_type),
    ref=moments,
    grad=_grad_moments,
    outputs=("mean", "spread"),
    doc="Mean over axes, and mean of the squared difference from it.",
)
SUMS_ABOUT = register(
    "_sums_about",
    "data other about",
    _AXES,
    internal=True,
    kernel="reduce",
    infer=forward(_pair_type),
    ref=sums_about,
    grad=_grad_sums,
    outputs=("sum", "products"),
    doc="Sums of data, and of data times a difference from an operand of size 1 along the axes.",
)
