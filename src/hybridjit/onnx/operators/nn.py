"""ONNX's layers: convolutions, pooling, normalisations, softmax, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .pointwise import to_shape
from .table import translates

# Windows


def _pads(
    g: Importer,
    use: Use,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilate: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is added before and behind each axis."""
    mode = use.text("auto_pad", "NOTSET")
    count = len(kernel)
    if mode in ("NOTSET", ""):
        pads = use.ints("pads", (0,) * 2 * count)
        return pads[:count], pads[count:]
    if mode == "VALID":
        return (0,) * count, (0,) * count
    totals = [
        max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        for size, k, s, d in zip(g.shape(x)[2:], kernel, stride, dilate)
    ]
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def pad_by(
    g: Importer, x: Value, begin: Sequence[int], end: Sequence[int], value: float = 0.0
) -> Value:
    """``x`` with ``value`` around its spatial axes; negative numbers cut."""
    count = len(begin)
    for axis, (before, behind) in enumerate(zip(begin, end), 2):
        if before < 0 or behind < 0:
            x = g.op(
                "slice_axis",
                x,
                axis=axis,
                begin=max(-before, 0),
                end=-max(-behind, 0) or None,
                at="cut",
            )
    begin, end = ([max(v, 0) for v in side] for side in (begin, end))
    if not any(begin) and not any(end):
        return x
    widths = (0, 0, 0, 0, *(v for pair in zip(begin, end) for v in pair))
    extra = max(0, 2 - count)  # padding is defined for two or three spatial axes
    for _ in range(extra):
        x = g.op("expand_dims", x, axis=g.rank(x), at="axis")
    widths += (0, 0) * extra
    x = g.op("Pad", x, mode="constant", pad_width=widths, constant_value=value, at="pad")
    for _ in range(extra):
        x = g.op("squeeze", x, axis=(g.rank(x) - 1,), at="no_axis")
    return x


@translates("Conv")
def convolution(g: Importer, use: Use, x: Value, w: Value, b: Value | None = None) -> Value:
    """Convolution; padding that differs from side to side is done before it."""
    kernel = use.ints("kernel_shape") or g.shape(w)[2:]
    count = len(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    begin, end = _pads(g, use, x, kernel, stride, dilate)
    pad = begin if begin == end and min(begin) >= 0 else (0,) * count
    if pad != begin or begin != end:
        x = pad_by(g, x, begin, end)
    return g.op(
        "Convolution",
        *(x, w) if b is None else (x, w, b),
        kernel=kernel,
        stride=stride,
        dilate=dilate,
        pad=pad,
        num_filter=g.shape(w)[0],
        num_group=use.number("group", 1),
        no_bias=b is None,
    )


@translates("ConvTranspose")
def deconvolution(g: Importer, use: Use, x: Value, w: Value, b: Value | None = None) -> Value:
    """Transposed convolution without padding, then what is beyond the output is cut or added."""
    kernel = use.ints("kernel_shape") or g.shape(w)[2:]
    count = len(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    extra = use.ints("output_padding", (0,) * count)
    group = use.number("group", 1)
    sizes = [
        (size - 1) * s + (k - 1) * d + 1
        for size, s, k, d in zip(g.shape(x)[2:], stride, kernel, dilate)
    ]
    begin, end = _transposed_pads(use, g.shape(x)[2:], sizes, stride, extra)
    made = g.op(
        "Deconvolution",
        *(x, w),
        kernel=kernel,
        stride=stride,
        dilate=dilate,
        num_filter=g.shape(w)[1] * group,
        num_group=group,
        no_bias=True,
    )
    made = pad_by(g, made, [-v for v in begin], [o - v for o, v in zip(extra, end)])
    if b is None:
        return made
    along = g.op("Reshape", b, shape=(1, -1, *(1,) * count), at="bias")
    return g.op("broadcast_add", made, along)


def _transposed_pads(
    use: Use,
    inputs: Sequence[int],
    sizes: Sequence[int],
    stride: Sequence[int],
    extra: Sequence[int],
) -> tuple[Sequence[int], Sequence[int]]:
    """What is cut of a transposed convolution's full result, before and behind."""
    count = len(sizes)
    mode, shape = use.text("auto_pad", "NOTSET"), use.ints("output_shape")
    if not shape and mode in ("NOTSET", "", "VALID"):
        pads = use.ints("pads", (0,) * 2 * count)
        return pads[:count], pads[count:]
    wanted = shape[-count:] or [size * s for size, s in zip(inputs, stride)]
    totals = [size + e - w for size, e, w in zip(sizes, extra, wanted)]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (large, small) if mode != "SAME_UPPER" else (small, large)


@translates("MaxPool", "AveragePool", "LpPool")
def pool(g: Importer, use: Use, x: Value) -> Value:
    """Pooling; padding that differs from side to side is done before it."""
    kernel = use.ints("kernel_shape")
    count = len(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    if any(d != 1 for d in dilate):
        raise MXNetError(f"dilations {dilate}: windows without gaps are there")
    if len([o for o in use.outputs if o]) > 1:
        raise MXNetError("its second output, the places of the maxima, is not there")
    begin, end = _pads(g, use, x, kernel, stride, dilate)
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[use.op_type]
    counted = bool(use.number("count_include_pad"))
    pad = begin
    if begin != end:
        if kind == "avg" and not counted:
            return _average(g, use, x, kernel, stride, begin, end)
        x = pad_by(g, x, begin, end, -np.inf if kind == "max" else 0.0)
        pad = (0,) * count
    return g.op(
        "Pooling",
        x,
        kernel=kernel,
        stride=stride,
        pad=pad,
        pool_type=kind,
        pooling_convention="full" if use.number("ceil_mode") else "valid",
        count_include_pad=counted if kind == "avg" else None,
        p_value=use.number("p", 2) if kind == "lp" else None,
    )


def _average(
    g: Importer,
    use: Use,
    x: Value,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    begin: Sequence[int],
    end: Sequence[int],
) -> Value:
    """The mean of the elements in each window that are no padding: a sum by a count."""
    g.require_small(math.prod(g.shape(x)[2:]))
    ones = g.constant(np.ones((1, 1, *g.shape(x)[2:]), g.dtype(x)))
    convention = "full" if use.number("ceil_mode") else "valid"

    def summed(y: Value, at: str) -> Value:
        return g.op(
            "Pooling",
            pad_by(g, y, begin, end),
            kernel=kernel,
            stride=stride,
            pool_type="sum",
            pooling_convention=convention,
            at=at,
        )

    return g.op("broadcast_div", summed(x, "sum"), summed(ones, "count"))


@translates("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g: Importer, use: Use, x: Value) -> Value:
    """One number for each channel."""
    axes = tuple(range(2, g.rank(x)))
    if use.op_type == "GlobalLpPool":
        powered = g.op("_power_scalar", g.op("abs", x, at="abs"), scalar=float(use.number("p", 2)))
        total = g.op("sum", powered, axis=axes, keepdims=True, at="sum")
        return g.op("_power_scalar", total, scalar=1 / use.number("p", 2))
    if len(axes) in (1, 2, 3):
        kind = "avg" if use.op_type == "GlobalAveragePool" else "max"
        return g.op("Pooling", x, kernel=(1,) * len(axes), global_pool=True, pool_type=kind)
    kind = "mean" if use.op_type == "GlobalAveragePool" else "max"
    return g.op(kind, x, axis=axes, keepdims=True)


# Normalisations


@translates("BatchNormalization")
def batch_norm(
    g: Importer, use: Use, x: Value, scale: Value, b: Value, mean: Value, var: Value
) -> Value:
    """By the moving statistics."""
    if use.number("training_mode"):
        raise MXNetError("it is in training mode; export the model for inference")
    return g.op(
        "BatchNorm",
        *(x, scale, b, mean, var),
        eps=use.real("epsilon", 1e-5),
        momentum=use.real("momentum", 0.9),
        fix_gamma=False,
        use_global_stats=True,
    )


@translates("InstanceNormalization")
def instance_norm(g: Importer, use: Use, x: Value, scale: Value, b: Value) -> Value:
    """Each channel of each sample by its own statistics."""
    return g.op("InstanceNorm", x, scale, b, eps=use.real("epsilon", 1e-5))


@translates("LayerNormalization")
def layer_norm(
    g: Importer, use: Use, x: Value, scale: Value, b: Value | None = None
) -> Value | tuple[Value, ...]:
    """By the statistics of the last axes, from ``axis`` on."""
    axis = use.number("axis", -1) % g.rank(x)
    if b is None:
        b = g.constant(np.zeros(g.shape(scale), g.dtype(scale)))
    eps = use.real("epsilon", 1e-5)
    if len([o for o in use.outputs if o]) == 1 and axis == g.rank(x) - 1 and g.rank(scale) == 1:
        return g.op("LayerNorm", x, scale, b, axis=-1, eps=eps)
    axes = tuple(range(axis, g.rank(x)))
    mean = g.op("mean", x, axis=axes, keepdims=True, at="mean")
    centred = g.op("broadcast_sub", x, mean, at="centred")
    square = g.op("square", centred, at="square")
    var = g.op("mean", square, axis=axes, keepdims=True, at="variance")
    inverse = g.op("rsqrt", g.op("_plus_scalar", var, scalar=eps, at="eps"), at="inverse")
    normal = g.op("broadcast_mul", centred, inverse, at="normal")
    scaled = g.op("broadcast_mul", normal, _behind(g, scale, g.rank(x)), at="scaled")
    return g.op("broadcast_add", scaled, _behind(g, b, g.rank(x))), mean, inverse


def _behind(g: Importer, x: Value, rank: int) -> Value:
    """``x`` with axes of size 1 before its own."""
    missing = rank - g.rank(x)
    return g.op("Reshape", x, shape=(1,) * missing + g.shape(x), at="rank") if missing else x


@translates("GroupNormalization")
def group_norm(g: Importer, use: Use, x: Value, scale: Value, b: Value) -> Value:
    """Groups of channels by their own statistics; until operator set 20 a scale for each group."""
    groups, channels = use.number("num_groups", 1), g.shape(x)[1]
    if use.opset < 21 or g.shape(scale) != (channels,):
        scale, b = (
            g.op("repeat", v, repeats=channels // groups, axis=0, at="each") for v in (scale, b)
        )
    return g.op("GroupNorm", x, scale, b, num_groups=groups, eps=use.real("epsilon", 1e-5))


@translates("RMSNormalization")
def rms_norm(g: Importer, use: Use, x: Value, scale: Value) -> Value:
    """By the root of the mean of the squares of the last axes."""
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
    """Minus the mean, by the standard deviation and 1e-9."""
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
    """By the squares of neighbouring channels."""
    size = use.number("size", 1)
    if size % 2 == 0:
        raise MXNetError(f"size {size}: an odd number of channels is there")
    alpha, beta = use.real("alpha", 1e-4), use.real("beta", 0.75)
    return g.op("LRN", x, alpha=alpha, beta=beta, knorm=use.real("bias", 1.0), nsize=size)


@translates("LpNormalization")
def lp_norm(g: Importer, use: Use, x: Value) -> Value:
    """By the sum of absolute values along an axis, or the root of the squares' sum; 0 stays 0."""
    axis, order = use.number("axis", -1), use.number("p", 2)
    size = g.op("norm", x, axis=(axis,), ord=order, keepdims=True, at="norm")
    empty = g.op("_equal_scalar", size, scalar=0.0, at="empty")
    return g.op("broadcast_div", x, g.op("broadcast_add", size, empty, at="nonzero"))


@translates("Softmax", "LogSoftmax")
def softmax(g: Importer, use: Use, x: Value) -> Value:
    """Along one axis; until operator set 12 over all axes from ``axis`` on."""
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
    """1 at the first maximum along an axis, else 0; until operator set 12 as softmax."""
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


# Places


@translates("AffineGrid")
def affine_grid(g: Importer, use: Use, theta: Value, size: Value) -> Value:
    """Places to sample at, of affine maps in two dimensions."""
    n, c, height, width = g.ints(size, "size")
    g.require_small(height * width * 3)
    corners = bool(use.number("align_corners"))
    ys, xs = (_places(count, corners) for count in (height, width))
    grid = np.stack([*np.meshgrid(xs, ys), np.ones((height, width))], -1).reshape(1, -1, 3)
    base = to_shape(g, g.constant(grid.astype(g.dtype(theta))), (n, height * width, 3))
    made = g.op("batch_dot", base, theta, transpose_b=True, at="map")
    return g.op("Reshape", made, shape=(n, height, width, 2))


def _places(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count)
    return (np.arange(count) * 2 + 1) / count - 1


@translates("RoiAlign")
def roi_align(g: Importer, use: Use, x: Value, rois: Value, batches: Value) -> Value:
    """Means of samples in the bins of regions."""
    if use.text("mode", "avg") != "avg":
        raise MXNetError("mode 'max': means of samples are there")
    rule = "half_pixel" if use.opset >= 16 else "output_half_pixel"
    return g.op(
        "_contrib_ROIAlign",
        *(x, _numbered(g, rois, batches)),
        pooled_size=(use.number("output_height", 1), use.number("output_width", 1)),
        spatial_scale=use.real("spatial_scale", 1.0),
        sample_ratio=use.number("sampling_ratio") or -1,
        aligned=use.text("coordinate_transformation_mode", rule) == "half_pixel",
    )


def _numbered(g: Importer, rois: Value, batches: Value) -> Value:
    """Regions behind the numbers of their samples, as MXNet's operators take them."""
    number = g.op("Cast", batches, dtype=g.dtype(rois), at="number")
    column = g.op("expand_dims", number, axis=1, at="column")
    return g.op("Concat", column, rois, num_args=2, dim=1, at="regions")


@translates("MaxRoiPool")
def roi_pool(g: Importer, use: Use, x: Value, rois: Value) -> Value:
    """Maxima of the bins of regions."""
    size, scale = use.ints("pooled_shape"), use.real("spatial_scale", 1.0)
    return g.op("ROIPooling", x, rois, pooled_size=size, spatial_scale=scale)
