"""Embedding: rows of a table by index.

Input: indices of any dtype, truncated and clipped to the table. Output: the table's dtype.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..._core.types import PartialShape, TensorType, merge_dtypes, shape_text
from ...errors import AttributeValueError, ShapeError
from ..algebra import as_shape
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..gradient import NoGradientError
from ..record import OnStored, Traits
from ..registry import register
from ..rules import Types, fill, merged
from ..tensor.by_index import ADD_AT, rows_within, within


def _check_table(found: PartialShape | None, wanted: tuple[int, int]) -> None:
    if min(wanted) < 1:
        raise AttributeValueError(f"input_dim and output_dim must be at least 1, got {wanted}")
    if found is not None and None not in found and found != wanted:
        raise ShapeError(
            f"weight has shape {shape_text(found)}, but input_dim and output_dim are "
            f"{shape_text(wanted)}"
        )


def _infer_embedding(
    ins: Types,
    outs: Types,
    *,
    input_dim: int,
    output_dim: int,
    dtype: np.dtype,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    """Indices' shape followed by output_dim; the attribute dtype applies if no array has one."""
    data, weight = ins
    _check_table(weight.shape, (input_dim, output_dim))
    known = merge_dtypes(weight.dtype, outs[0].dtype if outs else None)
    weight = fill(weight, (input_dim, output_dim), dtype if known is None else known)
    if data.shape is None:
        return (data, weight), outs
    out = TensorType((*data.shape, output_dim), weight.dtype)
    return (data, weight), merged(outs, (out,))


def _embedding(
    data: np.ndarray, weight: np.ndarray, *, input_dim: int, **attrs: AttrValue
) -> np.ndarray:
    rows = rows_within("Embedding", data, input_dim)
    return np.take(weight, rows, axis=0)  # also a copy for an index without axes


def _no_gradient() -> NoReturn:
    raise NoGradientError("Embedding layer doesn't support calculate data gradient")


def _grad_embedding(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    input_dim: int,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """Add the gradient of each row of the result to its row of the table."""
    data, weight = ins

    def by_weight() -> X:
        index = within(g, data, input_dim, "clip")
        sizes, table = g.type(data).dims or (1,), g.type(weight).dims
        index = as_shape(g, index, (1, *sizes))
        rows = as_shape(g, douts[0], (*sizes, table[1]))
        return g.op(ADD_AT, rows, index, at="dweight", shape=table)

    return _no_gradient, by_weight


EMBEDDING = register(
    "Embedding",
    "data weight",
    "input_dim:int! output_dim:int! dtype:dtype=float32 sparse_grad:bool=False",
    kernel="gather",
    infer=_infer_embedding,
    ref=_embedding,
    grad=_grad_embedding,
    aliases="_sparse_Embedding",
    traits=Traits(on_stored=OnStored.LOOKUP),
    doc="Rows of weight by index; indices are truncated towards zero and clipped.",
)


def _plain(g: Builder[X], data: X, weight: X, *, deterministic: bool, **attrs: Declared) -> X:
    """SparseEmbedding(i, w)  =>  Embedding(i, w)"""
    return g.op(EMBEDDING, data, weight, **attrs)


register(
    "_contrib_SparseEmbedding",
    "data weight",
    "input_dim:int! output_dim:int! dtype:dtype=float32 deterministic:bool=False",
    infer=_infer_embedding,
    expand=_plain,
    traits=Traits(on_stored=OnStored.LOOKUP),
    doc="Embedding with a sparse gradient, under its former name.",
)
