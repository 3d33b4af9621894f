"""Readers of ONNX Runtime's attention of decoders: positions, shared heads, caches of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .attention import apart, turned_heads
from .microsoft_attention import attended, biased
from .pointwise import to_shape
from .table import KNOWN, MICROSOFT, translates

_LONG = np.dtype("int64")


@translates(MICROSOFT + "RotaryEmbedding")
def rotary_embedding(
    g: Importer, use: Use, x: Value, places: Value, cosines: Value, sines: Value
) -> Value:
    """ONNX's RotaryEmbedding with permuted operands; a single position is that of the first
    step."""
    if use.real("scale", 1.0) != 1 or use.number("is_packed_batching"):
        raise MXNetError("scaled and packed rotary embeddings are not supported")
    four = g.rank(x) == 4
    n, s = (g.shape(x)[0], g.shape(x)[2]) if four else g.shape(x)[:2]
    if g.shape(places) == (1,):
        offsets = g.constant(np.arange(s, dtype=np.int64).reshape(1, s))
        first = g.op("Reshape", places, shape=(1, 1), at="first")
        places = to_shape(g, g.op("broadcast_add", offsets, first, at="places"), (n, s))
    half = g.shape(cosines)[1]
    if not four and not use.number("num_heads"):
        size = use.number("rotary_embedding_dim") or 2 * half
        x4 = apart(g, x, g.shape(x)[2] // size)
        made = KNOWN["RotaryEmbedding"](g, use, x4, cosines, sines, places)
        assert isinstance(made, Value)
        steps = g.op("transpose", made, axes=(0, 2, 1, 3), at="steps")
        return g.op("Reshape", steps, shape=g.shape(x))
    made = KNOWN["RotaryEmbedding"](g, use, x, cosines, sines, places)
    assert isinstance(made, Value)
    return made


@translates(MICROSOFT + "GroupQueryAttention")
def grouped_attention(
    g: Importer,
    use: Use,
    q: Value,
    k: Value | None,
    v: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    lengths: Value,
    total: Value,
    cosines: Value | None = None,
    sines: Value | None = None,
    places: Value | None = None,
    added: Value | None = None,
    sink: Value | None = None,
    *others: Value | None,
) -> Sequence[Value | None]:
    """Causal attention of groups of heads that share keys and values.

    Sequences of a batch have their own number of past keys: ``lengths`` are the numbers of all keys
    but one. The first call of a sequence has no past keys.
    """
    if any(x is not None for x in others) or any(use.outputs[3:]):
        raise MXNetError("quantized keys and products as a result are not supported")
    groups = use.number("kv_num_heads")
    q, k, v = _heads_of(g, q, k, v, use.number("num_heads"), groups)
    steps, count = g.shape(q)[2], g.ints(total, "total_sequence_length")[0]
    starts = None if steps == count else _starts(g, lengths, steps)
    if use.number("do_rotary"):
        assert cosines is not None and sines is not None
        if starts is None and places is not None:
            first = g.op("slice", places, begin=(0, 0), end=(1, 1), at="first")
            places = g.op("broadcast_add", first, _numbered(g, None, steps), at="places")
        elif places is None:
            places = _numbered(g, starts, steps)
        is_mixed = bool(use.number("rotary_interleaved"))
        size = 2 * g.shape(cosines)[1]
        q, k = (turned_heads(g, x, cosines, sines, places, size, is_mixed) for x in (q, k))
    k, v = (_extended(g, old, new, starts, count) for old, new in ((past_key, k), (past_value, v)))
    first, last = (g.op("slice_axis", x, axis=2, begin=0, end=count, at="used") for x in (k, v))
    seen = _seen(g, starts, steps, count, use.number("local_window_size", -1))
    if starts is None:
        seen = g.op("broadcast_mul", seen, _within(g, lengths, count), at="seen")
    return _weighted(g, use, q, first, last, seen, added, sink), k, v


def _heads_of(
    g: Importer, q: Value, k: Value | None, v: Value | None, heads: int, groups: int
) -> tuple[Value, Value, Value]:
    """Queries, keys and values by head; the first operand may contain all three."""
    if k is not None and v is not None:
        return apart(g, q, heads), apart(g, k, groups), apart(g, v, groups)
    size = g.shape(q)[2] // (heads + 2 * groups)
    ends = np.cumsum([heads * size, groups * size, groups * size]).tolist()
    parts = [
        g.op("slice_axis", q, axis=2, begin=begin, end=end, at="part")
        for begin, end in zip([0, *ends], ends)
    ]
    return apart(g, parts[0], heads), apart(g, parts[1], groups), apart(g, parts[2], groups)


def _starts(g: Importer, lengths: Value, steps: int) -> Value:
    """The number of past keys of each sequence, (batch, 1)."""
    whole = g.op("Reshape", g.op("Cast", lengths, dtype=_LONG, at="last"), shape=(-1, 1), at="last")
    return g.op("_plus_scalar", whole, scalar=float(1 - steps), at="start")


def _numbered(g: Importer, starts: Value | None, steps: int) -> Value:
    """The positions of queries in each sequence."""
    offsets = g.constant(np.arange(steps, dtype=np.int64).reshape(1, steps))
    return offsets if starts is None else g.op("broadcast_add", starts, offsets, at="places")


def _extended(
    g: Importer, old: Value | None, new: Value, starts: Value | None, count: int
) -> Value:
    """Keys of a cache with new ones behind the past keys of each sequence, then zeros."""
    if old is None:
        return new
    batch, groups, steps, size = g.shape(new)
    room = g.shape(old)[2]
    longest = max(room, count)
    whole = g.op("Concat", old, new, num_args=2, dim=2, at="both")
    places = g.constant(np.arange(longest, dtype=np.int64).reshape(1, longest))
    if starts is None:
        starts = g.constant(np.zeros((1, 1), np.int64))
    after = g.op("broadcast_sub", places, starts, at="after")
    fresh = g.op("_plus_scalar", after, scalar=float(room), at="fresh")
    is_past = g.op("broadcast_lesser", after, g.constant(np.zeros((1, 1), np.int64)), at="is_past")
    shape = g.shape(is_past)
    index = g.op("where", is_past, to_shape(g, places, shape), fresh, at="index")
    index = g.op("clip", index, a_min=0.0, a_max=float(room + steps - 1), at="index")
    rows = g.op("transpose", whole, axes=(0, 2, 1, 3), at="rows")
    rows = g.op("Reshape", rows, shape=(batch * (room + steps), groups * size), at="rows")
    firsts = np.arange(batch, dtype=np.int64).reshape(batch, 1) * (room + steps)
    index = g.op("broadcast_add", index, g.constant(firsts), at="index")
    found = g.op("take", rows, index, axis=0, at="found")
    found = g.op("Reshape", found, shape=(batch, longest, groups, size), at="found")
    used = g.op("Reshape", g.op("_lesser_scalar", after, scalar=float(steps), at="used"),
                shape=(-1, longest, 1, 1), at="used")  # fmt: skip
    none = g.filled(g.shape(found), np.zeros(1, g.dtype(new)))
    found = g.op("where", to_shape(g, used, g.shape(found)), found, none, at="cache")
    return g.op("transpose", found, axes=(0, 2, 1, 3), at="present")


def _seen(g: Importer, starts: Value | None, steps: int, keys: int, window: int) -> Value:
    """1 where a query sees a key, (batch or 1, 1, queries, keys)."""
    distance = np.arange(keys)[None] - np.arange(steps)[:, None]  # from query to key, without past
    g.require_small(2 * steps * keys)
    gap = g.constant(distance[None, None].astype(np.int64))
    if starts is not None:
        gap = g.op("broadcast_sub", gap, g.op("Reshape", starts, shape=(-1, 1, 1, 1), at="start"))
    seen = g.op("_lesser_equal_scalar", gap, scalar=0.0, at="behind")
    if window > 0:
        near = g.op("_greater_scalar", gap, scalar=-float(window), at="near")
        seen = g.op("broadcast_mul", seen, near, at="seen")
    return seen


def _within(g: Importer, lengths: Value, keys: int) -> Value:
    """1 for the keys of each sequence, (batch, 1, 1, keys)."""
    places = g.constant(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
    last = g.op("Reshape", g.op("Cast", lengths, dtype=_LONG, at="last"), shape=(-1, 1, 1, 1))
    return g.op("broadcast_lesser_equal", places, last, at="within")


def _weighted(
    g: Importer,
    use: Use,
    q: Value,
    k: Value,
    v: Value,
    seen: Value,
    added: Value | None,
    sink: Value | None,
) -> Value:
    """Sums of values, heads concatenated. A sink adds the exponential of a number to each sum of
    weights.
    """
    batch, heads, steps, size = g.shape(q)
    times = heads // g.shape(k)[1]
    if times > 1:
        k, v = (g.op("repeat", x, repeats=times, axis=1, at="heads") for x in (k, v))
    scaled = g.op("_mul_scalar", q, scalar=use.real("scale") or size**-0.5, at="scaled")
    scores = g.op("batch_dot", scaled, k, transpose_b=True, at="scores")
    if cap := use.real("softcap"):
        inner = g.op("tanh", g.op("_div_scalar", scores, scalar=cap, at="inner"), at="bounded")
        scores = g.op("_mul_scalar", inner, scalar=cap, at="capped")
    if added is not None:
        scores = g.op("broadcast_add", scores, added, at="biased")
    shape, dtype = g.shape(scores), g.dtype(scores)
    lowest = g.filled(shape, np.full(1, np.finfo(dtype).min, dtype))
    scores = g.op("where", to_shape(g, seen, shape), scores, lowest, at="masked")
    weights = _softmax(g, scores, sink, bool(use.number("smooth_softmax")))
    made = g.op("batch_dot", weights, v, at="sums")
    rows = g.op("transpose", made, axes=(0, 2, 1, 3), at="order")
    return g.op("Reshape", rows, shape=(batch, steps, heads * g.shape(v)[3]))


def _softmax(g: Importer, scores: Value, sink: Value | None, is_smooth: bool) -> Value:
    if sink is None and not is_smooth:
        return g.op("softmax", scores, axis=-1, at="weights")
    *outer, keys = g.shape(scores)
    if sink is None:
        sink = g.constant(np.zeros(1, g.dtype(scores)))
    column = g.op("Reshape", sink, shape=(1, -1, 1, 1), at="sink")
    column = to_shape(g, column, (*outer, 1))
    both = g.op("Concat", scores, column, num_args=2, dim=3, at="with_sink")
    made = g.op("softmax", both, axis=-1, at="weights")
    return g.op("slice_axis", made, axis=3, begin=0, end=keys, at="without_sink")


@translates(MICROSOFT + "DecoderMaskedMultiHeadAttention")
def decoder_attention(
    g: Importer,
    use: Use,
    q: Value,
    k: Value | None = None,
    v: Value | None = None,
    mask: Value | None = None,
    added: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    count: Value | None = None,
    beams: Value | None = None,
    indirection: Value | None = None,
    bias: Value | None = None,
) -> Sequence[Value | None]:
    """Attention of one step, whose key takes its place in a cache; keys of rank 4 are all keys."""
    if indirection is not None or any(use.outputs[3:]) or k is None or v is None:
        raise MXNetError("beams, packed keys and products as a result are not supported")
    if bias is not None:
        q, k, v = biased(g, q, k, v, bias)
    q = apart(g, q, use.number("num_heads"))
    if g.rank(k) == 4:
        return attended(g, use, q, k, v, mask, added), None, None
    if past_key is None or past_value is None or count is None:
        raise MXNetError("keys without a cache (past_present_share_buffer) are not supported")
    k, v = (apart(g, x, use.number("num_heads")) for x in (k, v))
    starts = g.op("Reshape", g.op("Cast", count, dtype=_LONG, at="count"), shape=(1, 1), at="count")
    k, v = (_placed(g, old, new, starts) for old, new in ((past_key, k), (past_value, v)))
    room = g.shape(k)[2]
    keys = next((g.shape(x)[-1] for x in (mask, added) if x is not None and g.rank(x) > 1), room)
    if keys == room:
        unseen = g.op("_rminus_scalar", _seen(g, starts, 1, room, -1), scalar=1.0, at="unseen")
        unseen = g.op("Cast", unseen, dtype=g.dtype(q), at="unseen")
        low = g.op("_mul_scalar", unseen, scalar=float(np.finfo(np.float32).min), at="low")
        added = low if added is None else g.op("broadcast_add", low, added, at="added")
    first, last = (g.op("slice_axis", x, axis=2, begin=0, end=keys, at="used") for x in (k, v))
    return attended(g, use, q, first, last, mask, added), k, v


def _placed(g: Importer, old: Value, new: Value, place: Value) -> Value:
    """A cache of keys with a new one at its place."""
    room, shape = g.shape(old)[2], g.shape(old)
    places = g.constant(np.arange(room, dtype=np.int64).reshape(1, 1, room, 1))
    here = g.op("broadcast_equal", places, g.op("Reshape", place, shape=(1, 1, 1, 1)), at="here")
    return g.op("where", to_shape(g, here, shape), to_shape(g, new, shape), old, at="cache")
