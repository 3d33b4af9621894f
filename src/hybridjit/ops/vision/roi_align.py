"""ROIAlign: averages of bilinear samples in each bin of each region.

Input: data (N, C, H, W), regions (R, 5) as [batch, x1, y1, x2, y2] in image coordinates. Output:
one (C, pooled height, pooled width) per region. Samples outside the image count as 0 and are
skipped; a region with an invalid batch index gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..._core.types import Shape, TensorType, product
from ...errors import ShapeError
from ..attrs import AttrValue, Declared
from ..casting import bounded, widened
from ..record import Eager, Traits
from ..registry import register
from ..rules import forward
from ..tensor.by_index import whole
from .region_bins import (
    FAR,
    MARGIN,
    back_again,
    by_regions,
    check_regions,
    check_samples,
    infer_back,
    infer_last,
    on_channels_last,
)


@forward
def _infer_align(
    data: TensorType,
    rois: TensorType,
    *,
    pooled_size: Shape,
    position_sensitive: bool,
    sample_ratio: int,
    **attrs: AttrValue,
) -> TensorType:
    """(R, C, *pooled_size); C divided by the number of bins if position_sensitive."""
    check_regions(data, rois, pooled_size, (4, 5))
    check_samples("sample_ratio", sample_ratio)
    channels, bins = data.dims[1], product(pooled_size)
    if position_sensitive and channels % bins:
        raise ShapeError(f"the number of bins {bins} must divide the {channels} channels")
    channels = channels // bins if position_sensitive else channels
    return data.with_shape((rois.dims[0], channels, *pooled_size))


def samples_of_bins(steps: np.ndarray | np.floating, sample_ratio: int) -> np.ndarray:
    """Samples of bins along one axis: ``sample_ratio``, or by default the bins' sizes in cells."""
    if sample_ratio > 0:
        return np.full(np.shape(steps), sample_ratio)
    return bounded(np.ceil(steps), 0, FAR).astype(np.int64)


def samples_near(
    bases: np.ndarray, step: np.floating, count: int, low: float, high: float, reach: int
) -> tuple[np.ndarray, np.ndarray]:
    """First and last-plus-one sample of each bin, of ``count``, that may be in [low, high].

    Sample k of a bin is at base + (k + 0.5) * step / count. Samples are at least half a cell apart
    and high - low is at most ``reach``, so at most 2 * reach + 6 samples qualify. The rounding
    error of the formula is less than the margin where coordinates have fractions: below 2^22 in
    single precision.
    """
    kind = bases.dtype.type
    distance = step / kind(count)
    first = np.floor((kind(low) - bases) / distance - kind(0.5)) - kind(MARGIN)
    last = np.ceil((kind(high) - bases) / distance + kind(0.5)) + kind(MARGIN)
    first, last = (bounded(edge, 0, count).astype(np.int64) for edge in (first, last))
    return first, np.minimum(last, first + 2 * reach + 6)


def samples_along(
    start: np.floating,
    step: np.floating,
    bins: int,
    count: int,
    near: Callable[..., tuple[np.ndarray, np.ndarray]] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the samples of all bins along one axis, and the bin of each.

    ``near(bases, step, count)`` returns the range of samples to take of each bin; None takes all.
    """
    kind = np.asarray(step).dtype.type
    bases = start + np.arange(bins, dtype=kind) * step
    first, last = np.zeros(bins, np.int64), np.full(bins, count)
    if near is not None and count:
        first, last = near(bases, step, count)
    numbers = first[:, None] + np.arange(max((last - first).max(), 0))
    places = bases[:, None] + (numbers.astype(kind) + kind(0.5)) * step / kind(max(count, 1))
    taken = numbers < last[:, None]
    return places[taken], np.nonzero(taken)[0]


def _bin_weights(
    start: np.floating, size: np.floating, bins: int, sample_ratio: int, length: int
) -> np.ndarray:
    """Weight of every cell in every bin along one axis: (bins, length).

    The weights of bilinear sampling on a product grid are products of those of the two axes.
    """
    dtype = np.asarray(size).dtype.type
    step = dtype(size / dtype(bins))
    count = int(samples_of_bins(step, sample_ratio))
    weights = np.zeros((bins, length), dtype)
    if length == 0:
        return weights
    near = (
        None if sample_ratio > 0 else partial(samples_near, low=-1, high=length, reach=length + 1)
    )
    at, rows = samples_along(start, step, bins, count, near)
    inside = (at >= -1) & (at <= length)
    at = bounded(at, 0, length - 1)
    low = at.astype(np.int64)
    part = at - low
    np.add.at(weights, (rows, low), np.where(inside, 1 - part, 0))
    np.add.at(weights, (rows, np.minimum(low + 1, length - 1)), np.where(inside, part, 0))
    return weights / dtype(max(count, 1))


class _Weights(NamedTuple):
    """Region: index of its image, and weights of cells in the bins along each axis."""

    region: int
    image: int
    rows: np.ndarray
    columns: np.ndarray


def _regions(
    rois: np.ndarray,
    shape: Shape,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
) -> Iterator[_Weights]:
    """Weights of the regions with a valid image index, for data of this shape."""
    r = widened(rois)
    number = r.dtype.type
    batches, corners = (whole(r[:, 0]), r[:, 1:]) if r.shape[1] == 5 else (
        np.zeros(len(r), np.int64), r)  # fmt: skip
    scaled = corners * number(spatial_scale) - number(0.5 if aligned else 0)
    for k, (batch, (x1, y1, x2, y2)) in enumerate(zip(batches, scaled)):
        if not 0 <= batch < shape[0]:
            continue
        height, width = y2 - y1, x2 - x1
        if not aligned:
            height, width = (np.maximum(n, number(1)) for n in (height, width))
        rows = _bin_weights(y1, height, pooled_size[0], sample_ratio, shape[2])
        columns = _bin_weights(x1, width, pooled_size[1], sample_ratio, shape[3])
        yield _Weights(k, int(batch), rows, columns)


def _align(
    data: np.ndarray,
    rois: np.ndarray,
    *,
    pooled_size: Shape,
    position_sensitive: bool,
    **attrs: Declared,
) -> np.ndarray:
    """Average of bilinear samples of each bin; a negative batch index gives zeros."""
    x = widened(data)
    out = np.zeros((len(rois), x.shape[1], *pooled_size), x.dtype)
    for k, batch, rows, columns in _regions(rois, x.shape, pooled_size=pooled_size, **attrs):
        out[k] = rows @ x[batch] @ columns.T
    if position_sensitive:
        out = _own_bins(out).copy()
    return out.astype(data.dtype, copy=False)


def _own_bins(pooled: np.ndarray) -> np.ndarray:
    """Bin (i, j) of channel c from channel c * bins + i * columns + j, as a view."""
    count, channels, rows, columns = pooled.shape
    split = pooled.reshape(count, channels // (rows * columns), rows, columns, rows, columns)
    return np.einsum("ncijij->ncij", split)


def _align_back(
    head: np.ndarray,
    rois: np.ndarray,
    *,
    shape: Shape,
    pooled_size: Shape,
    position_sensitive: bool,
    **attrs: Declared,
) -> np.ndarray:
    """Gradient with respect to the data: each bin's, distributed by the cells' weights."""
    d = widened(head)
    if position_sensitive:
        whole_bins = np.zeros((len(rois), shape[1], *pooled_size), d.dtype)
        _own_bins(whole_bins)[...] = d
        d = whole_bins
    back = np.zeros(shape, d.dtype)
    for k, batch, rows, columns in _regions(rois, shape, pooled_size=pooled_size, **attrs):
        back[batch] += rows.T @ d[k] @ columns
    return back.astype(head.dtype, copy=False)


_ALIGN = (
    "pooled_size:shape! spatial_scale:float[0,1]! sample_ratio:int=-1 "
    "position_sensitive:bool=False aligned:bool=False"
)
register(
    "_roi_align_back",
    "head rois",
    f"shape:shape! {_ALIGN}",
    internal=True,
    infer=forward(infer_back),
    ref=_align_back,
    grad=back_again("_contrib_ROIAlign"),
    doc="Gradient of ROIAlign with respect to the data.",
)


ROI_ALIGN = register(
    "_contrib_ROIAlign",
    "data rois",
    _ALIGN,
    infer=_infer_align,
    ref=_align,
    grad=by_regions("_roi_align_back"),
    traits=Traits(eager=Eager.TWIN),
    doc="Average of bilinear samples in each bin of each region.",
)


ROI_ALIGN_LAST = register(
    "_roi_align_last",
    "data rois",
    "pooled_size:shape! spatial_scale:float! sample_ratio:int! aligned:bool!",
    internal=True,
    kernel="region",
    infer=infer_last,
    ref=on_channels_last(partial(_align, position_sensitive=False)),
    doc="ROIAlign with channels last; created by the compiler only.",
)
