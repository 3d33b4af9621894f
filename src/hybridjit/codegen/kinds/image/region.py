"""Pooling of regions of an image with channels last: ROIAlign and ROIPooling.

A unit of work is a row of bins of a region. Bins and their samples are computed with the arithmetic
of the reference (``ops.roi_align``), for any coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import auto
from typing import NamedTuple

from ...._core.frozen import dataclass, replace
from ...._core.target import SINGLE, ElementTypes
from ...._core.types import product
from ....ir.plan import Step
from ....ir.sized import is_symbolic
from ....ops.vision.region_bins import FAR, MARGIN
from ....ops.vision.roi_align import ROI_ALIGN_LAST
from ...call import Address, Call, Setting, about, views_of
from ...llvm.builder import LoopBuilder
from ...llvm.elements import converted
from ...llvm.indices import Index
from ...llvm.types import Value
from ...math.numbers import float_math, float_numbers_of
from ...spec import Extents, Ints, KernelSpec, Way
from ..parts.arguments import Arguments
from ..parts.partial import read_scalar, read_vector, whole_and_last, write_vector
from ..record import register


class Bin(Way):
    """The average of bilinear samples, or the largest of whole cells."""

    ALIGN = auto()
    MAX = auto()


@dataclass(frozen=True)
class RegionSpec(KernelSpec):
    """Pooling of regions of interest; arguments: x, rois, y, images, regions.

    columns, row  number of elements of a region, 5 with the image's number first, 4 without; row
    stride
    ratio   samples of a bin along each axis; 0 or less: as many as it has cells
    usual   approximate typical sizes of the image, if the call gives them
    """

    how: Bin
    inp: Extents
    bins: Ints
    channels: int
    xs: Extents
    ys: Ints
    columns: int
    row: int
    scale: float
    ratio: int = 0
    aligned: bool = False
    element: ElementTypes = SINGLE
    usual: Ints = ()
    kind = "region"
    extents = ("inp", "xs")


def choose_region(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call of ``_roi_align_last`` or ``_roi_pooling_last``."""
    anchor = step.group.anchor
    x, rois = views_of(step, anchor.inputs)
    y, attrs = step.writes[0], anchor.attrs
    align = anchor.op is ROI_ALIGN_LAST
    spec = RegionSpec(
        how=Bin.ALIGN if align else Bin.MAX,
        inp=x.shape[1:3],
        bins=attrs["pooled_size"],
        channels=x.shape[3],
        xs=x.strides[:3],
        ys=y.strides[:3],
        columns=rois.shape[1],
        row=rois.strides[0],
        scale=attrs["spatial_scale"],
        ratio=attrs["sample_ratio"] if align else 0,
        aligned=align and attrs["aligned"],
        element=setting.target.element,
    )
    if is_symbolic((spec.inp, spec.xs)):
        spec = replace(spec, usual=about(spec.inp))
    args = (Address(x), Address(rois), Address(y), x.shape[0], rois.shape[0])
    return (Call(spec, args, 16 * product(anchor.shape)),)


class Axis(NamedTuple):
    """A region along one axis: its start, the size of a bin, samples in a bin."""

    start: Value
    step: Value
    samples: Value | None  # None for bins of cells without samples
    cells: Index


# Approximate instructions for one sample of a vector of channels.
_SAMPLE = 32


def emit_region(b: LoopBuilder, spec: RegionSpec, args: Arguments) -> None:
    """y[r,i,j,c] = the average or the largest of x[image of r,:,:,c] in bin (i, j)."""
    x, rois, y = args.pointer("x"), args.pointer("rois"), args.pointer("y")
    images, regions = args.integer("images"), args.integer("regions")
    rows, columns = spec.bins
    spec = args.sized(spec)
    with b.each_unit(b.mul(regions, rows), args.share, args.shares) as unit:
        region, row = b.split(unit.index, (0, rows))
        first = b.mul(region, spec.row)
        numbers = [read_scalar(b, rois, b.add(first, i)) for i in range(spec.columns)]
        number: Value = b.i64(0)
        if spec.columns == 5:
            number = converted(b, numbers[0], b.dtype, "int64")
        exists = b.b.icmp_unsigned("<", number, images)
        image = b.at(x, b.mul(b.b.select(exists, number, b.i64(0)), spec.xs[0]))
        x1, y1, x2, y2 = numbers[-4:]
        axes = _AXES[spec.how](b, spec, (y1, x1), (y2, x2))
        target = b.at(y, b.dot((region, row), spec.ys[:2]))
        with b.loop("bin", 0, columns) as column:
            cell = b.at(target, b.mul(column.index, spec.ys[2]))
            with b.when(exists):
                _emit_bin(b, spec, image, cell, axes, (row, column.index))
            with b.when(b.b.not_(exists)):
                _store_channels(b, spec, cell, lambda channel, lanes: b.splat(0.0))


def _emit_bin(
    b: LoopBuilder,
    spec: RegionSpec,
    x: Value,
    y: Value,
    axes: Sequence[Axis],
    place: tuple[Index, Index],
) -> None:
    ranges = [_RANGES[spec.how](b, spec, axis, bin_) for axis, bin_ in zip(axes, place)]

    height, width = (b.max(b.sub(last, first), 0) for first, last in ranges)
    count = b.mul(height, width)

    def value(channel: Index, lanes: int) -> Value:
        b.account(count, _SAMPLE)
        return _BINS[spec.how](b, spec, b.at(x, channel), axes, place, ranges, lanes)

    _store_channels(b, spec, y, value)


def _store_channels(
    b: LoopBuilder, spec: RegionSpec, y: Value, value: Callable[[Index, int], Value]
) -> None:
    """y[c] = value(c, lanes), a vector at a time."""
    blocks = -(-spec.channels // b.lanes)
    last = spec.channels - (blocks - 1) * b.lanes
    with b.loop("block", 0, blocks) as block:
        channel = b.mul(block.index, b.lanes)

        def store(lanes: int) -> None:
            write_vector(b, value(channel, lanes), y, channel, 1, lanes)

        whole_and_last(b, block.index, blocks, last, store)


# --- the average of bilinear samples ---


def _aligned_axes(
    b: LoopBuilder, spec: RegionSpec, low: Sequence[Value], high: Sequence[Value]
) -> list[Axis]:
    scale, shift = (b.number(v) for v in (spec.scale, 0.5 if spec.aligned else 0.0))
    one = b.number(1.0)
    axes = []
    for bins, cells, first, end in zip(spec.bins, spec.inp, low, high):
        start, stop = (b.b.fsub(b.b.fmul(v, scale), shift) for v in (first, end))
        size = b.b.fsub(stop, start)
        if not spec.aligned:
            size = b.b.select(b.b.fcmp_ordered("<", size, one), one, size)
        step = b.b.fdiv(size, b.number(float(bins)))
        count: Value = b.i64(spec.ratio)
        if spec.ratio <= 0:
            count = _bounded_integer(
                b, float_numbers_of(b, step, b.dtype).ceil(step), 0, b.number(float(FAR))
            )
        axes.append(Axis(start, step, count, cells))
    return axes


def _bounded(b: LoopBuilder, value: Value, low: float, high: Value) -> Value:
    """The value bounded to [low, high]; NaN becomes low."""
    least = b.number(float(low))
    value = b.b.select(b.b.fcmp_ordered(">", value, least), value, least)
    return b.b.select(b.b.fcmp_ordered("<", value, high), value, high)


def _bounded_integer(b: LoopBuilder, value: Value, low: float, high: Value) -> Value:
    return converted(b, _bounded(b, value, low, high), b.dtype, "int64")


def _base(b: LoopBuilder, axis: Axis, bin_: Index) -> Value:
    """The start of a bin."""
    return b.b.fadd(axis.start, b.b.fmul(b.b.sitofp(b.i64(bin_), b.element), axis.step))


def _near(b: LoopBuilder, spec: RegionSpec, axis: Axis, bin_: Index) -> tuple[Index, Index]:
    """The range of a bin's samples that may be inside the image: ``roi_align.samples_near``."""
    assert axis.samples is not None
    if isinstance(axis.cells, int) and axis.cells == 0:
        return 0, 0
    if spec.ratio > 0:
        return 0, axis.samples
    f = b.b
    count = f.sitofp(axis.samples, b.element)
    distance, half, margin = f.fdiv(axis.step, count), b.number(0.5), b.number(float(MARGIN))
    low, high = (
        f.fdiv(f.fsub(edge, _base(b, axis, bin_)), distance)
        for edge in (b.number(-1.0), b.float_of(axis.cells))
    )
    math = float_numbers_of(b, low, b.dtype)
    first = f.fsub(math.floor(f.fsub(low, half)), margin)
    last = f.fadd(math.ceil(f.fadd(high, half)), margin)
    first, last = (_bounded_integer(b, edge, 0, count) for edge in (first, last))
    most = b.add(b.mul(axis.cells, 2), _MORE_SAMPLES)
    return first, b.min(last, b.add(first, most))


# Maximum samples of a bin along an axis inside, if the data decide their number, beyond two for
# each cell.
_MORE_SAMPLES = 8


def _cells(spec: RegionSpec) -> Ints:
    """The image's sizes; estimates of those that the call gives."""
    return spec.usual or spec.inp


def _between(
    b: LoopBuilder, axis: Axis, bin_: Index, number: Index
) -> tuple[list[Value], list[Value]]:
    """The two cells around a sample and their weights, both 0 for a sample outside."""
    assert axis.samples is not None
    f = b.b
    half, one, zero = (b.number(v) for v in (0.5, 1.0, 0.0))
    part = f.fmul(f.fadd(f.sitofp(b.i64(number), b.element), half), axis.step)
    at = f.fadd(_base(b, axis, bin_), f.fdiv(part, f.sitofp(axis.samples, b.element)))
    inside = f.and_(
        f.fcmp_ordered(">=", at, b.number(-1.0)),
        f.fcmp_ordered("<=", at, b.float_of(axis.cells)),
    )
    last = b.sub(axis.cells, 1)
    at = _bounded(b, at, 0, b.float_of(last))
    low = converted(b, at, b.dtype, "int64")
    high = b.min(b.add(low, 1), last)
    share = f.fsub(at, f.sitofp(low, b.element))
    weights = [f.select(inside, w, zero) for w in (f.fsub(one, share), share)]
    return [low, high], weights


def _average(
    b: LoopBuilder,
    spec: RegionSpec,
    x: Value,
    axes: Sequence[Axis],
    place: tuple[Index, Index],
    ranges: Sequence[tuple[Index, Index]],
    lanes: int,
) -> Value:
    down, across = axes
    most = [spec.ratio if spec.ratio > 0 else 2 * n + _MORE_SAMPLES for n in _cells(spec)]
    with b.loop("sy", *ranges[0], carry=[b.splat(0.0)], most=most[0], by_data=True) as sy:
        rows, heights = _between(b, down, place[0], sy.index)
        with b.loop("sx", *ranges[1], carry=sy.carried, most=most[1], by_data=True) as sx:
            columns, widths = _between(b, across, place[1], sx.index)
            total = sx.carried[0]
            for row, height in zip(rows, heights):
                for column, width in zip(columns, widths):
                    cell = read_vector(b, x, b.dot((row, column), spec.xs[1:3]), 1, lanes)
                    weight = b.splat(b.b.fmul(height, width))
                    total = b.fma(cell, weight, total)
            sx.yields([total])
        sy.yields(sx.results)
    assert down.samples is not None and across.samples is not None
    count = b.max(b.mul(down.samples, across.samples), 1)
    return b.b.fdiv(sy.results[0], b.splat(b.b.sitofp(count, b.element)))


# --- the largest of whole cells ---


def _rounded(b: LoopBuilder, value: Value) -> Value:
    """As ``ops.vision.region_bins.rounded``."""
    half = b.intrinsic("copysign", b.number(0.5), value)
    return _bounded_integer(b, b.b.fadd(value, half), -FAR, b.number(float(FAR)))


def _whole_axes(
    b: LoopBuilder, spec: RegionSpec, low: Sequence[Value], high: Sequence[Value]
) -> list[Axis]:
    axes = []
    for bins, cells, first, end in zip(spec.bins, spec.inp, low, high):
        scale = b.number(spec.scale)
        start, stop = (_rounded(b, b.b.fmul(v, scale)) for v in (first, end))
        size = b.max(b.b.add(b.b.sub(stop, start), b.i64(1)), 1)
        step = b.b.fdiv(b.b.sitofp(size, b.element), b.number(float(bins)))
        axes.append(Axis(start, step, None, cells))
    return axes


def _range(b: LoopBuilder, spec: RegionSpec, axis: Axis, bin_: Index) -> tuple[Index, Index]:
    """The range of cells of a bin, clipped to the image."""
    edges = []
    math = float_numbers_of(b, axis.step, b.dtype)
    for whole_of, number in ((math.floor, bin_), (math.ceil, b.add(bin_, 1))):
        edge = b.b.fmul(b.b.sitofp(b.i64(number), b.element), axis.step)
        whole = converted(b, whole_of(edge), b.dtype, "int64")
        edges.append(b.max(b.min(b.b.add(whole, axis.start), axis.cells), 0))
    return edges[0], edges[1]


def _largest(
    b: LoopBuilder,
    spec: RegionSpec,
    x: Value,
    axes: Sequence[Axis],
    place: tuple[Index, Index],
    ranges: Sequence[tuple[Index, Index]],
    lanes: int,
) -> Value:
    math = float_math(b)
    rows, columns = ranges
    height, width = _cells(spec)
    lowest = [b.splat(float("-inf"))]
    with b.loop("row", *rows, carry=lowest, most=height, by_data=True) as row:
        line = b.at(x, b.mul(row.index, spec.xs[1]))
        with b.loop("column", *columns, carry=row.carried, most=width, by_data=True) as column:
            cell = read_vector(b, line, b.mul(column.index, spec.xs[2]), 1, lanes)
            column.yields([math.max(column.carried[0], cell)])
        row.yields(column.results)
    filled = b.b.and_(b.less(*rows), b.less(*columns))
    return b.b.select(filled, row.results[0], b.splat(0.0))


_AXES: dict[Bin, Callable[..., list[Axis]]] = {Bin.ALIGN: _aligned_axes, Bin.MAX: _whole_axes}
_RANGES: dict[Bin, Callable[..., tuple[Index, Index]]] = {Bin.ALIGN: _near, Bin.MAX: _range}
_BINS: dict[Bin, Callable[..., Value]] = {Bin.ALIGN: _average, Bin.MAX: _largest}


register("region", choose_region, {RegionSpec: emit_region}, in_one_type=True)
