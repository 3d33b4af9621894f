"""Pooling over rotated regions, and over regions whose bins move by learned offsets.

Input: data (N, C, H, W); regions [batch, x, y, w, h, degrees] around a centre, or corners [batch,
x1, y1, x2, y2] with offsets. Output: one (channels, rows, columns) per region.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..._core.types import Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from .. import native
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import bounded, widened
from ..record import Traits
from ..registry import register
from ..rules import forward, require_float, same_dtype
from ..signatures import Arrays
from ..tensor.by_index import whole
from .region_bins import check_regions, check_samples, rounded
from .roi_align import samples_along, samples_near, samples_of_bins

# Samples of a bin along one axis that are computed for many regions at once, near the image or not;
# and the samples whose places are in memory at a time.
_FEW_SAMPLES = 16
_AT_ONCE = 1 << 18


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
    number, batch = images.dtype.type, whole(rois[:, 0])
    out = np.zeros((len(rois), images.shape[1], *pooled_size), images.dtype)
    here = np.flatnonzero((batch >= 0) & (batch < len(images))) if images.size else batch[:0]
    places = regions.copy()
    places[:, 1:5] *= number(spatial_scale)
    places[:, 3:5] = np.maximum(places[:, 3:5], number(1))
    counts = samples_of_bins(places[:, 4:2:-1] / np.array(pooled_size, number), sampling_ratio)
    few, many = _by_samples(here, counts)
    for at in _in_parts(few, counts, product(pooled_size)):
        samples = _all_samples(places[at], pooled_size, counts[at])
        out[at] = _sums(images, batch[at], pooled_size, *samples)
    for k in many:
        samples = _near_samples(images.shape, places[k], pooled_size, sampling_ratio)
        out[k] = _sums(images, batch[k : k + 1], pooled_size, *samples)[0]
    out /= np.maximum(counts, 1).prod(1).astype(number)[:, None, None, None]
    return out.astype(data.dtype, copy=False)


def _by_samples(regions: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regions whose bins have few samples, in the order of their number, and the others."""
    most = counts[regions].max(1)
    is_few = most <= _FEW_SAMPLES
    return regions[is_few][np.argsort(most[is_few], kind="stable")], regions[~is_few]


def _in_parts(regions: np.ndarray, counts: np.ndarray, bins: int) -> Iterator[np.ndarray]:
    """Parts of the regions with at most ``_AT_ONCE`` samples, or single ones."""
    samples = bins * int(counts[regions].max(initial=1)) ** 2
    step = max(_AT_ONCE // samples, 1)
    for start in range(0, len(regions), step):
        yield regions[start : start + step]


def _turned(places: np.ndarray, v: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points (y, x) of regions from those along their axes; ``places`` has regions' rows last."""
    angle = places[5] * places.dtype.type(np.pi) / places.dtype.type(180)
    cos, sin = np.cos(angle), np.sin(angle)
    return v * cos - u * sin + places[2], u * cos + v * sin + places[1]


def _all_samples(
    places: np.ndarray, bins: Shape, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of all bins of some regions: their bins in ascending order, y and x (NaN: none)."""
    number = places.dtype.type
    axes = []
    for size, b, count in zip((places[:, 4], places[:, 3]), bins, counts.T):
        step = (size / number(b))[:, None]
        bases = -size[:, None] / number(2) + np.arange(b, dtype=number) * step
        order, known = np.arange(count.max()), np.maximum(count, 1)[:, None].astype(number)
        parts = (order.astype(number) + number(0.5)) * step / known
        parts[order >= count[:, None]] = np.nan
        axes.append(bases[:, :, None] + parts[:, None])
    v, u = axes[0][:, :, None, :, None], axes[1][:, None, :, None, :]
    y, x = _turned(places.T[..., None, None, None, None], v, u)
    of_bins = np.repeat(np.arange(y[..., 0, 0].size), product(y.shape[3:]))
    return of_bins, y.reshape(-1), x.reshape(-1)


def _near_samples(
    shape: Shape, place: np.ndarray, bins: Shape, ratio: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As :func:`_all_samples`, for one region and without most samples far from the image."""
    number = place.dtype.type
    height, width = shape[2:]
    # The image's corners in the region's axes, so that only samples near the image are taken.
    ends = np.array([-1, height], number) - place[2], np.array([-1, width], number) - place[1]
    y, x = np.meshgrid(*ends)
    origin = place * np.array([1, 0, 0, 1, 1, -1], number)
    axes = []
    for size, b, seen in zip(place[4:2:-1], bins, _turned(origin, y, x)):
        step = size / number(b)
        samples = int(samples_of_bins(step, ratio))
        near = partial(samples_near, low=seen.min(), high=seen.max(), reach=height + width + 2)
        axes.append(samples_along(-size / number(2), step, b, samples, None if ratio > 0 else near))
    (v, rows), (u, columns) = axes
    of_bins = (rows[:, None] * bins[1] + columns).reshape(-1)
    order = np.argsort(of_bins, kind="stable")
    y, x = _turned(place, v[:, None], u)
    return of_bins[order], y.reshape(-1)[order], x.reshape(-1)[order]


def _corners(y: np.ndarray, x: np.ndarray, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The flat cells around points inside of images, and their weights: (points, 4)."""
    y, x = bounded(y, 0, shape[2] - 1), bounded(x, 0, shape[3] - 1)
    low = np.floor(y), np.floor(x)
    top, left = (n.astype(np.int64) for n in low)
    rows = top * shape[3], np.minimum(top + 1, shape[2] - 1) * shape[3]
    columns = left, np.minimum(left + 1, shape[3] - 1)
    down, across = y - low[0], x - low[1]
    cells = np.stack([row + column for row in rows for column in columns], -1)
    weights = [v * u for v in (1 - down, down) for u in (1 - across, across)]
    return cells, np.stack(weights, -1)


def _sums(
    images: np.ndarray,
    batch: np.ndarray,
    bins: Shape,
    of_bins: np.ndarray,
    y: np.ndarray,
    x: np.ndarray,
) -> np.ndarray:
    """Sums of the samples in all bins, (R, C, *bins); samples outside of images are left out."""
    (height, width), count = images.shape[2:], images.shape[1]
    inside = np.flatnonzero((y >= -1) & (y <= height) & (x >= -1) & (x <= width))
    of_bins = of_bins[inside]
    cells, weights = _corners(y[inside], x[inside], images.shape)
    out = np.zeros((len(batch), count, product(bins)), images.dtype)
    run = native.routine("weighted", images.dtype.name, size=len(inside) * count)
    if run is not None:
        starts = np.searchsorted(of_bins, np.arange(len(batch) * out.shape[2] + 1))
        tables = batch, starts.astype(np.int64), cells, weights
        numbers = [*out.shape, height * width]
        run([np.ascontiguousarray(images), out, *tables], numbers)
    else:
        region, place = np.divmod(of_bins, out.shape[2])
        flat = images.reshape(*images.shape[:2], -1)
        near = [flat[batch[region], :, cells[:, i]] * weights[:, i : i + 1] for i in range(4)]
        values = (near[0] + near[1]) + (near[2] + near[3])
        np.add.at(out.swapaxes(1, 2), (region, place), values)
    return out.reshape(len(batch), count, *bins)


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


class _Region(NamedTuple):
    """The bins of one region, (classes, rows, columns) of them, and their samples.

    origins  place of the first cell of each output channel's bins in an image, flat
    lines    rows and columns of samples, brought onto cells, along the last axis
    inside   which samples lie inside, (classes, 1, rows, columns, samples, samples)
    counts   samples inside of each bin, at least 1
    """

    origins: np.ndarray
    lines: tuple[np.ndarray, np.ndarray]
    inside: np.ndarray
    counts: np.ndarray

    def corner(self, steps: tuple[int, int], width: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Flat places of one corner of each sample in an image, and its weights (y, x)."""
        cells, weights = [], []
        for line, step in zip(self.lines, steps):
            low = np.floor(line)
            part = line - low
            cells.append((np.ceil(line) if step else low).astype(np.int64))
            weights.append(part if step else 1 - part)
        across = (cells[0] * width)[..., :, None] + cells[1][..., None, :]
        own = self.origins[..., None, None] + across[:, None]
        return own, [weights[0][:, None, ..., :, None], weights[1][:, None, ..., None, :]]


class _MovedBins(NamedTuple):
    """The bins of all regions, (R, classes, rows, columns) of them.

    images   the image of each region, -1 for none
    parts    rows and columns of the offsets of bins
    origins  as of a :class:`_Region`
    lines    rows and columns of samples, brought onto cells, along the last axis
    held     which of them lie inside
    extent   the regions' sizes (y, x), in which offsets count
    """

    images: np.ndarray
    parts: np.ndarray
    origins: np.ndarray
    lines: tuple[np.ndarray, np.ndarray]
    held: tuple[np.ndarray, np.ndarray]
    extent: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Samples inside of each bin, at least 1."""
        inside = self.held[0].sum(-1) * self.held[1].sum(-1)
        return np.maximum(inside, 1).astype(self.extent.dtype)

    def regions(self) -> Iterator[tuple[int, int, _Region]]:
        """Number, image and bins of each region with an image."""
        counts = self.counts
        for k in np.flatnonzero(self.images >= 0):
            y, x = (held[k] for held in self.held)
            inside = (y[..., :, None] & x[..., None, :])[:, None]
            lines = (self.lines[0][k], self.lines[1][k])
            one = _Region(self.origins, lines, inside, counts[k][:, None])
            yield int(k), int(self.images[k]), one


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


def _moved_bins(rois: np.ndarray, trans: np.ndarray, shape: Shape, layout: _Layout) -> _MovedBins:
    """Bins of all regions; ``trans`` is (R, classes, 2, parts, parts)."""
    number = trans.dtype.type
    scale, half = number(layout.spatial_scale), number(0.5)
    (classes, _, parts, _), count = trans.shape[1:], layout.pooled_size
    places = np.arange(count)
    part, group = places * parts // count, places * layout.group_size // count
    channels = np.arange(layout.output_dim).reshape(classes, -1, 1, 1) * layout.group_size
    planes = (channels + np.minimum(group, layout.group_size - 1)[:, None]) * layout.group_size
    origins = (planes + np.minimum(group, layout.group_size - 1)) * (shape[2] * shape[3])
    grid = np.stack(np.meshgrid(places, places, indexing="ij"), -1).astype(trans.dtype)
    samples = np.arange(layout.sample_per_part, dtype=trans.dtype)
    batch = whole(rois[:, 0])
    images = np.where((batch >= 0) & (batch < shape[0]), batch, -1).astype(np.int64)
    corners = rounded(widened(rois)[:, 1:5]).astype(trans.dtype)
    low = corners[:, 1::-1] * scale - half  # y, x
    high = (corners[:, :1:-1] + number(1)) * scale - half
    extent = np.maximum(high - low, number(0.1))
    bins = extent / number(count)
    step = bins / number(layout.sample_per_part)
    move = trans[:, :, ::-1, part[:, None], part] * number(layout.trans_std)
    at_bins = [axis[:, None, None, None] for axis in (bins, low, extent)]
    start = grid * at_bins[0] + at_bins[1] + np.moveaxis(move, 2, -1) * at_bins[2]
    every = (slice(None), *[None] * 4)
    lines = [start[..., axis, None] + samples * step[every + (axis,)] for axis in (0, 1)]
    held = [(at >= -0.5) & (at <= n - 0.5) for at, n in zip(lines, shape[2:])]
    y, x = (np.clip(np.nan_to_num(at), 0, n - 1) for at, n in zip(lines, shape[2:]))
    return _MovedBins(images, part, origins, (y, x), (held[0], held[1]), extent)


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
    count = layout.pooled_size
    out = np.zeros((len(rois), layout.output_dim, count, count), images.dtype)
    if images.size and out.size:
        bins = _moved_bins(rois, _offsets(rois, trans, images.dtype), images.shape, layout)
        if not _by_routine("mean", bins, images, out):
            for k, image, one in bins.regions():
                cells = images[image].reshape(-1)
                total = np.zeros((), images.dtype)
                for steps in np.ndindex(2, 2):
                    place, (down, across) = one.corner(steps, images.shape[3])
                    total = total + cells[place] * (down * across)
                summed = np.where(one.inside, total, 0).sum((-2, -1))
                out[k] = (summed / one.counts).reshape(out.shape[1:])
    return out.astype(data.dtype, copy=False)


def _by_routine(
    how: str, bins: _MovedBins, images: np.ndarray, head: np.ndarray, *results: np.ndarray
) -> bool:
    """Add to ``head``, or to the gradients ``results``, by machine code; False without it."""
    (_, classes, *_, samples), (regions, outputs) = bins.lines[0].shape, head.shape[:2]
    places = head[0, 0].size
    work = regions * outputs * places * samples**2
    run = native.routine("moved_bins", how, head.dtype.name, size=work)
    if run is None:
        return False
    cells, shares = [], []
    for line, held, stride in zip(bins.lines, bins.held, (images.shape[3], 1)):
        low = np.floor(line)
        both = np.stack([low, np.ceil(line)], -1).astype(np.int64) * stride
        cells.append(np.where(held[..., None], both, -1))
        shares.append(line - low)
    found, slopes = results or (images[:0], images[:0])
    tables = [bins.images, bins.origins.astype(np.int64), *cells, *shares, bins.counts]
    run(
        [np.ascontiguousarray(images), head, found, slopes, *map(np.ascontiguousarray, tables)],
        [regions, outputs, outputs // classes, classes, places, samples, images[0].size],
    )
    return True


def _deformable_back(
    head: np.ndarray, data: np.ndarray, rois: np.ndarray, *trans: np.ndarray, **attrs: Declared
) -> Arrays:
    """Gradients with respect to data (by the samples' weights) and offsets (by the slopes)."""
    layout, images, d = _Layout(**attrs), widened(data), widened(head)
    found = np.zeros(images.shape, images.dtype)
    moves = _offsets(rois, trans, images.dtype)
    slopes = np.zeros(moves.shape, moves.dtype)
    if images.size and d.size:
        bins = _moved_bins(rois, moves, images.shape, layout)
        by_offset = np.zeros((*bins.lines[0].shape[:-1], 2), d.dtype)
        if not _by_routine("back", bins, images, np.ascontiguousarray(d), found, by_offset):
            for k, image, one in bins.regions():
                own = d[k].reshape(moves.shape[1], -1, *d.shape[2:])
                share = np.where(one.inside, (own / one.counts)[..., None, None], 0)
                cells, of_cells = (a[image].reshape(-1) for a in (images, found))
                by_offset[k] = _samples_back(one, share, cells, of_cells, images.shape[3])
        by_offset *= (bins.extent * d.dtype.type(layout.trans_std))[:, None, None, None]
        moved = np.moveaxis(by_offset[..., ::-1], -1, 2)
        # Bins may share a part.
        own_part = (bins.parts[:, None] == np.arange(moves.shape[-1])).astype(d.dtype)
        slopes += own_part.T @ moved @ own_part
    made = (found, *(slopes.reshape(t.shape) for t in trans))
    results = tuple(y.astype(data.dtype, copy=False) for y in made)
    return results if trans else results[0]


def _samples_back(
    one: _Region, share: np.ndarray, cells: np.ndarray, of_cells: np.ndarray, width: int
) -> np.ndarray:
    """Add each sample's gradient to ``of_cells``; return the sums of slopes (classes, i, j, 2)."""
    slopes = np.zeros((*one.inside.shape[:1], *one.inside.shape[2:4], 2), share.dtype)
    for steps in np.ndindex(2, 2):
        place, weights = one.corner(steps, width)
        weighted = share * (weights[0] * weights[1])
        np.add.at(of_cells, place.reshape(-1), weighted.reshape(-1))
        value = (share * cells[place]).sum(1)
        for axis, step in enumerate(steps):
            along = (value * weights[1 - axis][:, 0]).sum((-2, -1))
            slopes[..., axis] += along if step else -along
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
