"""Pooling over rotated regions, and over regions whose bins move by learned offsets.

Input: data (N, C, H, W); regions [batch, x, y, w, h, degrees] around a centre, or corners [batch,
x1, y1, x2, y2] with offsets. Output: one (channels, rows, columns) per region.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._core.types import Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import bounded, widened
from ..record import Traits
from ..registry import register
from ..rules import forward, require_float, same_dtype
from ..signatures import Arrays
from ..tensor.by_index import whole
from .region_bins import check_regions, check_samples, rounded
from .roi_align import samples_along, samples_near, samples_of_bin


def _bilinear(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Bilinear samples of (C, H, W) at points inside of it: (C, *points)."""
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    bottom = np.minimum(top + 1, image.shape[1] - 1)
    right = np.minimum(left + 1, image.shape[2] - 1)
    down, across = y - top, x - left
    upper = image[:, top, left] * (1 - across) + image[:, top, right] * across
    lower = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    return upper * (1 - down) + lower * down


@forward
def _infer_rotated(
    data: TensorType,
    rois: TensorType,
    *,
    pooled_size: Shape,
    sampling_ratio: int,
    **attrs: AttrValue,
) -> TensorType:
    """(R, C, *pooled_size)."""
    check_regions(data, rois, pooled_size, (6,))
    check_samples("sampling_ratio", sampling_ratio)
    return data.with_shape((rois.dims[0], data.dims[1], *pooled_size))


def _rotated(
    data: np.ndarray,
    rois: np.ndarray,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sampling_ratio: int,
) -> np.ndarray:
    """Average of bilinear samples of each bin; samples far outside count as 0."""
    images, regions = widened(data), widened(rois)
    number = images.dtype.type
    out = np.zeros((len(rois), images.shape[1], *pooled_size), images.dtype)
    for k, (batch, region) in enumerate(zip(whole(rois[:, 0]), regions)):
        if 0 <= batch < len(images) and images[batch].size:
            centre, size = region[1:5].reshape(2, 2)[:, ::-1] * number(spatial_scale)
            angle = region[5] * number(np.pi) / number(180)
            size = np.maximum(size, number(1))
            out[k] = _rotated_bins(images[batch], centre, size, angle, pooled_size, sampling_ratio)
    return out.astype(data.dtype, copy=False)


def _rotated_bins(
    image: np.ndarray,
    centre: np.ndarray,
    size: np.ndarray,
    angle: np.floating,
    bins: Shape,
    ratio: int,
) -> np.ndarray:
    """Bins of one region: (C, *bins). Arguments except the angle are (y, x)."""
    number = image.dtype.type
    height, width = image.shape[1:]
    cos, sin = np.cos(angle), np.sin(angle)
    ends = (
        np.array([-1, height], image.dtype) - centre[0],
        np.array([-1, width], number) - centre[1],
    )
    # The image's corners in the region's axes, so that only samples near the image are taken.
    y, x = np.meshgrid(*ends)
    corners = y * cos + x * sin, x * cos - y * sin
    axes, count = [], 1
    for n, b, seen in zip(size, bins, corners):
        step = n / number(b)
        samples = samples_of_bin(step, ratio)
        near = partial(samples_near, low=seen.min(), high=seen.max(), reach=height + width + 2)
        axes.append(samples_along(-n / number(2), step, b, samples, None if ratio > 0 else near))
        count *= max(samples, 1)
    (v, rows), (u, columns) = axes
    v, u = v[:, None], u[None, :]
    y, x = v * cos - u * sin + centre[0], u * cos + v * sin + centre[1]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    values = _bilinear(image, bounded(y, 0, height - 1), bounded(x, 0, width - 1))
    values = np.where(inside, values, 0)
    down, across = (
        (np.arange(b)[:, None] == at).astype(number) for b, at in zip(bins, (rows, columns))
    )
    return down @ values @ across.T / number(count)


register(
    "_contrib_RROIAlign",
    "data rois",
    "pooled_size:shape! spatial_scale:float[0,1]! sampling_ratio:int=-1",
    infer=_infer_rotated,
    ref=_rotated,
    doc="Average of bilinear samples in each bin of each rotated region.",
)


@forward
def _infer_deformable(
    data: TensorType,
    rois: TensorType,
    *trans: TensorType,
    output_dim: int,
    group_size: int,
    pooled_size: int,
    part_size: int,
    sample_per_part: int,
    **attrs: AttrValue,
) -> TensorType:
    """(R, output_dim, pooled_size, pooled_size)."""
    same_dtype(data, rois, *trans)
    require_float("DeformablePSROIPooling", data)
    check_regions(data, rois, (pooled_size, pooled_size), (5,))
    check_samples("sample_per_part", sample_per_part)
    if min(output_dim, group_size, sample_per_part) < 1 or part_size < 0:
        raise AttributeValueError("output_dim, group_size and sample_per_part must be positive")
    if data.dims[1] != output_dim * group_size**2:
        raise ShapeError(
            f"{output_dim} outputs of {group_size} x {group_size} groups need "
            f"{output_dim * group_size**2} channels, but data has {data.dims[1]}"
        )
    parts = part_size or pooled_size
    for t in trans:
        if t.ndim != 4 or t.dims[0] != rois.dims[0] or t.dims[2:] != (parts, parts):
            raise ShapeError(
                f"trans must be ({rois.dims[0]}, 2 * classes, {parts}, {parts}), got "
                f"{shape_text(t.shape)}"
            )
        if t.dims[1] < 2 or t.dims[1] % 2 or output_dim % (t.dims[1] // 2):
            raise ShapeError(
                f"trans needs two channels per class, and the number of classes must divide "
                f"{output_dim} "
                f"outputs, got {t.dims[1]}"
            )
    return data.with_shape((rois.dims[0], output_dim, pooled_size, pooled_size))


class _MovedBin(NamedTuple):
    """Bin of one class: indices of its result and its channels, and its samples, as (y, x).

    extent  size of the region, the unit of offsets
    """

    place: tuple[int | slice, ...]
    channels: tuple[int | slice, ...]
    part: tuple[int, ...]
    start: np.ndarray
    step: np.ndarray
    extent: np.ndarray


class _Layout(NamedTuple):
    """Layout of bins that the operator's attributes describe."""

    spatial_scale: float
    output_dim: int
    group_size: int
    pooled_size: int
    part_size: int
    sample_per_part: int
    trans_std: float
    no_trans: bool

    def groups(self, data: np.ndarray) -> np.ndarray:
        """View of the data with one axis for output channels and two for groups."""
        lead = (len(data), self.output_dim, self.group_size, self.group_size)
        return data.reshape(*lead, *data.shape[2:])


def _moved_bins(
    rois: np.ndarray, trans: np.ndarray, images: int, layout: _Layout
) -> Iterator[_MovedBin]:
    """Bins of all regions with a valid image; ``trans`` is (R, classes, 2, parts, parts)."""
    number = trans.dtype.type
    scale, half = number(layout.spatial_scale), number(0.5)
    (classes, _, parts, _), count = trans.shape[1:], layout.pooled_size
    width = layout.output_dim // classes
    for k, (batch, region) in enumerate(zip(whole(rois[:, 0]), widened(rois))):
        if not 0 <= batch < images:
            continue
        corners = rounded(region[1:5]).astype(trans.dtype)
        low = corners[1::-1] * scale - half  # y, x
        high = (corners[:1:-1] + number(1)) * scale - half
        extent = np.maximum(high - low, number(0.1))
        bins = extent / number(count)
        for c, i, j in np.ndindex(classes, count, count):
            place = np.array([i, j])
            group = np.clip(place * layout.group_size // count, 0, layout.group_size - 1)
            part = (k, c, *(place * parts // count))
            move = trans[k, c, ::-1, part[2], part[3]] * number(layout.trans_std)  # y, x
            start = place.astype(trans.dtype) * bins + low + move * extent
            own = slice(c * width, (c + 1) * width)
            step = bins / number(layout.sample_per_part)
            yield _MovedBin((k, own, i, j), (batch, own, *group), part, start, step, extent)


def _samples_inside(one: _MovedBin, count: int, size: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the samples of a bin that are inside, clipped to cells."""
    kind = one.start.dtype
    lines = (
        first + np.arange(count, dtype=kind) * step for first, step in zip(one.start, one.step)
    )
    y, x = np.meshgrid(*lines, indexing="ij")
    height, width = size
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    return np.clip(y[inside], 0, height - 1), np.clip(x[inside], 0, width - 1)


def _offsets(rois: np.ndarray, trans: tuple[np.ndarray, ...], kind: np.dtype) -> np.ndarray:
    """(R, classes, 2, parts, parts); zeros for one class without an operand."""
    if not trans:
        return np.zeros((len(rois), 1, 2, 1, 1), kind)
    count, channels, *parts = trans[0].shape
    return widened(trans[0]).reshape(count, channels // 2, 2, *parts)


def _deformable(
    data: np.ndarray, rois: np.ndarray, *trans: np.ndarray, **attrs: Declared
) -> np.ndarray:
    """Position-sensitive pooling whose bins move by ``trans`` times ``trans_std`` of the region.

    A bin is the mean over its samples inside the image, 0 if there are none.
    """
    layout, images = _Layout(**attrs), widened(data)
    groups = layout.groups(images)
    count = layout.pooled_size
    out = np.zeros((len(rois), layout.output_dim, count, count), images.dtype)
    if images.size:
        for one in _moved_bins(rois, _offsets(rois, trans, images.dtype), len(images), layout):
            y, x = _samples_inside(one, layout.sample_per_part, data.shape[2:])
            if y.size:
                out[one.place] = _bilinear(groups[one.channels], y, x).mean(axis=-1)
    return out.astype(data.dtype, copy=False)


def _deformable_back(
    head: np.ndarray, data: np.ndarray, rois: np.ndarray, *trans: np.ndarray, **attrs: Declared
) -> Arrays:
    """Gradients with respect to data (by the samples' weights) and offsets (by the slopes)."""
    layout, images, d = _Layout(**attrs), widened(data), widened(head)
    cells, moves = np.zeros_like(images), _offsets(rois, trans, images.dtype)
    groups, own, slopes = layout.groups(images), layout.groups(cells), np.zeros_like(moves)
    if images.size:
        for one in _moved_bins(rois, moves, len(images), layout):
            y, x = _samples_inside(one, layout.sample_per_part, data.shape[2:])
            if y.size:
                share = d[one.place] / d.dtype.type(y.size)
                found = _samples_back(share, groups[one.channels], own[one.channels], y, x)
                by_offset = found * one.extent * d.dtype.type(layout.trans_std)
                k, c, i, j = one.part
                slopes[k, c, ::-1, i, j] += by_offset
    made = (cells, *(slopes.reshape(t.shape) for t in trans))
    results = tuple(y.astype(data.dtype, copy=False) for y in made)
    return results if trans else results[0]


def _samples_back(
    share: np.ndarray, image: np.ndarray, cells: np.ndarray, y: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Add each sample's gradient to ``cells`` (C, H, W); return the sums of slopes by (y, x)."""
    low = [np.floor(place).astype(np.int64) for place in (y, x)]
    high = [np.ceil(place).astype(np.int64) for place in (y, x)]
    part = [place - first for place, first in zip((y, x), low)]
    slopes = np.zeros(2, image.dtype)
    for corner in np.ndindex(2, 2):
        row, column = (h if step else at for step, at, h in zip(corner, low, high))
        weights = [p if step else 1 - p for step, p in zip(corner, part)]
        places: Any = (slice(None), row, column)
        np.add.at(cells, places, share[:, None] * (weights[0] * weights[1]))
        value = share @ image[:, row, column]
        for axis, step in enumerate(corner):
            slopes[axis] += (value * weights[1 - axis]).sum() * (1 if step else -1)
    return slopes


def _deformable_inputs(*, no_trans: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "rois") if no_trans else ("data", "rois", "trans")


def _grad_deformable(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[X | None, ...]:
    by_data, *by_offset = g.outputs(DEFORMABLE_BACK, douts[0], *ins, **attrs)
    return by_data, None, *by_offset


_DEFORMABLE = (
    "spatial_scale:float[0,1]! output_dim:int! group_size:int! pooled_size:int! part_size:int=0 "
    "sample_per_part:int=1 trans_std:float[0,1]=0 no_trans:bool=False"
)
DEFORMABLE_BACK = register(
    "_deformable_pooling_back",
    lambda **attrs: ("head", *_deformable_inputs(**attrs)),
    _DEFORMABLE,
    internal=True,
    infer=forward(lambda head, data, rois, *trans, **attrs: (data, *trans)),
    ref=_deformable_back,
    outputs=lambda no_trans, **attrs: ("data",) if no_trans else ("data", "trans"),
    doc="Gradients of DeformablePSROIPooling with respect to data and offsets.",
)
register(
    "_contrib_DeformablePSROIPooling",
    _deformable_inputs,
    _DEFORMABLE,
    infer=_infer_deformable,
    ref=_deformable,
    grad=_grad_deformable,
    traits=Traits(total_outputs=2),
    doc="Mean of each bin of each region, from the bin's channels; bins move by offsets.",
)
