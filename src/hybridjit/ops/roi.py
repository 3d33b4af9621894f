"""Pooling over regions of interest.

In: data (N, C, H, W), regions (R, 5) as [batch, x1, y1, x2, y2] in image coordinates. Out: one
(C, pooled height, pooled width) per region.

Regions are data: they may lie anywhere and have any size. The work for one is bounded by the image:
samples that lie outside count as 0 and are not taken. Numbers farther than 2^30 from 0 count as
2^30, NaN as what lies outside; a region of an image that is not there gives zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Shape, TensorType, product, shape_text
from .attrs import AttrValue
from .building import Builder, Many, X
from .casting import bounded, widened
from .indexing import whole
from .record import Traits
from .registry import lookup, register
from .rules import forward, require_float, same_dtype
from .signatures import Gradient

MOST_SAMPLES = 1024  # of a bin along one axis, where an attribute says how many
FAR = 1 << 30  # where coordinates end, and how many samples a bin has along an axis
MARGIN = 2  # samples beside those that by their formula are inside


def check_regions(data: TensorType, rois: TensorType, pooled_size: Shape, widths: Shape) -> None:
    """Raises ShapeError or AttributeValueError unless there are 4D data, rows of one of the
    ``widths`` and a size of two positive numbers."""
    same_dtype(data, rois)
    require_float("the operator", data)
    if data.ndim != 4:
        raise ShapeError(f"data should be a 4D tensor, got {shape_text(data.shape)}")
    if rois.ndim != 2 or rois.dims[1] not in widths:
        expected = " or ".join(str(w) for w in widths)
        raise ShapeError(f"rois should be rows of {expected} numbers, got {shape_text(rois.shape)}")
    if len(pooled_size) != 2 or min(pooled_size) < 1:
        raise AttributeValueError(
            f"pooled_size takes two positive numbers, got {shape_text(pooled_size)}"
        )


def check_samples(name: str, count: int) -> None:
    """Raises AttributeValueError for more samples of a bin than are taken along one axis."""
    if count > MOST_SAMPLES:
        raise AttributeValueError(f"{name} is at most {MOST_SAMPLES}, got {count}")


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
    """(R, C, *pooled_size); C divided by the number of bins when position_sensitive."""
    check_regions(data, rois, pooled_size, (4, 5))
    check_samples("sample_ratio", sample_ratio)
    channels, bins = data.dims[1], product(pooled_size)
    if position_sensitive and channels % bins:
        raise ShapeError(f"the number of bins {bins} must divide the {channels} channels")
    channels = channels // bins if position_sensitive else channels
    return data.with_shape((rois.dims[0], channels, *pooled_size))


def samples_of_bin(step: np.floating, sample_ratio: int) -> int:
    """Samples of a bin along one axis: ``sample_ratio``, or one for each cell that it is long."""
    if sample_ratio > 0:
        return sample_ratio
    return int(bounded(np.ceil(step), 0, FAR))


def samples_near(
    bases: np.ndarray, step: np.floating, count: int, low: float, high: float, reach: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of each bin's ``count`` samples the first, and the last plus one, that may be in [low, high].

    Sample k of a bin lies at base + (k + 0.5) * step / count; samples are half a cell or more
    apart, and high - low is at most ``reach``, so that 2 * reach + 6 of them do. The rounding of
    the formula is less than the margin where coordinates have fractions: below 2^22 in single
    precision.
    """
    kind = bases.dtype.type
    distance = step / kind(count)
    first = np.floor((kind(low) - bases) / distance - kind(0.5)) - kind(MARGIN)
    last = np.ceil((kind(high) - bases) / distance + kind(0.5)) + kind(MARGIN)
    first, last = (bounded(edge, 0, count).astype(np.int64) for edge in (first, last))
    return first, np.minimum(last, first + 2 * reach + 6)


def samples_along(
    start: np.floating, step: np.floating, bins: int, count: int, near: Callable[..., Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the samples of all bins along one axis, and the bin of each.

    ``near(bases, step, count)`` says which samples of each bin are taken; None takes all.
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

    Bilinear sampling on a product grid is a product of the two axes' weights.
    """
    dtype = np.asarray(size).dtype.type
    step = dtype(size / dtype(bins))
    count = samples_of_bin(step, sample_ratio)
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
    """One region: its image, and every cell's share in the bins along either axis."""

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
    """The regions whose image is there, of data of this shape."""
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
    **attrs: Any,
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
    **attrs: Any,
) -> np.ndarray:
    """What comes back to the bins, at the cells by their weights."""
    d = widened(head)
    if position_sensitive:
        whole_bins = np.zeros((len(rois), shape[1], *pooled_size), d.dtype)
        _own_bins(whole_bins)[...] = d
        d = whole_bins
    back = np.zeros(shape, d.dtype)
    for k, batch, rows, columns in _regions(rois, shape, pooled_size=pooled_size, **attrs):
        back[batch] += rows.T @ d[k] @ columns
    return back.astype(head.dtype, copy=False)


def _infer_back(head: TensorType, *others: TensorType, shape: Shape, **attrs: object) -> TensorType:
    return head.with_shape(shape)


def _by_regions(back: str) -> Gradient:
    """The rule of pooling that is linear in the data: regions are taken as given."""

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Any
    ) -> tuple[X, None]:
        shape = g.type(ins[0]).dims
        return g.op(lookup(back), douts[0], ins[1], shape=shape, **attrs), None

    return grad


def _back_again(forth: str) -> Gradient:
    """The rule of what :func:`_by_regions` makes: the pooling of what comes back."""

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, shape: Shape, **attrs: Any
    ) -> tuple[X, None]:
        return g.op(lookup(forth), douts[0], ins[1], **attrs), None

    return grad


_ALIGN = (
    "pooled_size:shape! spatial_scale:float[0,1]! sample_ratio:int=-1 "
    "position_sensitive:bool=False aligned:bool=False"
)
register(
    "_roi_align_back",
    "head rois",
    f"shape:shape! {_ALIGN}",
    internal=True,
    infer=forward(_infer_back),
    ref=_align_back,
    grad=_back_again("_contrib_ROIAlign"),
    doc="What comes back from the bins of ROIAlign to the data.",
)


ROI_ALIGN = register(
    "_contrib_ROIAlign",
    "data rois",
    _ALIGN,
    infer=_infer_align,
    ref=_align,
    grad=_by_regions("_roi_align_back"),
    doc="Average of bilinear samples in each bin of each region.",
)


@forward
def _infer_roi_pooling(
    data: TensorType, rois: TensorType, *, pooled_size: Shape, **attrs: AttrValue
) -> TensorType:
    """(R, C, *pooled_size)."""
    check_regions(data, rois, pooled_size, (5,))
    return data.with_shape((rois.dims[0], data.dims[1], *pooled_size))


def _bins(start: int, end: int, count: int, length: int, dtype: type) -> list[tuple[int, int]]:
    """First and last-plus-one cell of each bin, clipped to the data; computed as ``dtype``."""
    step = dtype(max(end - start + 1, 1)) / dtype(count)
    low = np.floor(np.arange(count, dtype=dtype) * step).astype(int) + start
    high = np.ceil(np.arange(1, count + 1, dtype=dtype) * step).astype(int) + start
    return list(zip(np.clip(low, 0, length).tolist(), np.clip(high, 0, length).tolist()))


def rounded(x: np.ndarray) -> np.ndarray:
    """To the nearest integer, halves away from zero, not farther from 0 than FAR; NaN is -FAR."""
    wide = widened(x)
    nearest = wide + np.copysign(wide.dtype.type(0.5), wide)
    return bounded(nearest, -FAR, FAR).astype(np.int64)


class _Bin(NamedTuple):
    """A bin with cells: its place in the result, and the cells in the data."""

    place: tuple[Any, ...]
    image: int
    rows: slice
    columns: slice


def _bins_with_cells(
    batch: int, region: int, rows: list[tuple[int, int]], columns: list[tuple[int, int]]
) -> Iterator[_Bin]:
    for i, (top, bottom) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            if top < bottom and left < right:
                place = (region, slice(None), i, j)
                yield _Bin(place, batch, slice(top, bottom), slice(left, right))


def _whole_bins(
    data: np.ndarray, rois: np.ndarray, pooled_size: Shape, spatial_scale: float
) -> Iterator[_Bin]:
    """The bins of all regions, on whole pixels."""
    places = widened(rois[:, 1:])
    corners = rounded(places * places.dtype.type(spatial_scale))
    dtype = np.float64 if data.dtype == np.float64 else np.float32
    for k, (batch, (x1, y1, x2, y2)) in enumerate(zip(whole(rois[:, 0]), corners.tolist())):
        if 0 <= batch < len(data):
            rows = _bins(y1, y2, pooled_size[0], data.shape[2], dtype)
            columns = _bins(x1, x2, pooled_size[1], data.shape[3], dtype)
            yield from _bins_with_cells(int(batch), k, rows, columns)


def _roi_pooling(
    data: np.ndarray, rois: np.ndarray, *, pooled_size: Shape, spatial_scale: float
) -> np.ndarray:
    """Maximum of each bin; an empty bin, or a batch index out of range, gives 0."""
    out = np.zeros((len(rois), data.shape[1], *pooled_size), data.dtype)
    for place, image, rows, columns in _whole_bins(data, rois, pooled_size, spatial_scale):
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
    """What comes back to each bin, at the first of its largest cells."""
    back = np.zeros(data.shape, widened(head).dtype)
    channels = np.arange(data.shape[1])
    for place, image, rows, columns in _whole_bins(data, rois, pooled_size, spatial_scale):
        cells = data[image, :, rows, columns]
        first = cells.reshape(len(channels), -1).argmax(axis=1)
        i, j = np.divmod(first, cells.shape[2])
        back[image, channels, rows.start + i, columns.start + j] += head[place]
    return back.astype(head.dtype, copy=False)


def _grad_roi_pooling(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Any
) -> tuple[X, None]:
    return g.op(ROI_POOLING_BACK, douts[0], *ins, **attrs), None


ROI_POOLING_BACK = register(
    "_roi_pooling_back",
    "head data rois",
    "pooled_size:shape! spatial_scale:float[0,1]!",
    internal=True,
    infer=forward(lambda head, data, rois, **attrs: data),
    ref=_roi_pooling_back,
    doc="What comes back from the bins of ROIPooling to the data.",
)


ROI_POOLING = register(
    "ROIPooling",
    "data rois",
    "pooled_size:shape! spatial_scale:float[0,1]!",
    infer=_infer_roi_pooling,
    ref=_roi_pooling,
    grad=_grad_roi_pooling,
    traits=Traits(total_outputs=2),
    doc="Maximum of each bin of each region, on whole pixels.",
)


def _on_channels_last(ref: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def turned(data: np.ndarray, rois: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        y = ref(np.moveaxis(data, 3, 1), rois, **attrs)
        return np.ascontiguousarray(np.moveaxis(y, 1, 3))

    return turned


@forward
def _infer_last(
    data: TensorType, rois: TensorType, *, pooled_size: Shape, **attrs: AttrValue
) -> TensorType:
    return data.with_shape((rois.dims[0], *pooled_size, data.dims[3]))


ROI_ALIGN_LAST = register(
    "_roi_align_last",
    "data rois",
    "pooled_size:shape! spatial_scale:float! sample_ratio:int! aligned:bool!",
    internal=True,
    kernel="region",
    infer=_infer_last,
    ref=_on_channels_last(partial(_align, position_sensitive=False)),
    doc="ROIAlign with channels last; made by the compiler only.",
)
ROI_POOLING_LAST = register(
    "_roi_pooling_last",
    "data rois",
    "pooled_size:shape! spatial_scale:float!",
    internal=True,
    kernel="region",
    infer=_infer_last,
    ref=_on_channels_last(_roi_pooling),
    doc="ROIPooling with channels last; made by the compiler only.",
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
            f"output_dim is positive and group_size not negative, got {output_dim} and {group_size}"
        )
    groups = group_size or pooled_size
    if data.dims[1] != output_dim * groups * groups:
        raise ShapeError(
            f"data should have output_dim * group_size^2 = {output_dim * groups * groups} "
            f"channels, has {data.dims[1]}"
        )
    return data.with_shape((rois.dims[0], output_dim, pooled_size, pooled_size))


def _spans(start: float, end: float, count: int, length: int) -> list[tuple[int, int]]:
    """First and last-plus-one cell of each bin between two points, clipped to the data."""
    step = np.float32(max(end - start, 0.1)) / np.float32(count)
    edges = np.arange(count + 1, dtype=np.float32) * step + np.float32(start)
    low, high = np.floor(edges[:-1]).astype(int), np.ceil(edges[1:]).astype(int)
    return list(zip(np.clip(low, 0, length).tolist(), np.clip(high, 0, length).tolist()))


def _position_sensitive(
    data: np.ndarray,
    rois: np.ndarray,
    *,
    spatial_scale: float,
    output_dim: int,
    pooled_size: int,
    group_size: int,
) -> np.ndarray:
    """Mean of each bin, read from the channels of the bin's own group; an empty bin gives 0."""
    maps = _groups(widened(data), output_dim, group_size or pooled_size)
    out = np.zeros((len(rois), output_dim, pooled_size, pooled_size), data.dtype)
    for one in _spanned_bins(rois, data.shape, spatial_scale, pooled_size):
        out[one.place] = _own_cells(maps, pooled_size, one).mean(axis=(1, 2))
    return out


def _groups(data: np.ndarray, output_dim: int, groups: int) -> np.ndarray:
    """The data with an axis for output channels and two for groups, as a view."""
    return data.reshape(len(data), output_dim, groups, groups, *data.shape[2:])


def _own_cells(maps: np.ndarray, pooled_size: int, one: _Bin) -> np.ndarray:
    """A bin's cells in the channels of its own group, as a view."""
    row, column = (i * maps.shape[2] // pooled_size for i in one.place[2:])
    return maps[one.image, :, row, column, one.rows, one.columns]


def _spanned_bins(
    rois: np.ndarray, shape: Shape, spatial_scale: float, pooled_size: int
) -> Iterator[_Bin]:
    """The bins of all regions, between their edges."""
    corners = rounded(rois[:, 1:]) + np.array([0, 0, 1, 1])
    scaled = corners.astype(np.float32) * np.float32(spatial_scale)
    for k, (batch, (x1, y1, x2, y2)) in enumerate(zip(whole(rois[:, 0]), scaled.tolist())):
        if 0 <= batch < shape[0]:
            rows = _spans(y1, y2, pooled_size, shape[2])
            columns = _spans(x1, x2, pooled_size, shape[3])
            yield from _bins_with_cells(int(batch), k, rows, columns)


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
    """What comes back to each bin, shared out among its cells."""
    back = np.zeros(shape, widened(head).dtype)
    maps = _groups(back, output_dim, group_size or pooled_size)
    for one in _spanned_bins(rois, shape, spatial_scale, pooled_size):
        own = _own_cells(maps, pooled_size, one)
        own += (head[one.place] / back.dtype.type(own[0].size))[:, None, None]
    return back.astype(head.dtype, copy=False)


_POSITION_SENSITIVE = "spatial_scale:float[0,1]! output_dim:int! pooled_size:int! group_size:int=0"
register(
    "_position_sensitive_back",
    "head rois",
    f"shape:shape! {_POSITION_SENSITIVE}",
    internal=True,
    infer=forward(_infer_back),
    ref=_position_sensitive_back,
    grad=_back_again("_contrib_PSROIPooling"),
    doc="What comes back from the bins of PSROIPooling to the data.",
)
register(
    "_contrib_PSROIPooling",
    "data rois",
    _POSITION_SENSITIVE,
    infer=_infer_position_sensitive,
    ref=_position_sensitive,
    grad=_by_regions("_position_sensitive_back"),
    doc="Mean of each bin of each region, from channels that belong to the bin.",
)
