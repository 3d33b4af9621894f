"""Readers of ONNX Runtime's attention over all heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .attention import apart
from .matrix import matmul
from .microsoft import plus
from .pointwise import as_number
from .table import MICROSOFT, translates


@translates(MICROSOFT + "Attention")
def attention(
    g: Importer,
    use: Use,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    added: Value | None = None,
    *others: Value | None,
) -> Sequence[Value | None]:
    """Attention with queries, keys and values from one product."""
    if use.number("do_rotary") or use.number("past_present_share_buffer") or any(others):
        raise MXNetError("rotary embeddings and shared buffers are not supported")
    sizes = use.ints("qkv_hidden_sizes") or (g.shape(weights)[1] // 3,) * 3
    whole = matmul(g, use, x, weights)
    whole = whole if bias is None else plus(g, whole, bias)
    return attention_of(g, use, whole, sizes, mask, past, added)


def attention_of(
    g: Importer,
    use: Use,
    whole: Value,
    sizes: Sequence[int],
    mask: Value | None,
    past: Value | None,
    added: Value | None = None,
) -> Sequence[Value | None]:
    """Attention with queries, keys and values of these sizes in one array; keys and values."""
    ends, heads = np.cumsum(sizes).tolist(), use.number("num_heads")
    q, k, v = (
        apart(g, g.op("slice_axis", whole, axis=2, begin=end - n, end=end, at="part"), heads)
        for n, end in zip(sizes, ends)
    )
    if past is not None:
        before = [
            g.op("Reshape", g.op("slice_axis", past, axis=0, begin=i, end=i + 1, at="past"),
                 shape=g.shape(past)[1:], at="past")
            for i in range(2)
        ]  # fmt: skip
        k, v = (_behind(g, old, new) for old, new in zip(before, (k, v)))
    made = attended(g, use, q, k, v, mask, added)
    present = None
    if len(use.outputs) > 1 and use.outputs[1]:
        present = g.op("stack", k, v, axis=0, num_args=2, at="present")
    return [made, present]


def _behind(g: Importer, old: Value | None, new: Value) -> Value:
    return new if old is None else g.op("Concat", old, new, num_args=2, dim=2, at="steps")


@translates(MICROSOFT + "MultiHeadAttention")
def multi_head_attention(
    g: Importer,
    use: Use,
    q: Value,
    k: Value | None = None,
    v: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    added: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *others: Value | None,
) -> Sequence[Value | None]:
    """Attention with separate queries, keys and values."""
    if any(others) or any(use.outputs[3:]):
        raise MXNetError("shared buffers, beams and products as a result are not supported")
    heads = use.number("num_heads")
    if k is None:
        q, k, v = _unpacked(g, q)
    elif v is None:
        k, v = _unpacked(g, k)
    assert k is not None and v is not None
    if bias is not None:
        q, k, v = biased(g, q, k, v, bias)
    q, k, v = (x if g.rank(x) == 4 else apart(g, x, heads) for x in (q, k, v))
    k, v = _behind(g, past_key, k), _behind(g, past_value, v)
    return [attended(g, use, q, k, v, mask, added), k, v]


def _unpacked(g: Importer, x: Value) -> list[Value]:
    """(batch, steps, heads, parts, size) as parts of (batch, steps, heads * size)."""
    n, s, h, count, size = g.shape(x)
    parts = g.outputs("SliceChannel", x, num_outputs=count, axis=3, squeeze_axis=True, at="part")
    return [g.op("Reshape", part, shape=(n, s, h * size), at="part") for part in parts]


def biased(g: Importer, q: Value, k: Value, v: Value, bias: Value) -> list[Value]:
    """Addition of each part of the bias; keys and values of cross-attention have theirs already."""
    made, end = [], 0
    for x in (q, k, v):
        if g.rank(x) == 4:
            made.append(x)
            continue
        begin, end = end, end + g.shape(x)[2]
        part = g.op("slice_axis", bias, axis=0, begin=begin, end=end, at="bias")
        made.append(plus(g, x, part))
    return made


def attended(
    g: Importer,
    use: Use,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    added: Value | None,
) -> Value:
    """softmax(scale * q k + masks) v, heads concatenated."""
    n, h, s, size = g.shape(q)
    keys = g.shape(k)[2]
    scale = use.real("scale") or size**-0.5
    scaled = g.op("_mul_scalar", q, scalar=scale, at="scaled")
    scores = g.op("batch_dot", scaled, k, transpose_b=True, at="scores")
    lowest = use.real("mask_filter_value", -10000.0)
    if use.number("unidirectional"):
        g.require_small(s * keys)
        hidden = np.triu(np.ones((s, keys), g.dtype(q)), keys - s + 1)
        later = g.constant((hidden * np.finfo(np.float32).min)[None, None])
        scores = g.op("broadcast_add", scores, later, at="causal")
    if mask is not None:
        hidden_ = _hidden(g, mask, n, s, keys, g.dtype(q))
        far = g.op("_mul_scalar", hidden_, scalar=lowest, at="mask")
        scores = g.op("broadcast_add", scores, far, at="masked")
    if added is not None:
        scores = g.op("broadcast_add", scores, added, at="biased")
    made = g.op("batch_dot", g.op("softmax", scores, axis=-1, at="weights"), v, at="sums")
    steps = g.op("transpose", made, axes=(0, 2, 1, 3), at="order")
    return g.op("Reshape", steps, shape=(n, s, h * g.shape(v)[3]))


def _hidden(g: Importer, mask: Value, n: int, s: int, keys: int, dtype: np.dtype) -> Value:
    """1 where a key is masked, with axes for heads and queries.

    A mask is 0 at these keys; or it has counts of visible keys, and optionally first visible keys.
    """
    shape = g.shape(mask)
    if len(shape) == 1:
        return _hidden_by_counts(g, mask, n, keys, dtype)
    unseen = g.op("_equal_scalar", as_number(g, mask), scalar=0.0, at="unseen")
    unseen = g.op("Cast", unseen, dtype=dtype, at="unseen")
    if len(shape) == 4:
        first = shape[2] - s if shape[2] > s else 0
        part = g.op("slice_axis", unseen, axis=2, begin=first, end=first + s, at="rows")
        return g.op("slice_axis", part, axis=3, begin=0, end=keys, at="keys")
    return g.op("Reshape", unseen, shape=(shape[0], 1, *((1,) * (3 - len(shape))), *shape[1:]))


def _hidden_by_counts(g: Importer, mask: Value, n: int, keys: int, dtype: np.dtype) -> Value:
    count = g.shape(mask)[0]
    if count not in (n, 2 * n, 3 * n + 2):  # the last with starts of packed sequences
        raise MXNetError(f"a mask of {count} values for a batch of {n} is not supported")
    places = g.constant(np.arange(keys, dtype=np.int32).reshape(1, keys))
    ends = g.op("slice_axis", mask, axis=0, begin=0, end=n, at="ends")
    ends = g.op("Reshape", ends, shape=(n, 1), at="ends")
    unseen = g.op("broadcast_greater_equal", places, ends, at="after")
    if count == 2 * n:
        starts = g.op("slice_axis", mask, axis=0, begin=n, end=2 * n, at="starts")
        starts = g.op("Reshape", starts, shape=(n, 1), at="starts")
        before = g.op("broadcast_lesser", places, starts, at="before")
        unseen = g.op("broadcast_maximum", unseen, before, at="unseen")
    unseen = g.op("Cast", unseen, dtype=dtype, at="unseen")
    return g.op("Reshape", unseen, shape=(n, 1, 1, keys), at="unseen")
