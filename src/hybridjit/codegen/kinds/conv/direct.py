"""Convolution and dense layers: implicit im2col + GEMM with the result tile in registers.

The rows of A are addresses into the activation, tap by tap; no column matrix is written. Padding
costs nothing: loops skip taps above and below the image, and tiles at the left and right edge have
separate loops that skip columns outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from ...._core.frozen import replace
from ...call import rounds_of
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ...spec import Extent
from ..parts.arguments import Arguments
from ..parts.gemm import (
    ending_in_half,
    line_elements,
    steps_of_sum,
)
from ..parts.program import Part, at_column, operand_addresses, store_parts
from ..parts.window import (
    Tile,
    tiles_of_row,
    whole_windows,
)
from .blocks import Block, in_range, runs_of_channels
from .spec import ConvSpec
from .sums import (
    ByChannel,
    ByTap,
    Place,
    Runs,
    has_uniform_tiles,
    lines_ahead,
)

# Columns of a narrow tile at the end of a row: with two vectors of channels, enough sums to hide
# the latency of a multiply-add. A tile of 8 would be a quarter of the code.
_WIDEST_REST = 4
# Columns of a row for each column of a tile that exceeds an edge, from which on such tiles have
# short code.
_RARE = 8


def emit_conv(b: LoopBuilder, spec: ConvSpec, args: Arguments) -> None:
    """y[n,o,f] = program(bias[f] + sum over taps and channels of x[n,o+tap,c] * w[f,tap,c])."""
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    pointers = (x, w, bias, reads, writes)
    spec = args.sized(spec)
    tiles = tiles_of_row(spec, spec.mr) if isinstance(spec.out[2], int) else []
    by_tile = has_uniform_tiles(spec)
    lines = b.product((*spec.out[:2], b.divided_up(spec.out[2], spec.mr) if by_tile else 1))
    runs, blocks = runs_of_channels(b, spec.oc, spec.nv)
    per_image = b.mul(b.mul(spec.groups, blocks), lines)
    usual = spec.usual or spec.out
    usual_lines = usual[0] * usual[1] * (-(-usual[2] // spec.mr) if by_tile else 1)
    b.balance(spec.groups * (blocks if isinstance(blocks, int) else 1) * usual_lines)
    with b.each_unit(b.mul(batch, per_image), args.share, args.shares) as unit:
        image, rest = b.divmod(unit.index, per_image)
        group, block, line, within = place_in_image(b, spec, rest, lines, blocks)
        for kind, count, first in runs:
            with b.when(in_range(b, block, first, b.add(first, count), blocks)):
                place, column = _locate(
                    b, spec, pointers, image, group, block, (line, within), by_tile
                )
                _emit_columns(b, spec, kind, place, tiles, column)


class _Chunked(Protocol):
    """A spec whose units are computed for all groups and blocks, ``rows`` lines at a time."""

    @property
    def groups(self) -> Extent: ...
    @property
    def rows(self) -> Extent: ...


def place_in_image(
    b: LoopBuilder, spec: _Chunked, unit: Index, lines: Index, blocks: Index
) -> tuple[Index, Index, Index, Index]:
    """Group, block, line and the line's number in its chunk, for a unit of an image.

    Chunk c contains the lines from c * lines // chunks on: chunks differ by at most a line, so that
    every unit is work and threads with equally many units have equal work.
    """
    chunks = b.divided_up(lines, spec.rows)
    per_line = b.mul(spec.groups, blocks)
    if isinstance(lines, int) and isinstance(chunks, int) and lines % chunks == 0:
        size = lines // chunks
        chunk, group, block, within = b.split(unit, (0, spec.groups, blocks, size))
        return group, block, b.add(b.mul(chunk, size), within), within
    after, _ = b.divmod(unit, per_line)
    chunk, _ = b.divmod(b.sub(b.mul(b.add(after, 1), chunks), 1), lines)
    first, _ = b.divmod(b.mul(chunk, lines), chunks)
    following, _ = b.divmod(b.mul(b.add(chunk, 1), lines), chunks)
    rest, within = b.divmod(b.sub(unit, b.mul(first, per_line)), b.sub(following, first))
    group, block = b.split(rest, (0, blocks))
    return group, block, b.add(first, within), within


def _locate(
    b: LoopBuilder,
    spec: ConvSpec,
    pointers: tuple[Value, Value, Value, list[Value], list[Value]],
    image: Index,
    group: Index,
    block: Index,
    lines: tuple[Index, Index],
    by_tile: bool,
) -> tuple[Place, Index]:
    """Base addresses of one unit, and the tile's number in its row if units are tiles."""
    x, w, bias, reads, writes = pointers
    line, within = lines
    tiles = b.divided_up(spec.out[2], spec.mr) if by_tile else 1
    depth, row, tile = b.split(line, (0, spec.out[1], tiles))
    taps = spec.kernel[0] * spec.kernel[1] * spec.kernel[2]
    padded = b.whole_vectors(spec.oc)
    width = spec.nv * b.lanes
    channel = b.add(b.mul(group, spec.oc), b.mul(block, width))
    packed = b.add(b.mul(group, padded), b.mul(block, width))
    steps = steps_of_sum(b, spec.ic)
    size = b.mul(taps, steps)
    rounds = b.divmod(steps, spec.unroll)[0]
    rounds = taps // spec.kernel[2] * spec.ic if spec.taps else b.mul(taps, rounds)
    asked = b.mul(lines_ahead(b, spec) * line_elements(b), rounds)
    place = Place(
        x=b.at(x, b.add(b.mul(image, spec.xs[0]), b.mul(group, b.mul(spec.ic, spec.xs[4])))),
        w=b.at(w, b.mul(packed, size)),
        bias=b.at(bias, packed),
        reads=[
            b.at(p, b.dot((image, depth, row, 0, channel), s)) for p, s in zip(reads, spec.reads)
        ],
        writes=[
            b.at(p, b.dot((image, depth, row, 0, channel), s)) for p, s in zip(writes, spec.writes)
        ],
        ahead=b.at(w, b.add(b.mul(b.add(packed, width), size), b.mul(within, asked))),
        depth=depth,
        row=row,
    )
    return place, tile


def _emit_columns(
    b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, tiles: list[Tile], tile: Index
) -> None:
    """One tile if units are tiles; else the whole row, with equal adjacent tiles in a loop."""
    if not tiles:
        _emit_given(b, spec, block, place, tile)
        return
    if has_uniform_tiles(spec):
        _emit_one_of(b, spec, block, place, tiles, tile)
        return
    at_edges = _with_short_edges(spec, tiles)
    for _, members in groupby(tiles, key=lambda t: t.shape):
        run = list(members)
        own = spec if run[0].is_inside else at_edges
        if len(run) == 1:
            _emit_tile(b, own, block, place, run[0], run[0].start)
            continue
        stop = run[-1].start + run[-1].width
        with b.loop("col", run[0].start, stop, run[0].width) as col:
            _emit_tile(b, own, block, place, run[0], col.index)


def _with_short_edges(spec: ConvSpec, tiles: list[Tile]) -> ConvSpec:
    """The spec for tiles that exceed an edge: in a wide row, of one step in a round.

    Sums have the same order. Every such tile has its own code, with a loop for each run of taps.
    """
    columns = sum(tile.width for tile in tiles if not tile.is_inside)
    return replace(spec, unroll=1, ahead=0) if _RARE * columns <= spec.out[2] else spec


def _emit_one_of(
    b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, tiles: list[Tile], tile: Index
) -> None:
    """Tile number ``tile`` of a row: the wide ones come first."""
    wide = [t for t in tiles if t.width == tiles[0].width]
    small = tiles[len(wide) :]
    if not small:
        _emit_tile(b, spec, block, place, wide[0], b.mul(tile, wide[0].width))
        return
    with b.when(b.less(tile, len(wide))):
        _emit_tile(b, spec, block, place, wide[0], b.mul(tile, wide[0].width))
    with b.when(b.less(len(wide) - 1, tile)):
        start = b.add(b.mul(tile, small[0].width), len(wide))
        _emit_tile(b, spec, block, place, small[0], start)


def _emit_given(b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, tile: Index) -> None:
    """One tile, or a row, if the call gives the number of columns."""
    if has_uniform_tiles(spec):
        start = b.mul(tile, spec.mr)
        _emit_some(b, spec, block, place, start, b.min(b.add(start, spec.mr), spec.out[2]))
        return
    first, end = whole_windows(b, spec)
    if spec.taps:
        _emit_part(b, spec, block, place, (0, first, end, spec.out[2]))
        return
    count = 1 if spec.is_one else b.divided_up(spec.out[2], spec.mr)
    small, wide = b.divmod(spec.out[2], count)
    with b.loop("tile", 0, count, most=rounds_of(spec.usual[2] // spec.mr)) as each:
        start = b.add(b.mul(each.index, small), b.min(each.index, wide))
        width = b.add(small, b.b.zext(b.less(each.index, wide), I64))
        stop = b.add(start, width)
        place.runs = Runs(b, spec, start, stop)
        low = b.min(b.max(first, start), stop)
        high = b.max(b.min(end, stop), low)
        _emit_part(b, spec, block, place, (start, low, high, stop))


def _emit_part(
    b: LoopBuilder,
    spec: ConvSpec,
    block: Block,
    place: Place,
    marks: tuple[Index, Index, Index, Index],
) -> None:
    """Columns from the first to the last mark; windows are inside between the other two."""
    begin, first, end, after = marks
    for name, start, stop in (("left", begin, first), ("right", end, after)):
        with b.loop(name, start, stop, most=rounds_of(spec.usual[2])) as col:
            _emit_tile(b, spec, block, place, Tile(0, 1, ()), col.index)
    with b.loop("col", first, end, spec.mr, most=rounds_of(spec.usual[2] // spec.mr)) as col:
        _emit_some(b, spec, block, place, col.index, b.min(b.add(col.index, spec.mr), end))


def _emit_some(
    b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, start: Index, stop: Index
) -> None:
    """Columns from ``start`` to ``stop``, whose windows are inside: a full tile, or the rest of a
    row in narrow tiles, with a loop over those of the same width.
    """

    def emit(width: int, column: Index) -> None:
        tile = Tile(0, width, ((0, width),) * spec.kernel[2])
        _emit_tile(b, spec, block, place, tile, column)

    count = b.sub(stop, start)
    with b.when(b.equal(count, spec.mr)):
        emit(spec.mr, start)
    if spec.mr == 1:
        return
    with b.when(b.less(count, spec.mr)):
        widest, *halves = halves_below(min(spec.mr, _WIDEST_REST + 1))
        end = b.add(start, b.b.and_(b.i64(count), b.i64(-widest)))
        with b.loop("rest", start, end, widest, most=spec.mr // widest) as rest:
            emit(widest, rest.index)
        for width in halves:
            before = b.b.and_(b.i64(count), b.i64(-2 * width))
            with b.when(b.less(b.add(before, width - 1), count)):
                emit(width, b.add(start, before))


def halves_below(size: int) -> list[int]:
    """The powers of two below ``size``, the largest first."""
    return [1 << bit for bit in reversed(range((size - 1).bit_length()))]


def _emit_tile(
    b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, tile: Tile, column: Index
) -> None:
    """One register tile: accumulate over all of K, then the program, then the stores."""
    biases = [b.load(place.bias, j * b.lanes) for j in range(block.nv)]
    accs = ending_in_half(b, biases, block.last, spec.half_last) * tile.width
    order = ByChannel if spec.taps else ByTap
    accs = order(b, spec, block, place, tile, column).sums(accs)
    _emit_store(b, spec, block, place, tile, column, accs)


def _emit_store(
    b: LoopBuilder,
    spec: ConvSpec,
    block: Block,
    place: Place,
    tile: Tile,
    column: Index,
    accs: Sequence[Value],
) -> None:
    reads = at_column(b, place.reads, spec.reads, column)
    writes = at_column(b, place.writes, spec.writes, column)
    parts = []
    for m in range(tile.width):
        for j in range(block.nv):
            count = block.last if j == block.nv - 1 else b.lanes
            sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
            targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
            parts.append(Part(b.widened(accs[m * block.nv + j]), sources, targets, count))
    store_parts(b, spec.program, parts)
