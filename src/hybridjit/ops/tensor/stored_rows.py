"""Operators about sparse storage, on dense values.

Input: dense arrays. Output: dense arrays of the same values; the array classes handle storage.
"""

from __future__ import annotations

from ..._core.types import INT64, Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..algebra import as_shape, shifted, total, zeros_like
from ..building import Builder, X
from ..elementwise.binary import NOT_EQUAL
from ..elementwise.element_type import cast
from ..elementwise.unary import SQUARE
from ..gradient import none_at_all
from ..record import GradientStored, OnStored, Traits
from ..registry import register
from ..rules import forward, reduced_axes, reduced_shape, same_type
from .by_index import GATHER_ND, SCATTER_ND
from .identity import itself
from .joining import joined
from .selection import WHERE

CAST_STORAGE = register(
    "cast_storage",
    "data",
    "stype:csr|default|row_sparse!",
    infer=same_type,
    expand=itself,
    aliases="_sparse_cast_storage",
    traits=Traits(on_stored=OnStored.CAST, gradient_stored=GradientStored.HEAD),
    doc="Data with csr, row_sparse or dense storage.",
)


def _retained(g: Builder[X], data: X, indices: X) -> X:
    """retain(x, rows)  =>  scatter_nd(gather_nd(x, rows), rows)"""
    shape, wanted = g.type(data).dims, g.type(indices).dims
    if not shape or len(wanted) != 1:
        raise ShapeError(f"retain needs an array and a vector of rows, got {shape} and {wanted}")
    index = as_shape(g, indices, (1, *wanted))
    rows = g.op(GATHER_ND, data, index, at="rows")
    return g.op(SCATTER_ND, rows, index, shape=shape)


RETAIN = register(
    "_sparse_retain",
    "data indices",
    expand=_retained,
    traits=Traits(on_stored=OnStored.RETAINED),
    doc="Data with the given rows, zeros elsewhere.",
)


def _squares(g: Builder[X], data: X, *, axis: Shape | None, keepdims: bool, exclude: bool) -> X:
    """_square_sum(x)  =>  sum(square(x))"""
    dims = g.type(data).dims
    axes = reduced_axes(len(dims), axis, exclude)
    squares = total(g, g.op(SQUARE, data, at="squares"), axes, keepdims)
    return as_shape(g, squares, reduced_shape(dims, axes, keepdims))


def _count_type(data: TensorType, *, axis: int | None) -> TensorType:
    if data.ndim != 2:
        raise ShapeError(f"getnnz needs a matrix, got {shape_text(data.dims)}")
    if axis not in (None, 1):
        raise AttributeValueError(f"getnnz needs axis None or 1, got {axis}")
    return TensorType((1,) if axis is None else data.dims[:1], INT64)


def _counted(g: Builder[X], data: X, *, axis: int | None) -> X:
    """getnnz(x)  =>  sum(x != 0)"""
    stored = cast(g, g.op(NOT_EQUAL.scalar, data, at="stored", scalar=0.0), INT64, at="ones")
    axes = (0, 1) if axis is None else (1,)
    shape = (1,) if axis is None else g.type(data).dims[:1]
    return as_shape(g, total(g, stored, axes), shape)


register(
    "_contrib_getnnz",
    "data",
    "axis:int?=None",
    infer=forward(_count_type),
    expand=_counted,
    grad=none_at_all,
    traits=Traits(on_stored=OnStored.COUNTED),
    doc="Number of stored values of a csr matrix, or of each row; of nonzero values if dense.",
)


def _edge_type(data: TensorType, u: TensorType, v: TensorType) -> TensorType:
    if data.ndim != 2 or u.ndim != 1 or u.dims != v.dims:
        shapes = ", ".join(shape_text(t.dims) for t in (data, u, v))
        raise ShapeError(f"edge_id needs a matrix and two vectors of equal length, got {shapes}")
    return data.with_shape(u.dims)


def _edges(g: Builder[X], data: X, u: X, v: X) -> X:
    """edge_id(x, u, v)  =>  x[u, v], -1 where that is 0"""
    count = g.type(u).size
    lists = [as_shape(g, cast(g, x, INT64, at=n), (1, count)) for n, x in (("u", u), ("v", v))]
    found = g.op(GATHER_ND, data, joined(g, lists, 0), at="found")
    missing = g.op(NOT_EQUAL.scalar, found, at="stored", scalar=0.0)
    return g.op(WHERE, missing, found, shifted(g, zeros_like(g, found), -1.0))


register(
    "_contrib_edge_id",
    "data u v",
    infer=forward(_edge_type),
    expand=_edges,
    grad=none_at_all,
    traits=Traits(on_stored=OnStored.LOOKED_UP),
    doc="Values of a csr matrix at (u, v), -1 where none is stored; if dense, where it is 0.",
)


SQUARE_SUM = register(
    "_square_sum",
    "data",
    "axis:shape?=None keepdims:bool=False exclude:bool=False",
    expand=_squares,
    traits=Traits(on_stored=OnStored.SQUARES),
    doc="Sum of squares over axes.",
)
