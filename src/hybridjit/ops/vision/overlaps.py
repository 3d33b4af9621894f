"""Overlaps of all pairs of boxes: intersection over union.

Input: boxes (..., N, 4) and (..., M, 4), corners or centres. Output: (..., N, ..., M).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, TensorType, product, shape_text
from ...errors import ShapeError
from ..algebra import add, div, mul, scaled, sub, zeros_like
from ..attrs import AttrValue
from ..building import Builder, X
from ..gradient import none_at_all
from ..record import Traits
from ..registry import lookup, register
from ..rules import forward, require_float, same_dtype
from ..tensor.primitives import narrow, reshape
from ..tensor.selection import WHERE
from .boxes import PAIRS, overlaps, to_corners

_LOW, _HIGH = slice(0, 2), slice(2, 4)  # corners among a box's values


@forward
def _infer_iou(lhs: TensorType, rhs: TensorType, **attrs: AttrValue) -> TensorType:
    """All leading axes of lhs, then all of rhs."""
    dtype = same_dtype(lhs, rhs)
    require_float("box_iou", lhs)
    for name, t in (("lhs", lhs), ("rhs", rhs)):
        if t.ndim < 2 or t.dims[-1] != 4:
            raise ShapeError(f"{name} must be (..., N, 4), got {shape_text(t.shape)}")
    return TensorType(lhs.dims[:-1] + rhs.dims[:-1], dtype)


def _box_iou(lhs: np.ndarray, rhs: np.ndarray, *, format: str) -> np.ndarray:
    """Overlap of every box of lhs with every box of rhs."""
    a, b = (to_corners(x) if format == "center" else x for x in (lhs, rhs))
    a, b = a.reshape(-1, 4), b.reshape(-1, 4)
    found = np.empty((len(a), len(b)), lhs.dtype)
    # Blocks that stay in a cache, along the side that is longer.
    step = max(1, PAIRS // max(1, min(found.shape)))
    is_turned = len(a) > len(b)
    for first in range(0, max(found.shape), step):
        part = slice(first, first + step)
        if is_turned:
            found[part] = overlaps(a[None, part], b[:, None]).T
        else:
            found[:, part] = overlaps(a[:, None], b[None, part])
    return found.reshape(lhs.shape[:-1] + rhs.shape[:-1])


def _corner_values(g: Builder[X], boxes: X, format: str, is_left: bool) -> list[X]:
    """The four corner values of all boxes, as columns or, on the right, as rows."""
    count = product(g.type(boxes).dims[:-1])
    table = reshape(g, boxes, (count, 4))
    shape = (count, 1) if is_left else (1, count)
    values = [reshape(g, narrow(g, table, 1, i, 1), shape) for i in range(4)]
    if format == "corner":
        return values
    pairs = [(x, scaled(g, size, 0.5)) for x, size in zip(values[:2], values[2:])]
    return [sub(g, *pair) for pair in pairs] + [add(g, *pair) for pair in pairs]


def _iou_as_values(g: Builder[X], lhs: X, rhs: X, *, format: str) -> X | None:
    """box_iou(a, b)  =>  shared / (area(a) + area(b) - shared), in broadcast values"""
    types = g.type(lhs), g.type(rhs)
    if types[0].dtype not in (FLOAT32, FLOAT64) or 0 in (*types[0].dims, *types[1].dims):
        return None  # in float16, each step is rounded
    sides = a, b = [
        _corner_values(g, x, format, is_left) for x, is_left in ((lhs, True), (rhs, False))
    ]

    def product_of_extents(low: Sequence[X], high: Sequence[X]) -> X:
        spans = (sub(g, after, before) for before, after in zip(low, high))
        return mul(g, *(g.op(lookup("_maximum_scalar"), x, scalar=0.0) for x in spans))

    low, high = (
        [g.op(lookup(name), *pair) for pair in zip(a[part], b[part])]
        for name, part in (("broadcast_maximum", _LOW), ("broadcast_minimum", _HIGH))
    )
    shared = product_of_extents(low, high)
    areas = (product_of_extents(x[_LOW], x[_HIGH]) for x in sides)
    union = sub(g, add(g, *areas), shared)
    is_known = g.op(lookup("_greater_scalar"), union, scalar=0.0)
    share = g.op(WHERE, is_known, div(g, shared, union), zeros_like(g, shared), at="share")
    return reshape(g, share, (*types[0].dims[:-1], *types[1].dims[:-1]))


# As for sign, MXNet's backward operator writes zeros, so the backward pass continues through it.
register(
    "_contrib_box_iou",
    "lhs rhs",
    "format:center|corner=corner",
    infer=_infer_iou,
    ref=_box_iou,
    expand=_iou_as_values,
    grad=none_at_all,
    traits=Traits(stops=lambda attrs: ()),
    doc="Intersection over union of every pair of boxes.",
)
