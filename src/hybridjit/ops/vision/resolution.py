"""Changes of resolution: bilinear resizing and adaptive average pooling.

Input: (N, C, H, W). Output: the same with other spatial sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._core.symbolic import Size
from ..._core.types import Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from .. import native
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import widened
from ..gradient import gradients
from ..nn.pooling import POOLING
from ..record import Eager, Samples, Traits
from ..registry import register
from ..rules import Types, forward, merged, require_float
from .upsampling import check_image, repeated

# Products of integers below this bound are exact in float32.
_EXACT = 1 << 24


def _scaled(size: int, scale: float, odd: bool) -> int:
    """``size * scale`` rounded down; odd sizes remain odd if ``odd``."""
    with np.errstate(over="ignore"):
        by = np.float32(scale)
    if isinstance(size, Size) and 0 <= by < np.inf:
        times, parts = by.as_integer_ratio()
        if size * times < _EXACT:
            rest = size % 2 if odd else 0
            return (size - rest) * times // parts + rest
    cells = int(size)  # the product is rounded to single precision: a constant
    if not 0 <= np.float32(cells) * by < 2.0**31:
        raise ShapeError(
            f"a side of {cells} cells times {scale:g} is not in the range 0 to 2^31 - 1"
        )
    rest = cells % 2 if odd else 0
    return int(np.float32(cells - rest) * by) + rest


def _resized(
    sizes: Shape,
    like: Shape | None,
    *,
    height: int,
    width: int,
    scale_height: float | None,
    scale_width: float | None,
    mode: str,
) -> Shape:
    """Output sizes of BilinearResize2D."""
    if like is not None:
        return like
    h, w = sizes
    if mode == "size" and scale_height is None:
        return height, width
    if mode in ("size", "odd_scale"):
        if scale_height is None or scale_width is None:
            raise AttributeValueError(f"mode {mode} needs both scale_height and scale_width")
        odd = mode == "odd_scale"
        return _scaled(h, scale_height, odd), _scaled(w, scale_width, odd)
    parity, step = (1 if "odd" in mode else 0), (1 if mode.endswith("up") else -1)
    return tuple(n if n % 2 == parity else n + step for n in sizes)


def _infer_resize(
    ins: Types, outs: Types, *, align_corners: bool, **attrs: Declared
) -> tuple[Types, Types]:
    """Batch and channels of the data with sizes by :func:`_resized`."""
    for t in ins:
        check_image("BilinearResize2D", t)
    require_float("BilinearResize2D", ins[0])
    if not all(t.is_known for t in ins):
        return ins, outs
    like = ins[1].dims[2:] if len(ins) > 1 else None
    sizes = _resized(ins[0].dims[2:], like, **attrs)
    if any(size < 1 for size in sizes):
        raise ShapeError(f"output sizes {shape_text(sizes)} must be at least 1")
    return ins, merged(outs, (ins[0].with_shape((*ins[0].dims[:2], *sizes)),))


def _source(out: int, size: int, align: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper source index, and the weight of the upper one, per output cell."""
    cell = np.arange(out, dtype=np.float32)
    if out == 1:
        at = cell  # MXNet reads pixel 0 in this case, not the centre
    elif align:
        at = cell * np.float32((size - 1) / (out - 1))
    else:
        at = np.maximum((cell + np.float32(0.5)) * np.float32(size / out) - np.float32(0.5), 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    return low, np.minimum(low + 1, size - 1), at - low.astype(np.float32)


def bilinear_resize(x: np.ndarray, height: int, width: int, align: bool) -> np.ndarray:
    """Weighted mean of the four neighbours of each source point, over the last two axes."""
    if x.shape[-2:] == (height, width):
        return x.copy()
    v = widened(x)
    top, bottom, fy = _source(height, x.shape[-2], align)
    left, right, fx = _source(width, x.shape[-1], align)
    fy = fy[:, None].astype(v.dtype)
    fx = fx.astype(v.dtype)
    rows = v[..., top, :] * (1 - fy) + v[..., bottom, :] * fy
    return (rows[..., left] * (1 - fx) + rows[..., right] * fx).astype(x.dtype, copy=False)


def _resize(
    data: np.ndarray, like: np.ndarray | None = None, *, align_corners: bool, **attrs: Declared
) -> np.ndarray:
    """Bilinear interpolation; weights in float32, as in MXNet."""
    height, width = _resized(data.shape[2:], None if like is None else like.shape[2:], **attrs)
    return bilinear_resize(data, height, width, align_corners)


def _resize_inputs(*, mode: str, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "like") if mode == "like" else ("data",)


def _grad_resize(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    align_corners: bool,
    **attrs: AttrValue,
) -> tuple[X | None, ...]:
    """Transposed interpolation; the operand that provides the size has no gradient."""
    _, _, height, width = g.type(ins[0]).dims
    sizes: Attrs = {"height": height, "width": width}
    back = g.op(RESIZE_BACK, douts[0], how="bilinear", align=align_corners, **sizes)
    return back, *[None] * (len(ins) - 1)


BILINEAR_RESIZE = register(
    "_contrib_BilinearResize2D",
    _resize_inputs,
    "height:int[1,2147483647]=1 width:int[1,2147483647]=1 "
    "scale_height:float?=None scale_width:float?=None "
    "mode:like|odd_scale|size|to_even_down|to_even_up|to_odd_down|to_odd_up=size "
    "align_corners:bool=True",
    infer=_infer_resize,
    ref=_resize,
    grad=_grad_resize,
    traits=Traits(names_data=True, eager=Eager.TWIN),
    doc="Bilinear interpolation to a size, a scale or another input's size.",
)


def _adaptive_sizes(output_size: Shape) -> Shape:
    if len(output_size) > 2 or any(n < 1 for n in output_size):
        raise AttributeValueError(
            f"output_size must be one or two positive integers, got {shape_text(output_size)}"
        )
    return (*output_size, *output_size)[:2] if output_size else (1, 1)


@forward
def _infer_adaptive(data: TensorType, *, output_size: Shape) -> TensorType:
    """(N, C, *output_size)."""
    check_image("AdaptiveAvgPooling2D", data)
    require_float("AdaptiveAvgPooling2D", data)
    return data.with_shape((*data.dims[:2], *_adaptive_sizes(output_size)))


def _bins(size: int, count: int) -> Iterator[tuple[int, int]]:
    """[floor(i size / count), ceil((i + 1) size / count)), which may overlap."""
    return ((i * size // count, -(-(i + 1) * size // count)) for i in range(count))


def _adaptive(data: np.ndarray, *, output_size: Shape) -> np.ndarray:
    """Means of the bins along each axis."""
    x = widened(data)
    for axis, count in zip((2, 3), _adaptive_sizes(output_size)):
        means = np.empty((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
        for i, (a, b) in enumerate(_bins(data.shape[axis], count)):
            np.moveaxis(means, axis, 0)[i] = np.take(x, range(a, b), axis).mean(axis)
        x = means
    return x.astype(data.dtype, copy=False)


def _equal_bins(g: Builder[X], data: X, *, output_size: Shape) -> X | None:
    """AdaptiveAvgPooling2D(x) of equal bins  =>  Pooling(x)"""
    attrs = _equal_windows(g.type(data), output_size)
    return None if attrs is None else g.op(POOLING, data, **attrs)


def _equal_windows(data: TensorType, output_size: Shape) -> Attrs | None:
    """Attributes of the Pooling that computes the same means; None if the bins differ."""
    sizes, counts = data.dims[2:], _adaptive_sizes(output_size)
    if any(size % count for size, count in zip(sizes, counts)):
        return None
    kernel = tuple(size // count for size, count in zip(sizes, counts))
    return POOLING.with_defaults({"kernel": kernel, "stride": kernel, "pool_type": "avg"})


def _grad_adaptive(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, output_size: Shape
) -> X | None:
    attrs = _equal_windows(g.type(ins[0]), output_size)
    if attrs is not None:
        return gradients(POOLING, g, ins, outs, douts, attrs)[0]
    _, _, height, width = g.type(ins[0]).dims
    return g.op(RESIZE_BACK, douts[0], how="average", height=height, width=width)


ADAPTIVE_POOLING = register(
    "_contrib_AdaptiveAvgPooling2D",
    "data",
    "output_size:shape~=()",
    infer=_infer_adaptive,
    ref=_adaptive,
    expand=_equal_bins,
    grad=_grad_adaptive,
    traits=Traits(in_single=True),
    doc="Average pooling to a given size; bins overlap when sizes do not divide.",
)


def _bins_back(d: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Distribute the gradient of each bin's mean among its cells."""
    back = np.zeros((*d.shape[:axis], size, *d.shape[axis + 1 :]), d.dtype)
    to, of = np.moveaxis(back, axis, 0), np.moveaxis(d, axis, 0)
    for i, (a, b) in enumerate(_bins(size, len(of))):
        to[a:b] += of[i] / d.dtype.type(b - a)
    return back


def _taps_back(d: np.ndarray, axis: int, size: int, align: bool) -> np.ndarray:
    """Add the gradient of each interpolated cell to its two neighbours by their weights."""
    if d.shape[axis] == size:
        return d
    low, high, part = _source(d.shape[axis], size, align)
    weights = part.astype(d.dtype).reshape([-1 if i == axis else 1 for i in range(d.ndim)])
    lower = _sum_at(d * (1 - weights), low, size, axis)
    return lower + _sum_at(d * weights, high, size, axis)


def _sum_at(x: np.ndarray, cells: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Zeros of ``size`` cells along an axis, with ``x`` added at ``cells``, which are ascending."""
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    back = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    back[(slice(None),) * axis + (cells[starts],)] = np.add.reduceat(x, starts, axis)
    return back


def _resize_back(data: np.ndarray, *, how: str, height: int, width: int, align: bool) -> np.ndarray:
    d = widened(data)
    if how == "bilinear":
        run = native.routine("resize_back", d.dtype.name, size=d.size)
        if run is not None:
            return _back_by_routine(run, d, height, width, align).astype(data.dtype, copy=False)
    for axis, size in ((2, height), (3, width)):
        d = _bins_back(d, axis, size) if how == "average" else _taps_back(d, axis, size, align)
    return d.astype(data.dtype)


def _back_by_routine(
    run: native.Routine, d: np.ndarray, height: int, width: int, align: bool
) -> np.ndarray:
    planes, new = d.shape[0] * d.shape[1], d.shape[2:]
    result = np.empty((*d.shape[:2], height, width), d.dtype)
    tables = [
        table
        for count, size in zip(new, (height, width))
        for table in _readers(count, size, align, d.dtype)
    ]
    line = np.empty(new[1], d.dtype)
    run([np.ascontiguousarray(d), result, line, *tables], [planes, height, width, *new])
    return result


def _readers(count: int, size: int, align: bool, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """First of the new cells that read each cell, as lower and upper; shares of the upper ones."""
    if count == size:  # every cell reads itself alone
        own = np.stack([np.arange(size + 1), np.zeros(size + 1, np.int64)])
        return own, np.zeros(count, dtype)
    low, high, part = _source(count, size, align)
    starts = [np.searchsorted(cells, np.arange(size + 1)) for cells in (low, high)]
    return np.stack(starts).astype(np.int64), part.astype(dtype)


def _grad_resize_back(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    how: str,
    align: bool,
    **sizes: int,
) -> X:
    height, width = g.type(ins[0]).dims[2:]
    if how == "average":
        return g.op(ADAPTIVE_POOLING, douts[0], output_size=(height, width))
    attrs: Attrs = {"height": height, "width": width, "align_corners": align}
    return g.op(BILINEAR_RESIZE, douts[0], **attrs)


RESIZE_BACK = register(
    "_resize_back",
    "data",
    "how:average|bilinear! height:int! width:int! align:bool=False",
    internal=True,
    infer=forward(
        lambda data, height, width, **attrs: data.with_shape((*data.dims[:2], height, width))
    ),
    ref=_resize_back,
    grad=_grad_resize_back,
    traits=Traits(samples=Samples.FIRST),
    doc="Gradient of resizing with respect to the image.",
)


def _resize_last_type(
    data: TensorType, *, how: str, height: int, width: int, align: bool
) -> TensorType:
    n, _, _, c = data.dims
    return data.with_shape((n, height, width, c))


def _resize_last(data: np.ndarray, *, how: str, height: int, width: int, align: bool) -> np.ndarray:
    x = np.moveaxis(data, 3, 1)
    if how == "nearest":
        y = repeated(x, height, width)
    elif how == "average":
        y = _adaptive(x, output_size=(height, width))
    else:
        y = bilinear_resize(x, height, width, align)
    return np.ascontiguousarray(np.moveaxis(y, 1, 3))


RESIZE_LAST = register(
    "_resize_last",
    "data",
    "how:average|bilinear|nearest! height:int! width:int! align:bool=False",
    internal=True,
    kernel="resize",
    infer=forward(_resize_last_type),
    ref=_resize_last,
    traits=Traits(samples=Samples.FIRST),
    doc="Change of resolution with channels last; created by the compiler only.",
)
