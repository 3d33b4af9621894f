"""Pooling over regions that are turned, or whose bins move by learned offsets.

In: data (N, C, H, W); regions [batch, x, y, w, h, degrees] around a centre, or corners
[batch, x1, y1, x2, y2] with offsets. Out: one (channels, rows, columns) per region.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Shape, TensorType, shape_text
from .casting import widened
from .registry import Kind, register
from .roi import check_regions, rounded
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
    data: TensorType, rois: TensorType, *, pooled_size: Shape, **attrs: Any
) -> TensorType:
    """(R, C, *pooled_size)."""
    check_regions(data, rois, pooled_size, (6,))
    return data.with_shape((rois.dims[0], data.dims[1], *pooled_size))


def _samples(start: Any, size: Any, bins: int, count: int) -> np.ndarray:
    """Where the samples of all bins lie along one axis: (bins, count)."""
    dtype = np.asarray(size).dtype.type
    step = size / dtype(bins)
    at = start + np.arange(bins, dtype=dtype)[:, None] * step
    return at + (np.arange(count, dtype=dtype) + dtype(0.5)) * step / dtype(count)


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
    height, width = images.shape[2:]
    out = np.zeros((len(rois), images.shape[1], *pooled_size), images.dtype)
    for k, region in enumerate(regions):
        x0, y0, w, h = region[1:5] * number(spatial_scale)
        size = np.maximum(np.array([h, w], images.dtype), number(1))
        counts = [
            sampling_ratio if sampling_ratio > 0 else int(np.ceil(n / b))
            for n, b in zip(size, pooled_size)
        ]
        down, across = (
            _samples(-n / number(2), n, b, c) for n, b, c in zip(size, pooled_size, counts)
        )
        v, u = np.broadcast_arrays(down[:, None, :, None], across[None, :, None, :])
        angle = region[5] * number(np.pi) / number(180)
        y = v * np.cos(angle) - u * np.sin(angle) + y0
        x = u * np.cos(angle) + v * np.sin(angle) + x0
        inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
        values = _bilinear(
            images[int(region[0])], np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
        )
        out[k] = np.where(inside, values, 0).mean(axis=(-2, -1))
    return out.astype(data.dtype, copy=False)


register(
    "_contrib_RROIAlign",
    "data rois",
    "pooled_size:shape! spatial_scale:float[0,1]! sampling_ratio:int=-1",
    kind=Kind.HOST,
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
    **attrs: Any,
) -> TensorType:
    """(R, output_dim, pooled_size, pooled_size)."""
    same_dtype(data, rois, *trans)
    require_float("DeformablePSROIPooling", data)
    check_regions(data, rois, (pooled_size, pooled_size), (5,))
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
    **attrs: Any,
) -> np.ndarray:
    """Position-sensitive pooling whose bins move by ``trans`` times ``trans_std`` of the region."""
    images, regions = widened(data), widened(rois)
    number = images.dtype.type
    size = images.shape[2:]
    images = images.reshape(len(images), output_dim, group_size, group_size, *size)
    parts = part_size or pooled_size
    moves = widened(trans[0]) if trans else np.zeros((len(rois), 2, parts, parts), images.dtype)
    classes = moves.shape[1] // 2
    moves = moves.reshape(len(rois), classes, 2, parts, parts) * number(trans_std)
    out = np.zeros((len(rois), output_dim, pooled_size, pooled_size), images.dtype)
    scale, half = number(spatial_scale), number(0.5)
    for k, region in enumerate(regions):
        corners = rounded(region[1:5]).astype(images.dtype)
        low = corners[1::-1] * scale - half  # y, x
        high = (corners[:1:-1] + number(1)) * scale - half
        extent = np.maximum(high - low, number(0.1))
        bins = extent / number(pooled_size)
        for i, j in np.ndindex(pooled_size, pooled_size):
            place = np.array([i, j])
            group = np.clip(place * group_size // pooled_size, 0, group_size - 1)
            part = place * parts // pooled_size
            channels = images[int(region[0]), :, group[0], group[1]]
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
    kind=Kind.HOST,
    infer=_infer_deformable,
    ref=_deformable,
    doc="Mean of each bin of each region, from its own channels, at bins moved by offsets.",
)
