"""Sampling by a grid: spatial transformers.

Input: data (N, C, H, W) and a grid (N, 2, h, w) of x and y in [-1, 1], or parameters of one.
Output: (N, C, h, w). -1 and 1 are the centres of the first and the last cell; cells outside are
zero.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import widened
from ..elementwise.binary import ADD, DIVIDE, SUBTRACT
from ..nn.matrix_products import FULLY_CONNECTED
from ..record import Eager, Traits
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float, same_dtype
from ..tensor.primitives import reshape
from .bilinear_samples import bilinear_back, corner_cells, is_back_native, sample_zero_padded


def _check_target(target_shape: Shape) -> None:
    if len(target_shape) != 2 or min(target_shape) < 1:
        raise AttributeValueError(
            f"target_shape must be two positive integers, got {shape_text(target_shape)}"
        )


def _axis(count: int, dtype: np.dtype) -> np.ndarray:
    """``count`` points from -1 to 1."""
    return (np.arange(count) * (2 / (count - 1) if count > 1 else 0) - 1).astype(dtype)


def _points(height: int, width: int, dtype: np.dtype) -> np.ndarray:
    """(x, y, 1) of every position of the target, (h * w, 3)."""
    y, x = np.meshgrid(_axis(height, dtype), _axis(width, dtype), indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.ones(height * width, dtype)], axis=1)


def _pixels(height: int, width: int, dtype: np.dtype) -> np.ndarray:
    """x and y of every pixel: (1, 2, h, w)."""
    y, x = np.mgrid[:height, :width].astype(dtype)
    return np.stack([x, y])[None]


def _halves(height: int, width: int, dtype: np.dtype) -> np.ndarray:
    """Half of the last x and of the last y, (1, 2, 1, 1)."""
    return np.array([max(width - 1, 1) / 2, max(height - 1, 1) / 2], dtype).reshape(1, 2, 1, 1)


def affine_grid(theta: np.ndarray, height: int, width: int) -> np.ndarray:
    """(N, 6) row-major 2 x 3 matrices times (x, y, 1): a grid (N, 2, h, w), x first."""
    points = _points(height, width, theta.dtype).T
    return (theta.reshape(len(theta), 2, 3) @ points).reshape(len(theta), 2, height, width)


def warp_grid(flow: np.ndarray) -> np.ndarray:
    """Pixel coordinates displaced by a flow (N, 2, h, w), x first, as a grid."""
    size = (*flow.shape[2:], flow.dtype)
    return (flow + _pixels(*size)) / _halves(*size) - 1


_CONSTANTS = {"points": _points, "pixels": _pixels, "halves": _halves}


def _infer_constant(
    ins: Types, outs: Types, *, what: str, height: int, width: int, dtype: np.dtype
) -> tuple[Types, Types]:
    shapes: dict[str, Shape] = {
        "points": (height * width, 3),
        "pixels": (1, 2, height, width),
        "halves": (1, 2, 1, 1),
    }
    return ins, merged(outs, (TensorType(shapes[what], dtype),))


GRID_CONSTANT = register(
    "_grid_constant",
    "",
    "what:halves|pixels|points! height:int! width:int! dtype:dtype!",
    internal=True,
    infer=_infer_constant,
    ref=lambda *, what, **attrs: _CONSTANTS[what](**attrs),
    doc="Constants of a grid of this size; created by the compiler only.",
)


@forward
def _infer_grid(data: TensorType, *, transform_type: str, target_shape: Shape) -> TensorType:
    """affine: (N, 6) -> (N, 2, *target_shape); warp: like the flow."""
    require_float("GridGenerator", data)
    if transform_type == "affine":
        _check_target(target_shape)
        if data.ndim != 2 or data.dims[1] != 6:
            raise ShapeError(f"affine data should be (batch, 6), got {shape_text(data.shape)}")
        return data.with_shape((data.dims[0], 2, *target_shape))
    if data.ndim != 4 or data.dims[1] != 2:
        raise ShapeError(f"warp data should be (batch, 2, h, w), got {shape_text(data.shape)}")
    return data


def _grid(data: np.ndarray, *, transform_type: str, target_shape: Shape) -> np.ndarray:
    x = widened(data)
    grid = affine_grid(x, *target_shape) if transform_type == "affine" else warp_grid(x)
    return grid.astype(data.dtype, copy=False)


def _grid_parts(g: Builder[X], data: X, *, transform_type: str, target_shape: Shape) -> X:
    """GridGenerator(x)  =>  affine: points times matrices; warp: (flow + pixels) / halves - 1"""
    t = g.type(data)
    height, width = target_shape if transform_type == "affine" else t.dims[2:]

    def constant(what: str) -> X:
        size = {"height": height, "width": width, "dtype": t.dtype}
        return g.op(GRID_CONSTANT, at=what, what=what, **size)

    if transform_type == "affine":
        theta = reshape(g, data, (t.dims[0] * 2, 3), at="theta")
        attrs = {"num_hidden": height * width, "no_bias": True}
        rows = g.op(FULLY_CONNECTED, theta, constant("points"), at="rows", **attrs)
        return reshape(g, rows, (t.dims[0], 2, height, width))
    moved = g.op(ADD.broadcasting, data, constant("pixels"), at="moved")
    share = g.op(DIVIDE.broadcasting, moved, constant("halves"), at="part")
    return g.op(SUBTRACT.scalar, share, scalar=1.0)


GRID_GENERATOR = register(
    "GridGenerator",
    "data",
    "transform_type:affine|warp! target_shape:shape=(0,0)",
    infer=_infer_grid,
    ref=_grid,
    expand=_grid_parts,
    traits=Traits(parts_in_floats=True, names_data=True, total_outputs=2),
    doc="A sampling grid from affine matrices or from a flow.",
)


def sample(data: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Bilinear samples of each (C, H, W) at its grid."""
    x, g = widened(data), widened(grid)
    height, width = data.shape[2:]
    out = np.empty((*data.shape[:2], *grid.shape[2:]), data.dtype)
    for n in range(len(data)):
        columns, rows = (
            (g[n, i] + 1) * g.dtype.type((size - 1) / 2) for i, size in ((0, width), (1, height))
        )
        out[n] = sample_zero_padded(x[n], rows, columns)
    return out


@forward
def _infer_sampler(data: TensorType, grid: TensorType) -> TensorType:
    """(N, C) of the data, (h, w) of the grid."""
    same_dtype(data, grid)
    require_float("BilinearSampler", data)
    if data.ndim != 4 or grid.ndim != 4 or grid.dims[:2] != (data.dims[0], 2):
        raise ShapeError(
            f"data should be 4D and grid (batch, 2, h, w), got {shape_text(data.shape)} and "
            f"{shape_text(grid.shape)}"
        )
    return data.with_shape((*data.dims[:2], *grid.dims[2:]))


def _sample_back(
    head: np.ndarray, data: np.ndarray, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients with respect to data (by the samples' weights) and grid (by the slopes)."""
    d, x, g = (widened(a) for a in (head, data, grid))
    channels, *size = data.shape[1:]
    if is_back_native(d, x):
        return _back_by_routine(d, x, g)
    cells, places = np.zeros((len(x), *size, channels), x.dtype), np.zeros_like(g)
    scale = [g.dtype.type((n - 1) / 2) for n in size]
    for n in range(len(x)):
        at = [(g[n, 1 - axis] + 1) * scale[axis] for axis in (0, 1)]
        slopes = _taken_back(d[n], x[n], at, cells[n])
        for axis in (0, 1):
            places[n, 1 - axis] = slopes[axis] * scale[axis]
    moved = np.ascontiguousarray(np.moveaxis(cells, 3, 1))
    return moved.astype(data.dtype, copy=False), places.astype(grid.dtype, copy=False)


def _back_by_routine(d: np.ndarray, x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes = x.shape[2:]
    scale = [g.dtype.type((n - 1) / 2) for n in sizes]
    at = [(g[:, 1 - axis] + 1) * scale[axis] for axis in (0, 1)]
    low = [np.floor(place) for place in at]
    shares = np.stack([place - first for place, first in zip(at, low)], -1)
    # Cells far outside of an image are as good as those beside it.
    top, left = (np.clip(a, -2, n).astype(np.int64) for a, n in zip(low, sizes))
    corners = corner_cells(top, left, sizes)
    ones = np.ones(top.shape, x.dtype)
    images, heads = (np.moveaxis(a, 1, 3) for a in (x, d))
    of_x, of_at, _ = bilinear_back(images, heads, corners, shares, ones)
    places = np.stack([of_at[..., 1 - axis] * scale[1 - axis] for axis in (0, 1)], 1)
    return np.ascontiguousarray(np.moveaxis(of_x, 3, 1)), places


def _taken_back(
    d: np.ndarray, x: np.ndarray, at: list[np.ndarray], cells: np.ndarray
) -> list[np.ndarray]:
    """Add the gradients of sampled cells to ``cells``; return the slopes along rows and columns."""
    size = x.shape[1:]
    low = [np.floor(place).astype(np.int64) for place in at]
    part = [place - first for place, first in zip(at, low)]
    slopes = [np.zeros_like(place) for place in at]
    for corner in np.ndindex(2, 2):
        cell = [first + step for first, step in zip(low, corner)]
        share = [p if step else 1 - p for p, step in zip(part, corner)]
        inside = np.logical_and(*[(c >= 0) & (c < n) for c, n in zip(cell, size)])
        y, c = (place[inside] for place in cell)
        own = d[:, inside]
        weighted = own * (share[0] * share[1])[inside]
        np.add.at(cells.reshape(-1, len(d)), y * size[1] + c, weighted.T)
        value = (own * x[:, y, c]).sum(axis=0)
        for axis, step in enumerate(corner):
            slopes[axis][inside] += value * share[1 - axis][inside] * (1 if step else -1)
    return slopes


def _grad_sampler(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]) -> tuple[X, ...]:
    return g.outputs(SAMPLE_BACK, douts[0], *ins)


SAMPLE_BACK = register(
    "_bilinear_sampler_back",
    "head data grid",
    internal=True,
    infer=forward(lambda head, data, grid: (data, grid)),
    ref=_sample_back,
    outputs=("data", "grid"),
    doc="Gradients of BilinearSampler with respect to data and grid.",
)
BILINEAR_SAMPLER = register(
    "BilinearSampler",
    "data grid",
    infer=_infer_sampler,
    ref=sample,
    grad=_grad_sampler,
    traits=Traits(total_outputs=2, eager=Eager.TWIN),
    doc="Bilinear samples at the points of a grid.",
)


def _sample_last(data: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(sample(np.moveaxis(data, 3, 1), grid), 1, 3))


SAMPLE_LAST = register(
    "_sample_last",
    "data grid",
    internal=True,
    kernel="sample",
    infer=forward(lambda data, grid: data.with_shape((data.dims[0], *grid.dims[2:], data.dims[3]))),
    ref=_sample_last,
    doc="BilinearSampler with channels last; created by the compiler only.",
)


def _infer_transformer(
    ins: Types,
    outs: Types,
    *,
    target_shape: Shape,
    transform_type: str,
    sampler_type: str,
) -> tuple[Types, Types]:
    """(N, C, *target_shape); loc is (N, 6)."""
    _check_target(target_shape)
    if (transform_type, sampler_type) != ("affine", "bilinear"):
        raise AttributeValueError(
            "transform_type must be affine and sampler_type bilinear, got "
            f"{transform_type} and {sampler_type}"
        )
    data, loc = ins
    dtype = same_dtype(data, loc)
    require_float("SpatialTransformer", data)
    if data.shape is None:
        return ins, outs
    if len(data.shape) != 4:
        raise ShapeError(f"data should be 4D, got {shape_text(data.shape)}")
    out = TensorType((*data.shape[:2], *target_shape), dtype)
    return (data, fill(loc, (data.shape[0], 6), dtype)), merged(outs, (out,))


def _transformer(
    data: np.ndarray, loc: np.ndarray, *, target_shape: Shape, **attrs: AttrValue
) -> np.ndarray:
    return sample(data, affine_grid(widened(loc), *target_shape))


def _transformer_parts(
    g: Builder[X], data: X, loc: X, *, target_shape: Shape, **attrs: AttrValue
) -> X:
    """SpatialTransformer(x, loc)  =>  BilinearSampler(x, GridGenerator(loc))"""
    attrs = {"transform_type": "affine", "target_shape": target_shape}
    return g.op(BILINEAR_SAMPLER, data, g.op(GRID_GENERATOR, loc, at="grid", **attrs))


register(
    "SpatialTransformer",
    "data loc",
    "target_shape:shape=(0,0) transform_type:string! sampler_type:string!",
    infer=_infer_transformer,
    ref=_transformer,
    expand=_transformer_parts,
    traits=Traits(parts_in_floats=True, total_outputs=3),
    doc="Resample the data by an affine transformation.",
)
