"""Readers of ONNX's matrix products."""

from __future__ import annotations

import math

from ..importer import Importer, Value
from ..use import Use
from .pointwise import broadcast_shape, to_shape
from .table import translates


@translates("MatMul")
def matmul(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """Product of the last two axes; the others broadcast."""
    left, right = g.rank(a), g.rank(b)
    if right == 2 and left >= 2 and b.is_constant:
        weight = g.op("transpose", b, axes=(1, 0), at="weight")
        filters = g.shape(weight)[0]
        return g.op("FullyConnected", a, weight, num_hidden=filters, no_bias=True, flatten=False)
    if left <= 2 and right <= 2:
        return _of_matrices(g, a, b)
    return _batched(g, a, b)


def _of_matrices(g: Importer, a: Value, b: Value) -> Value:
    made = g.op("dot", a, b)
    return g.scalar(made) if g.rank(a) == g.rank(b) == 1 else made


def _batched(g: Importer, a: Value, b: Value) -> Value:
    """Both operands with three axes; a single matrix is broadcast over the batch."""
    is_row, is_column = g.rank(a) == 1, g.rank(b) == 1
    a = g.op("expand_dims", a, axis=0, at="row") if is_row else a
    b = g.op("expand_dims", b, axis=1, at="column") if is_column else b
    first, second = g.shape(a), g.shape(b)
    outer = broadcast_shape(first[:-2], second[:-2])
    count = math.prod(outer)
    flat = [
        g.op(
            "Reshape", to_shape(g, x, (*outer, *shape[-2:])), shape=(count, *shape[-2:]), at="flat"
        )
        for x, shape in ((a, first), (b, second))
    ]
    made = g.op("batch_dot", *flat, at="product")
    ends = (() if is_row else first[-2:-1]) + (() if is_column else second[-1:])
    return g.op("Reshape", made, shape=(*outer, *ends))


@translates("Det")
def determinant(g: Importer, use: Use, x: Value) -> Value:
    """Determinant of each matrix."""
    made = g.op("_linalg_det", x)
    return made if g.rank(x) > 2 else g.scalar(made)


@translates("Gemm")
def gemm(g: Importer, use: Use, a: Value, b: Value, c: Value | None = None) -> Value:
    """alpha * a b + beta * c, with either or both operands transposed: a dense layer."""
    alpha, beta = use.real("alpha", 1.0), use.real("beta", 1.0)
    if use.number("transA"):
        a = g.op("transpose", a, axes=(1, 0), at="a")
    if not use.number("transB"):
        b = g.op("transpose", b, axes=(1, 0), at="b")
    if alpha != 1:
        b = g.op("_mul_scalar", b, scalar=alpha, at="alpha")
    if c is not None and beta != 1:
        c = g.op("_mul_scalar", c, scalar=beta, at="beta")
    filters = g.shape(b)[0]
    if c is not None and g.shape(c) in ((filters,), (1, filters)):
        bias = g.op("Reshape", c, shape=(-1,), at="bias") if g.rank(c) == 2 else c
        return g.op("FullyConnected", a, b, bias, num_hidden=filters, flatten=False)
    at = "" if c is None else "product"
    made = g.op("FullyConnected", a, b, num_hidden=filters, no_bias=True, flatten=False, at=at)
    return made if c is None else g.op("broadcast_add", made, c)
