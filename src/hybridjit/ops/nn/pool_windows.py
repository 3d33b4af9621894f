"""Geometry of pooling windows: types, taps and divisors.

Input: (N, C, spatial...) or its channel-last layout. Windows cover [i*stride - pad, i*stride - pad
+ kernel); 'full' rounds the number of windows up.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..rules import Types, merged, require_float, same_dtype
from .window_geometry import (
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

POOLING_ATTRS = (
    "kernel:shape~=() pool_type:avg|lp|max|sum=max global_pool:bool=False "
    "pooling_convention:full|same|valid=valid stride:shape=() pad:shape=() p_value:int?=None "
    "count_include_pad:bool?=None layout:layout?=None"
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
    """Window of a Pooling that is not global. Raises ShapeError or AttributeValueError."""
    if len(kernel) != rank:
        raise ShapeError(
            f"kernel {shape_text(kernel)} has {len(kernel)} dimensions, but data has {rank} spatial"
        )
    if pooling_convention == "same":
        # MXNet runs 'same' for a single axis only, and requires three zeros as padding.
        if rank != 1 or any(pad):
            raise ShapeError("pooling_convention same needs 3D data without padding")
        pad = ()
    window = window_of(kernel, stride, (), pad)
    for p, k in zip(window.pad, window.kernel):
        if p >= k:
            raise ShapeError(f"pad must be smaller than the kernel, but {p} is not less than {k}")
    return window


def pooled_sizes(window: Window, sizes: PartialShape, convention: str) -> PartialShape:
    """Number of windows along each axis. Raises ShapeError if the kernel exceeds the input."""
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


def infer_pooling(
    ins: Types,
    outs: Types,
    *,
    kernel: Shape,
    pool_type: str,
    global_pool: bool,
    pooling_convention: str,
    p_value: int | None = None,
    layout: str | None = None,
    **attrs: Declared,
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


def taps_of(x: np.ndarray, window: Window, out: Shape, value: float) -> list[np.ndarray]:
    """One view per tap of the window, each of the output's spatial sizes, padded with value."""
    after = tuple(
        max(0, (o - 1) * s + k - p - n)
        for o, s, k, p, n in zip(out, window.stride, window.kernel, window.pad, x.shape[2:])
    )
    x = padded(x, window.pad, after, value)
    return [x[tap_cells(tap, window.stride, out)] for tap in np.ndindex(*window.kernel)]


def divisors_of(sizes: Shape, window: Window, out: Shape, include_pad: bool) -> np.ndarray:
    """Number of cells that each window averages: inside the padded input, or the input.

    A window entirely outside counts as 1, so that its sum of 0 remains 0.
    """
    counts = np.ones((), np.int64)
    for n, k, s, p, o in zip(sizes, window.kernel, window.stride, window.pad, out):
        start = np.arange(o) * s - p
        low, high = (-p, n + p) if include_pad else (0, n)
        inside = np.minimum(start + k, high) - np.maximum(start, low)
        counts = counts[..., None] * np.maximum(inside, 0)
    return np.maximum(counts, 1)
