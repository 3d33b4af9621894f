"""Readers of ONNX's operators on sequences with a state or a cache."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .attention import apart
from .picking import put_rows
from .table import translates

_SINGLE = np.dtype("float32")


@translates("LinearAttention")
def linear_attention(
    g: Importer,
    use: Use,
    q: Value,
    k: Value,
    v: Value,
    past: Value | None = None,
    decay: Value | None = None,
    beta: Value | None = None,
) -> tuple[Value, Value]:
    """Linear attention: q times a state that decays and to which k v is added, step by step."""
    heads, groups = use.number("q_num_heads"), use.number("kv_num_heads")
    batch, steps, width = g.shape(q)
    size = width // heads
    dtype = g.dtype(q)
    rule = use.text("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise MXNetError(
            f"update_rule '{rule}' is not supported; linear, gated, delta and gated_delta are"
        )
    queries = _steps(g, q, heads)
    keys, values = _steps(g, k, groups), _steps(g, v, groups)
    width = g.shape(v)[2] // groups
    state = _first_state(g, past, (batch * groups, size, width))
    decays = _steps(g, decay, groups) if decay is not None and "gated" in rule else None
    rates = _rates(g, beta, groups) if beta is not None and "delta" in rule else None
    g.spend_steps(10 * steps)
    rows = []
    for i in range(steps):
        if decays is not None:
            factor = g.op("exp", _column(g, decays[i]), at="decay")
            state = g.op("broadcast_mul", state, factor, at="decayed")
        key, new = keys[i], values[i]
        if rates is not None:
            known = g.op("batch_dot", key, state, at="known")
            new = g.op("broadcast_sub", new, known, at="new")
            new = g.op("broadcast_mul", new, rates[i], at="rated")
        written = g.op("batch_dot", key, new, transpose_a=True, at="written")
        state = g.op("elemwise_add", state, written, at="state")
        asked = g.op("Reshape", queries[i], shape=(batch * groups, heads // groups, size), at="q")
        rows.append(g.op("batch_dot", asked, state, at="read"))
    whole = g.op("stack", *rows, axis=1, num_args=steps, at="rows") if steps > 1 else rows[0]
    parts = g.op("Reshape", whole, shape=(batch, groups, steps, heads // groups, width), at="parts")
    turned = g.op("transpose", parts, axes=(0, 2, 1, 3, 4), at="steps")
    flat = g.op("Reshape", turned, shape=(batch, steps, heads * width), at="flat")
    scale = use.real("scale") or size**-0.5
    made = _rounded(g, g.op("_mul_scalar", flat, scalar=scale, at="scaled"), dtype)
    last = g.op("Reshape", state, shape=(batch, groups, size, width), at="present")
    return made, _rounded(g, last, dtype if past is None else g.dtype(past))


def _single(g: Importer, x: Value) -> Value:
    return x if g.dtype(x) == _SINGLE else g.op("Cast", x, dtype=_SINGLE, at="single")


def _rounded(g: Importer, x: Value, dtype: np.dtype) -> Value:
    return g.op("identity", x) if dtype == _SINGLE else g.op("Cast", x, dtype=dtype)


def _first_state(g: Importer, past: Value | None, shape: tuple[int, ...]) -> Value:
    if past is None:
        return g.filled(shape, np.zeros(1, _SINGLE))
    return g.op("Reshape", _single(g, past), shape=shape, at="past")


def _steps(g: Importer, x: Value, heads: int) -> list[Value]:
    """(batch, steps, heads * size) as a matrix (batch * heads, 1, size) for each step."""
    batch, steps, width = g.shape(x)
    if width % heads:
        raise MXNetError(f"the width {width} of each step is not divisible by {heads} heads")
    turned = apart(g, _single(g, x), heads)
    rows = g.op("Reshape", turned, shape=(batch * heads, steps, width // heads), at="rows")
    if steps == 1:
        return [rows]
    return list(g.outputs("SliceChannel", rows, num_outputs=steps, axis=1, at="steps"))


def _rates(g: Importer, beta: Value, heads: int) -> list[Value]:
    """Rate for each head and step; a single rate applies to all heads."""
    if g.shape(beta)[2] == 1 and heads > 1:
        beta = g.op("repeat", beta, repeats=heads, axis=2, at="heads")
    return _steps(g, beta, heads)


def _column(g: Importer, x: Value) -> Value:
    """(rows, 1, size) as (rows, size, 1)."""
    return g.op("SwapAxis", x, dim1=1, dim2=2, at="column")


@translates("CausalConvWithState")
def causal_convolution(
    g: Importer,
    use: Use,
    x: Value,
    w: Value,
    b: Value | None = None,
    past: Value | None = None,
) -> tuple[Value, Value]:
    """Convolution of each channel with a filter over this and earlier steps, and the last steps."""
    batch, channels, length = g.shape(x)
    width = g.shape(w)[2]
    if past is None:
        past = g.filled((batch, channels, width - 1), np.zeros(1, g.dtype(x)))
    whole = g.op("Concat", past, x, num_args=2, dim=2, at="steps") if width > 1 else x
    given = (whole, w) if b is None else (whole, w, b)
    size: dict[str, int] = {"num_filter": channels, "num_group": channels}
    made = g.op("Convolution", *given, kernel=(width,), no_bias=b is None, at="conv", **size)
    activation = use.text("activation", "none")
    if activation in ("silu", "swish"):
        made = g.op("broadcast_mul", made, g.op("sigmoid", made, at="gate"), at="silu")
    elif activation != "none":
        raise MXNetError(f"activation '{activation}' is not supported; silu, swish and none are")
    if width == 1:
        return made, past
    return made, g.op("slice_axis", whole, axis=2, begin=length, end=None, at="last")


@translates("TensorScatter")
def tensor_scatter(
    g: Importer, use: Use, past: Value, update: Value, places: Value | None = None
) -> Value:
    """Cache with new steps of each sample written from its index on."""
    shape = g.shape(past)
    axis = use.number("axis", -2) % len(shape)
    size, steps, batch = shape[axis], g.shape(update)[axis], shape[0]
    if not axis:
        raise MXNetError("axis 0 is the batch axis, which is not allowed")
    inner = shape[1:axis]
    count = int(np.prod(inner, dtype=np.int64))
    g.require_small(batch * count * steps)
    start = places or g.constant(np.zeros(batch, np.int64))
    start = g.op("Cast", start, dtype=np.dtype("int64"), at="start")
    steps_ = g.constant(np.arange(steps).reshape(1, 1, steps))
    place = g.op("broadcast_add", g.op("Reshape", start, shape=(batch, 1, 1)), steps_, at="place")
    if use.text("mode", "linear") == "circular":
        place = g.op("_mod_scalar", place, scalar=float(size), at="around")
    lines = np.arange(batch * count).reshape(batch, count, 1) * size
    flat = g.op("broadcast_add", place, g.constant(lines), at="line")
    flat = g.op("Reshape", flat, shape=(-1,), at="flat")
    return put_rows(g, past, flat, update, shape[axis + 1 :])
