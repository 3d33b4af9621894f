"""Bilinear samples of an image with channels last, at the points of a grid or at given cells."""

from __future__ import annotations

from functools import partial

from ...._core.frozen import dataclass, replace
from ...._core.target import SINGLE, ElementTypes
from ...._core.types import product
from ....ir.plan import Step
from ....ir.sized import is_symbolic
from ....ops.vision.bilinear_samples import SAMPLE_CELLS_LAST
from ...call import Address, Argument, Call, Setting, about, rounds_of, views_of
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import converted
from ...llvm.indices import Index
from ...llvm.types import I1, Value
from ...math.numbers import float_numbers_of
from ...spec import Extents, Ints, KernelSpec
from ..parts.arguments import Arguments
from ..parts.partial import read_scalar, read_vector, whole_and_last, write_vector
from ..record import register


@dataclass(frozen=True)
class SampleSpec(KernelSpec):
    """Bilinear samples at positions in an image; arguments: x, grid, mask if any, y, batch.

    inp, out  sizes of the image and of the grid
    grid      strides per (image, coordinate, row, column)
    places    ``grid``: x and y, from -1 at the first cell to 1 at the last one; ``cells``: y and x,
              in cells
    edge      ``zeros``: the image is surrounded by zeros; ``held``: up to one cell beyond the last
              one it repeats that one, and is 0 elsewhere; NaN is outside
    mask      strides per (image, row, column) of factors; () without a mask
    usual     approximate typical sizes of the grid, if the call gives sizes
    """

    inp: Extents
    out: Extents
    channels: int
    xs: Extents
    grid: Extents
    ys: Extents
    places: str = "grid"
    edge: str = "zeros"
    mask: Extents = ()
    element: ElementTypes = SINGLE
    usual: Ints = ()
    kind = "sample"
    extents = ("inp", "out", "xs", "grid", "ys", "mask")


def choose_sample(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call of ``_sample_last`` or ``_sample_cells_last``."""
    anchor = step.group.anchor
    x, grid, *mask = views_of(step, anchor.inputs)
    y = step.writes[0]
    in_cells = anchor.op is SAMPLE_CELLS_LAST
    spec = SampleSpec(
        inp=x.shape[1:3],
        out=anchor.shape[1:3],
        channels=x.shape[3],
        xs=x.strides[:3],
        grid=grid.strides,
        ys=y.strides[:3],
        places="cells" if in_cells else "grid",
        edge="held" if in_cells and anchor.attrs["is_held"] else "zeros",
        mask=mask[0].strides if mask else (),
        element=setting.target.element,
    )
    if any(is_symbolic(getattr(spec, name)) for name in spec.extents):
        spec = replace(spec, usual=about(spec.out))
    args: tuple[Argument, ...] = (*map(Address, (x, grid, *mask, y)), x.shape[0])
    return (Call(spec, args, 8 * product(anchor.shape)),)


def emit_sample(b: LoopBuilder, spec: SampleSpec, args: Arguments) -> None:
    """y[n,h,w,c] = x[n,:,:,c] at position grid[n,:,h,w], times mask[n,h,w]."""
    x, grid = args.pointer("x"), args.pointer("grid")
    mask = args.pointer("mask") if spec.mask else None
    y = args.pointer("y")
    blocks = -(-spec.channels // b.lanes)
    last = spec.channels - (blocks - 1) * b.lanes
    batch = args.integer("batch")
    spec = args.sized(spec)
    most = rounds_of(spec.usual[1]) if spec.usual else None
    units = b.mul(batch, spec.out[0])
    with b.each_unit(units, args.share, args.shares) as unit:
        image, row = b.split(unit.index, (0, spec.out[0]))
        source = b.at(x, b.mul(image, spec.xs[0]))
        line = b.at(grid, b.dot((image, 0, row), spec.grid[:3]))
        factors = None if mask is None else b.at(mask, b.dot((image, row), spec.mask[:2]))
        target = b.at(y, b.dot((image, row), spec.ys[:2]))
        with b.loop("col", 0, spec.out[1], most=most) as col:
            factor = None
            if factors is not None:
                factor = read_scalar(b, factors, b.mul(col.index, spec.mask[2]))
            corners = _corners(b, spec, line, b.mul(col.index, spec.grid[3]), factor)
            cell = b.at(target, b.mul(col.index, spec.ys[2]))
            with b.loop("block", 0, blocks) as block:
                channel = b.mul(block.index, b.lanes)
                store = partial(_store, b, spec, source, cell, channel, corners)
                whole_and_last(b, block.index, blocks, last, store)


def _corners(
    b: LoopBuilder, spec: SampleSpec, line: Value, place: Index, factor: Value | None
) -> tuple[_Corner, _Corner]:
    """The cells below and beside a position; its factor is part of the weights of the rows."""
    points = [read_scalar(b, line, p) for p in (place, b.add(place, spec.grid[1]))]
    if spec.places == "grid":
        half = [_half(b, b.sub(size, 1)) for size in spec.inp]
        points = [b.b.fmul(b.b.fadd(p, b.number(1.0)), h) for p, h in zip(points[::-1], half)]
    lowest = None if spec.places == "grid" else {"zeros": -1.0, "held": 0.0}[spec.edge]
    rows = _Corner(b, points[0], spec.inp[0], lowest, factor)
    return rows, _Corner(b, points[1], spec.inp[1], lowest)


def _half(b: LoopBuilder, size: Index) -> Value:
    if isinstance(size, int):
        return b.number(size / 2)
    return b.b.fmul(b.float_of(size), b.number(0.5))


class _Corner:
    """Two adjacent cells of an axis, whether they are inside, and the weights of both.

    With a ``lowest`` position, positions below it, beyond the image or NaN have weight 0; if it is
    0, the last cell is repeated up to the image's end.
    """

    def __init__(
        self,
        b: LoopBuilder,
        at: Value,
        size: Index,
        lowest: float | None,
        factor: Value | None = None,
    ) -> None:
        one = b.number(1.0)
        within: Value = ir.Constant(I1, 1)
        if lowest is not None:
            above = b.b.fcmp_ordered(">=" if lowest == 0 else ">", at, b.number(lowest))
            within = b.b.and_(above, b.b.fcmp_ordered("<", at, b.float_of(size)))
            at = b.b.select(within, at, b.number(0.0))
        if lowest == 0:
            end = b.float_of(b.max(b.sub(size, 1), 0))
            at = b.b.select(b.b.fcmp_ordered("<", at, end), at, end)
        floor = float_numbers_of(b, at, b.dtype).floor(at)
        first = converted(b, floor, b.dtype, "int64")
        part = b.b.fsub(at, floor)
        weights = [b.b.fsub(one, part), part]
        if factor is not None:
            weights = [b.b.fmul(weight, factor) for weight in weights]
        self.weights = [b.splat(weight) for weight in weights]
        numbers = [first, b.b.add(first, b.i64(1))]
        inside = [b.b.icmp_unsigned("<", n, b.i64(size)) for n in numbers]
        self.inside = [b.b.and_(i, within) for i in inside]
        self.cells = [b.max(b.min(n, b.sub(size, 1)), 0) for n in numbers]


def _store(
    b: LoopBuilder,
    spec: SampleSpec,
    x: Value,
    y: Value,
    channel: Index,
    corners: tuple[_Corner, _Corner],
    lanes: int,
) -> None:
    down, across = corners

    def cell(i: int, j: int) -> Value:
        if 0 in spec.inp:  # an image without cells
            return b.splat(0.0)
        at = b.add(b.dot((down.cells[i], across.cells[j]), spec.xs[1:3]), channel)
        value = read_vector(b, x, at, 1, lanes)
        inside = b.b.and_(down.inside[i], across.inside[j])
        return b.b.select(inside, value, b.splat(0.0))

    upper, lower = (_mixed(b, cell(i, 0), cell(i, 1), across) for i in (0, 1))
    write_vector(b, _mixed(b, upper, lower, down), y, channel, 1, lanes)


def _mixed(b: LoopBuilder, low: Value, high: Value, corner: _Corner) -> Value:
    below, above = corner.weights
    return b.b.fadd(b.b.fmul(low, below), b.b.fmul(high, above))


register("sample", choose_sample, {SampleSpec: emit_sample}, in_one_type=True)
