"""Readers of ONNX's convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ...errors import MXNetError
from ...ops.quantized import BYTES, has_kernel
from ..importer import Importer, Value
from ..use import Use
from .picking import put_rows
from .table import translates


def _pads(
    g: Importer,
    use: Use,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilate: Sequence[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each axis."""
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
    """``x`` padded with ``value`` along its spatial axes; negative padding crops."""
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
    """Convolution; asymmetric padding is applied separately before."""
    attrs, begin, end = _window_of(g, use, x, w)
    if attrs["pad"] != begin or begin != end:
        x = pad_by(g, x, begin, end)
    return g.op("Convolution", *(x, w) if b is None else (x, w, b), no_bias=b is None, **attrs)


def integer_convolution(
    g: Importer, use: Use, x: Value, w: Value, zero: Value | int = 0
) -> Value | None:
    """int32 sums of bytes x - zero with int8 weights; None for windows without a kernel."""
    attrs, begin, end = _window_of(g, use, x, w)
    filters, channels, *window = g.shape(w)
    if not has_kernel(attrs, (filters, *window, channels)):
        return None
    if isinstance(zero, Value):
        x, attrs["pad"] = _padded_by(g, x, zero, begin, end), (0,) * len(begin)
        sums = g.op("_integer_convolution", x, w, no_bias=True, at="sums", **attrs)
        of_filters = g.known(w, "w").reshape(filters, -1).sum(1, dtype=np.int32)
        shape = (1, filters, *(1,) * len(begin))
        offset = g.op("Reshape", g.op("Cast", zero, dtype=np.dtype("int32"), at="offset"),
                      shape=(1,) * len(shape), at="offset")  # fmt: skip
        less = g.op("broadcast_mul", offset, g.constant(of_filters.reshape(shape)), at="less")
        return g.op("broadcast_sub", sums, less)
    if attrs["pad"] != begin or begin != end:
        x = pad_by(g, x, begin, end, zero)
    return g.op("_integer_convolution", x, w, no_bias=True, zero=zero, **attrs)


def _padded_by(
    g: Importer, x: Value, value: Value, begin: Sequence[int], end: Sequence[int]
) -> Value:
    """Bytes padded with a computed byte: differences from it, which wrap, are padded with 0."""
    if not any(begin) and not any(end):
        return x
    one = g.op("Reshape", value, shape=(1,) * g.rank(x), at="one")
    gap = g.op("broadcast_sub", x, one, at="gap")
    return g.op("broadcast_add", pad_by(g, gap, begin, end), one, at="padded")


def _window_of(
    g: Importer, use: Use, x: Value, w: Value
) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """Attributes of a convolution, and the padding before and after each axis."""
    kernel = use.ints("kernel_shape") or g.shape(w)[2:]
    count = len(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    begin, end = _pads(g, use, x, kernel, stride, dilate)
    pad = begin if begin == end and min(begin) >= 0 else (0,) * count
    attrs = {
        "kernel": kernel,
        "stride": stride,
        "dilate": dilate,
        "pad": pad,
        "num_filter": g.shape(w)[0],
        "num_group": use.number("group", 1),
    }
    return attrs, tuple(begin), tuple(end)


@translates("ConvTranspose")
def deconvolution(g: Importer, use: Use, x: Value, w: Value, b: Value | None = None) -> Value:
    """Transposed convolution without padding; its result is cropped or padded."""
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
    """Cells to crop from a transposed convolution's full result, before and after each axis."""
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
def pool(g: Importer, use: Use, x: Value) -> Value | Sequence[Value]:
    """Pooling; asymmetric padding is applied separately before."""
    kernel = use.ints("kernel_shape")
    count = len(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    begin, end = _pads(g, use, x, kernel, stride, dilate)
    if len([o for o in use.outputs if o]) > 1:
        return _with_places(g, use, x, _Windows(g.shape(x)[2:], kernel, stride, dilate, begin, end))
    if g.dtype(x) in BYTES or g.dtype(x).kind in "iu":
        return _pooled_as_numbers(g, use, x)
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[use.op_type]
    if kind == "lp":
        x = g.op("abs", x, at="abs")
    is_gapped = any(d != 1 for d in dilate) or use.number("p", 2) > 3
    sizes = (x.type.shape or g.shape(x))[2:]
    if is_gapped or (use.number("ceil_mode") and None not in sizes):
        known = tuple(g.shape(x)[2:] if None in sizes else (int(n or 0) for n in sizes))
        windows = _Windows(known, kernel, stride, dilate, begin, end)
        if is_gapped or windows.are_fewer(use):
            return _by_taps(g, use, x, windows, kind)
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


def pads_of_whole_windows(g: Importer, use: Use, x: Value) -> tuple[int, ...]:
    """Padding up to the end of the last windows where their count is rounded up."""
    kernel = use.ints("kernel_shape")
    ones = (1,) * len(kernel)
    stride, dilate = use.ints("strides", ones), use.ints("dilations", ones)
    begin, end = _pads(g, use, x, kernel, stride, dilate)
    windows = _Windows(g.shape(x)[2:], kernel, stride, dilate, begin, end)
    return (*begin, *map(max, end, _reach(windows, windows.counts(True))))


def _pooled_as_numbers(g: Importer, use: Use, x: Value) -> Value:
    """Integers, pooled as floating numbers; for bytes in a form that the kernel of bytes takes."""
    is_bytes = g.dtype(x) in BYTES
    if is_bytes:
        numbers = g.op("_from_bytes", x, scale=1.0, zero=0, at="numbers")
    else:
        numbers = g.op("Cast", x, dtype=np.dtype("float64"), at="numbers")
    made = pool(g, use, numbers)
    assert isinstance(made, Value)
    if is_bytes:
        return g.op("_to_bytes", made, scale=1.0, zero=0, dtype=g.dtype(x))
    return g.op("Cast", made, dtype=g.dtype(x))


_MAX_TAPS = 512


class _Windows(NamedTuple):
    """Geometry of pooling windows: one integer for each axis in each field."""

    sizes: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    dilate: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]

    def counts(self, rounds_up: bool) -> tuple[int, ...]:
        """Number of windows along each axis; none starts beyond the last cell."""
        made = []
        for n, k, s, d, b, e in zip(*self):
            room = n + b + e - (k - 1) * d - 1
            count = (-(-room // s) if rounds_up else room // s) + 1
            made.append(count - 1 if rounds_up and (count - 1) * s >= n + b else count)
        return tuple(made)

    def are_fewer(self, use: Use) -> bool:
        """Whether MXNet's rounding up adds a window, which would start beyond the last cell."""
        if not use.number("ceil_mode"):
            return False
        plain = tuple(-(-(n + b + e - (k - 1) * d - 1) // s) + 1 for n, k, s, d, b, e in zip(*self))
        return plain != self.counts(True)


def _by_taps(g: Importer, use: Use, x: Value, windows: _Windows, kind: str) -> Value:
    """Pooling as a maximum or sum over the cells of a window, each a strided slice."""
    counts = windows.counts(bool(use.number("ceil_mode")))
    taps = math.prod(windows.kernel)
    if taps > _MAX_TAPS or min(counts) < 1:
        raise MXNetError(
            f"{counts} windows of {taps} cells are not supported, at most {_MAX_TAPS} cells are"
        )
    power = float(use.number("p", 2))
    x = g.op("_power_scalar", x, scalar=power, at="power") if kind == "lp" else x
    lowest = float(np.finfo(g.dtype(x)).min)
    whole = pad_by(g, x, windows.begin, _reach(windows, counts), lowest if kind == "max" else 0.0)
    parts = [_tap(g, whole, windows, counts, tap) for tap in np.ndindex(*windows.kernel)]
    merge = "broadcast_maximum" if kind == "max" else "broadcast_add"
    made = reduce(lambda a, b: g.op(merge, a, b, at="merged"), parts)
    if kind == "lp":
        return g.op("_power_scalar", made, scalar=1 / power)
    if kind == "max":
        return g.op("identity", made)
    g.require_small(math.prod(counts) + sum(c * k for c, k in zip(counts, windows.kernel)))
    divisors = _divisors(windows, counts, bool(use.number("count_include_pad")))
    return g.op("broadcast_div", made, g.constant(divisors.astype(g.dtype(x))))


def _with_places(g: Importer, use: Use, x: Value, windows: _Windows) -> Sequence[Value]:
    """Maxima of windows, and their first indices in the whole operand."""
    counts = windows.counts(bool(use.number("ceil_mode")))
    taps = math.prod(windows.kernel)
    if taps > _MAX_TAPS or min(counts) < 1:
        raise MXNetError(
            f"{counts} windows of {taps} cells are not supported, at most {_MAX_TAPS} cells are"
        )
    g.require_small(taps * math.prod(counts) + math.prod(g.shape(x)[:2]))
    lowest = float(np.finfo(g.dtype(x)).min)
    whole = pad_by(g, x, windows.begin, _reach(windows, counts), lowest)
    best: Value | None = None
    place: Value | None = None
    for tap in np.ndindex(*windows.kernel):
        part = _tap(g, whole, windows, counts, tap)
        cells = g.constant(_cells(windows, counts, tap, bool(use.number("storage_order"))))
        if best is None or place is None:
            zeros = g.op("Cast", g.op("zeros_like", part, at="zeros"), dtype=np.dtype("int64"))
            best, place = part, g.op("broadcast_add", zeros, cells, at="place")
            continue
        is_more = g.op("broadcast_greater", part, best, at="more")
        more = g.op("Cast", is_more, dtype=np.dtype("int64"), at="more")
        gap = g.op("broadcast_sub", cells, place, at="gap")
        place = g.op("broadcast_add", place, g.op("broadcast_mul", more, gap), at="place")
        best = g.op("broadcast_maximum", best, part, at="merged")
    assert best is not None and place is not None
    planes = np.arange(math.prod(g.shape(x)[:2])) * math.prod(windows.sizes)
    first = planes.reshape(*g.shape(x)[:2], *(1,) * len(counts))
    return g.op("identity", best), g.op("broadcast_add", place, g.constant(first), at="places")


def _cells(
    windows: _Windows, counts: Sequence[int], tap: Sequence[int], columns_first: bool
) -> np.ndarray:
    """Index in its plane of the cell that a tap of each window reads."""
    sizes = windows.sizes
    steps = [math.prod(sizes[:i] if columns_first else sizes[i + 1 :]) for i in range(len(sizes))]
    places = [
        (np.arange(c) * s + t * d - b) * step
        for c, s, t, d, b, step in zip(
            counts, windows.stride, tap, windows.dilate, windows.begin, steps
        )
    ]
    return reduce(np.add.outer, places)[None, None].astype(np.int64)


@translates("MaxUnpool")
def unpool(g: Importer, use: Use, x: Value, places: Value, shape: Value | None = None) -> Value:
    """Values written at their indices among zeros."""
    kernel = use.ints("kernel_shape")
    count = len(kernel)
    stride, pads = use.ints("strides", (1,) * count), use.ints("pads", (0,) * 2 * count)
    sides = [b + e for b, e in zip(pads[:count], pads[count:])]
    sizes = [(n - 1) * s - p + k for n, s, p, k in zip(g.shape(x)[2:], stride, sides, kernel)]
    whole = (*g.shape(x)[:2], *sizes)
    zeros = g.filled(whole, np.zeros(1, g.dtype(x)))
    flat = g.op("Reshape", places, shape=(-1,), at="places")
    made = put_rows(g, zeros, flat, x, ())
    if shape is None:
        return made
    wanted = g.ints(shape, "output_shape")
    return pad_by(g, made, (0,) * count, [w - n for w, n in zip(wanted[2:], sizes)])


@translates("Col2Im")
def from_columns(g: Importer, use: Use, x: Value, image: Value, block: Value) -> Value:
    """Sum of blocks at each cell: transposed convolution with one-hot filters."""
    sizes, kernel = g.ints(image, "image_shape"), g.ints(block, "block_shape")
    count, taps = len(kernel), math.prod(kernel)
    stride, dilate = use.ints("strides", (1,) * count), use.ints("dilations", (1,) * count)
    pads = use.ints("pads", (0,) * 2 * count)
    batch, width = g.shape(x)[:2]
    channels = width // taps
    g.require_small(taps * taps * channels)
    counts = [
        (n + b + e - (k - 1) * d - 1) // s + 1
        for n, b, e, k, d, s in zip(sizes, pads[:count], pads[count:], kernel, dilate, stride)
    ]
    columns = g.op("Reshape", x, shape=(batch, width, *counts), at="columns")
    filters = np.tile(np.eye(taps), (channels, 1)).reshape(width, 1, *kernel)
    made = g.op(
        "Deconvolution",
        *(columns, g.constant(filters.astype(g.dtype(x)))),
        kernel=kernel,
        stride=stride,
        dilate=dilate,
        num_filter=channels,
        num_group=channels,
        no_bias=True,
        at="sums",
    )
    begin = pads[:count]
    ends = [n + b - m for n, b, m in zip(sizes, begin, g.shape(made)[2:])]
    return g.op("identity", pad_by(g, made, [-b for b in begin], ends))


def _reach(windows: _Windows, counts: Sequence[int]) -> list[int]:
    """Cells after each axis to the end of the last window; negative if some are not read."""
    return [
        (c - 1) * s + (k - 1) * d + 1 - n - b
        for c, (n, k, s, d, b, _) in zip(counts, zip(*windows))
    ]


def _tap(
    g: Importer, x: Value, windows: _Windows, counts: Sequence[int], tap: Sequence[int]
) -> Value:
    first = [t * d for t, d in zip(tap, windows.dilate)]
    last = [f + (c - 1) * s + 1 for f, c, s in zip(first, counts, windows.stride)]
    step = (1, 1, *windows.stride)
    return g.op("slice", x, begin=(0, 0, *first), end=(None, None, *last), step=step, at="tap")


def _divisors(windows: _Windows, counts: Sequence[int], counted: bool) -> np.ndarray:
    """Count of cells of each window's mean, including requested padding or not."""
    each = []
    for count, (n, k, s, d, b, e) in zip(counts, zip(*windows)):
        places = np.arange(count)[:, None] * s + np.arange(k)[None] * d
        low, high = (0, n + b + e) if counted else (b, b + n)
        each.append(((places >= low) & (places < high)).sum(1))
    return np.maximum(reduce(np.multiply.outer, each), 1)[None, None]


def _average(
    g: Importer,
    use: Use,
    x: Value,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    begin: Sequence[int],
    end: Sequence[int],
) -> Value:
    """Mean of the elements in each window without padding: sum divided by count."""
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
    """One value for each channel."""
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
