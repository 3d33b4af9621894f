"""Readers of ONNX's attention and rotary embeddings."""

from __future__ import annotations

import numpy as np

from ...formats.onnx.tensors import dtype_of
from ..importer import Importer, Value
from ..use import Use
from .pointwise import as_number, broadcast_shape, to_shape
from .table import translates


@translates("Attention")
def attention(
    g: Importer,
    use: Use,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """softmax(q k + mask) v for every head.

    Results: the sums, keys and values including past ones, and a selected intermediate product."""
    is_flat = g.rank(q) == 3
    heads = use.number("q_num_heads"), use.number("kv_num_heads")
    if is_flat:
        q, k, v = (apart(g, x, n) for x, n in ((q, heads[0]), (k, heads[1]), (v, heads[1])))
    if past_key is not None and past_value is not None:
        k = g.op("Concat", past_key, k, num_args=2, dim=2, at="keys")
        v = g.op("Concat", past_value, v, num_args=2, dim=2, at="values")
    present = k, v
    times = g.shape(q)[1] // g.shape(k)[1]
    if times > 1:
        k, v = (g.op("repeat", x, repeats=times, axis=1, at="heads") for x in (k, v))
    scores = _scores(g, use, q, k)
    before = 0 if past_key is None else g.shape(past_key)[2]
    allowed, added = _masks(g, use, q, scores, mask, lengths, before)
    biased = scores if added is None else g.op("broadcast_add", scores, added, at="biased")
    weights = _weights(g, use, biased, allowed)
    made = _product(g, weights, v)
    if is_flat:
        n, h, s, d = g.shape(made)
        turned = g.op("transpose", made, axes=(0, 2, 1, 3), at="steps")
        made = g.op("Reshape", turned, shape=(n, s, h * d))
    chosen = (scores, scores, _with_infinity(g, biased, allowed), weights)
    return made, *present, chosen[use.number("qk_matmul_output_mode")]


def apart(g: Importer, x: Value, heads: int) -> Value:
    """(batch, steps, heads * size) as (batch, heads, steps, size)."""
    n, s, c = g.shape(x)
    apart = g.op("Reshape", x, shape=(n, s, heads, c // heads), at="heads")
    return g.op("transpose", apart, axes=(0, 2, 1, 3), at="rows")


def _product(g: Importer, a: Value, b: Value, transposed: bool = False) -> Value:
    """Product of the last two axes."""
    return g.op("batch_dot", a, b, transpose_b=transposed, at="product")


def _scores(g: Importer, use: Use, q: Value, k: Value) -> Value:
    scale = use.real("scale") or g.shape(q)[3] ** -0.5
    q, k = (g.op("_mul_scalar", x, scalar=float(np.sqrt(scale)), at="scaled") for x in (q, k))
    scores = _product(g, q, k, transposed=True)
    cap = use.real("softcap")
    if cap <= 0:
        return scores
    inner = g.op("tanh", g.op("_div_scalar", scores, scalar=cap, at="inner"), at="bounded")
    return g.op("_mul_scalar", inner, scalar=cap, at="capped")


def _masks(
    g: Importer,
    use: Use,
    q: Value,
    scores: Value,
    mask: Value | None,
    lengths: Value | None,
    before: int,
) -> tuple[Value | None, Value | None]:
    """Mask of visible keys for each query, as 1 and 0, and a term to add to the scores."""
    steps, keys = g.shape(scores)[2:]
    dtype = g.dtype(q)
    found = [_by_place(g, use, steps, keys, lengths, before, dtype)]
    if lengths is not None:
        places = g.constant(np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
        counts = g.op("Reshape", _wide(g, lengths), shape=(-1, 1, 1, 1), at="lengths")
        found.append(_less(g, places, counts, dtype))
    added = None
    if mask is not None:
        mask = _whole(g, mask, keys)
        if g.dtype(mask).kind == "b":
            found.append(g.op("Cast", as_number(g, mask), dtype=dtype, at="mask"))
        else:
            lowest = float(np.finfo(dtype).min)
            found.append(g.op("_greater_equal_scalar", mask, scalar=lowest, at="seen"))
            added = g.op("_maximum_scalar", mask, scalar=lowest, at="added")
    allowed = None
    for one in found:
        if one is not None:
            allowed = one if allowed is None else g.op("broadcast_mul", *_ranked(g, allowed, one))
    return allowed, added if added is None else _ranked(g, scores, added)[1]


def _ranked(g: Importer, a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands with equal numbers of axes."""
    rank = max(g.rank(a), g.rank(b))
    first, second = (
        x
        if g.rank(x) == rank
        else g.op("Reshape", x, shape=(1,) * (rank - g.rank(x)) + g.shape(x), at="rank")
        for x in (a, b)
    )
    return first, second


def _wide(g: Importer, x: Value) -> Value:
    return g.op("Cast", x, dtype=np.dtype("int64"), at="wide")


def _less(g: Importer, a: Value, b: Value, dtype: np.dtype) -> Value:
    return g.op("Cast", g.op("broadcast_lesser", a, b, at="less"), dtype=dtype, at="inside")


def _whole(g: Importer, mask: Value, keys: int) -> Value:
    """Mask extended to all keys: keys without a column are masked."""
    missing = keys - g.shape(mask)[-1]
    if missing <= 0:
        return mask
    shape = (*g.shape(mask)[:-1], missing)
    none = np.zeros(1, bool) if g.dtype(mask).kind == "b" else np.full(1, -np.inf, g.dtype(mask))
    dim = g.rank(mask) - 1
    return g.op("Concat", mask, g.filled(shape, none), num_args=2, dim=dim, at="mask")


def _by_place(
    g: Importer,
    use: Use,
    steps: int,
    keys: int,
    lengths: Value | None,
    before: int,
    dtype: np.dtype,
) -> Value | None:
    """Mask by positions of queries and keys: causal, and within the window."""
    left, right = use.number("left_window_size", -1), use.number("right_window_size", -1)
    right = 0 if use.number("is_causal") else right
    if left < 0 and right < 0:
        return None
    g.require_small(2 * steps * keys)
    distance = np.arange(keys)[None] - np.arange(steps)[:, None]  # distance from query to key
    if lengths is None or before:
        far = distance - before
        seen = np.ones(far.shape, bool)
        seen &= far <= right if right >= 0 else True
        seen &= -far <= left if left >= 0 else True
        return g.constant(seen.astype(dtype))
    counts = g.op("Reshape", _wide(g, lengths), shape=(-1, 1, 1, 1), at="count")
    first = g.op("_minus_scalar", counts, scalar=float(steps), at="first")
    far_ = g.op("broadcast_sub", g.constant(distance[None, None].astype(np.int64)), first, at="far")
    seen_ = None
    if right >= 0:
        seen_ = g.op("_lesser_equal_scalar", far_, scalar=float(right), at="behind")
    if left >= 0:
        near = g.op("_greater_equal_scalar", far_, scalar=-float(left), at="near")
        seen_ = near if seen_ is None else g.op("broadcast_mul", seen_, near, at="seen")
    assert seen_ is not None
    return g.op("Cast", seen_, dtype=dtype, at="seen")


def _chosen(g: Importer, x: Value, allowed: Value, number: float) -> Value:
    """``x`` where visible, a constant elsewhere."""
    shape = broadcast_shape(g.shape(x), g.shape(allowed))
    other = g.filled(shape, np.full(1, number, g.dtype(x)))
    return g.op("where", to_shape(g, allowed, shape), to_shape(g, x, shape), other, at="masked")


def _with_infinity(g: Importer, x: Value, allowed: Value | None) -> Value:
    return x if allowed is None else _chosen(g, x, allowed, -np.inf)


def _weights(g: Importer, use: Use, x: Value, allowed: Value | None) -> Value:
    """Softmax over the visible keys; 0 for a query without visible keys."""
    dtype = g.dtype(x)
    lowest = float(np.finfo(dtype).min)
    masked = x if allowed is None else _chosen(g, x, allowed, lowest)
    if "softmax_precision" in use:
        masked = g.op("Cast", masked, dtype=dtype_of(use.number("softmax_precision"), "it"))
    made = g.op("softmax", masked, axis=-1, at="weights")
    made = made if g.dtype(made) == dtype else g.op("Cast", made, dtype=dtype, at="rounded")
    return made if allowed is None else g.op("broadcast_mul", *_ranked(g, made, allowed))


@translates("RotaryEmbedding")
def rotary_embedding(
    g: Importer, use: Use, x: Value, cosines: Value, sines: Value, places: Value | None = None
) -> Value:
    """Pairs of elements of each head rotated by angles of their positions."""
    is_flat = g.rank(x) == 3
    heads = apart(g, x, use.number("num_heads")) if is_flat else x
    n, h, s, d = g.shape(heads)
    size, is_mixed = use.number("rotary_embedding_dim") or d, bool(use.number("interleaved"))
    turned = turned_heads(g, heads, cosines, sines, places, size, is_mixed)
    if not is_flat:
        return turned
    steps = g.op("transpose", turned, axes=(0, 2, 1, 3), at="steps")
    return g.op("Reshape", steps, shape=(n, s, h * d))


def turned_heads(
    g: Importer,
    heads: Value,
    cosines: Value,
    sines: Value,
    places: Value | None,
    size: int,
    is_mixed: bool,
) -> Value:
    """The first ``size`` elements of each head rotated; pairs are neighbours if ``is_mixed``."""
    _, _, s, d = g.shape(heads)
    if places is not None:
        cosines, sines = (g.op("take", t, places, axis=0, at="angles") for t in (cosines, sines))
    shape = (-1, 1, s, size // 2)
    cos, sin = (g.op("Reshape", t, shape=shape, at="turns") for t in (cosines, sines))
    turned = _rotated(g, heads, cos, sin, size, is_mixed)
    if size == d:
        return turned
    rest = g.op("slice_axis", heads, axis=3, begin=size, end=None, at="rest")
    return g.op("Concat", turned, rest, num_args=2, dim=3, at="whole")


def _rotated(g: Importer, x: Value, cos: Value, sin: Value, size: int, is_mixed: bool) -> Value:
    n, h, s, _ = g.shape(x)
    if is_mixed:
        parts = [(None, None, None, i) for i in range(2)]
        ends, step = [(None, None, None, size)] * 2, (1, 1, 1, 2)
    else:
        parts = [(None, None, None, i * size // 2) for i in range(2)]
        ends, step = [(None, None, None, (i + 1) * size // 2) for i in range(2)], (1, 1, 1, 1)
    first, second = (
        g.op("slice", x, begin=b, end=e, step=step, at="half") for b, e in zip(parts, ends)
    )
    products = [g.op("broadcast_mul", a, b, at="part") for a in (first, second) for b in (cos, sin)]
    real = g.op("broadcast_sub", products[0], products[3], at="real")
    imaginary = g.op("broadcast_add", products[1], products[2], at="imaginary")
    if not is_mixed:
        return g.op("Concat", real, imaginary, num_args=2, dim=3, at="turned")
    pairs = g.op("stack", real, imaginary, axis=4, num_args=2, at="pairs")
    return g.op("Reshape", pairs, shape=(n, h, s, size), at="turned")
