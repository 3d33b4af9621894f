"""Operators about sparse storage, on dense values: what the arrays would hold.

In: dense arrays. Out: dense arrays of the same values; how they are stored is a matter of arrays.
"""

from __future__ import annotations

from ...errors import ShapeError
from ...types import Shape
from ..algebra import as_shape, total
from ..building import Builder, X
from ..elementwise.unary import SQUARE
from ..record import GradientStored, OnStored, Traits
from ..registry import register
from ..rules import reduced_axes, reduced_shape, same_type
from .by_index import GATHER_ND, SCATTER_ND
from .identity import itself

CAST_STORAGE = register(
    "cast_storage",
    "data",
    "stype:csr|default|row_sparse!",
    infer=same_type,
    expand=itself,
    aliases="_sparse_cast_storage",
    traits=Traits(on_stored=OnStored.CAST, gradient_stored=GradientStored.HEAD),
    doc="The data, stored as a csr, row_sparse or dense array.",
)


def _retained(g: Builder[X], data: X, indices: X) -> X:
    """retain(x, rows)  =>  scatter_nd(gather_nd(x, rows), rows)"""
    shape, wanted = g.type(data).dims, g.type(indices).dims
    if not shape or len(wanted) != 1:
        raise ShapeError(f"retain takes an array and a list of rows, got {shape} and {wanted}")
    index = as_shape(g, indices, (1, *wanted))
    rows = g.op(GATHER_ND, data, index, at="rows")
    return g.op(SCATTER_ND, rows, index, shape=shape)


RETAIN = register(
    "_sparse_retain",
    "data indices",
    expand=_retained,
    traits=Traits(on_stored=OnStored.RETAINED),
    doc="Keep these rows of the data, zeros elsewhere.",
)


def _squares(g: Builder[X], data: X, *, axis: Shape | None, keepdims: bool, exclude: bool) -> X:
    """_square_sum(x)  =>  sum(square(x))"""
    dims = g.type(data).dims
    axes = reduced_axes(len(dims), axis, exclude)
    squares = total(g, g.op(SQUARE, data, at="squares"), axes, keepdims)
    return as_shape(g, squares, reduced_shape(dims, axes, keepdims))


SQUARE_SUM = register(
    "_square_sum",
    "data",
    "axis:shape?=None keepdims:bool=False exclude:bool=False",
    expand=_squares,
    traits=Traits(on_stored=OnStored.SQUARES),
    doc="Sum of squares over axes.",
)
