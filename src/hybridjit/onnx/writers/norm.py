"""Writers of normalizations and softmax."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ..exporter import Exporter, Use, Value
from .table import writes


@writes("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
def batch_norm(
    g: Exporter, use: Use, x: Value, gamma: Value, beta: Value, mean: Value, var: Value
) -> Value:
    """Normalization by the moving statistics; ``fix_gamma`` is a scale of ones."""
    attrs = use.attrs
    if attrs["output_mean_var"]:
        raise MXNetError("has its statistics as results (output_mean_var), which is not supported")
    if attrs["fix_gamma"]:
        gamma = g.constant(np.ones(g.shape(beta), g.dtype(beta)))
    rank, axis = g.rank(x), attrs.get("axis", 1) % g.rank(x)
    with_relu = use.op.name.endswith("ReLU")
    order = [i for i in range(rank) if i != axis]
    order.insert(1, axis)
    is_first = axis == 1
    if not is_first:
        x = g.op("transpose", x, axes=tuple(order), at="first")
    last = "" if is_first and not with_relu else "norm"
    y = g.emit("BatchNormalization", x, gamma, beta, mean, var, at=last, epsilon=attrs["eps"])
    if not is_first:
        back = tuple(order.index(i) for i in range(rank))
        y = g.emit("Transpose", y, at="last" if with_relu else "", perm=back)
    return g.emit("Relu", y) if with_relu else y


@writes("LayerNorm")
def layer_norm(g: Exporter, use: Use, x: Value, gamma: Value, beta: Value) -> Value:
    """Normalization by the statistics along one axis, which is transposed to the last position."""
    attrs, rank = use.attrs, g.rank(x)
    if attrs["output_mean_var"]:
        raise MXNetError("has its statistics as results (output_mean_var), which is not supported")
    axis = attrs["axis"] % rank
    order = (*(i for i in range(rank) if i != axis), axis)
    is_last = axis == rank - 1
    if not is_last:
        x = g.op("transpose", x, axes=order, at="last")
    at = "" if is_last else "norm"
    y = g.emit("LayerNormalization", x, gamma, beta, at=at, axis=-1, epsilon=attrs["eps"])
    back = tuple(order.index(i) for i in range(rank))
    return y if is_last else g.emit("Transpose", y, perm=back)


@writes("InstanceNorm")
def instance_norm(g: Exporter, use: Use, x: Value, gamma: Value, beta: Value) -> Value:
    """Normalization of each channel of each sample by its statistics."""
    return g.emit("InstanceNormalization", x, gamma, beta, epsilon=use.attrs["eps"])


@writes("GroupNorm")
def group_norm(g: Exporter, use: Use, x: Value, gamma: Value, beta: Value) -> Value:
    """InstanceNormalization with groups as channels, then scale and shift."""
    attrs, rank = use.attrs, g.rank(x)
    if attrs["output_mean_var"]:
        raise MXNetError("has its statistics as results (output_mean_var), which is not supported")
    groups = attrs["num_groups"]
    rows = g.emit("Reshape", x, g.ints(0, groups, -1), at="groups")
    one, zero = (g.constant(np.full(groups, number, g.dtype(x))) for number in (1, 0))
    normal = g.emit("InstanceNormalization", rows, one, zero, at="normal", epsilon=attrs["eps"])
    shape = g.emit("Shape", x, at="shape")
    whole = g.emit("Reshape", normal, shape, at="whole", type=x.type)
    channels = (x.type.shape or ())[1]
    assert channels is not None
    scale, shift = (_per_channel(g, v, channels, rank) for v in (gamma, beta))
    return g.emit("Add", g.emit("Mul", whole, scale, at="scaled", type=x.type), shift)


def _per_channel(g: Exporter, x: Value, channels: int, rank: int) -> Value:
    """Values for groups or channels, as values for channels along axis 1."""
    (count,) = g.shape(x)
    if count != channels:
        x = g.op("repeat", x, repeats=channels // count, axis=0, at="each")
    return g.op("Reshape", x, shape=(channels, *(1,) * (rank - 2)), at="channels")


@writes("LRN")
def local_response(g: Exporter, use: Use, x: Value) -> Value:
    """Normalization by the squares of neighbouring channels; a matrix with axes of size 1 added,
    because ONNX Runtime takes four axes alone."""
    if g.rank(x) == 2:
        cells = g.emit("Unsqueeze", x, g.ints(2, 3), at="cells")
        return g.emit("Squeeze", _local_response(g, use, cells, "near"), g.ints(2, 3))
    return _local_response(g, use, x, "")


def _local_response(g: Exporter, use: Use, x: Value, at: str) -> Value:
    attrs = use.attrs
    return g.emit(
        "LRN",
        x,
        at=at,
        alpha=attrs["alpha"],
        beta=attrs["beta"],
        bias=attrs["knorm"],
        size=attrs["nsize"],
    )


@writes("L2Normalization")
def l2_normalization(g: Exporter, use: Use, x: Value) -> Value:
    """Division by the root of the sum of squares and eps, over all axes, channels or cells."""
    rank = g.rank(x)
    axes = {"channel": (1,), "spatial": tuple(range(2, rank))}.get(
        use.attrs["mode"], tuple(range(1, rank))
    )
    total = g.emit("ReduceSumSquare", x, at="squares", axes=axes, keepdims=1)
    root = g.emit("Sqrt", g.emit("Add", total, g.like(x, use.attrs["eps"]), at="eps"), at="root")
    return g.emit("Div", x, root)


@writes("softmax", "log_softmax", "softmin")
def softmax(g: Exporter, use: Use, x: Value, *length: Value) -> Value:
    """Softmax along one axis, with a temperature, over the first elements if lengths are given."""
    attrs, name = use.attrs, use.op.name
    axis = attrs["axis"] % g.rank(x)
    result = use.types[0].dtype
    if result is not None and result.itemsize > g.dtype(x).itemsize:
        x = g.cast(x, result, "wide")
    if name == "softmin":
        x = g.emit("Neg", x, at="negative", type=x.type)
    if attrs["temperature"] not in (None, 1.0):
        x = g.emit("Div", x, g.like(x, attrs["temperature"]), at="heat", type=x.type)
    if length:
        return _of_lengths(g, use, x, length[0], axis)
    kind = "LogSoftmax" if name == "log_softmax" else "Softmax"
    if result == g.dtype(x):
        return g.emit(kind, x, axis=axis)
    return g.cast(g.emit(kind, x, at="wide", axis=axis, type=x.type), result or g.dtype(x), "")


def _of_lengths(g: Exporter, use: Use, x: Value, length: Value, axis: int) -> Value:
    """Softmax with lengths: elements beyond a length have no effect, and their results are 0."""
    if use.op.name == "log_softmax":
        raise MXNetError("has lengths, which are supported for softmax only")
    size = g.size(x.type, axis)
    shape = tuple(size if i == axis else 1 for i in range(g.rank(x)))
    place = g.constant(np.arange(size).astype(g.dtype(length)).reshape(shape))
    limit = g.emit("Unsqueeze", length, g.ints(axis), at="length")
    inside = g.emit("Less", place, limit, at="inside")
    lowest = g.like(x, float(np.finfo(g.dtype(x)).min))
    kept = g.emit("Where", inside, x, lowest, at="kept", type=x.type)
    made = g.emit("Softmax", kept, at="whole", axis=axis, type=x.type)
    return g.emit("Where", inside, made, g.like(x, 0.0))
