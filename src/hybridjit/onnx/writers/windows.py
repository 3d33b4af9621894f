"""Writers of convolutions, pooling and changes of resolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..._core.types import UNKNOWN, Shape, TensorType, is_known_shape, product
from ...ops.nn.deconvolution import output_axes
from ...ops.nn.window_geometry import is_channel_last, window_of
from ...ops.rules import spatial
from ..exporter import Exporter, Use, Value
from .table import writes


def channels_first(
    g: Exporter, x: Value, is_last: bool, write: Callable[[Value, str], Value]
) -> Value:
    """Result of ``write(x, at)`` for ``x`` with channels on axis 1, transposed back."""
    if not is_last:
        return write(x, "")
    rank = g.rank(x)
    first = g.op("transpose", x, axes=(0, rank - 1, *range(1, rank - 1)), at="first")
    made = write(first, "made")
    return g.emit("Transpose", made, perm=(0, *range(2, rank), 1))


def _pixels(g: Exporter, type: TensorType, rank: int, is_last: bool) -> Shape:
    """Sizes of the axes of windows. Raises ShapeError if one of them is symbolic."""
    first = 1 if is_last else 2
    return tuple(g.size(type, axis) for axis in range(first, first + rank))


@writes("Convolution", "Convolution_v1")
def convolution(g: Exporter, use: Use, x: Value, w: Value, *bias: Value) -> Value:
    """Convolution with equal padding on both sides."""
    attrs = use.attrs
    window = window_of(attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"])
    is_last = is_channel_last(attrs["layout"], window.rank)
    if is_last:
        rank = g.rank(w)
        w = g.op("transpose", w, axes=(0, rank - 1, *range(1, rank - 1)), at="weight")

    def write(x: Value, at: str) -> Value:
        return g.emit(
            "Conv",
            *(x, w, *bias),
            at=at,
            kernel_shape=window.kernel,
            strides=window.stride,
            dilations=window.dilate,
            pads=(*window.pad, *window.pad),
            group=attrs["num_group"],
        )

    return channels_first(g, x, is_last, write)


@writes("Deconvolution")
def deconvolution(g: Exporter, use: Use, x: Value, w: Value, *bias: Value) -> Value:
    """Transposed convolution; a target shape is converted to padding."""
    attrs = use.attrs
    window = window_of(attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"])
    is_last = is_channel_last(attrs["layout"], window.rank)
    if is_last:
        rank = g.rank(w)
        w = g.op("transpose", w, axes=(0, rank - 1, *range(1, rank - 1)), at="weight")
    adj = spatial(attrs["adj"], window.rank, 0, "adj")
    pad: tuple[int, ...] = window.pad
    if any(attrs["target_shape"]):
        sizes = _pixels(g, x.type, window.rank, is_last)
        axes = output_axes(window, sizes, attrs["adj"], attrs["target_shape"])
        pad = tuple(crop for _, crop in axes)
        full = [s * (n - 1) + w for s, n, w in zip(window.stride, sizes, window.spans)]
        adj = tuple(int(o or 0) - f + 2 * p for (o, _), f, p in zip(axes, full, pad))

    def write(x: Value, at: str) -> Value:
        return g.emit(
            "ConvTranspose",
            *(x, w, *bias),
            at=at,
            kernel_shape=window.kernel,
            strides=window.stride,
            dilations=window.dilate,
            pads=(*pad, *pad),
            output_padding=adj,
            group=attrs["num_group"],
        )

    return channels_first(g, x, is_last, write)


@writes("Pooling", "Pooling_v1")
def pooling(g: Exporter, use: Use, x: Value) -> Value:
    """Maximum, average, sum or p-norm of windows, or of all cells of a channel."""
    rank = g.rank(x) - 2
    is_last = is_channel_last(use.attrs.get("layout"), rank)

    def write(x: Value, at: str) -> Value:
        if use.attrs["global_pool"]:
            return _global(g, use, x, at)
        return _windows(g, use, x, at)

    return channels_first(g, x, is_last, write)


def _global(g: Exporter, use: Use, x: Value, at: str) -> Value:
    kind = use.attrs["pool_type"]
    if kind == "sum":
        axes = g.ints(*range(2, g.rank(x)))
        return g.emit("ReduceSum", x, axes, at=at, keepdims=1)
    if kind == "lp":
        return g.emit("GlobalLpPool", x, at=at, p=use.attrs["p_value"])
    return g.emit("GlobalAveragePool" if kind == "avg" else "GlobalMaxPool", x, at=at)


def _windows(g: Exporter, use: Use, x: Value, at: str) -> Value:
    """Pooling windows; cells beyond the padding are added explicitly and excluded from means."""
    attrs = use.attrs
    rank = g.rank(x) - 2
    kernel = attrs["kernel"]
    stride = spatial(attrs["stride"], rank, 1, "stride")
    pad = spatial(attrs["pad"], rank, 0, "pad")
    kind = attrs["pool_type"]
    ends = pad if attrs["pooling_convention"] == "valid" else _ends(g, use, x, kernel, stride, pad)
    counts = use.op.name == "Pooling_v1" or attrs.get("count_include_pad") is not False
    if kind == "sum" and use.op.name == "Pooling":
        return _sums(g, x, kernel, stride, (*pad, *ends), at)
    if use.op.name == "Pooling_v1" or (kind == "avg" and counts and ends != pad):
        x = _around(g, x, pad, pad, 0.0)
        ends, pad = tuple(e - p for e, p in zip(ends, pad)), (0,) * rank
    beyond = any(e >= k for e, k in zip(ends, kernel))  # ONNX Runtime does not allow more
    if beyond and kind == "max":
        x = _around(g, x, pad, ends, float(np.finfo(g.dtype(x)).min))
        pad = ends = (0,) * rank
    shape = {"kernel_shape": kernel, "strides": stride, "pads": (*pad, *ends)}
    if kind == "max":
        return g.emit("MaxPool", x, at=at, **shape)
    if kind == "lp":
        return g.emit("LpPool", x, at=at, p=attrs["p_value"], **shape)
    if kind == "avg":
        included = int(counts and not any(e > p for e, p in zip(ends, pad)))
        if use.op.name == "Pooling_v1":
            included = 1
        return g.emit("AveragePool", x, at=at, count_include_pad=included, **shape)
    mean = g.emit("AveragePool", x, at="mean", count_include_pad=1, **shape)
    return g.emit("Mul", mean, g.like(x, float(product(kernel))), at=at)


def _sums(
    g: Exporter, x: Value, kernel: Shape, stride: Sequence[int], pads: Sequence[int], at: str
) -> Value:
    """Sum pooling, as a convolution of each channel with ones."""
    channels = (x.type.shape or ())[1]
    assert channels is not None
    ones = g.constant(np.ones((channels, 1, *kernel), g.dtype(x)))
    return g.emit(
        *("Conv", x, ones), at=at, kernel_shape=kernel, strides=stride, pads=pads, group=channels
    )


def _ends(
    g: Exporter,
    use: Use,
    x: Value,
    kernel: Shape,
    stride: Sequence[int],
    pad: Sequence[int],
) -> tuple[int, ...]:
    """Cells after each axis that the last window needs."""
    rank = len(kernel)
    sizes = _pixels(g, x.type, rank, False)
    out = _pixels(g, use.types[0], rank, is_channel_last(use.attrs.get("layout"), rank))
    return tuple(
        max((o - 1) * s + k - n - p, 0) for o, s, k, n, p in zip(out, stride, kernel, sizes, pad)
    )


def _around(
    g: Exporter, x: Value, begin: Sequence[int], end: Sequence[int], number: float
) -> Value:
    """``x`` padded with a number."""
    if not any(begin) and not any(end):
        return x
    widths, type = g.ints(0, 0, *begin, 0, 0, *end), TensorType(None, g.dtype(x))
    return g.emit("Pad", x, widths, g.like(x, number), at="pad", type=type, mode="constant")


@writes("_contrib_AdaptiveAvgPooling2D")
def adaptive_pooling(g: Exporter, use: Use, x: Value) -> Value:
    """Means of bins: one bin globally, equal bins as windows, otherwise a matrix for each axis."""
    wanted = use.attrs["output_size"] or (1,)
    counts = (*wanted, *wanted)[:2]
    if counts == (1, 1):
        return g.emit("GlobalAveragePool", x)
    sizes = _pixels(g, x.type, 2, False)
    if not any(n % count for n, count in zip(sizes, counts)):
        kernel = tuple(n // count for n, count in zip(sizes, counts))
        return g.emit("AveragePool", x, kernel_shape=kernel, strides=kernel)
    rows, columns = (_means(n, count) for n, count in zip(sizes, counts))
    made = g.emit("MatMul", g.constant(rows.astype(g.dtype(x))), x, at="rows")
    return g.emit("MatMul", made, g.constant(columns.T.astype(g.dtype(x))))


def _means(size: int, count: int) -> np.ndarray:
    """(count, size): row i is the mean over cells floor(i s / c) to ceil((i + 1) s / c)."""
    matrix = np.zeros((count, size))
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


@writes("_contrib_BilinearResize2D")
def bilinear_resize(g: Exporter, use: Use, x: Value, *like: Value) -> Value:
    """Bilinear interpolation to a known size; a result of size 1 reads the first cell."""
    target = use.types[0].shape
    assert target is not None
    sizes = (*x.type.shape[:2], *target[2:]) if x.type.shape is not None else target
    rule = "align_corners" if use.attrs["align_corners"] else "half_pixel"
    if sizes[2:] == (1, 1):
        rule = "asymmetric"
    rules = {"mode": "linear", "coordinate_transformation_mode": rule}
    if is_known_shape(sizes):
        wanted = g.constant(np.array(sizes, np.int64))
        return g.emit("Resize", x, None, None, wanted, type=UNKNOWN, **rules)
    shape = x.type.shape or ()
    factors = [1.0, 1.0, *(_factor(g, x, o, n) for o, n in zip(sizes[2:], shape[2:]))]
    scales = g.constant(np.array(factors, np.float32))
    return g.emit("Resize", x, None, scales, type=UNKNOWN, **rules)


def _factor(g: Exporter, x: Value, out: int | None, size: int | None) -> float:
    if out is None or size is None:
        g.shape(x)
    return float(out or 0) / float(size or 1)


@writes("UpSampling")
def upsampling(g: Exporter, use: Use, x: Value, *others: Value) -> Value:
    """Cells repeated along both axes; the bilinear variant is a transposed convolution."""
    if use.attrs["sample_type"] != "nearest" or others:
        from_parts = use.op.expand
        assert from_parts is not None
        return from_parts(g, x, *others, **use.attrs)  # type: ignore[return-value]
    scale = float(use.attrs["scale"])
    factors = g.constant(np.array([1, 1, scale, scale], np.float32))
    return g.emit(
        "Resize",
        *(x, None, factors),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
