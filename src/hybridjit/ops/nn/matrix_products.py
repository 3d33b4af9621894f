"""Matrix products: FullyConnected, dot, batch_dot and related operators.

Input: matrices, with leading batch axes if the operator has them. Output: their product of the same
dtype. float16 is multiplied in float32 and rounded once.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import (
    PartialShape,
    Shape,
    TensorType,
    is_known_shape,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import AttributeValueError, ShapeError
from ..algebra import as_shape, total
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..casting import widened
from ..record import OnStored, Samples, Traits
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float, same_dtype
from ..tensor.primitives import reshape, transpose
from .convolution import weight_and_bias


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` in the dtype of ``a``."""
    return (widened(a) @ widened(b)).astype(a.dtype, copy=False)


def _dense_shapes(
    data: PartialShape, num_hidden: int, flatten: bool
) -> tuple[int | None, PartialShape]:
    """Features per row, and the output's shape."""
    if not flatten:
        return data[-1], (*data[:-1], num_hidden)
    rest = data[1:]
    features = product(rest) if is_known_shape(rest) else None  # type: ignore[arg-type]
    return features, (data[0], num_hidden)


def _infer_dense(
    ins: Types, outs: Types, *, num_hidden: int, flatten: bool, **attrs: AttrValue
) -> tuple[Types, Types]:
    """Weight (num_hidden, features); the data's leading sizes are inferred from the output's."""
    if num_hidden < 1:
        raise AttributeValueError(f"num_hidden must be at least 1, got {num_hidden}")
    dtype = same_dtype(*ins, *outs)
    data, weight = ins[0].with_dtype(dtype), ins[1]
    require_float("FullyConnected", data)
    if data.shape is None:
        return ins, outs
    if not data.shape:
        raise ShapeError("data has shape (), FullyConnected needs at least one axis")
    features, out = _dense_shapes(data.shape, num_hidden, flatten)
    _check_dense_weight(weight.shape, (num_hidden, features))
    outs = merged(outs, (TensorType(out, dtype),))
    data = data.with_shape(_dense_backward(data.shape, outs[0].shape, flatten))
    column = (num_hidden, 1)  # MXNet accepts a bias of this shape too
    bias = tuple(fill(b, column if b.shape == column else (num_hidden,), dtype) for b in ins[2:])
    return (data, fill(weight, (num_hidden, features), dtype), *bias), outs


def _check_dense_weight(found: PartialShape | None, expected: PartialShape) -> None:
    if found is None:
        return
    if len(found) != 2:
        raise ShapeError(f"weight should be 2D, got {shape_text(found)}")
    for what, f, e in zip(("outputs", "inputs"), found, expected):
        if None not in (f, e) and f != e:
            owner = "num_hidden is" if what == "outputs" else "data has"
            raise ShapeError(
                f"Shape inconsistent, Provided = {shape_text(found)}, inferred shape="
                f"{shape_text(expected)}: weight has {f} {what}, {owner} {e}"
            )


def _dense_backward(
    data: PartialShape, out: PartialShape | None, flatten: bool
) -> PartialShape | None:
    if out is None:
        return data
    lead = (out[0], *data[1:]) if flatten else (*out[:-1], data[-1])
    return merge_shapes(data, lead)


def _dense(
    data: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    flatten: bool,
    **attrs: AttrValue,
) -> np.ndarray:
    """data @ weight.T + bias, over the last axis or over all axes but the first."""
    if flatten:
        data = data.reshape(data.shape[0], product(data.shape[1:]))
    rows = data.reshape(product(data.shape[:-1]), data.shape[-1])
    y = widened(rows) @ widened(weight.T)
    if bias is not None:
        y += bias.reshape(-1)
    return y.astype(data.dtype, copy=False).reshape(*data.shape[:-1], weight.shape[0])


def _on_rows(
    g: Builder[X], data: X, weight: X, *bias: X, flatten: bool, **attrs: AttrValue
) -> X | None:
    """FullyConnected(x of any rank)  =>  FullyConnected(x as rows); a bias column becomes a
    vector"""
    given, (units, columns) = g.type(data), g.type(weight).dims
    shape = (_row_count(given, flatten), columns)
    if given.shape == shape and all(g.type(b).ndim == 1 for b in bias):
        return None
    bias = tuple(as_shape(g, b, (units,)) for b in bias)
    lead = given.dims[:1] if flatten else given.dims[:-1]
    rows = reshape(g, data, shape, at="rows")
    at = "" if len(lead) == 1 else "dense"
    dense = g.op(FULLY_CONNECTED, rows, weight, *bias, at=at, flatten=True, **attrs)
    return reshape(g, dense, (*lead, units))


def _row_count(data: TensorType, flatten: bool) -> int:
    """Number of rows that a dense layer multiplies; rows may have no element."""
    return data.dims[0] if flatten else product(data.dims[:-1])


def dense_cost(ins: Types, outs: Types, **attrs: AttrValue) -> int:
    return outs[0].size * ins[1].dims[1]


def _grad_dense(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    num_hidden: int,
    flatten: bool,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """dx = d weight, dweight = transposed d times x, dbias = sum of d over the rows."""
    data, weight = ins[0], ins[1]
    units, columns = g.type(weight).dims
    rows = _row_count(g.type(data), flatten)
    d = reshape(g, douts[0], (rows, units), at="head")
    x = reshape(g, data, (rows, columns), at="rows")

    def by_data() -> X:
        turned = transpose(g, weight, (1, 0), at="weight")
        made = g.op(FULLY_CONNECTED, d, turned, at="ddata", num_hidden=columns, no_bias=True)
        return reshape(g, made, g.type(data).dims)

    def by_weight() -> X:
        sides = (transpose(g, d, (1, 0), at="columns"), transpose(g, x, (1, 0), at="features"))
        return g.op(FULLY_CONNECTED, *sides, at="dweight", num_hidden=columns, no_bias=True)

    def by_bias() -> X:
        return as_shape(g, total(g, d, (0,), keepdims=False), g.type(ins[2]).dims)

    return by_data, by_weight, by_bias


FULLY_CONNECTED = register(
    "FullyConnected",
    weight_and_bias,
    "num_hidden:int! no_bias:bool=False flatten:bool=True",
    kernel="gemm",
    infer=_infer_dense,
    ref=_dense,
    expand=_on_rows,
    grad=_grad_dense,
    traits=Traits(in_single=True, samples=Samples.FIRST, multiply_adds=dense_cost),
    aliases="_sparse_FullyConnected",
    doc="Product of data and the transposed weight (num_hidden, features), plus bias.",
)


def _moved(shape: PartialShape, transpose_first: bool, transpose_last: bool) -> PartialShape:
    if transpose_first:
        return (*shape[1:], shape[0])
    return (shape[-1], *shape[:-1]) if transpose_last else shape


@forward
def _infer_dot(
    lhs: TensorType, rhs: TensorType, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> TensorType:
    """Contraction of the last axis of lhs with the first of rhs; vectors result in (1,)."""
    dtype = same_dtype(lhs, rhs)
    require_float("dot", lhs)
    if not lhs.dims or not rhs.dims:
        raise ShapeError("dot needs operands of at least one axis")
    if lhs.ndim == rhs.ndim == 1 and (transpose_a or transpose_b):
        raise ShapeError("Cannot transpose vectors")
    a, b = _moved(lhs.dims, transpose_a, False), _moved(rhs.dims, False, transpose_b)
    if a[-1] != b[0]:
        raise ShapeError(
            f"dot shape error: {shape_text(lhs.shape)} X {shape_text(rhs.shape)}: "
            f"lhs contracts {a[-1]} elements, but rhs {b[0]}"
        )
    return TensorType((*a[:-1], *b[1:]) or (1,), dtype)


def _dot(
    lhs: np.ndarray, rhs: np.ndarray, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> np.ndarray:
    """tensordot over one axis, after moving lhs' first axis last or rhs' last axis first."""
    a = np.moveaxis(lhs, 0, -1) if transpose_a else lhs
    b = np.moveaxis(rhs, -1, 0) if transpose_b else rhs
    k = a.shape[-1]
    y = multiply(a.reshape(product(a.shape[:-1]), k), b.reshape(k, product(b.shape[1:])))
    return y.reshape((*a.shape[:-1], *b.shape[1:]) or (1,))


_TRANSPOSES = "transpose_a:bool=False transpose_b:bool=False"
_DOT = _TRANSPOSES + " forward_stype:None|csr|default|row_sparse=None"


def _dot_as_dense(
    g: Builder[X], lhs: X, rhs: X, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> X:
    """dot(a, b)  =>  FullyConnected(a as rows, b as columns)"""
    _, (result,) = _infer_dot(
        (g.type(lhs), g.type(rhs)), (), transpose_a=transpose_a, transpose_b=transpose_b
    )
    a, b, ndim = lhs, rhs, g.type(lhs).ndim
    if transpose_a and ndim > 1:
        a = transpose(g, a, (*range(1, ndim), 0), at="a")
    inner, size = g.type(a).dims[-1], g.type(b).size
    if transpose_b and g.type(b).ndim > 1:
        b = reshape(g, b, (size // inner, inner), at="b")
    else:
        b = transpose(g, reshape(g, b, (inner, size // inner), at="b_rows"), (1, 0), at="b")
    rows = reshape(g, a, (g.type(a).size // inner, inner), at="rows")
    shape = (g.type(rows).dims[0], size // inner)
    at = "" if shape == result.shape else "dense"
    dense = g.op(FULLY_CONNECTED, rows, b, at=at, num_hidden=shape[1], no_bias=True)
    return reshape(g, dense, result.dims)


def dot_cost(ins: Types, outs: Types, *, transpose_a: bool, **attrs: AttrValue) -> int:
    """Multiply-adds: each output element is a sum over the contracted axis."""
    return outs[0].size * ins[0].dims[0 if transpose_a else -1]


DOT = register(
    "dot",
    "lhs rhs",
    _DOT,
    infer=_infer_dot,
    ref=_dot,
    expand=_dot_as_dense,
    traits=Traits(in_single=True, multiply_adds=dot_cost, on_stored=OnStored.DOT),
    aliases="_sparse_dot",
    doc="Product over the last axis of lhs and the first of rhs.",
)


def _swapped(shape: Shape, is_swapped: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if is_swapped else shape


def batched_product(
    what: str, lhs: TensorType, rhs: TensorType, transpose_a: bool, transpose_b: bool
) -> Shape:
    """Shape of op(lhs) op(rhs) over equal leading axes. Raises ShapeError."""
    a, b = _swapped(lhs.dims, transpose_a), _swapped(rhs.dims, transpose_b)
    pair = f"{shape_text(lhs.shape)} X {shape_text(rhs.shape)}"
    if a[:-2] != b[:-2]:
        raise ShapeError(f"{what} shape error (the leading batch dimensions must be equal): {pair}")
    if a[-1] != b[-2]:
        raise ShapeError(
            f"{what} shape error (shape mismatch): {pair}: "
            f"lhs contracts {a[-1]} elements, but rhs {b[-2]}"
        )
    return (*a[:-1], b[-1])


@forward
def _infer_batch_dot(
    lhs: TensorType, rhs: TensorType, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> TensorType:
    """Equal leading axes, then the product of the two last ones."""
    dtype = same_dtype(lhs, rhs)
    require_float("batch_dot", lhs)
    if lhs.ndim < 3 or lhs.ndim != rhs.ndim:
        raise ShapeError(
            "batch_dot needs two operands of equal rank, at least 3, got "
            f"{shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
        )
    return TensorType(batched_product("batch_dot", lhs, rhs, transpose_a, transpose_b), dtype)


def _batch_dot(
    lhs: np.ndarray, rhs: np.ndarray, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> np.ndarray:
    """A matrix product per leading index."""
    a = lhs.swapaxes(-1, -2) if transpose_a else lhs
    b = rhs.swapaxes(-1, -2) if transpose_b else rhs
    return multiply(a, b)


def _plain_batch_dot(
    g: Builder[X], lhs: X, rhs: X, *, transpose_a: bool, transpose_b: bool, **attrs: AttrValue
) -> X | None:
    """batch_dot with transpositions  =>  batch_dot(transpose(a), transpose(b)) on three axes"""
    types = g.type(lhs), g.type(rhs)
    if not (transpose_a or transpose_b) and types[0].ndim == 3:
        return None
    sides = []
    for x, t, flip, side in zip((lhs, rhs), types, (transpose_a, transpose_b), "ab"):
        flat = reshape(g, x, (product(t.dims[:-2]), *t.dims[-2:]), at=f"{side}_flat")
        sides.append(transpose(g, flat, (0, 2, 1) if flip else (0, 1, 2), at=side))
    at = "" if types[0].ndim == 3 else "product"
    shape = batched_product("batch_dot", *types, transpose_a, transpose_b)
    return reshape(g, g.op(BATCH_DOT, *sides, at=at), shape)


def batched_cost(ins: Types, outs: Types, *, transpose_a: bool, **attrs: AttrValue) -> int:
    """Multiply-adds: each output element is a sum over the contracted axis."""
    return outs[0].size * ins[0].dims[-2 if transpose_a else -1]


def _grad_batch_dot(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    transpose_a: bool,
    transpose_b: bool,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    (a, b), (d,) = ins, douts

    def product_of(x: X, y: X, flip_x: bool, flip_y: bool, at: str) -> X:
        return g.op(BATCH_DOT, x, y, at=at, transpose_a=flip_x, transpose_b=flip_y)

    def by_a() -> X:
        if transpose_a:
            return product_of(b, d, transpose_b, True, "da")
        return product_of(d, b, False, not transpose_b, "da")

    def by_b() -> X:
        if transpose_b:
            return product_of(d, a, True, transpose_a, "db")
        return product_of(a, d, not transpose_a, False, "db")

    return by_a, by_b


BATCH_DOT = register(
    "batch_dot",
    "lhs rhs",
    _DOT,
    kernel="gemm",
    infer=_infer_batch_dot,
    ref=_batch_dot,
    expand=_plain_batch_dot,
    grad=_grad_batch_dot,
    traits=Traits(in_single=True, multiply_adds=batched_cost),
    doc="Matrix products over equal leading axes; transposes swap the last two.",
)
