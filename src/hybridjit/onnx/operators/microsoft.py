"""Readers of ONNX Runtime's fused operators, which its optimizers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .matrix import gemm, matmul
from .norm import layer_norm, rms_norm
from .pointwise import tanh_gelu
from .table import MICROSOFT, translates
from .windows import convolution

# Pointwise


def plus(g: Importer, x: Value, *others: Value | None) -> Value:
    """Sum of the operands that are present."""
    for other in others:
        if other is not None:
            x = g.op("broadcast_add", x, other, at="sum")
    return x


@translates(MICROSOFT + "FastGelu")
def fast_gelu(g: Importer, use: Use, x: Value, bias: Value | None = None) -> Value:
    """Approximation of gelu by tanh, of the sum with a bias."""
    return tanh_gelu(g, plus(g, x, bias))


@translates(MICROSOFT + "BiasGelu")
def bias_gelu(g: Importer, use: Use, x: Value, bias: Value) -> Value:
    """Gelu of the sum with a bias."""
    return g.op("LeakyReLU", plus(g, x, bias), act_type="gelu")


@translates(MICROSOFT + "QuickGelu")
def quick_gelu(g: Importer, use: Use, x: Value) -> Value:
    """x times sigmoid(alpha * x)."""
    scaled = g.op("_mul_scalar", x, scalar=use.real("alpha", 1.702), at="scaled")
    return g.op("broadcast_mul", x, g.op("sigmoid", scaled, at="gate"))


@translates(MICROSOFT + "BiasSplitGelu")
def bias_split_gelu(g: Importer, use: Use, x: Value, bias: Value) -> Value:
    """First half of the last axis times gelu of the second."""
    whole = plus(g, x, bias)
    first, second = _halves(g, whole, 2)
    return g.op("broadcast_mul", first, g.op("LeakyReLU", second, act_type="gelu", at="gelu"))


@translates(MICROSOFT + "BiasAdd")
def bias_add(g: Importer, use: Use, x: Value, bias: Value, skip: Value) -> Value:
    """Sum of the three operands."""
    return plus(g, x, bias, skip)


@translates(MICROSOFT + "BiasDropout")
def bias_dropout(
    g: Importer, use: Use, x: Value, bias: Value, residual: Value | None = None, *others: Value
) -> Value:
    """Sum; inference drops no elements."""
    return plus(g, x, bias, residual)


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
    return _activated(g, use, plus(g, convolution(g, use, x, w, b), z))


@translates(MICROSOFT + "FusedGemm")
def fused_gemm(g: Importer, use: Use, a: Value, b: Value, c: Value | None = None) -> Value:
    """Product with a bias, and an activation."""
    return _activated(g, use, gemm(g, use, a, b, c))


@translates(MICROSOFT + "FusedMatMul", MICROSOFT + "TransposeMatMul")
def fused_matmul(g: Importer, use: Use, a: Value, b: Value) -> Value:
    """alpha times the product, with either or both operands transposed."""
    a = _turned(g, a, use.number("transA"), use.number("transBatchA"))
    b = _turned(g, b, use.number("transB"), use.number("transBatchB"))
    alpha = use.real("alpha", 1.0)
    if alpha != 1:
        a = g.op("_mul_scalar", a, scalar=alpha, at="alpha")
    return matmul(g, use, a, b)


def _turned(g: Importer, x: Value, is_turned: int, is_batch_last: int) -> Value:
    """An operand as a matrix for each batch: its last two axes exchanged, if requested; or its
    first axis, after which the batch follows, in the last place but one before. Vectors remain.
    """
    axes = [*range(g.rank(x))]
    if len(axes) < 2:
        return x
    if is_batch_last:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if is_turned:
        axes[-2:] = reversed(axes[-2:])
    return g.op("transpose", x, axes=tuple(axes), at="turned") if axes != sorted(axes) else x


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
    total = plus(g, x, skip if g.rank(skip) == g.rank(x) else _leading(g, skip, x), bias)
    made = layer_norm(g, _only_first(use), total, gamma, beta)
    return [made if isinstance(made, Value) else made[0], *_no_statistics(use), total]


@translates(MICROSOFT + "SkipSimplifiedLayerNormalization")
def skip_simplified_layer_norm(
    g: Importer, use: Use, x: Value, skip: Value, gamma: Value, bias: Value | None = None
) -> Sequence[Value | None]:
    """Division of a sum by the root of its mean square."""
    total = plus(g, x, skip if g.rank(skip) == g.rank(x) else _leading(g, skip, x), bias)
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
        total = plus(g, total, g.op("expand_dims", places, axis=0, at="places"))
    else:
        total = plus(g, total, g.op("take", positions, position_ids, axis=0, at="places"))
    if segments is not None and kinds is not None:
        total = plus(g, total, g.op("take", kinds, segments, axis=0, at="kinds"))
    made = layer_norm(g, _only_first(use), total, gamma, beta)
    counts = None
    if len(use.outputs) > 1 and use.outputs[1]:
        whole = np.dtype("int32")
        counts = g.constant(np.zeros(batch, whole))
        if mask is not None:
            counts = g.op("Cast", g.op("sum", mask, axis=(1,), at="count"), dtype=whole, at="seen")
    return [made if isinstance(made, Value) else made[0], counts, total]
