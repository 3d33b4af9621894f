"""Attention over interleaved projections, and attention as one operator.

Input: projections (L, B, heads * parts * D) whose last axis has the layout [head][part][D], the
parts being query, key, value. Output: scores (B * heads, Lq, Lk), or values (Lq, B, heads * D).

``_attention``, which only the compiler creates: queries (B, H, Tq, D), keys (B, H, Tk, D), values
(B, H, Tk, E), then, if any, a factor of one element; biases that broadcast to (B, H, Tq, Tk); a
mask that does too, where scores are ``fill`` if it is 0; the valid keys of each row, (B, H, Tq).
``after`` applies the mask to the weights as well, by ``where`` or ``times``. Output: (B, Tq, H, E),
the layout in which heads are joined.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import ShapeError
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import convert, scalar_of, widened
from ..elementwise.binary import DIVIDE
from ..nn.matrix_products import BATCH_DOT
from ..nn.softmax import softmax_along
from ..record import InferRule, Traits
from ..registry import register
from ..rules import Types, forward, refuse_bool, require_float, same_dtype
from ..signatures import Expansion, Reference
from ..tensor.primitives import narrow, reshape, transpose


def _head_size(name: str, t: TensorType, heads: int, parts: int) -> int:
    """D of a projection. Raises ShapeError unless it is 3D and divisible by heads and parts."""
    if t.ndim != 3:
        raise ShapeError(
            f"Input {name} should be 3D in seq_length-batch-proj_dim, currently is: {t.ndim}D"
        )
    if heads < 1 or t.dims[2] % (heads * parts):
        raise ShapeError(
            f"heads * {parts} must divide the projection, but {heads} * {parts} does not divide "
            f"{t.dims[2]}"
        )
    return t.dims[2] // (heads * parts)


def _check_attention(t: TensorType, rows: int, keys: int) -> None:
    if t.ndim != 3 or t.dims[0] != rows or t.dims[2] != keys:
        raise ShapeError(
            f"attention should be ({rows}, query length, {keys}), got {shape_text(t.shape)}"
        )


def _part(projection: np.ndarray, heads: int, parts: int, index: int) -> np.ndarray:
    """One part as (B * heads, L, D)."""
    length, batch, width = projection.shape
    size = width // (heads * parts)
    split = widened(projection).reshape(length, batch * heads, parts, size)
    return split[:, :, index].transpose(1, 0, 2)


def _scores(query: np.ndarray, key: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """(query / sqrt(D)) key^T."""
    scaled = query / query.dtype.type(np.sqrt(query.shape[-1]))
    return (scaled @ key.swapaxes(1, 2)).astype(dtype, copy=False)


def _weighted(attention: np.ndarray, value: np.ndarray, heads: int) -> np.ndarray:
    """attention @ value, heads concatenated: (Lq, B, heads * D)."""
    y = (widened(attention) @ value).transpose(1, 0, 2)  # (Lq, B * heads, D)
    length, rows, size = y.shape
    y = y.reshape(length, rows // heads, heads * size)
    return np.ascontiguousarray(y, attention.dtype)


@forward
def _infer_self_scores(qkv: TensorType, *, heads: int) -> TensorType:
    """(B * heads, L, L)."""
    require_float("selfatt_qk", qkv)
    _head_size("queries_keys_values", qkv, heads, 3)
    length, batch, _ = qkv.dims
    return qkv.with_shape((batch * heads, length, length))


def _self_scores(qkv: np.ndarray, *, heads: int) -> np.ndarray:
    return _scores(_part(qkv, heads, 3, 0), _part(qkv, heads, 3, 1), qkv.dtype)


@forward
def _infer_self_values(qkv: TensorType, attention: TensorType, *, heads: int) -> TensorType:
    """(L, B, heads * D)."""
    same_dtype(qkv, attention)
    size = _head_size("queries_keys_values", qkv, heads, 3)
    length, batch, _ = qkv.dims
    _check_attention(attention, batch * heads, length)
    return qkv.with_shape((attention.dims[1], batch, heads * size))


def _self_values(qkv: np.ndarray, attention: np.ndarray, *, heads: int) -> np.ndarray:
    return _weighted(attention, _part(qkv, heads, 3, 2), heads)


@forward
def _infer_cross_scores(queries: TensorType, keys_values: TensorType, *, heads: int) -> TensorType:
    """(B * heads, Lq, Lk)."""
    same_dtype(queries, keys_values)
    require_float("encdec_qk", queries)
    size = _head_size("queries", queries, heads, 1)
    other = _head_size("keys_values", keys_values, heads, 2)
    if size != other or queries.dims[1] != keys_values.dims[1]:
        raise ShapeError(
            f"keys_values should have batch {queries.dims[1]} and twice the queries' projection, "
            f"got {shape_text(keys_values.shape)} for queries {shape_text(queries.shape)}"
        )
    return queries.with_shape((queries.dims[1] * heads, queries.dims[0], keys_values.dims[0]))


def _cross_scores(queries: np.ndarray, keys_values: np.ndarray, *, heads: int) -> np.ndarray:
    return _scores(_part(queries, heads, 1, 0), _part(keys_values, heads, 2, 0), queries.dtype)


@forward
def _infer_cross_values(
    keys_values: TensorType, attention: TensorType, *, heads: int
) -> TensorType:
    """(Lq, B, heads * D)."""
    same_dtype(keys_values, attention)
    size = _head_size("keys_values", keys_values, heads, 2)
    length, batch, _ = keys_values.dims
    _check_attention(attention, batch * heads, length)
    return keys_values.with_shape((attention.dims[1], batch, heads * size))


def _cross_values(keys_values: np.ndarray, attention: np.ndarray, *, heads: int) -> np.ndarray:
    return _weighted(attention, _part(keys_values, heads, 2, 1), heads)


def _rows_of(g: Builder[X], projection: X, heads: int, position: int, parts: int, index: int) -> X:
    """One part of input number ``position`` of layout [head][part][D]: (batch * heads, L, D)."""
    length, batch, width = g.type(projection).dims
    rows, size = batch * heads, width // (heads * parts)
    at = f"part{position}_{index}"
    split = reshape(g, projection, (length, rows, parts, size), at=f"{at}_split")
    chosen = reshape(g, narrow(g, split, 2, index, 1, at=f"{at}_cut"), (length, rows, size), at=at)
    return transpose(g, chosen, (1, 0, 2), at=f"{at}_rows")


def _score_parts(g: Builder[X], *inputs: X, heads: int) -> X:
    """attention scores  =>  batch_dot(queries, keys^T) / sqrt(D)"""
    if len(inputs) == 1:
        query, key = (_rows_of(g, inputs[0], heads, 0, 3, i) for i in (0, 1))
    else:
        query, key = (_rows_of(g, x, heads, i, i + 1, 0) for i, x in enumerate(inputs))
    raw = g.op(BATCH_DOT, query, key, at="raw", transpose_b=True)
    return g.op(DIVIDE.scalar, raw, scalar=math.sqrt(g.type(query).dims[2]))


def _value_parts(parts: int) -> Expansion:
    def expand(g: Builder[X], projection: X, attention: X, *, heads: int) -> X:
        """attention values  =>  batch_dot(attention, values), heads concatenated"""
        values = _rows_of(g, projection, heads, 0, parts, parts - 1)
        products = g.op(BATCH_DOT, attention, values, at="heads")
        rows, length, size = g.type(products).dims
        transposed = transpose(g, products, (1, 0, 2), at="turned")
        return reshape(g, transposed, (length, rows // heads, heads * size))

    return expand


def _interleaved(
    name: str,
    inputs: str,
    infer: InferRule,
    ref: Reference,
    expand: Expansion,
    doc: str,
) -> None:
    register(
        f"_contrib_interleaved_matmul_{name}",
        inputs,
        "heads:int!",
        infer=infer,
        ref=ref,
        expand=expand,
        traits=Traits(parts_in_floats=True),
        doc=doc,
    )


_interleaved(
    "selfatt_qk",
    "queries_keys_values",
    _infer_self_scores,
    _self_scores,
    _score_parts,
    "Scores of self attention: scaled queries times keys.",
)
_interleaved(
    "selfatt_valatt",
    "queries_keys_values attention",
    _infer_self_values,
    _self_values,
    _value_parts(3),
    "Values of self attention: attention times values.",
)
_interleaved(
    "encdec_qk",
    "queries keys_values",
    _infer_cross_scores,
    _cross_scores,
    _score_parts,
    "Scores of attention over an encoder: scaled queries times keys.",
)
_interleaved(
    "encdec_valatt",
    "keys_values attention",
    _infer_cross_values,
    _cross_values,
    _value_parts(2),
    "Values of attention over an encoder: attention times values.",
)


def _infer_div_sqrt_dim(data: TensorType) -> TensorType:
    refuse_bool(data)
    if not data.dims:
        raise ShapeError("div_sqrt_dim needs data of at least one axis")
    return data


def _div_sqrt_dim(data: np.ndarray) -> np.ndarray:
    """x / sqrt(length of the last axis); for integers the divisor is truncated."""
    divisor = scalar_of(np.sqrt(data.shape[-1]), data.dtype)
    return convert(widened(data) / widened(divisor), data.dtype)


def _scaled_by_length(g: Builder[X], data: X) -> X:
    """div_sqrt_dim(x)  =>  x / sqrt(length of the last axis)"""
    return g.op(DIVIDE.scalar, data, scalar=math.sqrt(g.type(data).dims[-1]))


def _grad_div_sqrt_dim(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> X:
    return g.op(DIV_SQRT_DIM, douts[0], at="divided")


DIV_SQRT_DIM = register(
    "_contrib_div_sqrt_dim",
    "data",
    infer=forward(_infer_div_sqrt_dim),
    ref=_div_sqrt_dim,
    grad=_grad_div_sqrt_dim,
    expand=_scaled_by_length,
    traits=Traits(parts_in_floats=True),
    doc="Data divided by the square root of the last axis' length.",
)


def _core_inputs(
    *, has_factor: bool, biases: int, fill: float | None, use_length: bool, **attrs: AttrValue
) -> tuple[str, ...]:
    factor = ("factor",) if has_factor else ()
    mask = () if fill is None else ("mask",)
    length = ("length",) if use_length else ()
    return (
        *("query", "key", "value", *factor),
        *(f"bias{i}" for i in range(biases)),
        *(*mask, *length),
    )


@forward
def _infer_core(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    *more: TensorType,
    has_factor: bool,
    use_length: bool,
    **attrs: AttrValue,
) -> TensorType:
    """(B, Tq, H, E)."""
    floats = more[: len(more) - use_length]
    same_dtype(query, key, value, *floats)
    require_float("_attention", query)
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.ndim != 4:
            raise ShapeError(f"{name} of _attention needs 4 axes, got {shape_text(t.shape)}")
    samples, heads, rows, width = query.dims
    keys = key.dims[2]
    if key.dims != (samples, heads, keys, width) or value.dims[:3] != (samples, heads, keys):
        raise ShapeError(
            f"key {shape_text(key.shape)} and value {shape_text(value.shape)} of _attention do not "
            f"match query {shape_text(query.shape)}"
        )
    for t in floats[has_factor:]:
        pairs = zip(t.dims, (samples, heads, rows, keys))
        if t.ndim != 4 or not all(d in (1, full) for d, full in pairs):
            raise ShapeError(f"bias or mask {shape_text(t.shape)} of _attention does not broadcast")
    if use_length and more[-1].dims != (samples, heads, rows):
        raise ShapeError(
            f"length {shape_text(more[-1].shape)} of _attention should be "
            f"{shape_text((samples, heads, rows))}"
        )
    return value.with_shape((samples, rows, heads, value.dims[3]))


def _attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *more: np.ndarray,
    scale: float,
    has_factor: bool,
    biases: int,
    fill: float | None,
    after: str,
    use_length: bool,
) -> np.ndarray:
    """softmax(factor q k^T + biases) v; a row of only -inf results in NaN."""
    wide, others = widened(query), iter(more)
    factor = wide.dtype.type(scale)
    if has_factor:
        factor = factor * widened(next(others)).reshape(())
    scores = (wide * factor) @ widened(key).swapaxes(-1, -2)
    for _ in range(biases):
        scores = scores + widened(next(others))
    mask = None if fill is None else widened(next(others))
    if mask is not None:
        scores = np.where(mask, scores, scores.dtype.type(fill))
    if use_length:
        valid = np.arange(scores.shape[-1]) < next(others)[..., np.newaxis]
        weights = np.where(valid, softmax_along(np.where(valid, scores, -np.inf), -1), 0)
    else:
        weights = softmax_along(scores, -1)
    if mask is not None and after != "none":
        weights = weights * mask if after == "times" else np.where(mask, weights, 0)
    y = weights @ widened(value)
    return np.ascontiguousarray(y.transpose(0, 2, 1, 3), query.dtype)


def _core_cost(ins: Types, outs: Types, **attrs: AttrValue) -> int:
    """Multiply-adds of the two products."""
    samples, heads, rows, width = ins[0].dims
    keys, values = ins[2].dims[2:]
    return samples * heads * rows * keys * (width + values)


ATTENTION = register(
    "_attention",
    _core_inputs,
    "scale:double=1 has_factor:bool=False biases:int=0 fill:double?=None "
    "after:none|where|times=none use_length:bool=False",
    internal=True,
    kernel="attention",
    infer=_infer_core,
    ref=_attention,
    traits=Traits(in_single=True, multiply_adds=_core_cost),
    doc="Attention without the matrix of scores; created by the compiler only.",
)
