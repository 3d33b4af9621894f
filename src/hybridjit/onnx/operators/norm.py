"""Readers of ONNX's normalizations and softmax."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ..importer import Importer, Value
from ..use import Use
from .table import translates


@translates("BatchNormalization")
def batch_norm(
    g: Importer, use: Use, x: Value, scale: Value, b: Value, mean: Value, var: Value
) -> Value | tuple[Value, ...]:
    """Normalization by the moving statistics; in training mode by those of the data."""
    if use.number("training_mode"):
        return _batch_norm_trained(g, use, x, scale, b, (mean, var))
    return g.op(
        "BatchNorm",
        *(x, scale, b, mean, var),
        eps=use.real("epsilon", 1e-5),
        momentum=use.real("momentum", 0.9),
        fix_gamma=False,
        use_global_stats=True,
    )


def _batch_norm_trained(
    g: Importer, use: Use, x: Value, scale: Value, b: Value, moving: tuple[Value, Value]
) -> tuple[Value, ...]:
    """Normalization by the data's statistics, and the moved statistics, if they are read.

    PyTorch's exporter standardizes weights by it.
    """
    axes = (0, *range(2, g.rank(x)))
    normal, mean, var, _ = _standardized(g, x, axes, use.real("epsilon", 1e-5))
    scale, b = (_of_channels(g, v, g.rank(x)) for v in (scale, b))
    y = g.op("broadcast_add", g.op("broadcast_mul", normal, scale, at="scaled"), b)
    if len([o for o in use.outputs if o]) == 1:
        return (y,)
    momentum = use.real("momentum", 0.9)
    return (y, *(_moved(g, *pair, momentum) for pair in zip(moving, (mean, var))))


def _moved(g: Importer, old: Value, new: Value, momentum: float) -> Value:
    """old momentum + new (1 - momentum)"""
    kept = g.op("_mul_scalar", old, scalar=momentum, at="kept")
    part = g.op("_mul_scalar", new, scalar=1 - momentum, at="part")
    flat = g.op("Reshape", part, shape=(-1,), at="channels")
    return g.op("broadcast_add", kept, flat, at="moved")


def _standardized(
    g: Importer, x: Value, axes: tuple[int, ...], eps: float
) -> tuple[Value, Value, Value, Value]:
    """(x - mean) / deviation over axes; mean, variance and 1 / deviation, with keepdims."""
    mean = g.op("mean", x, axis=axes, keepdims=True, at="mean")
    centred = g.op("broadcast_sub", x, mean, at="centred")
    square = g.op("square", centred, at="square")
    var = g.op("mean", square, axis=axes, keepdims=True, at="variance")
    inverse = g.op("rsqrt", g.op("_plus_scalar", var, scalar=eps, at="eps"), at="inverse")
    return g.op("broadcast_mul", centred, inverse, at="normal"), mean, var, inverse


def _of_channels(g: Importer, x: Value, rank: int) -> Value:
    """A value for each channel, along axis 1."""
    return g.op("Reshape", x, shape=(1, -1, *(1,) * (rank - 2)), at="channels")


@translates("InstanceNormalization")
def instance_norm(g: Importer, use: Use, x: Value, scale: Value, b: Value) -> Value:
    """Normalization of each channel of each sample by its statistics."""
    return g.op("InstanceNorm", x, scale, b, eps=use.real("epsilon", 1e-5))


@translates("LayerNormalization")
def layer_norm(
    g: Importer, use: Use, x: Value, scale: Value, b: Value | None = None
) -> Value | tuple[Value, ...]:
    """Normalization by the statistics of the last axes, from ``axis`` on."""
    axis = use.number("axis", -1) % g.rank(x)
    if b is None:
        b = g.constant(np.zeros(g.shape(scale), g.dtype(scale)))
    eps = use.real("epsilon", 1e-5)
    if len([o for o in use.outputs if o]) == 1 and axis == g.rank(x) - 1 and g.rank(scale) == 1:
        return g.op("LayerNorm", x, scale, b, axis=-1, eps=eps)
    normal, mean, _, inverse = _standardized(g, x, tuple(range(axis, g.rank(x))), eps)
    scaled = g.op("broadcast_mul", normal, _behind(g, scale, g.rank(x)), at="scaled")
    return g.op("broadcast_add", scaled, _behind(g, b, g.rank(x))), mean, inverse


def _behind(g: Importer, x: Value, rank: int) -> Value:
    """``x`` with leading axes of size 1."""
    missing = rank - g.rank(x)
    return g.op("Reshape", x, shape=(1,) * missing + g.shape(x), at="rank") if missing else x


@translates("GroupNormalization")
def group_norm(g: Importer, use: Use, x: Value, scale: Value, b: Value) -> Value:
    """Normalization of groups of channels; before operator set 21 with a scale for each group."""
    groups, eps = use.number("num_groups", 1), use.real("epsilon", 1e-5)
    if use.opset < 21 and g.shape(scale) == (groups,):
        return g.op("GroupNorm", x, scale, b, num_groups=groups, eps=eps)
    g.require_small(groups)
    ones, zeros = (g.constant(np.full(groups, n, g.dtype(x))) for n in (1, 0))
    normal = g.op("GroupNorm", x, ones, zeros, num_groups=groups, eps=eps, at="normal")
    scale, b = (_of_channels(g, v, g.rank(x)) for v in (scale, b))
    return g.op("broadcast_add", g.op("broadcast_mul", normal, scale, at="scaled"), b)


@translates("RMSNormalization")
def rms_norm(g: Importer, use: Use, x: Value, scale: Value) -> Value:
    """Division by the root of the mean of squares of the last axes."""
    axes = tuple(range(use.number("axis", -1) % g.rank(x), g.rank(x)))
    mean = g.op("mean", g.op("square", x, at="square"), axis=axes, keepdims=True, at="mean")
    inverse = g.op("rsqrt", g.op("_plus_scalar", mean, scalar=use.real("epsilon", 1e-5)), at="root")
    return g.op(
        "broadcast_mul",
        g.op("broadcast_mul", x, inverse, at="normal"),
        _behind(g, scale, g.rank(x)),
    )


@translates("MeanVarianceNormalization")
def mean_variance(g: Importer, use: Use, x: Value) -> Value:
    """Subtraction of the mean, division by the standard deviation and 1e-9."""
    axes = use.ints("axes", (0, 2, 3))
    centred = g.op(
        "broadcast_sub", x, g.op("mean", x, axis=axes, keepdims=True, at="mean"), at="centred"
    )
    square = g.op("square", centred, at="square")
    spread = g.op(
        "sqrt", g.op("mean", square, axis=axes, keepdims=True, at="variance"), at="spread"
    )
    return g.op("broadcast_div", centred, g.op("_plus_scalar", spread, scalar=1e-9, at="eps"))


@translates("LRN")
def local_response(g: Importer, use: Use, x: Value) -> Value:
    """Normalization by the squares of neighbouring channels."""
    size = use.number("size", 1)
    alpha, beta, bias = use.real("alpha", 1e-4), use.real("beta", 0.75), use.real("bias", 1.0)
    if size % 2:
        return g.op("LRN", x, alpha=alpha, beta=beta, knorm=bias, nsize=size)
    return _even_response(g, x, size, (alpha, beta, bias))


def _even_response(g: Importer, x: Value, size: int, numbers: tuple[float, float, float]) -> Value:
    """Normalization by an even number of neighbouring channels, one more of which follow."""
    alpha, beta, bias = numbers
    shape = g.shape(x)
    ends = [g.filled((shape[0], n, *shape[2:]), np.zeros(1, g.dtype(x)))
            for n in (size // 2 - 1, size // 2) if n]  # fmt: skip
    square = g.op("square", x, at="square")
    parts = [*ends[:-1], square, ends[-1]]
    padded = g.op("Concat", *parts, num_args=len(parts), dim=1, at="padded")
    total = reduce(
        lambda a, b: g.op("broadcast_add", a, b, at="sum"),
        (g.op("slice_axis", padded, axis=1, begin=i, end=i + shape[1], at="one")
         for i in range(size)),
    )  # fmt: skip
    scaled = g.op("_mul_scalar", total, scalar=alpha / size, at="scaled")
    base = g.op("_plus_scalar", scaled, scalar=bias, at="base")
    return g.op("broadcast_div", x, g.op("_power_scalar", base, scalar=beta, at="power"))


@translates("LpNormalization")
def lp_norm(g: Importer, use: Use, x: Value) -> Value:
    """Division by the L1 or L2 norm along an axis; 0 remains 0."""
    axis, order = use.number("axis", -1), use.number("p", 2)
    size = g.op("norm", x, axis=(axis,), ord=order, keepdims=True, at="norm")
    empty = g.op("_equal_scalar", size, scalar=0.0, at="empty")
    return g.op("broadcast_div", x, g.op("broadcast_add", size, empty, at="nonzero"))


@translates("Softmax", "LogSoftmax")
def softmax(g: Importer, use: Use, x: Value) -> Value:
    """Softmax along one axis; before operator set 13 over all axes from ``axis`` on."""
    name = "softmax" if use.op_type == "Softmax" else "log_softmax"
    if use.opset >= 13:
        return g.op(name, x, axis=use.number("axis", -1))
    axis = use.number("axis", 1)
    if axis in (-1, g.rank(x) - 1):
        return g.op(name, x, axis=-1)
    shape = g.shape(x)
    rows = math.prod(shape[: axis % (len(shape) + 1)])
    flat = g.op("Reshape", x, shape=(rows, -1), at="flat")
    return g.op("Reshape", g.op(name, flat, axis=-1, at="rows"), shape=shape)


@translates("Hardmax")
def hardmax(g: Importer, use: Use, x: Value) -> Value:
    """1 at the first maximum along an axis, else 0; axes as in softmax."""
    shape = g.shape(x)
    axis = use.number("axis", -1 if use.opset >= 13 else 1) % len(shape)
    if use.opset < 13:
        x = g.op("Reshape", x, shape=(math.prod(shape[:axis]), -1), at="flat")
    last = axis if use.opset >= 13 else 1
    place = g.op("argmax", x, axis=last, at="place")
    hot = g.op("one_hot", place, depth=g.shape(x)[last], dtype=g.dtype(x), at="hot")
    rank = g.rank(x)
    order = list(range(rank - 1))
    order.insert(last, rank - 1)
    return g.op("Reshape", g.op("transpose", hot, axes=tuple(order), at="order"), shape=shape)
