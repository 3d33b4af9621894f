"""Bilinear samples of an image with channels last at the points of a grid, zeros outside."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..builder import Index, LoopBuilder
from ..elements import converted
from ..spec_image import SampleSpec
from .arguments import Arguments
from .tail import read_vector, whole_and_last, write_vector


def emit_sample(b: LoopBuilder, spec: SampleSpec, args: Arguments) -> None:
    """y[n,h,w,c] = x[n,:,:,c] at grid[n,:,h,w]; -1 and 1 are the first and the last cell."""
    x, grid, y = args.pointer("x"), args.pointer("grid"), args.pointer("y")
    blocks = -(-spec.channels // b.lanes)
    last = spec.channels - (blocks - 1) * b.lanes
    units = b.mul(args.integer("batch"), spec.out[0])
    begin, end = b.share(units, args.tid, args.threads)
    with b.loop("unit", begin, end) as unit:
        image, row = b.split(unit.index, (0, spec.out[0]))
        source = b.at(x, b.mul(image, spec.xs[0]))
        line = b.at(grid, b.dot((image, 0, row), spec.grid[:3]))
        target = b.at(y, b.dot((image, row), spec.ys[:2]))
        with b.loop("col", 0, spec.out[1]) as col:
            place = b.mul(col.index, spec.grid[3])
            across = _Corner(b, b.load_scalar(line, place), spec.inp[1])
            down = _Corner(b, b.load_scalar(line, b.add(place, spec.grid[1])), spec.inp[0])
            cell = b.at(target, b.mul(col.index, spec.ys[2]))
            with b.loop("block", 0, blocks) as block:
                channel = b.mul(block.index, b.lanes)
                store = partial(_store, b, spec, source, cell, channel, (down, across))
                whole_and_last(b, block.index, blocks, last, store)


class _Corner:
    """Two neighbouring cells of an axis, whether they exist, and the weights of both."""

    def __init__(self, b: LoopBuilder, point: Any, size: int) -> None:
        one, half = b.number(1.0), b.number((size - 1) / 2)
        at = b.b.fmul(b.b.fadd(point, one), half)
        floor = b.intrinsic("floor", at)
        first = converted(b, floor, b.dtype, "int64")
        part = b.b.fsub(at, floor)
        self.weights = [b.splat(b.b.fsub(one, part)), b.splat(part)]
        numbers = [first, b.b.add(first, b.i64(1))]
        self.inside = [b.b.icmp_unsigned("<", n, b.i64(size)) for n in numbers]
        self.cells = [b.max(b.min(n, size - 1), 0) for n in numbers]


def _store(
    b: LoopBuilder,
    spec: SampleSpec,
    x: Any,
    y: Any,
    channel: Index,
    corners: tuple[_Corner, _Corner],
    lanes: int,
) -> None:
    down, across = corners

    def cell(i: int, j: int) -> Any:
        at = b.add(b.dot((down.cells[i], across.cells[j]), spec.xs[1:3]), channel)
        value = read_vector(b, x, at, 1, lanes)
        inside = b.b.and_(down.inside[i], across.inside[j])
        return b.b.select(inside, value, b.splat(0.0))

    upper, lower = (_mixed(b, cell(i, 0), cell(i, 1), across) for i in (0, 1))
    write_vector(b, _mixed(b, upper, lower, down), y, channel, 1, lanes)


def _mixed(b: LoopBuilder, low: Any, high: Any, corner: _Corner) -> Any:
    below, above = corner.weights
    return b.b.fadd(b.b.fmul(low, below), b.b.fmul(high, above))
