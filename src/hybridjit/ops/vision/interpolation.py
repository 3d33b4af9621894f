"""Image resizing with OpenCV's rules, which MXNet's image functions have.

Input: images (..., H, W, C), a height and a width, and OpenCV's code of the method. Output: resized
images of the same dtype. Axes are processed separately: every new cell is a weighted sum of a few
old ones, its *taps*. Cells beyond the edges are equal to the edge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .. import native
from ..casting import convert

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
METHODS = {
    NEAREST: "nearest",
    LINEAR: "bilinear",
    CUBIC: "bicubic",
    AREA: "area",
    LANCZOS: "Lanczos",
}

# Maximal bytes of a pixel that machine code copies at once.
_MOST_MOVED = 64
# Maximal terms of a sum, and channels of a pixel, that are unrolled in machine code.
_FEW_TAPS, _FEW_CHANNELS = 8, 4
# Weights of 8-bit images are integer multiples of 1 / 2048.
_FIXED_BITS = 11


class Taps(NamedTuple):
    """New cell i is the sum over k of ``weights[i, k]`` times cell ``cells[i, k]``."""

    cells: np.ndarray
    weights: np.ndarray


def resample(data: np.ndarray, height: int, width: int, method: int) -> np.ndarray:
    """(..., H, W, C) -> (..., height, width, C)."""
    rows, columns = data.shape[-3:-1]
    if (height, width) == (rows, columns):
        return data.copy()
    if method == NEAREST:
        return _nearest(data, height, width)
    shrinks = rows >= height and columns >= width
    if method == LINEAR and rows == 2 * height and columns == 2 * width:
        method = AREA  # equal sums, with OpenCV's rounding
    if method == AREA and shrinks:
        return _area_means(data, height, width)
    vertical, horizontal = _taps(height, rows, method), _taps(width, columns, method)
    if method == LINEAR:  # along rows OpenCV adds outside weights to the edge
        horizontal = _edged(horizontal)
    if data.dtype == np.uint8:
        return _fixed_point(data, vertical, horizontal, method)
    working = np.dtype(np.float32 if data.dtype in (np.float16, np.float32) else np.float64)
    return _weighted(data, vertical, horizontal, working)


def _nearest(data: np.ndarray, height: int, width: int) -> np.ndarray:
    rows, columns = data.shape[-3:-1]
    return picked(data, _nearest_cells(height, rows), _nearest_cells(width, columns))


def picked(data: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The pixels of images (..., H, W, C) in rows ``y`` and columns ``x``, int64."""
    rows, columns, channels = data.shape[-3:]
    pixel = channels * data.itemsize
    run = native.routine("nearest", pixel, size=data.size) if pixel <= _MOST_MOVED else None
    if run is None:
        return data[..., y[:, None], x, :]
    made = np.empty((*data.shape[:-3], len(y), len(x), channels), data.dtype)
    source = np.ascontiguousarray(data)
    batch = data.size // (rows * columns * channels)
    run([source, made, (x * pixel).astype(np.int32), y], [batch, rows, columns, len(y), len(x)])
    return made


def _nearest_cells(out: int, size: int) -> np.ndarray:
    return np.minimum((np.arange(out) * (1 / (out / size))).astype(np.int64), size - 1)


@lru_cache(maxsize=256)
def _taps(out: int, size: int, method: int) -> Taps:
    """Taps that do not depend on the scale of shrinking; enlarging by area is linear."""
    scale = 1 / (out / size)
    new = np.arange(out)
    if method == AREA:
        low = np.floor(new * scale)
        at = low + np.maximum((new + 1) - (low + 1) / scale, 0) % 1
    else:
        at = ((new + 0.5) * scale - 0.5).astype(np.float32)  # single precision, as in OpenCV
    low = np.floor(at)
    first, weights_of = _WEIGHTS[method]
    weights = weights_of((at - low).astype(np.float32))
    cells = low[:, None].astype(np.int64) + np.arange(first, first + weights.shape[1])
    return Taps(np.clip(cells, 0, size - 1), weights)


def _edged(taps: Taps) -> Taps:
    """Assign the whole weight to the first tap where both taps are the same cell."""
    same = taps.cells[:, :1] == taps.cells[:, 1:]
    return Taps(taps.cells, np.where(same, np.array([[1, 0]], np.float32), taps.weights))


def _linear(x: np.ndarray) -> np.ndarray:
    return np.stack([1 - x, x], axis=1)


def _cubic(x: np.ndarray) -> np.ndarray:
    """Cubic convolution (Keys 1981) with a = -0.75; ``x`` is the distance from the second tap."""
    a = np.float32(-0.75)
    outer = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    left = ((a + 2) * x - (a + 3)) * x * x + 1
    right = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
    return np.stack([outer, left, right, 1 - outer - left - right], axis=1)


def _lanczos(x: np.ndarray) -> np.ndarray:
    """sinc(t) sinc(t / 4) at the eight nearest cells, scaled to the sum 1."""
    t = x[:, None].astype(np.float64) + 3 - np.arange(8)
    weights = np.sinc(t) * np.sinc(t / 4)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


# Offset of the first tap from the cell at or before, and weights from the distance to it.
_WEIGHTS: dict[int, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    LINEAR: (0, _linear),
    AREA: (0, _linear),
    CUBIC: (-1, _cubic),
    LANCZOS: (-3, _lanczos),
}


def _sum_rows(x: np.ndarray, taps: Taps) -> np.ndarray:
    """Weighted sums along axis -3."""
    return sum(  # type: ignore[return-value]
        x[..., cells, :, :] * weights[:, None, None]
        for cells, weights in zip(taps.cells.T, taps.weights.T)
    )


def _sum_columns(x: np.ndarray, taps: Taps) -> np.ndarray:
    """Weighted sums along axis -2."""
    return sum(  # type: ignore[return-value]
        x[..., cells, :] * weights[:, None] for cells, weights in zip(taps.cells.T, taps.weights.T)
    )


def _weighted(data: np.ndarray, vertical: Taps, horizontal: Taps, working: np.dtype) -> np.ndarray:
    """The sums in floating point; integers are rounded to the nearest, ties to even."""
    if data.dtype in (np.uint8, np.float32) and working == np.float32:
        made = _by_routine(data, vertical, horizontal, "float")
        if made is not None:
            return made
    lines = _sum_columns(data.astype(working), horizontal)
    return _rounded(_sum_rows(lines, vertical).astype(working, copy=False), data.dtype)


def _rounded(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind not in "iu":
        return x.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    return convert(np.clip(np.rint(x), limits.min, limits.max), dtype)


def _fixed_point(data: np.ndarray, vertical: Taps, horizontal: Taps, method: int) -> np.ndarray:
    """Resize 8-bit images by integer sums, with OpenCV's truncation between the two axes."""
    made = _by_fixed_routine(data, vertical, horizontal, method)
    if made is not None:
        return made
    vertical, horizontal = _whole(vertical), _whole(horizontal)
    lines = _sum_columns(data.astype(np.int64), horizontal)
    if method in (LINEAR, AREA):
        # OpenCV's vertical pass drops 4 bits of the rows and 16 of each product.
        parts = (
            ((lines >> 4)[..., cells, :, :] * weights[:, None, None]) >> 16
            for cells, weights in zip(vertical.cells.T, vertical.weights.T)
        )
        y = (sum(parts) + 2) >> 2
    elif method == CUBIC:  # in single precision, four columns at a time
        y = np.rint(_sum_rows(lines.astype(np.float32), _scaled(vertical)))
    else:
        bits = 2 * _FIXED_BITS
        y = (_sum_rows(lines, vertical) + (1 << (bits - 1))) >> bits
    return np.clip(y, 0, 255).astype(np.uint8)


def _whole(taps: Taps) -> Taps:
    return Taps(taps.cells, np.rint(taps.weights * np.float32(1 << _FIXED_BITS)).astype(np.int64))


def _scaled(whole: Taps) -> Taps:
    """Floating-point weights of rows whose own weights are integers."""
    scaled = (whole.weights / float(1 << 2 * _FIXED_BITS)).astype(np.float32)
    return Taps(whole.cells, scaled)


def _by_fixed_routine(
    data: np.ndarray, vertical: Taps, horizontal: Taps, method: int
) -> np.ndarray | None:
    if data.size < native.WORTH_NATIVE:
        return None
    down, across = _whole(vertical), _whole(horizontal)
    if method == CUBIC:
        return _by_routine(data, _scaled(down), across, "single")
    return _by_routine(data, down, across, "whole" if method == LANCZOS else "cut")


def _by_routine(data: np.ndarray, down: Taps, across: Taps, how: str) -> np.ndarray | None:
    """Sums computed by machine code; None where NumPy must compute them."""
    rows, columns, channels = data.shape[-3:]
    taps = [table.cells.shape[1] for table in (across, down)]
    known = [count if count <= _FEW_TAPS else 0 for count in taps]
    known.append(channels if channels <= _FEW_CHANNELS else 0)
    run = native.routine("resample", data.dtype.name, how, *known, size=data.size)
    if run is None:
        return None
    source = np.ascontiguousarray(data)
    height, width = len(down.cells), len(across.cells)
    made = np.empty((*data.shape[:-3], height, width, channels), data.dtype)
    batch = made.size // (height * width * channels)
    last = np.zeros((columns + 1) * channels + 4, data.dtype)  # a vector reads beyond a pixel
    last[: columns * channels] = source.reshape(-1)[-columns * channels :]
    kept = _power_of_two(int((down.cells[:, -1] - down.cells[:, 0]).max()) + 1)
    lines = np.empty(kept * (width * channels + 4), np.float32)
    arrays = [source, last, made, lines, *_tables(across, channels, how), *_tables(down, 0, how)]
    sizes = [batch, rows, columns, height, width, channels, *taps, kept - 1]
    run(arrays, sizes)
    return made


def _power_of_two(count: int) -> int:
    """Smallest power of two that is at least ``count``."""
    return 1 << (count - 1).bit_length()


def _tables(taps: Taps, channels: int, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Cells and weights in the routine's format: offsets in a row, or indices of rows."""
    cells = (taps.cells * channels).astype(np.int32) if channels else taps.cells
    is_float = how == "float" or (how == "single" and not channels)
    weights = taps.weights.astype(np.float32 if is_float else np.int32)
    return np.ascontiguousarray(cells), np.ascontiguousarray(weights)


def _area_means(data: np.ndarray, height: int, width: int) -> np.ndarray:
    """Mean of the area that each new cell covers."""
    rows, columns = data.shape[-3:-1]
    if rows % height or columns % width:
        vertical, horizontal = _area_taps(height, rows), _area_taps(width, columns)
        working = np.dtype(np.float64 if data.dtype == np.float64 else np.float32)
        return _weighted(data, vertical, horizontal, working)
    blocks = data.reshape(
        *data.shape[:-3], height, rows // height, width, columns // width, data.shape[-1]
    )
    area = (rows // height) * (columns // width)
    if data.dtype == np.uint8 and area == 4 and rows == 2 * height:
        return ((blocks.sum((-4, -2), dtype=np.int64) + 2) >> 2).astype(np.uint8)  # ties round up
    exact = np.dtype(np.float32 if data.dtype == np.float32 else np.float64)
    total = blocks.sum((-4, -2), dtype=exact)
    return _rounded((total * np.float32(1 / area)).astype(exact), data.dtype)


def _area_taps(out: int, size: int) -> Taps:
    """Cells between i * scale and (i + 1) * scale, weighted by the covered fraction."""
    scale = size / out
    edges = np.arange(out) * scale
    first = np.floor(edges + 1e-3).astype(np.int64)
    cells = first[:, None] + np.arange(int(np.ceil(scale)) + 1)
    covered = np.minimum(cells + 1, (edges + scale)[:, None]) - np.maximum(cells, edges[:, None])
    width = np.minimum(scale, size - edges)[:, None]
    weights = np.where(covered > 1e-3, covered, 0) / width
    return Taps(np.minimum(cells, size - 1), weights.astype(np.float32))
