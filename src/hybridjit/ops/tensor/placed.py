"""Operators that write or add one element for each row or column at given indices.

Input: arrays and indices. Output: arrays of the same dtype.
"""

from __future__ import annotations

from ..._core.types import INT64, TensorType, shape_text
from ...errors import ShapeError
from ..algebra import as_shape, mul
from ..building import Builder, X
from ..elementwise.element_type import cast
from ..registry import register
from ..rules import Types, fill, merged, same_dtype
from .by_index import ADD_AT, ONE_HOT
from .primitives import broadcast, transpose
from .selection import WHERE


def _fill_types(ins: Types, outs: Types) -> tuple[Types, Types]:
    lhs, mhs, rhs = ins
    dtype = same_dtype(lhs, mhs, *outs)
    if lhs.shape is not None and len(lhs.shape) != 2:
        raise ShapeError(
            f"fill_element_0index needs lhs (N, M), mhs and rhs (N,), got {shape_text(lhs.shape)}"
        )
    rows = (lhs.shape[0] if lhs.shape is not None else None,)
    lhs, mhs = lhs.with_dtype(dtype), fill(mhs, rows, dtype)
    return (lhs, mhs, fill(rhs, rows, rhs.dtype or dtype)), merged(outs, (lhs,))


def _filled(g: Builder[X], lhs: X, mhs: X, rhs: X) -> X:
    """fill_element_0index(x, y, i)  =>  where(one_hot(i), y as columns, x)"""
    whole = g.type(lhs)
    rows, columns = whole.dims
    at = g.op(ONE_HOT, rhs, at="at", depth=columns, dtype=whole.dtype)
    values = broadcast(g, as_shape(g, mhs, (rows, 1)), whole.dims)
    return g.op(WHERE, at, values, lhs)


register(
    "fill_element_0index",
    "lhs mhs rhs",
    infer=_fill_types,
    expand=_filled,
    doc="Array lhs with mhs[i] in row i at column rhs[i]; columns out of range are ignored.",
)


def _sketch_types(
    ins: Types, outs: Types, *, out_dim: int, processing_batch_size: int
) -> tuple[Types, Types]:
    data, *hashes = ins
    dtype = same_dtype(*ins, *outs)
    data = data.with_dtype(dtype)
    if data.shape is None:
        return (data, *(t.with_dtype(dtype) for t in hashes)), outs
    if len(data.shape) not in (2, 4):
        raise ShapeError(f"count_sketch needs data of 2 or 4 axes, got {shape_text(data.shape)}")
    hashes = [fill(t, (1, data.shape[-1]), dtype) for t in hashes]
    found = TensorType((*data.shape[:-1], out_dim), dtype)
    return (data, *hashes), merged(outs, (found,))


def _sketched(g: Builder[X], data: X, h: X, s: X, *, out_dim: int, **attrs: object) -> X:
    """count_sketch(x, h, s)  =>  columns of x s added at h"""
    dims = g.type(data).dims
    rows, inner = g.type(data).size // max(dims[-1], 1), dims[-1]
    signed = mul(g, as_shape(g, data, (rows, inner)), broadcast(g, s, (rows, inner)))
    index = cast(g, h, INT64, at="at")
    added = g.op(ADD_AT, transpose(g, signed, (1, 0)), index, at="sums", shape=(out_dim, rows))
    return as_shape(g, transpose(g, added, (1, 0)), (*dims[:-1], out_dim))


register(
    "_contrib_count_sketch",
    "data h s",
    "out_dim:int[1,2147483647]! processing_batch_size:int=32",
    infer=_sketch_types,
    expand=_sketched,
    doc="Sum at index h of the elements of the last axis times s.",
)
