"""Pooling, and changes of resolution.

In: (N, C, spatial...) or its channel-last form. Out: the same with other spatial sizes.
Windows cover [i*stride - pad, i*stride - pad + kernel); 'full' rounds the number of windows up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import PartialShape, Shape, TensorType, product, shape_text
from .attrs import AttrValue
from .building import Builder, X
from .casting import widened
from .record import Samples, Traits
from .registry import register
from .rules import Types, merged, require_float, same_dtype
from .windows import (
    Window,
    check_rank,
    is_channel_last,
    join_axes,
    padded,
    require_cells,
    split_axes,
    tap_cells,
    window_of,
)


def pool_window(
    rank: int,
    *,
    kernel: Shape,
    stride: Shape,
    pad: Shape,
    pooling_convention: str,
    **attrs: AttrValue,
) -> Window:
    """The window of a Pooling that is not global. Raises ShapeError or AttributeValueError."""
    if len(kernel) != rank:
        raise ShapeError(
            f"kernel {shape_text(kernel)} has {len(kernel)} dimensions, data has {rank} spatial"
        )
    if pooling_convention == "same":
        # MXNet runs 'same' only for one axis, and wants three zeros as its padding.
        if rank != 1 or any(pad):
            raise ShapeError("pooling_convention same takes 3D data and no padding")
        pad = ()
    window = window_of(kernel, stride, (), pad)
    for p, k in zip(window.pad, window.kernel):
        if p >= k:
            raise ShapeError(f"pad must be smaller than the kernel, but {p} is not less than {k}")
    return window


def pooled_sizes(window: Window, sizes: PartialShape, convention: str) -> PartialShape:
    """How many windows fit each axis. Raises ShapeError when the kernel exceeds the input."""
    reach = zip(sizes, window.pad, window.stride, window.kernel)
    require_cells(tuple(n and n + p + s + k for n, p, s, k in reach))
    if convention == "same":
        return tuple(None if n is None else -(-n // s) for n, s in zip(sizes, window.stride))
    floored = window.out_sizes(sizes)
    if convention == "valid":
        return floored
    return tuple(
        None if n is None else -(-(n + 2 * p - k) // s) + 1
        for n, k, s, p in zip(sizes, window.kernel, window.stride, window.pad)
    )


def _spatial_rank(shape: PartialShape, kernel: Shape, global_pool: bool) -> int:
    if not global_pool and not kernel:
        raise AttributeValueError("attribute kernel is required unless global_pool is set")
    if global_pool and not 3 <= len(shape) <= 5:
        raise ShapeError(f"Input data should be 3D, 4D or 5D, got {shape_text(shape)}")
    return len(shape) - 2 if global_pool else len(kernel)


def _infer_pooling(
    ins: Types,
    outs: Types,
    *,
    kernel: Shape,
    pool_type: str,
    global_pool: bool,
    pooling_convention: str,
    p_value: int | None = None,
    layout: str | None = None,
    **attrs: Any,
) -> tuple[Types, Types]:
    """Spatial sizes by :func:`pooled_sizes`, or 1 each for global_pool."""
    if pool_type == "lp" and p_value not in (1, 2, 3):
        raise AttributeValueError(f"pool_type lp needs a p_value of 1, 2 or 3, got {p_value}")
    dtype = same_dtype(*ins, *outs)
    data = ins[0].with_dtype(dtype)
    require_float("Pooling", data)
    if data.shape is None:
        return (data,), outs
    rank = _spatial_rank(data.shape, kernel, global_pool)
    check_rank(data.shape, rank)
    last = is_channel_last(layout, rank)
    channels, sizes = split_axes(data.shape, last)
    pooled: PartialShape = (1,) * rank
    if not global_pool:
        window = pool_window(rank, kernel=kernel, pooling_convention=pooling_convention, **attrs)
        pooled = pooled_sizes(window, sizes, pooling_convention)
    out = join_axes(data.shape[0], channels, pooled, last)
    return (data,), merged(outs, (TensorType(out, dtype),))


def _taps(x: np.ndarray, window: Window, out: Shape, value: float) -> list[np.ndarray]:
    """One view per tap of the window, each of the output's spatial sizes, padded with value."""
    after = tuple(
        max(0, (o - 1) * s + k - p - n)
        for o, s, k, p, n in zip(out, window.stride, window.kernel, window.pad, x.shape[2:])
    )
    x = padded(x, window.pad, after, value)
    return [x[tap_cells(tap, window.stride, out)] for tap in np.ndindex(*window.kernel)]


def _divisors(sizes: Shape, window: Window, out: Shape, include_pad: bool) -> np.ndarray:
    """How many cells each window averages over: clipped to the padded input, or to the input.

    A window that lies wholly outside counts as 1, so that its sum of 0 stays 0.
    """
    counts = np.ones((), np.int64)
    for n, k, s, p, o in zip(sizes, window.kernel, window.stride, window.pad, out):
        start = np.arange(o) * s - p
        low, high = (-p, n + p) if include_pad else (0, n)
        inside = np.minimum(start + k, high) - np.maximum(start, low)
        counts = counts[..., None] * np.maximum(inside, 0)
    return np.maximum(counts, 1)


def _reduce_max(taps: list[np.ndarray], lowest: float) -> np.ndarray:
    """Largest tap; NaN never wins, and nothing is below the lowest finite number."""
    result = np.fmax(taps[0], lowest)
    for tap in taps[1:]:
        np.fmax(result, tap, out=result)
    return result


def _reduce_sum(taps: list[np.ndarray]) -> np.ndarray:
    result = taps[0].copy()
    for tap in taps[1:]:
        result += tap
    return result


def _root(total: np.ndarray, p: int) -> np.ndarray:
    """The p-th root; the cube root of a negative sum is negative."""
    return total if p == 1 else np.sqrt(total) if p == 2 else np.cbrt(total)


def _pool_windows(x: np.ndarray, window: Window, out: Shape, attrs: dict[str, Any]) -> np.ndarray:
    pool_type = attrs["pool_type"]
    if pool_type == "max":
        lowest = np.finfo(x.dtype).min
        return _reduce_max(_taps(x, window, out, lowest), lowest)
    wide = widened(x)
    if pool_type == "lp":
        total = _reduce_sum(_taps(wide ** attrs["p_value"], window, out, 0))
        return _root(total, attrs["p_value"]).astype(x.dtype)
    total = _reduce_sum(_taps(wide, window, out, 0))
    if pool_type == "avg":
        include = attrs.get("count_include_pad") is not False
        total /= _divisors(x.shape[2:], window, out, include)
    return total.astype(x.dtype, copy=False)


def _pool_all(x: np.ndarray, pool_type: str, p_value: int | None) -> np.ndarray:
    """Global pooling: one number per sample and channel."""
    axes = tuple(range(2, x.ndim))
    if pool_type == "max":
        lowest = np.finfo(x.dtype).min
        return np.fmax.reduce(x, axis=axes, keepdims=True, initial=lowest)
    wide = widened(x)
    if pool_type == "lp":
        assert p_value is not None
        total = _root(np.sum(wide**p_value, axis=axes, keepdims=True), p_value)
    else:
        reduce: Callable[..., np.ndarray] = np.mean if pool_type == "avg" else np.sum
        total = reduce(wide, axis=axes, keepdims=True)
    return total.astype(x.dtype, copy=False)


def _pooling(data: np.ndarray, **attrs: Any) -> np.ndarray:
    """max, avg, sum or lp of each window."""
    rank = data.ndim - 2
    last = is_channel_last(attrs.get("layout"), rank)
    x = np.moveaxis(data, -1, 1) if last else data
    if attrs["global_pool"]:
        y = _pool_all(x, attrs["pool_type"], attrs.get("p_value"))
    else:
        window = pool_window(rank, **attrs)
        out = pooled_sizes(window, x.shape[2:], attrs["pooling_convention"])
        y = _pool_windows(x, window, out, attrs)  # type: ignore[arg-type]
    return np.ascontiguousarray(np.moveaxis(y, 1, -1) if last else y)


def _total_outputs(*, kernel: Shape, pool_type: str, layout: str | None, **attrs: AttrValue) -> int:
    """oneDNN's max pooling keeps a workspace."""
    hidden = pool_type == "max" and kernel and layout in (None, "None", "NCW", "NCHW", "NCDHW")
    return 2 if hidden else 1


POOLING = register(
    "Pooling",
    "data",
    "kernel:shape~=() pool_type:avg|lp|max|sum=max global_pool:bool=False "
    "pooling_convention:full|same|valid=valid stride:shape=() pad:shape=() p_value:int?=None "
    "count_include_pad:bool?=None layout:layout?=None",
    kernel="pool",
    infer=_infer_pooling,
    ref=_pooling,
    traits=Traits(
        in_single=True, names_data=True, samples=Samples.FIRST, total_outputs=_total_outputs
    ),
    doc="Maximum, average, sum or p-norm over sliding windows or over all spatial axes.",
)


def _pooling_v1(
    data: np.ndarray,
    *,
    pool_type: str,
    global_pool: bool,
    pooling_convention: str,
    **attrs: Any,
) -> np.ndarray:
    """Pooling with zeros as real cells: they take part in max, and avg divides by all taps."""
    x = data
    if global_pool:
        return _pool_all(x, pool_type, None)
    window = pool_window(x.ndim - 2, pooling_convention=pooling_convention, **attrs)
    out = pooled_sizes(window, x.shape[2:], pooling_convention)
    x = padded(x, window.pad, window.pad, 0)
    unpadded = Window(window.kernel, window.stride, window.dilate, (0,) * window.rank)
    if pool_type == "max":
        return _reduce_max(_taps(x, unpadded, out, -np.inf), -np.inf)  # type: ignore[arg-type]
    total = _reduce_sum(_taps(widened(x), unpadded, out, 0))  # type: ignore[arg-type]
    if pool_type == "avg":
        total /= total.dtype.type(product(window.kernel))
    return total.astype(x.dtype, copy=False)


def _newer(
    g: Builder[X],
    data: X,
    *,
    global_pool: bool,
    pad: Shape,
    pooling_convention: str,
    **attrs: Any,
) -> X | None:
    """Pooling_v1(x) without padding  =>  Pooling(x)"""
    if not global_pool and (any(pad) or pooling_convention == "full"):
        return None
    attrs |= {"pad": pad, "pooling_convention": pooling_convention}
    return g.op(POOLING, data, global_pool=global_pool, **attrs)


register(
    "Pooling_v1",
    "data",
    "kernel:shape=() pool_type:avg|max|sum=max global_pool:bool=False "
    "pooling_convention:full|valid=valid stride:shape=() pad:shape=()",
    infer=_infer_pooling,
    ref=_pooling_v1,
    expand=_newer,
    traits=Traits(in_single=True, names_data=True),
    doc="The first Pooling: its padding is real zeros.",
)
