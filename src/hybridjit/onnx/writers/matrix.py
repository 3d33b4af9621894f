"""Writers of matrix products."""

from __future__ import annotations

import numpy as np

from ..exporter import Exporter, Use, Value
from .table import writes


def transposed(g: Exporter, x: Value, at: str) -> Value:
    """Transpose of the last two axes."""
    rank = g.rank(x)
    return g.op("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2), at=at)


@writes("FullyConnected")
def fully_connected(g: Exporter, use: Use, x: Value, w: Value, *bias: Value) -> Value:
    """Dense layer on rows, or on the last axis."""
    if use.attrs["flatten"] or g.rank(x) == 2:
        if g.rank(x) != 2:
            x = g.emit("Flatten", x, at="rows", axis=1)
        return g.emit("Gemm", x, w, *bias, transB=1)
    product = g.emit("MatMul", x, transposed(g, w, "weight"), at="product" if bias else "")
    return g.emit("Add", product, bias[0]) if bias else product


@writes("dot")
def dot(g: Exporter, use: Use, a: Value, b: Value) -> Value:
    """Product over the last axis of a and the first axis of b."""
    attrs = use.attrs
    if attrs["transpose_a"] and g.rank(a) > 1:
        a = g.op("transpose", a, axes=(*range(1, g.rank(a)), 0), at="a")
    if attrs["transpose_b"] and g.rank(b) > 1:
        b = g.op("transpose", b, axes=(g.rank(b) - 1, *range(g.rank(b) - 1)), at="b")
    if g.rank(b) <= 2 and g.rank(a) + g.rank(b) > 2:
        return g.emit("MatMul", a, b)
    inner = g.size(b.type, 0)
    rows = g.emit("Reshape", b, g.ints(inner, -1), at="columns")
    made = g.emit("MatMul", a, rows, at="product")
    shape = use.types[0].shape
    assert shape is not None
    if shape.count(None) > 1:
        g.shape(a)
    return g.emit("Reshape", made, g.ints(*(-1 if n is None else n for n in shape)))


@writes("batch_dot", "_linalg_gemm2")
def batch_dot(g: Exporter, use: Use, a: Value, b: Value) -> Value:
    """Matrix product for each index of the leading axes."""
    return _scaled_product(g, use, a, b, "")


def _scaled_product(g: Exporter, use: Use, a: Value, b: Value, at: str) -> Value:
    attrs = use.attrs
    axis = attrs.get("axis", -2)
    swaps = axis % g.rank(a) != g.rank(a) - 2
    if swaps:
        a, b = (
            g.op("SwapAxis", x, dim1=axis % g.rank(x), dim2=g.rank(x) - 2, at=side)
            for x, side in ((a, "a_rows"), (b, "b_rows"))
        )
    a = transposed(g, a, "a") if attrs["transpose_a"] else a
    b = transposed(g, b, "b") if attrs["transpose_b"] else b
    alpha = attrs.get("alpha", 1.0)
    plain = alpha == 1 and not swaps
    made = g.emit("MatMul", a, b, at=at if plain else "product")
    if alpha != 1:
        made = g.emit("Mul", made, g.like(a, alpha), at="alpha" if swaps else at)
    if swaps:
        rank = g.rank(a)
        order = list(range(rank))
        order[axis % rank], order[rank - 2] = order[rank - 2], order[axis % rank]
        made = g.emit("Transpose", made, at=at, perm=order)
    return made


@writes("_linalg_gemm")
def gemm(g: Exporter, use: Use, a: Value, b: Value, c: Value) -> Value:
    """alpha a b + beta c."""
    made = _scaled_product(g, use, a, b, "whole")
    if use.attrs["beta"] != 1:
        c = g.emit("Mul", c, g.like(c, use.attrs["beta"]), at="beta")
    return g.emit("Add", made, c)


@writes("_linalg_syrk")
def syrk(g: Exporter, use: Use, a: Value) -> Value:
    """alpha times the product of a matrix and its transpose, in either order."""
    turned = transposed(g, a, "turned")
    sides = (turned, a) if use.attrs["transpose"] else (a, turned)
    made = g.emit("MatMul", *sides, at="product")
    return g.emit("Mul", made, g.like(a, use.attrs["alpha"]))


@writes("_linalg_det")
def det(g: Exporter, use: Use, a: Value) -> Value:
    """Determinant of each matrix; a single one has shape (1,)."""
    if g.rank(a) > 2:
        return g.emit("Det", a)
    return g.emit("Reshape", g.emit("Det", a, at="number"), g.ints(1))


# Attention on interleaved projections: (length, batch, heads * parts * width)


def _part(g: Exporter, x: Value, heads: int, parts: int, index: int) -> Value:
    """One of the interleaved parts, as (batch * heads, length, width)."""
    width = ((x.type.shape or ())[2] or 0) // (heads * parts)
    apart = g.emit("Reshape", x, g.ints(0, -1, parts, width), at=f"apart{index}")
    chosen = g.constant(np.array(index, np.int64))
    rows = g.emit("Gather", apart, chosen, at=f"part{index}", axis=2)
    return g.emit("Transpose", rows, at=f"rows{index}", perm=(1, 0, 2))


def _scores(g: Exporter, query: Value, key: Value, like: Value, width: int) -> Value:
    """Products of queries and keys, divided by the root of their width."""
    scaled = g.emit("Mul", query, g.like(like, width**-0.5), at="scaled")
    keys = g.emit("Transpose", key, at="keys", perm=(0, 2, 1))
    return g.emit("MatMul", scaled, keys)


@writes("_contrib_interleaved_matmul_selfatt_qk")
def self_scores(g: Exporter, use: Use, qkv: Value) -> Value:
    """Scores of self-attention."""
    heads = use.attrs["heads"]
    width = ((qkv.type.shape or ())[2] or 0) // (heads * 3)
    return _scores(g, _part(g, qkv, heads, 3, 0), _part(g, qkv, heads, 3, 1), qkv, width)


@writes("_contrib_interleaved_matmul_encdec_qk")
def cross_scores(g: Exporter, use: Use, queries: Value, keys_values: Value) -> Value:
    """Scores of attention to another sequence."""
    heads = use.attrs["heads"]
    width = ((queries.type.shape or ())[2] or 0) // heads
    rows = g.emit("Reshape", queries, g.ints(0, -1, width), at="heads")
    query = g.emit("Transpose", rows, at="queries", perm=(1, 0, 2))
    return _scores(g, query, _part(g, keys_values, heads, 2, 0), queries, width)


@writes("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def weighted_values(g: Exporter, use: Use, projection: Value, attention: Value) -> Value:
    """Weighted sums of values, heads concatenated."""
    heads, parts = use.attrs["heads"], 3 if "selfatt" in use.op.name else 2
    channels = (projection.type.shape or ())[2] or 0
    values = _part(g, projection, heads, parts, parts - 1)
    made = g.emit("MatMul", attention, values, at="product")
    steps = g.emit("Transpose", made, at="steps", perm=(1, 0, 2))
    return g.emit("Reshape", steps, g.ints(0, -1, channels // parts))


@writes("_contrib_div_sqrt_dim")
def div_sqrt_dim(g: Exporter, use: Use, x: Value) -> Value:
    """Division by the root of the size of the last axis."""
    size = g.size(x.type, -1)
    return g.emit("Div", x, g.like(x, size**0.5))
