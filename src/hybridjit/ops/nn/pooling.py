"""Pooling.

Input: (N, C, spatial...) or its channel-last layout. Output: the same with other spatial sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import Shape, product
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, X
from ..casting import widened
from ..record import Samples, Traits
from ..registry import register
from .pool_windows import (
    POOLING_ATTRS,
    divisors_of,
    infer_pooling,
    pool_window,
    pooled_sizes,
    taps_of,
)
from .pooling_back import grad_pooling, grad_pooling_v1
from .window_geometry import Window, is_channel_last, padded


def _reduce_max(taps: list[np.ndarray], lowest: float) -> np.ndarray:
    """Maximum over taps; ignores NaN, and is at least the lowest finite value."""
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
    """p-th root; the cube root of a negative sum is negative."""
    return total if p == 1 else np.sqrt(total) if p == 2 else np.cbrt(total)


def _pool_windows(x: np.ndarray, window: Window, out: Shape, attrs: Attrs) -> np.ndarray:
    pool_type = attrs["pool_type"]
    if pool_type == "max":
        lowest = np.finfo(x.dtype).min
        return _reduce_max(taps_of(x, window, out, lowest), lowest)
    wide = widened(x)
    if pool_type == "lp":
        total = _reduce_sum(taps_of(wide ** attrs["p_value"], window, out, 0))
        return _root(total, attrs["p_value"]).astype(x.dtype)
    total = _reduce_sum(taps_of(wide, window, out, 0))
    if pool_type == "avg":
        include = attrs.get("count_include_pad") is not False
        total /= divisors_of(x.shape[2:], window, out, include)
    return total.astype(x.dtype, copy=False)


def _pool_all(x: np.ndarray, pool_type: str, p_value: int | None) -> np.ndarray:
    """Global pooling: one value per sample and channel."""
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


def _pooling(data: np.ndarray, **attrs: Declared) -> np.ndarray:
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
    """Number of outputs in files: oneDNN's max pooling adds a workspace."""
    hidden = pool_type == "max" and kernel and layout in (None, "None", "NCW", "NCHW", "NCDHW")
    return 2 if hidden else 1


POOLING = register(
    "Pooling",
    "data",
    POOLING_ATTRS,
    kernel="pool",
    infer=infer_pooling,
    ref=_pooling,
    grad=grad_pooling,
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
    **attrs: Declared,
) -> np.ndarray:
    """Pooling with zeros as cells: they take part in max, and avg divides by all taps."""
    x = data
    if global_pool:
        return _pool_all(x, pool_type, None)
    window = pool_window(x.ndim - 2, pooling_convention=pooling_convention, **attrs)
    out = pooled_sizes(window, x.shape[2:], pooling_convention)
    x = padded(x, window.pad, window.pad, 0)
    unpadded = Window(window.kernel, window.stride, window.dilate, (0,) * window.rank)
    if pool_type == "max":
        return _reduce_max(taps_of(x, unpadded, out, -np.inf), -np.inf)  # type: ignore[arg-type]
    total = _reduce_sum(taps_of(widened(x), unpadded, out, 0))  # type: ignore[arg-type]
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
    **attrs: Declared,
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
    infer=infer_pooling,
    ref=_pooling_v1,
    grad=grad_pooling_v1,
    expand=_newer,
    traits=Traits(in_single=True, names_data=True),
    doc="Pooling of old files, whose padding counts as zeros.",
)
