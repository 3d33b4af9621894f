"""Exact sums of products of bytes."""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, product
from ..attrs import Attrs
from ..nn.convolution import columns
from ..nn.window_geometry import padded, window_of
from .ranges import INT32


def convolved(data: np.ndarray, weight: np.ndarray, attrs: Attrs) -> np.ndarray:
    """Sums of a convolution of bytes, exact, as int64 (N, F, sizes...)."""
    window = window_of(attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"])
    groups, filters = attrs["num_group"], attrs["num_filter"]
    sizes: Shape = window.out_sizes(data.shape[2:])  # type: ignore[assignment]
    out = np.empty((data.shape[0], filters, *sizes), np.int64)
    wide = np.float32 if fits_single(weight) else np.float64
    w = weight.astype(wide).reshape(groups, filters // groups, -1)
    x = padded(data.astype(wide), window.pad, window.pad, 0)
    for unfolded, target in zip(columns(x, window, groups), out):
        target[...] = (w @ unfolded).reshape(filters, *sizes)
    return out


def fits_single(weight: np.ndarray) -> bool:
    """Whether sums of bytes times these filters are exact in float32: below 2**24."""
    return 255 * 127 * product(weight.shape[1:]) < 1 << 24


def multiplied(data: np.ndarray, weight: np.ndarray, flatten: bool) -> np.ndarray:
    """Sums of a matrix product of bytes, exact, as int64."""
    lead = data.shape[:1] if flatten else data.shape[:-1]
    rows = data.reshape(product(lead), weight.shape[1])
    wide = np.float32 if fits_single(weight) else np.float64
    sums = rows.astype(wide) @ weight.astype(wide).T
    return sums.astype(np.int64).reshape(*lead, weight.shape[0])


def wrapped(sums: np.ndarray) -> np.ndarray:
    """Sums as int32, without the higher bits."""
    return sums.astype(np.int64, copy=False).astype(INT32)


def away_from_zero(x: np.ndarray) -> np.ndarray:
    """Nearest integers, ties away from zero, as int64."""
    exact = x.astype(np.float64)
    return np.trunc(exact + np.copysign(0.5, exact)).astype(np.int64)
