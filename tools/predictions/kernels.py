"""Cycles of the loops around products: register tiles, taps outside, tiles that are transformed."""

from __future__ import annotations

from dataclasses import dataclass

from hybridjit._core.target import PAIRS, Target
from hybridjit._core.types import product
from hybridjit.codegen.families import family_of
from hybridjit.codegen.kinds.conv.blocks import Block, blocks_of
from hybridjit.codegen.kinds.conv.cost import transform_instructions
from hybridjit.codegen.kinds.conv.spec import ConvSpec, WinogradSpec
from hybridjit.codegen.kinds.parts.window import Windowed, tiles_of_row

# Cycles from a multiply-add to the one that needs its sum.
_LATENCY = 4
# Multiply-adds that are under way together: the next tile begins before a short one has ended.
_UNDER_WAY = 256
# Cycles in which a register tile begins and ends.
_TURN = 16
# Cycles from a tap to the next, each of which is a loop over channels.
_TAP = 12
# Cycles to find a place that a tile reads or writes.
_PLACE = 5
# Cycles for an instruction of a transform as the cost counts them, of two in a cycle, into the
# products and back: some are done while others wait.
_INTO, _BACK = 0.85, 0.55


@dataclass(frozen=True)
class WinogradCycles:
    """Cycles of the parts of a tiled convolution for one image, without memory.

    again  bytes of filters that are read after the first time, once for each block of tiles
    ahead  whether a block of filters serves several register tiles, which ask for the next one
    """

    products: float
    transforms: float
    again: int
    ahead: bool


def tile_cycles(rows: float, nv: float, steps: int, vectors: float) -> float:
    """Cycles of a register tile that sums a number of steps: ``vectors`` are multiplied in a cycle,
    and
    as many loaded; in a long tile of few sums each waits for the one before it.
    """
    waits = _LATENCY * min(1, steps * rows * nv / _UNDER_WAY)
    return steps * max(rows * nv / vectors, (rows + nv) / vectors, waits)


def winograd_cycles(spec: WinogradSpec, target: Target) -> WinogradCycles:
    """The products with their register tiles, the last of which may be padded; the transforms."""
    lanes, total, family = target.lanes, spec.tiles_of_image, family_of(target)
    blocks, rest = divmod(total, spec.tiles)
    tiles = blocks * -(-spec.tiles // spec.mr) + -(-rest // spec.mr)
    each = tile_cycles(spec.mr, spec.nv, spec.ic, family.sums(target)) + spec.mr * spec.nv + _TURN
    into, back = transform_instructions(*spec.lines, target.vector_registers)
    instructions = _INTO * into * -(-spec.ic // lanes) + _BACK * back * -(-spec.oc // lanes)
    places = product(tuple(line.reach for line in spec.lines))
    places += product(tuple(line.m for line in spec.lines))
    transform = 2 / family.instructions(target) * instructions + _PLACE * places
    return WinogradCycles(
        products=spec.groups * spec.points * tiles * -(-spec.oc // (spec.nv * lanes)) * each,
        transforms=spec.groups * total * transform,
        again=4 * spec.groups * spec.points * spec.ic * spec.oc * (-(-total // spec.tiles) - 1),
        ahead=spec.rows >= 2 * spec.mr,
    )


def direct_cycles(spec: ConvSpec, target: Target) -> float:
    """Cycles of the definition's sums for one image, without memory.

    Taps outside of the picture are left out, so that tiles at an edge have fewer steps, or fewer
    sums in a step.
    """
    vectors = family_of(target).sums(target)
    lines = taps_inside(spec, 0) * taps_inside(spec, 1)
    steps = -(-spec.ic // 2) if spec.element == PAIRS else spec.ic
    rows = spec.out[0] * spec.out[1]
    total = 0.0
    for block in blocks_of(spec.oc, spec.nv, target.lanes):
        each = _vectors_of(block, spec, target, vectors)
        for tile in tiles_of_row(spec, spec.mr):
            reached = [high - low for low, high in tile.reach if high > low]
            sums = sum(tile_cycles(width, each[0], steps, each[1]) for width in reached)
            turns = 0 if spec.taps else _TAP * len(reached)
            total += lines * (sums + turns) + rows * tile.width * block.nv
    return spec.groups * total


def _vectors_of(
    block: Block, spec: ConvSpec, target: Target, vectors: float
) -> tuple[float, float]:
    """Vectors of a block, the last of which may be half of one, and how many a cycle multiplies."""
    if not spec.half_last or 2 * block.last > target.lanes:
        return block.nv, vectors
    return (1, 2 * vectors) if block.nv == 1 else (block.nv - 0.5, vectors)


def taps_inside(spec: Windowed, axis: int) -> int:
    """Taps of all windows along an axis that lie inside the input."""
    step, dilate = spec.stride[axis], spec.dilate[axis]
    first = range(-spec.pad[axis], spec.out[axis] * step - spec.pad[axis], step)
    taps = range(0, spec.kernel[axis] * dilate, dilate)
    return sum(0 <= start + tap < spec.inp[axis] for start in first for tap in taps)
