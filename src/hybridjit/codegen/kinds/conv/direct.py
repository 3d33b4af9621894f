"""Convolution and dense layers: implicit im2col + GEMM with the result tile in registers.

The rows of A are addresses into the activation, tap by tap; no column matrix is written. Padding
costs nothing: loops skip taps above and below the image, and tiles at the left and right edge have
separate loops that skip columns outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...._core.types import product
from ...call import rounds_of
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ..parts.arguments import Arguments
from ..parts.gemm import (
    Ahead,
    NextTile,
    Operand,
    Rows,
    added,
    ending_in_half,
    line_elements,
    multiply,
    rank_one,
    steps_of_sum,
)
from ..parts.program import Part, at_column, operand_addresses, store_parts
from ..parts.window import (
    Tile,
    first_input,
    input_line,
    is_always_inside,
    rows_inside,
    runs_of_taps,
    tiles_of_row,
    valid_taps,
    whole_windows,
)
from .spec import ConvSpec

LONG = 8192  # maximum products of a sum without interruption, if there are several taps


@dataclass(frozen=True)
class Block:
    """A block of output channels: ``nv`` vectors, the last with ``last`` lanes."""

    nv: int
    last: int


@dataclass
class Place:
    """Addresses of a unit of work; ``runs`` are those of a tile of given width."""

    x: Value
    w: Value
    bias: Value
    reads: list[Value]
    writes: list[Value]
    ahead: Value
    depth: Index
    row: Index
    runs: Runs | None = None


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
    blocks = blocks_of(spec.oc, spec.nv, b.lanes)
    per_image = b.mul(spec.groups * len(blocks), lines)
    usual = spec.usual or spec.out
    usual_lines = usual[0] * usual[1] * (-(-usual[2] // spec.mr) if by_tile else 1)
    b.balance(spec.groups * len(blocks) * usual_lines)
    with b.each_unit(b.mul(batch, per_image), args.share, args.shares) as unit:
        image, rest = b.divmod(unit.index, per_image)
        group, block, line, within = _place_in_image(b, spec, rest, lines, len(blocks))
        for kind, count, first in runs_of_blocks(blocks):
            with b.when(in_range(b, block, first, first + count, len(blocks))):
                place, column = _locate(
                    b, spec, pointers, image, group, block, (line, within), by_tile
                )
                _emit_columns(b, spec, kind, place, tiles, column)


def _place_in_image(
    b: LoopBuilder, spec: ConvSpec, unit: Index, lines: Index, blocks: int
) -> tuple[Index, Index, Index, Index]:
    """Group, block, line and the line's number in its chunk, for a unit of an image.

    Chunk c contains the lines from c * lines // chunks on: chunks differ by at most a line, so that
    every unit is work and threads with equally many units have equal work.
    """
    chunks = b.divided_up(lines, spec.rows)
    per_line = spec.groups * blocks
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


def has_uniform_tiles(spec: ConvSpec) -> bool:
    """Whether no column reads outside its row: then each tile is a separate unit of work."""
    return is_always_inside(spec, 2)


def blocks_of(oc: int, nv: int, lanes: int) -> list[Block]:
    """The output channels of a group as blocks of ``nv`` vectors; the last may be narrower."""
    vectors = -(-oc // lanes)
    last = oc - (vectors - 1) * lanes
    full, rest = divmod(vectors, nv)
    blocks = [Block(nv, lanes)] * full + ([Block(rest, lanes)] if rest else [])
    blocks[-1] = Block(blocks[-1].nv, last)
    return blocks


def runs_of_blocks(blocks: list[Block]) -> list[tuple[Block, int, int]]:
    """Runs of equal adjacent blocks: (block, count, index of the first)."""
    runs, first = [], 0
    for kind, members in groupby(blocks):
        count = len(list(members))
        runs.append((kind, count, first))
        first += count
    return runs


def in_range(b: LoopBuilder, value: Index, low: int, high: int, size: int) -> Value:
    if low == 0:
        return b.less(value, high)
    return b.less(low - 1, value)


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
    padded = -(-spec.oc // b.lanes) * b.lanes
    width = spec.nv * b.lanes
    channel = b.add(b.mul(group, spec.oc), b.mul(block, width))
    packed = b.add(b.mul(group, padded), b.mul(block, width))
    steps = steps_of_sum(b, spec.ic)
    size = taps * steps
    rounds = taps // spec.kernel[2] * spec.ic if spec.taps else taps * (steps // spec.unroll)
    asked = _lines_ahead(b, spec) * line_elements(b) * rounds
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
    for _, members in groupby(tiles, key=lambda t: t.shape):
        run = list(members)
        if len(run) == 1:
            _emit_tile(b, spec, block, place, run[0], run[0].start)
            continue
        stop = run[-1].start + run[-1].width
        with b.loop("col", run[0].start, stop, run[0].width) as col:
            _emit_tile(b, spec, block, place, run[0], col.index)


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


class Runs:
    """Runs of adjacent horizontal taps that read for the same columns of a tile of given width.

    The taps of a run are summed over all rows of the window, then those of the next run: so the
    order of a column's sum is that of its tile.
    """

    def __init__(self, b: LoopBuilder, spec: ConvSpec, start: Index, stop: Index) -> None:
        self.b, taps = b, spec.kernel[2]
        self.table = b.scratch(I64, taps)
        reach = [self._reach(b, spec, tap, start, stop) for tap in range(taps)]
        alike = [
            b.b.and_(*(b.equal(*two) for two in zip(one, other)))
            for one, other in zip(reach, reach[1:])
        ]
        after: Index = taps
        for tap in reversed(range(taps)):
            if tap < taps - 1:
                after = b.b.select(alike[tap], b.i64(after), b.i64(tap + 1))
            begins = b.less(*reach[tap])
            if tap:
                begins = b.b.and_(begins, b.b.not_(alike[tap - 1]))
            end = b.b.select(begins, b.i64(after), b.i64(tap))
            b.b.store(end, b.at(self.table, tap, I64), align=8)

    @staticmethod
    def _reach(
        b: LoopBuilder, spec: ConvSpec, tap: int, start: Index, stop: Index
    ) -> tuple[Index, Index]:
        """The columns whose input under a tap is inside the row; (0, 0) if there are none."""
        stride, behind = spec.stride[2], tap * spec.dilate[2] - spec.pad[2]
        low = b.max(start, -(behind // stride))
        beyond = b.max(b.add(b.sub(spec.inp[2], 1 + behind), stride), 0)
        high = b.min(stop, b.divmod(beyond, stride)[0])
        there = b.less(low, high)
        none = b.i64(0)
        return b.b.select(there, b.i64(low), none), b.b.select(there, b.i64(high), none)

    def end(self, tap: Index) -> Value:
        """The tap after the run that begins with this one; the same tap if none begins."""
        return self.b.b.load(self.b.at(self.table, tap, I64), typ=I64, align=8)


def _emit_some(
    b: LoopBuilder, spec: ConvSpec, block: Block, place: Place, start: Index, stop: Index
) -> None:
    """Columns from ``start`` to ``stop``, whose windows are inside: a full tile, or the rest of a
    row in tiles of a half, a quarter and so on.
    """

    def emit(width: int, column: Index) -> None:
        tile = Tile(0, width, ((0, width),) * spec.kernel[2])
        _emit_tile(b, spec, block, place, tile, column)

    count = b.sub(stop, start)
    with b.when(b.equal(count, spec.mr)):
        emit(spec.mr, start)
    with b.when(b.less(count, spec.mr)):
        for width in halves_below(spec.mr):
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
    if spec.taps:
        accs = _sum_by_channel(b, spec, block, place, tile, column, accs)
    else:
        accs = _sum_by_tap(b, spec, block, place, tile, column, accs)
    _emit_store(b, spec, block, place, tile, column, accs)


def _sum_by_tap(
    b: LoopBuilder,
    spec: ConvSpec,
    block: Block,
    place: Place,
    tile: Tile,
    column: Index,
    accs: list[Value],
) -> list[Value]:
    """Channels innermost: for taps (kd, kh, kw): for c: acc[m] += x[m + tap, c] * w[tap, c]."""
    left = first_input(b, column, spec.stride[2], spec.pad[2])
    rows = Rows(spec.stride[2] * spec.xs[3], spec.xs[4])
    # ``multiply`` handles a single tap, so that a dense layer on one row sums as one on many.
    is_long = _is_long(spec) and product(spec.kernel) > 1
    zeros = [b.constant(0.0, like=sum_) for sum_ in accs]
    size = steps_of_sum(b, spec.ic)

    def sum_run(
        first: Index, stop: Index, reach: tuple[int, int], accs: list[Value]
    ) -> list[Value]:
        def body(kd: Index, kh: Index, accs: Sequence[Value]) -> list[Value]:
            line = zeros if is_long else accs
            if isinstance(first, int) and isinstance(stop, int) and stop - first == 1:
                line = one_tap(kd, kh, first, line, reach)
            else:
                with b.loop("kw", first, stop, carry=line, most=spec.kernel[2]) as loop:
                    loop.yields(one_tap(kd, kh, loop.index, loop.carried, reach))
                line = loop.results
            return [added(b, *pair) for pair in zip(accs, line)] if is_long else list(line)

        return rows_inside(b, spec, (place.depth, place.row), accs, body)

    def one_tap(
        kd: Index, kh: Index, kw: Index, accs: Sequence[Value], reach: tuple[int, int]
    ) -> list[Value]:
        line = input_line(b, spec, (place.depth, place.row), (kd, kh))
        first = b.add(left, b.mul(kw, spec.dilate[2]))
        at = b.add(line, b.mul(first, spec.xs[3]))
        tap = b.add(b.mul(b.add(b.mul(kd, spec.kernel[1]), kh), spec.kernel[2]), kw)
        weights = b.at(place.w, b.mul(tap, size * block.nv * b.lanes))
        x = b.at(place.x, at)
        # A narrower tile leaves registers free, into which LLVM would load all weights of a round
        # at once; with few registers it then spills them (measured: 4 per 40 FMAs, AVX2).
        tight = reach != (0, tile.width) and b.target.vector_registers < 32
        ahead = None if tight else _ahead(b, spec, place, tap, column)
        unroll = 1 if tight else spec.unroll
        return multiply(b, x, weights, spec.ic, unroll, rows, block.nv, accs, reach, ahead)

    if place.runs is not None:
        return _sum_given_runs(b, spec, place.runs, tile, left, accs, sum_run)
    for reach, run in runs_of_taps(tile):
        accs = sum_run(run[0], run[-1] + 1, reach, accs)
    return accs


# Adds the products of a range of taps to the sums of a tile's columns in reach.
SumRun = Callable[[Index, Index, tuple[int, int], list[Value]], list[Value]]


def _sum_given_runs(
    b: LoopBuilder,
    spec: ConvSpec,
    runs: Runs,
    tile: Tile,
    left: Index,
    accs: list[Value],
    sum_run: SumRun,
) -> list[Value]:
    """Sum run by run, if the call gives the runs. Every run serves all columns, except at an edge,
    where a tile is a single column.
    """
    with b.loop("run", 0, spec.kernel[2], carry=accs) as run:
        first, stop = run.index, runs.end(run.index)
        begins = b.less(first, stop)
        if not tile.reach:
            at = b.i64(b.add(left, b.mul(first, spec.dilate[2])))
            begins = b.b.and_(begins, b.b.icmp_unsigned("<", at, b.i64(spec.inp[2])))
        there = b.b.zext(begins, I64)
        with b.loop("some", 0, there, carry=run.carried, most=1) as some:
            some.yields(sum_run(first, stop, (0, tile.width), some.carried))
        run.yields(some.results)
    return run.results


def _is_long(spec: ConvSpec) -> bool:
    """Whether a sum is a sum of partial sums over lines of taps, as in ``multiply``."""
    return product(spec.kernel) * spec.ic > LONG


def _lines_ahead(b: LoopBuilder, spec: ConvSpec) -> int:
    """Number of cache lines of the next block of weights that a round prefetches; 0 without one.

    The first block of the next group follows the last of a group. In ResNeXt-50, whose weights come
    from memory: 14x14 of 32 groups of 16 at 79 % of the FMA peak, without at 67 %; 7x7 of 32 groups
    of 32 at 93 %, without at 68 %.
    """
    width = spec.nv * b.lanes
    if spec.groups * spec.oc <= width:
        return 0
    round_ = spec.kernel[2] if spec.taps else spec.unroll
    return Ahead.lines_for(width * b.target.element_bytes, round_, spec.rows)


def _ahead(b: LoopBuilder, spec: ConvSpec, place: Place, tap: Index, column: Index) -> Ahead | None:
    lines, tile = _lines_ahead(b, spec), _next_tile(b, spec, place, column)
    if not lines and tile is None:
        return None
    step = lines * line_elements(b) * (steps_of_sum(b, spec.ic) // spec.unroll)
    return Ahead(b.at(place.ahead, b.mul(tap, step)), lines, tile)


def _next_tile(b: LoopBuilder, spec: ConvSpec, place: Place, column: Index) -> NextTile | None:
    """The operands of the next unit's program, if a sum is short, with a single tap."""
    steps = steps_of_sum(b, spec.ic)
    if product(spec.kernel) > 1 or not has_uniform_tiles(spec) or steps < spec.unroll:
        return None
    is_line = isinstance(spec.out[2], int) and spec.out[2] <= spec.mr
    next_column = b.add(column, spec.mr)
    operands = tuple(
        Operand(
            b.at(pointer, strides[2] if is_line else b.mul(next_column, strides[3])),
            strides[3],
            spec.nv * b.lanes,
        )
        for pointer, strides in zip(place.reads, spec.reads)
        if strides[3] and strides[4] == 1
    )
    return NextTile(operands, spec.mr, steps) if operands else None


def _sum_by_channel(
    b: LoopBuilder,
    spec: ConvSpec,
    block: Block,
    place: Place,
    tile: Tile,
    column: Index,
    accs: list[Value],
) -> list[Value]:
    """Horizontal taps innermost: for few channels, with any stride.

    The taps are unrolled only if sums leave half of the registers free: LLVM keeps every value of A
    for the taps that share it, and would spill sums (measured: 128 against 185 GFLOP/s). Without
    FMA products need registers as well.
    """
    sums = tile.width * block.nv
    unrolled = b.target.has_fma and 2 * sums <= b.target.vector_registers
    left = first_input(b, column, spec.stride[2], spec.pad[2])
    columns = block.nv * b.lanes
    rows = Rows(spec.stride[2] * spec.xs[3], spec.xs[4])
    is_long, zeros = _is_long(spec), [b.constant(0.0, like=sum_) for sum_ in accs]

    def per_channel(c: Index, accs: Sequence[Value]) -> list[Value]:
        def body(kd: Index, kh: Index, accs: Sequence[Value]) -> list[Value]:
            row = input_line(b, spec, (place.depth, place.row), (kd, kh))
            at = b.add(b.add(row, b.mul(left, spec.xs[3])), b.mul(c, spec.xs[4]))
            line = b.add(b.mul(b.add(b.mul(c, spec.kernel[0]), kd), spec.kernel[1]), kh)
            x, w = b.at(place.x, at), b.at(place.w, b.mul(line, spec.kernel[2] * columns))
            _ask_by_channel(b, spec, place, tile, line, x)
            step, values = spec.dilate[2] * spec.xs[3], zeros if is_long else list(accs)
            if not tile.reach:
                low, high = valid_taps(b, spec, 2, column)
                with b.loop("kw", low, high, carry=values, most=spec.kernel[2]) as kw:
                    xk, wk = b.at(x, b.mul(kw.index, step)), b.at(w, b.mul(kw.index, columns))
                    one = (0, tile.width)
                    kw.yields(rank_one(b, xk, wk, 0, 0, rows, block.nv, kw.carried, one))
                values = kw.results
            for reach, run in runs_of_taps(tile):
                if len(run) == 1 or unrolled:
                    for k in run:
                        values = rank_one(b, x, w, k * step, k, rows, block.nv, values, reach)
                    continue
                with b.loop("kw", run[0], run[-1] + 1, carry=values) as kw:
                    xk, wk = b.at(x, b.mul(kw.index, step)), b.at(w, b.mul(kw.index, columns))
                    kw.yields(rank_one(b, xk, wk, 0, 0, rows, block.nv, kw.carried, reach))
                values = kw.results
            return [b.b.fadd(*pair) for pair in zip(accs, values)] if is_long else values

        return rows_inside(b, spec, (place.depth, place.row), accs, body)

    if spec.ic == 1:
        return per_channel(0, accs)
    with b.loop("ic", 0, spec.ic, carry=accs) as loop:
        loop.yields(per_channel(loop.index, loop.carried))
    return loop.results


def _ask_by_channel(
    b: LoopBuilder, spec: ConvSpec, place: Place, tile: Tile, line: Index, x: Value
) -> None:
    """If windows do not overlap, prefetch weights of the next block, and the input of the tile
    below.

    If they overlap, the rows above have read most of it, and there are many tiles per weight. 16x16
    windows of 3 channels to 192, in a network whose weights come from memory: 0.25 instead of 0.33
    ms.
    """
    if spec.stride[1] < spec.kernel[1] or (spec.out[1] == 1 and not spec.usual):
        return
    lines = _lines_ahead(b, spec)
    for number in range(lines):
        b.prefetch(place.ahead, b.mul(b.add(b.mul(line, lines), number), line_elements(b)))
    reach, below = tile.width * spec.stride[2] * spec.xs[3], b.mul(spec.stride[1], spec.xs[2])
    for first in range(0, reach, line_elements(b)):
        b.prefetch(x, b.add(below, first))


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
