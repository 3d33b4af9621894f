"""PSROIPooling: averages of each bin of each region, each bin from separate channels."""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, TensorType
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue
from ..casting import widened
from ..registry import register
from ..rules import forward
from .region_bins import (
    Bin,
    Bins,
    back_again,
    by_regions,
    check_regions,
    images_of,
    infer_back,
    rounded,
)


@forward
def _infer_position_sensitive(
    data: TensorType,
    rois: TensorType,
    *,
    output_dim: int,
    pooled_size: int,
    group_size: int,
    **attrs: AttrValue,
) -> TensorType:
    """(R, output_dim, pooled_size, pooled_size)."""
    check_regions(data, rois, (pooled_size, pooled_size), (5,))
    if output_dim < 1 or group_size < 0:
        raise AttributeValueError(
            f"output_dim must be positive and group_size not negative, got {output_dim} and "
            f"{group_size}"
        )
    groups = group_size or pooled_size
    if data.dims[1] != output_dim * groups * groups:
        raise ShapeError(
            f"data should have output_dim * group_size^2 = {output_dim * groups * groups} "
            f"channels, but has {data.dims[1]}"
        )
    return data.with_shape((rois.dims[0], output_dim, pooled_size, pooled_size))


def _spans(start: np.ndarray, end: np.ndarray, count: int, length: int) -> np.ndarray:
    """First and last-plus-one cell (R, count, 2) of bins between two points, clipped."""
    size = np.maximum(end.astype(np.float64) - start, 0.1).astype(np.float32)
    step = size[:, None] / np.float32(count)
    edges = np.arange(count + 1, dtype=np.float32) * step + start[:, None]
    cells = np.stack([np.floor(edges[:, :-1]), np.ceil(edges[:, 1:])], -1)
    return np.clip(cells, 0, length).astype(np.int64)


def _position_sensitive(
    data: np.ndarray,
    rois: np.ndarray,
    *,
    spatial_scale: float,
    output_dim: int,
    pooled_size: int,
    group_size: int,
) -> np.ndarray:
    """Mean of each bin in the channels of the bin's group; an empty bin gives 0."""
    groups = group_size or pooled_size
    out = np.zeros((len(rois), output_dim, pooled_size, pooled_size), data.dtype)
    bins = _spanned_bins(rois, data.shape, spatial_scale, pooled_size)
    if bins.run("mean", data.shape, (data, out, data), groups):
        return out
    maps = _groups(widened(data), output_dim, groups)
    for one in bins.with_cells():
        out[one.place] = _own_cells(maps, pooled_size, one).mean(axis=(1, 2))
    return out


def _groups(data: np.ndarray, output_dim: int, groups: int) -> np.ndarray:
    """View of the data with one axis for output channels and two for groups."""
    return data.reshape(len(data), output_dim, groups, groups, *data.shape[2:])


def _own_cells(maps: np.ndarray, pooled_size: int, one: Bin) -> np.ndarray:
    """View of a bin's cells in the channels of its group."""
    row, column = (i * maps.shape[2] // pooled_size for i in one.place[2:])
    return maps[one.image, :, row, column, one.rows, one.columns]


def _spanned_bins(rois: np.ndarray, shape: Shape, spatial_scale: float, pooled_size: int) -> Bins:
    """Bins of all regions, between their edges."""
    corners = rounded(rois[:, 1:]) + np.array([0, 0, 1, 1])
    x1, y1, x2, y2 = (corners.astype(np.float32) * np.float32(spatial_scale)).T
    rows = _spans(y1, y2, pooled_size, shape[2])
    columns = _spans(x1, x2, pooled_size, shape[3])
    return Bins(images_of(rois, shape[0]), rows, columns)


def _position_sensitive_back(
    head: np.ndarray,
    rois: np.ndarray,
    *,
    shape: Shape,
    spatial_scale: float,
    output_dim: int,
    pooled_size: int,
    group_size: int,
) -> np.ndarray:
    """Gradient of each bin, distributed among its cells."""
    groups = group_size or pooled_size
    back = np.zeros(shape, widened(head).dtype)
    bins = _spanned_bins(rois, shape, spatial_scale, pooled_size)
    if bins.run("mean_back", shape, (head, head, back), groups):
        return back
    maps = _groups(back, output_dim, groups)
    for one in bins.with_cells():
        own = _own_cells(maps, pooled_size, one)
        own += (head[one.place] / back.dtype.type(own[0].size))[:, None, None]
    return back.astype(head.dtype, copy=False)


_POSITION_SENSITIVE = "spatial_scale:float[0,1]! output_dim:int! pooled_size:int! group_size:int=0"
register(
    "_position_sensitive_back",
    "head rois",
    f"shape:shape! {_POSITION_SENSITIVE}",
    internal=True,
    infer=forward(infer_back),
    ref=_position_sensitive_back,
    grad=back_again("_contrib_PSROIPooling"),
    doc="Gradient of PSROIPooling with respect to the data.",
)
register(
    "_contrib_PSROIPooling",
    "data rois",
    _POSITION_SENSITIVE,
    infer=_infer_position_sensitive,
    ref=_position_sensitive,
    grad=by_regions("_position_sensitive_back"),
    doc="Mean of each bin of each region, from channels that belong to the bin.",
)
