"""Pooling over regions that are turned, or whose bins move by learned offsets.

In: data (N, C, H, W); regions [batch, x, y, w, h, degrees] around a centre, or corners
[batch, x1, y1, x2, y2] with offsets. Out: one (channels, rows, columns) per region.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Shape, TensorType, shape_text
from .attrs import AttrValue
from .casting import bounded, widened
from .indexing import whole
from .record import Traits
from .registry import register
from .roi import check_regions, check_samples, rounded, samples_along, samples_near, samples_of_bin
from .rules import forward, require_float, same_dtype


def _bilinear(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The channels of (C, H, W) at points inside of it: (C, *points)."""
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
            out[k] = _turned_bins(images[batch], centre, size, angle, pooled_size, sampling_ratio)
    return out.astype(data.dtype, copy=False)


def _turned_bins(
    image: np.ndarray,
    centre: np.ndarray,
    size: np.ndarray,
    angle: np.floating,
    bins: Shape,
    ratio: int,
) -> np.ndarray:
    """The bins of one region, all but the angle as (y, x): (C, *bins)."""
    number = image.dtype.type
    height, width = image.shape[1:]
    cos, sin = np.cos(angle), np.sin(angle)
    ends = (
        np.array([-1, height], image.dtype) - centre[0],
        np.array([-1, width], number) - centre[1],
    )
    # The image's corners in the region's own axes, so that only samples near it are taken
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
    doc="Average of bilinear samples in each bin of each turned region.",
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
        raise AttributeValueError("output_dim, group_size and sample_per_part are positive")
    if data.dims[1] != output_dim * group_size**2:
        raise ShapeError(
            f"{output_dim} outputs of {group_size} x {group_size} groups take "
            f"{output_dim * group_size**2} channels, data has {data.dims[1]}"
        )
    parts = part_size or pooled_size
    for t in trans:
        if t.ndim != 4 or t.dims[0] != rois.dims[0] or t.dims[2:] != (parts, parts):
            raise ShapeError(
                f"trans is ({rois.dims[0]}, 2 * classes, {parts}, {parts}), got "
                f"{shape_text(t.shape)}"
            )
        if t.dims[1] < 2 or t.dims[1] % 2 or output_dim % (t.dims[1] // 2):
            raise ShapeError(
                f"trans has two channels for each class and the classes divide {output_dim} "
                f"outputs, got {t.dims[1]}"
            )
    return data.with_shape((rois.dims[0], output_dim, pooled_size, pooled_size))


def _moved_bin(groups: np.ndarray, start: np.ndarray, step: np.ndarray, count: int) -> np.ndarray:
    """Mean over the samples of a bin that lie inside: (channels,). 0 where none does."""
    height, width = groups.shape[1:]
    y, x = (first + np.arange(count, dtype=groups.dtype) * size for first, size in zip(start, step))
    y, x = np.meshgrid(y, x, indexing="ij")
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    if not inside.any():
        return np.zeros(len(groups), groups.dtype)
    y, x = np.clip(y[inside], 0, height - 1), np.clip(x[inside], 0, width - 1)
    return _bilinear(groups, y, x).mean(axis=-1)


def _deformable(
    data: np.ndarray,
    rois: np.ndarray,
    *trans: np.ndarray,
    spatial_scale: float,
    output_dim: int,
    group_size: int,
    pooled_size: int,
    part_size: int,
    sample_per_part: int,
    trans_std: float,
    **attrs: AttrValue,
) -> np.ndarray:
    """Position-sensitive pooling whose bins move by ``trans`` times ``trans_std`` of the region."""
    images, regions = widened(data), widened(rois)
    number = images.dtype.type
    size = images.shape[2:]
    images = images.reshape(len(images), output_dim, group_size, group_size, *size)
    parts = (part_size or pooled_size) if trans else 1
    moves = widened(trans[0]) if trans else np.zeros((len(rois), 2, 1, 1), images.dtype)
    classes = moves.shape[1] // 2
    moves = moves.reshape(len(rois), classes, 2, parts, parts) * number(trans_std)
    out = np.zeros((len(rois), output_dim, pooled_size, pooled_size), images.dtype)
    scale, half = number(spatial_scale), number(0.5)
    for k, (batch, region) in enumerate(zip(whole(rois[:, 0]), regions)):
        if not (0 <= batch < len(images) and all(size)):
            continue
        corners = rounded(region[1:5]).astype(images.dtype)
        low = corners[1::-1] * scale - half  # y, x
        high = (corners[:1:-1] + number(1)) * scale - half
        extent = np.maximum(high - low, number(0.1))
        bins = extent / number(pooled_size)
        for i, j in np.ndindex(pooled_size, pooled_size):
            place = np.array([i, j])
            group = np.clip(place * group_size // pooled_size, 0, group_size - 1)
            part = place * parts // pooled_size
            channels = images[batch, :, group[0], group[1]]
            for c, chosen in enumerate(np.split(channels, classes)):
                move = moves[k, c, ::-1, part[0], part[1]]  # y, x
                start = place.astype(images.dtype) * bins + low + move * extent
                values = _moved_bin(chosen, start, bins / number(sample_per_part), sample_per_part)
                width = output_dim // classes
                out[k, c * width : (c + 1) * width, i, j] = values
    return out.astype(data.dtype, copy=False)


register(
    "_contrib_DeformablePSROIPooling",
    lambda no_trans, **attrs: ("data", "rois") if no_trans else ("data", "rois", "trans"),
    "spatial_scale:float[0,1]! output_dim:int! group_size:int! pooled_size:int! part_size:int=0 "
    "sample_per_part:int=1 trans_std:float[0,1]=0 no_trans:bool=False",
    infer=_infer_deformable,
    ref=_deformable,
    traits=Traits(total_outputs=2),
    doc="Mean of each bin of each region, from its own channels, at bins moved by offsets.",
)
