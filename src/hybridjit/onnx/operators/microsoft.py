"""Readers of ONNX Runtime's fused operators, which its optimizers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .attention import apart
from .matrix import gemm, matmul
from .norm import layer_norm, rms_norm
from .pointwise import as_number, tanh_gelu, to_shape
from .table import KNOWN, MICROSOFT, translates
from .windows import convolution

# Pointwise


def _plus(g: Importer, x: Value, *others: Value | None) -> Value:
    """Sum of the operands that are present."""
    for other in others:
        if other is not None:
            x = g.op("broadcast_add", x, other, at="sum")
    return x


@translates(MICROSOFT + "FastGelu")
def fast_gelu(g: Importer, use: Use, x: Value, bias: Value | None = None) -> Value:
    """Approximation of gelu by tanh, of the sum with a bias."""
    return tanh_gelu(g, _plus(g, x, bias))


@translates(MICROSOFT + "BiasGelu")
def bias_gelu(g: Importer, use: Use, x: Value, bias: Value) -> Value:
    """Gelu of the sum with a bias."""
    return g.op("LeakyReLU", _plus(g, x, bias), act_type="gelu")


@translates(MICROSOFT + "QuickGelu")
def quick_gelu(g: Importer, use: Use, x: Value) -> Value:
    """x times sigmoid(alpha * x)."""
    scaled = g.op("_mul_scalar", x, scalar=use.real("alpha", 1.702), at="scaled")
    return g.op("broadcast_mul", x, g.op("sigmoid", scaled, at="gate"))


@translates(MICROSOFT + "BiasSplitGelu")
def bias_split_gelu(g: Importer, use: Use, x: Value, bias: Value) -> Value:
    """First half of the last axis times gelu of the second."""
    whole = _plus(g, x, bias)
    first, second = _halves(g, whole, 2)
    return g.op("broadcast_mul", first, g.op("LeakyReLU", second, act_type="gelu", at="gelu"))


@translates(MICROSOFT + "BiasAdd")
def bias_add(g: Importer, use: Use, x: Value, bias: Value, skip: Value) -> Value:
    """Sum of the three operands."""
    return _plus(g, x, bias, skip)


@translates(MICROSOFT + "BiasDropout")
def bias_dropout(
    g: Importer, use: Use, x: Value, bias: Value, residual: Value | None = None, *others: Value
) -> Value:
    """Sum; inference drops no elements."""
    return _plus(g, x, bias, residual)


def _halves(g: Importer, x: Value, count: int) -> Sequence[Value]:
    return g.outputs("SliceChannel", x, num_outputs=count, axis=g.rank(x) - 1, at="part")


@translates(MICROSOFT + "ExpandDims")
def expand_dims(g: Importer, use: Use, x: Value, axis: Value) -> Value:
    """Array with a new axis."""
    return g.op("expand_dims", x, axis=g.ints(axis, "axis")[0])


@translates(MICROSOFT + "Inverse")
def inverse(g: Importer, use: Use, x: Value) -> Value:
    """Inverse of each matrix."""
    return g.op("_linalg_inverse", x)


# Activations of other operators


def _activated(g: Importer, use: Use, x: Value) -> Value:
    """The activation that attributes select; FusedConv has its parameters in one list."""
    name = use.text("activation")
    numbers = use.reals("activation_params")
    if not numbers:
        keys = ("activation_alpha", "activation_beta", "activation_gamma")
        numbers = tuple(use.real(key) for key in keys if key in use)
    if not name:
        return x
    if name == "Clip":
        low, high = numbers
        return g.op("clip", x, a_min=low, a_max=high, at="activation")
    if name == "LeakyRelu":
        slope = numbers[0] if numbers else 0.01
        return g.op("LeakyReLU", x, act_type="leaky", slope=slope, at="activation")
    if name == "HardSigmoid":
        alpha, beta = numbers or (0.2, 0.5)
        return g.op("hard_sigmoid", x, alpha=alpha, beta=beta, at="activation")
    simple = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
    if name not in simple:
        raise MXNetError(
            f"its activation '{name}' is not supported; {', '.join(simple)} and others are"
        )
    return g.op(simple[name], x, at="activation")


@translates(MICROSOFT + "FusedConv")
def fused_conv(
    g: Importer, use: Use, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Value:
    """Convolution, addition of another operand, activation."""
    return _activated(g, use, _plus(g, convolution(g, use, x, w, b), z))


@translates(MICROSOFT + "FusedGemm")
def fused_gemm(g: Importer, use: Use, a: Value, b: Value, c: Value | None = None) -> Value:
    """Product with a bias, and an activation."""
    return _activated(g, use, gemm(g, use, a, b, c))


@translates(MICROSOFT + "FusedMatMul", MICROSOFT + "TransposeMatMul")
def fused_matmul(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """alpha times the product, with either or both operands transposed."""
    for side in ("transBatchA", "transBatchB"):
        if use.number(side):
            raise MXNetError(f"{side} permutes batch axes, which is not supported")
    if use.number("transA"):
        a = _transposed(g, a)
    if use.number("transB"):
        b = _transposed(g, b)
    alpha = use.real("alpha", 1.0)
    if alpha != 1:
        a = g.op("_mul_scalar", a, scalar=alpha, at="alpha")
    return matmul(g, use, a, b)


def _transposed(g: Importer, x: Value) -> Value:
    """Transpose of the last two axes; vectors remain."""
    rank = g.rank(x)
    if rank < 2:
        return x
    return g.op("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2), at="turned")


# Normalisations


class _Defaults(Use):
    """Use with other attribute defaults."""

    def __init__(self, use: Use, **defaults: float) -> None:
        self.__dict__.update(vars(use))
        self._defaults = defaults

    def real(self, name: str, default: float = 0.0) -> float:
        return super().real(name, self._defaults.get(name, default))


@translates("SimplifiedLayerNormalization", MICROSOFT + "SimplifiedLayerNormalization")
def simplified_layer_norm(g: Importer, use: Use, x: Value, scale: Value) -> Value:
    """Division by the root of the mean of squares."""
    return rms_norm(g, use, x, scale)


@translates(MICROSOFT + "SkipLayerNormalization")
def skip_layer_norm(
    g: Importer,
    use: Use,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
) -> Sequence[Value | None]:
    """Normalization of a sum, which is the last result."""
    total = _plus(g, x, skip if g.rank(skip) == g.rank(x) else _leading(g, skip, x), bias)
    made = layer_norm(g, _only_first(use), total, gamma, beta)
    return [made if isinstance(made, Value) else made[0], *_no_statistics(use), total]


@translates(MICROSOFT + "SkipSimplifiedLayerNormalization")
def skip_simplified_layer_norm(
    g: Importer, use: Use, x: Value, skip: Value, gamma: Value, bias: Value | None = None
) -> Sequence[Value | None]:
    """Division of a sum by the root of its mean square."""
    total = _plus(g, x, skip if g.rank(skip) == g.rank(x) else _leading(g, skip, x), bias)
    made = rms_norm(g, _Defaults(use, epsilon=1e-12), total, gamma)
    return [made, *_no_statistics(use), total]


def _only_first(use: Use) -> Use:
    """Use with its first result only."""
    only = _Defaults(use, epsilon=1e-12)
    only.outputs = use.outputs[:1]
    return only


def _no_statistics(use: Use) -> tuple[None, None]:
    """Mean and deviation, which only training reads."""
    if any(use.outputs[1:3]):
        raise MXNetError("its results 'mean' and 'inv_std_var' are for training and not supported")
    return None, None


def _leading(g: Importer, x: Value, like: Value) -> Value:
    """``x`` with leading axes of size 1."""
    missing = g.rank(like) - g.rank(x)
    return g.op("Reshape", x, shape=(1,) * missing + g.shape(x), at="rank")


@translates(MICROSOFT + "EmbedLayerNormalization")
def embed_layer_norm(
    g: Importer,
    use: Use,
    ids: Value,
    segments: Value | None,
    words: Value,
    positions: Value,
    kinds: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
) -> Sequence[Value | None]:
    """Embeddings of tokens, positions and segments, and the count of visible tokens."""
    batch, steps = g.shape(ids)
    total = g.op("take", words, ids, axis=0, at="words")
    if position_ids is None:
        places = g.op("slice_axis", positions, axis=0, begin=0, end=steps, at="places")
        total = _plus(g, total, g.op("expand_dims", places, axis=0, at="places"))
    else:
        total = _plus(g, total, g.op("take", positions, position_ids, axis=0, at="places"))
    if segments is not None and kinds is not None:
        total = _plus(g, total, g.op("take", kinds, segments, axis=0, at="kinds"))
    made = layer_norm(g, _only_first(use), total, gamma, beta)
    counts = None
    if len(use.outputs) > 1 and use.outputs[1]:
        whole = np.dtype("int32")
        counts = g.constant(np.zeros(batch, whole))
        if mask is not None:
            counts = g.op("Cast", g.op("sum", mask, axis=(1,), at="count"), dtype=whole, at="seen")
    return [made if isinstance(made, Value) else made[0], counts, total]


# Attention


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
    heads, total = use.number("num_heads"), g.shape(weights)[1]
    sizes = use.ints("qkv_hidden_sizes") or (total // 3,) * 3
    whole = matmul(g, use, x, weights)
    whole = whole if bias is None else _plus(g, whole, bias)
    ends = np.cumsum(sizes).tolist()
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
    made = _attended(g, use, q, k, v, mask, added)
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
        q, k, v = _biased(g, q, k, v, bias)
    q, k, v = (x if g.rank(x) == 4 else apart(g, x, heads) for x in (q, k, v))
    k, v = _behind(g, past_key, k), _behind(g, past_value, v)
    return [_attended(g, use, q, k, v, mask, added), k, v]


def _unpacked(g: Importer, x: Value) -> list[Value]:
    """(batch, steps, heads, parts, size) as parts of (batch, steps, heads * size)."""
    n, s, h, count, size = g.shape(x)
    parts = g.outputs("SliceChannel", x, num_outputs=count, axis=3, squeeze_axis=True, at="part")
    return [g.op("Reshape", part, shape=(n, s, h * size), at="part") for part in parts]


def _biased(g: Importer, q: Value, k: Value, v: Value, bias: Value) -> list[Value]:
    """Addition of each part of the bias; keys and values of cross-attention have theirs already."""
    made, end = [], 0
    for x in (q, k, v):
        if g.rank(x) == 4:
            made.append(x)
            continue
        begin, end = end, end + g.shape(x)[2]
        part = g.op("slice_axis", bias, axis=0, begin=begin, end=end, at="bias")
        made.append(_plus(g, x, part))
    return made


def _attended(
    g: Importer, use: Use, q: Value, k: Value, v: Value, mask: Value | None, added: Value | None
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
    if count not in (n, 2 * n):
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
