"""Readers of ONNX's sampling of images and volumes, and of affine grids.

Linear sampling of images uses MXNet's operator, which has a kernel. Other modes are sums of single
elements: a *tap* is an element's index along one axis and its weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .narrow import bounded, nearest_even
from .pointwise import to_shape
from .table import MICROSOFT, translates

_SHARPNESS = -0.75  # coefficient of Keys' polynomials
_WHOLE = np.dtype("int64")


class Tap(NamedTuple):
    """Indices along an axis and their weights, None if all weights are 1."""

    place: Value
    weight: Value | None


@translates("AffineGrid")
def affine_grid(g: Importer, use: Use, theta: Value, size: Value) -> Value:
    """Sampling positions of affine maps in two or three dimensions, last axis first."""
    n, _, *sizes = g.ints(size, "size")
    count, rank = math.prod(sizes), len(sizes) + 1
    g.require_small(count * rank)
    corners = bool(use.number("align_corners"))
    axes = np.meshgrid(*(_places(size, corners) for size in sizes), indexing="ij")
    grid = np.stack([*axes[::-1], np.ones(sizes)], -1).reshape(1, -1, rank)
    base = to_shape(g, g.constant(grid.astype(g.dtype(theta))), (n, count, rank))
    made = g.op("batch_dot", base, theta, transpose_b=True, at="map")
    return g.op("Reshape", made, shape=(n, *sizes, len(sizes)))


def _places(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count)
    return (np.arange(count) * 2 + 1) / count - 1


@translates("GridSample", MICROSOFT + "GridSample")
def grid_sample(g: Importer, use: Use, x: Value, grid: Value) -> Value:
    """Samples at positions from -1 to 1, with padding by zeros, the edge or reflection."""
    mode = use.text("mode", "bilinear" if use.opset < 20 else "linear").removeprefix("bi")
    if mode not in ("linear", "nearest", "cubic"):
        raise MXNetError(f"mode '{mode}' is not supported; linear, nearest and cubic are")
    around = use.text("padding_mode", "zeros")
    if around not in ("zeros", "border", "reflection"):
        raise MXNetError(
            f"padding_mode '{around}' is not supported; zeros, border and reflection are"
        )
    sizes = g.shape(x)[2:]
    if len(sizes) == 2 and mode != "cubic" and min(sizes) > 1:
        return _of_picture(g, use, x, grid, mode, around)
    corners, dtype = bool(use.number("align_corners")), g.dtype(x)
    if g.dtype(grid) != dtype:
        grid = g.op("Cast", grid, dtype=dtype, at="grid")
    axes = g.outputs(
        "SliceChannel", grid, num_outputs=len(sizes), axis=len(sizes) + 1, squeeze_axis=True, at="x"
    )
    pixels = [_pixel(g, axis, n, corners) for axis, n in zip(reversed(axes), sizes)]
    taps = [
        [_inside(g, tap, n, around, corners, dtype) for tap in _taps(g, pixel, mode)]
        for pixel, n in zip(pixels, sizes)
    ]
    return _taken(g, x, taps)


def _of_picture(g: Importer, use: Use, x: Value, grid: Value, mode: str, around: str) -> Value:
    """Sampling by MXNet's operator."""
    corners, sizes = use.number("align_corners"), g.shape(x)[:1:-1]
    places = g.op("transpose", grid, axes=(0, 3, 1, 2), at="places")
    if around == "reflection":
        places = _reflected(g, places)
    row = np.array(sizes, np.float64).reshape(1, 2, 1, 1)
    scale, shift = ((row - 1) / 2,) * 2 if corners else (row / 2, row / 2 - 0.5)
    pixel = _along(g, _along(g, places, scale, "broadcast_mul"), shift, "broadcast_add")
    if around != "zeros":
        low = g.op("_maximum_scalar", pixel, scalar=0.0, at="low")
        pixel = _along(g, low, row - 1, "broadcast_minimum")
    if mode == "nearest":
        pixel = nearest_even(g, pixel)
    half = (row - 1) / 2
    final = g.op("_minus_scalar", _along(g, pixel, 1 / half, "broadcast_mul"), scalar=1.0, at="at")
    return g.op("BilinearSampler", x, final)


def _along(g: Importer, x: Value, numbers: np.ndarray, op: str) -> Value:
    return g.op(op, x, g.constant(numbers.astype(g.dtype(x))), at="pixel")


def _reflected(g: Importer, x: Value) -> Value:
    """Positions reflected at -1 and 1 into that interval: 1 - |((x + 1) mod 4) - 2|."""
    shifted = g.op("_mod_scalar", g.op("_plus_scalar", x, scalar=1.0), scalar=4.0, at="period")
    far = g.op("abs", g.op("_minus_scalar", shifted, scalar=2.0, at="middle"), at="far")
    return g.op("_rminus_scalar", far, scalar=1.0, at="mirrored")


def _pixel(g: Importer, place: Value, count: int, corners: bool) -> Value:
    """Positions from -1 to 1 as fractional indices."""
    ends = (0, count - 1) if corners else (-0.5, count - 0.5)
    scaled = g.op("_mul_scalar", place, scalar=(ends[1] - ends[0]) / 2, at="scaled")
    return g.op("_plus_scalar", scaled, scalar=sum(ends) / 2, at="pixel")


def _taps(g: Importer, pixel: Value, mode: str) -> list[Tap]:
    """Taps of a sample along one axis."""
    if mode == "nearest":
        return [Tap(g.op("Cast", nearest_even(g, pixel), dtype=_WHOLE, at="index"), None)]
    low = g.op("floor", pixel, at="low")
    rest = g.op("elemwise_sub", pixel, low, at="rest")
    first = g.op("Cast", low, dtype=_WHOLE, at="index")
    other = g.op("_rminus_scalar", rest, scalar=1.0, at="other")
    if mode == "linear":
        weights = [other, rest]
        return [Tap(_moved(g, first, i), w) for i, w in enumerate(weights)]
    weights = [_outer(g, rest), _inner(g, rest), _inner(g, other), _outer(g, other)]
    return [Tap(_moved(g, first, i - 1), w) for i, w in enumerate(weights)]


def _moved(g: Importer, index: Value, by: int) -> Value:
    return g.op("_plus_scalar", index, scalar=float(by), at="index")


def _inner(g: Importer, t: Value) -> Value:
    """Keys' polynomial at ``t`` in [0, 1]."""
    return _polynomial(g, t, (_SHARPNESS + 2, -(_SHARPNESS + 3), 0.0, 1.0))


def _outer(g: Importer, t: Value) -> Value:
    """Keys' polynomial at 1 + ``t``."""
    return _polynomial(g, t, (_SHARPNESS, -2 * _SHARPNESS, _SHARPNESS, 0.0))


def _polynomial(g: Importer, t: Value, factors: Sequence[float]) -> Value:
    """Polynomial with the coefficient of the highest power first."""
    made = g.op("_mul_scalar", t, scalar=factors[0], at="power")
    for factor in factors[1:-1]:
        made = g.op("elemwise_mul", g.op("_plus_scalar", made, scalar=factor), t, at="power")
    return g.op("_plus_scalar", made, scalar=factors[-1], at="weight")


def _inside(g: Importer, tap: Tap, count: int, around: str, corners: bool, dtype: np.dtype) -> Tap:
    """Tap with valid indices, and weight 0 outside if padding is zeros."""
    index, weight = tap
    if around == "reflection":
        index = _mirrored(g, index, count, corners)
    clipped = bounded(g, index, 0.0, count - 1.0)
    if around == "zeros":
        is_inside = g.op("broadcast_equal", index, clipped, at="inside")
        seen = g.op("Cast", is_inside, dtype=dtype, at="inside")
        weight = seen if weight is None else g.op("broadcast_mul", weight, seen, at="weight")
    return Tap(clipped, weight)


def _mirrored(g: Importer, index: Value, count: int, corners: bool) -> Value:
    """Indices reflected at the centres of the outermost elements, or at their edges."""
    period = max(2 * count - 2, 1) if corners else 2 * count
    turned = g.op("_mod_scalar", index, scalar=float(period), at="period")
    back = g.op("_rminus_scalar", turned, scalar=float(period - (not corners)), at="back")
    return g.op("broadcast_minimum", turned, back, at="mirrored")


def _taken(g: Importer, x: Value, taps: Sequence[Sequence[Tap]]) -> Value:
    """Sum over all combinations of one tap of each axis."""
    n, c, *sizes = g.shape(x)
    last = (0, *range(2, len(sizes) + 2), 1)
    rows = g.op("transpose", x, axes=last, at="channels")
    rows = g.op("Reshape", rows, shape=(n * math.prod(sizes), c), at="rows")
    start = np.arange(n).reshape(n, *(1 for _ in sizes)) * math.prod(sizes)
    total = None
    for chosen in itertools.product(*taps):
        index = g.constant(start)
        for i, tap in enumerate(chosen):
            step = g.op("_mul_scalar", tap.place, scalar=float(math.prod(sizes[i + 1 :])), at="row")
            index = g.op("broadcast_add", step, index, at="row")
        part = g.op("take", rows, index, axis=0, at="cells")
        for weight in (tap.weight for tap in chosen if tap.weight is not None):
            lone = g.op("expand_dims", weight, axis=len(sizes) + 1, at="weight")
            part = g.op("broadcast_mul", part, lone, at="part")
        total = part if total is None else g.op("elemwise_add", total, part, at="sum")
    assert total is not None
    return g.op("transpose", total, axes=(0, len(sizes) + 1, *range(1, len(sizes) + 1)))
