"""ROIPooling: maximum of each bin of each region, on integer pixels.

Input: data (N, C, H, W), regions (R, 5) as [batch, x1, y1, x2, y2] in image coordinates. Output:
one (C, pooled height, pooled width) per region; a region with an invalid image index gives zeros.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, TensorType
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import widened
from ..record import Eager, Traits
from ..registry import register
from ..rules import forward
from .region_bins import Bins, check_regions, images_of, infer_last, on_channels_last, rounded


@forward
def _infer_roi_pooling(
    data: TensorType, rois: TensorType, *, pooled_size: Shape, **attrs: AttrValue
) -> TensorType:
    """(R, C, *pooled_size)."""
    check_regions(data, rois, pooled_size, (5,))
    return data.with_shape((rois.dims[0], data.dims[1], *pooled_size))


def _bins(start: np.ndarray, end: np.ndarray, count: int, length: int, dtype: type) -> np.ndarray:
    """First and last-plus-one cell (R, count, 2) of bins, clipped; computed as ``dtype``."""
    step = np.maximum(end - start + 1, 1).astype(dtype)[:, None] / dtype(count)
    low = np.floor(np.arange(count, dtype=dtype) * step).astype(np.int64)
    high = np.ceil(np.arange(1, count + 1, dtype=dtype) * step).astype(np.int64)
    return np.clip(np.stack([low, high], -1) + start[:, None, None], 0, length)


def _whole_bins(
    data: np.ndarray, rois: np.ndarray, pooled_size: Shape, spatial_scale: float
) -> Bins:
    """Bins of all regions, on integer pixels."""
    places = widened(rois[:, 1:])
    x1, y1, x2, y2 = rounded(places * places.dtype.type(spatial_scale)).T
    dtype = np.float64 if data.dtype == np.float64 else np.float32
    rows = _bins(y1, y2, pooled_size[0], data.shape[2], dtype)
    columns = _bins(x1, x2, pooled_size[1], data.shape[3], dtype)
    return Bins(images_of(rois, len(data)), rows, columns)


def _roi_pooling(
    data: np.ndarray, rois: np.ndarray, *, pooled_size: Shape, spatial_scale: float
) -> np.ndarray:
    """Maximum of each bin; an empty bin, or a batch index out of range, gives 0."""
    out = np.zeros((len(rois), data.shape[1], *pooled_size), data.dtype)
    bins = _whole_bins(data, rois, pooled_size, spatial_scale)
    if bins.run("max", data.shape, (data, out, data)):
        return out
    for place, image, rows, columns in bins.with_cells():
        out[place] = data[image, :, rows, columns].max(axis=(1, 2))
    return out


def _roi_pooling_back(
    head: np.ndarray,
    data: np.ndarray,
    rois: np.ndarray,
    *,
    pooled_size: Shape,
    spatial_scale: float,
) -> np.ndarray:
    """Gradient of each bin, added at the first of its largest cells."""
    back = np.zeros(data.shape, widened(head).dtype)
    bins = _whole_bins(data, rois, pooled_size, spatial_scale)
    if bins.run("max_back", data.shape, (data, head, back)):
        return back
    channels = np.arange(data.shape[1])
    for place, image, rows, columns in bins.with_cells():
        cells = data[image, :, rows, columns]
        first = cells.reshape(len(channels), -1).argmax(axis=1)
        i, j = np.divmod(first, cells.shape[2])
        back[image, channels, rows.start + i, columns.start + j] += head[place]
    return back.astype(head.dtype, copy=False)


def _grad_roi_pooling(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[X, None]:
    return g.op(ROI_POOLING_BACK, douts[0], *ins, **attrs), None


ROI_POOLING_BACK = register(
    "_roi_pooling_back",
    "head data rois",
    "pooled_size:shape! spatial_scale:float[0,1]!",
    internal=True,
    infer=forward(lambda head, data, rois, **attrs: data),
    ref=_roi_pooling_back,
    doc="Gradient of ROIPooling with respect to the data.",
)


ROI_POOLING = register(
    "ROIPooling",
    "data rois",
    "pooled_size:shape! spatial_scale:float[0,1]!",
    infer=_infer_roi_pooling,
    ref=_roi_pooling,
    grad=_grad_roi_pooling,
    traits=Traits(total_outputs=2, eager=Eager.TWIN),
    doc="Maximum of each bin of each region, on integer pixels.",
)


ROI_POOLING_LAST = register(
    "_roi_pooling_last",
    "data rois",
    "pooled_size:shape! spatial_scale:float!",
    internal=True,
    kernel="region",
    infer=infer_last,
    ref=on_channels_last(_roi_pooling),
    doc="ROIPooling with channels last; created by the compiler only.",
)
