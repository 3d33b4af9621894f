"""Sums of a convolution in a tile of registers: over taps, or over channels, of one position.

In: the addresses of a unit of work, a tile, its sums so far. Out: the sums. Weights of the next
block and the input of tiles below are prefetched in the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I64, Value
from ..parts.gemm import (
    Ahead,
    NextTile,
    Operand,
    Rows,
    added,
    line_elements,
    multiply,
    rank_one,
    steps_of_sum,
)
from ..parts.window import (
    Tile,
    first_input,
    input_line,
    is_always_inside,
    rows_inside,
    runs_of_taps,
    valid_taps,
)
from .blocks import Block
from .spec import ConvSpec

LONG = 8192  # maximum products of a sum without interruption, if there are several taps


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


def has_uniform_tiles(spec: ConvSpec) -> bool:
    """Whether no column reads outside its row: then each tile is a separate unit of work."""
    return is_always_inside(spec, 2)


# Sums after the taps of a line (depth and row of the window), from those before it.
Line = Callable[[Index, Index, Sequence[Value]], Sequence[Value]]


class TileSums:
    """The sums of a tile over the window; a subclass for each order of taps and channels."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: ConvSpec,
        block: Block,
        place: Place,
        tile: Tile,
        column: Index,
    ) -> None:
        self.b, self.spec, self.block, self.place, self.tile = b, spec, block, place, tile
        self.column, self.left = column, first_input(b, column, spec.stride[2], spec.pad[2])
        self.rows = Rows(b.mul(spec.stride[2], spec.xs[3]), spec.xs[4])
        self.is_long = _is_long(spec)

    def over_lines(self, accs: list[Value], line: Line) -> list[Value]:
        """The sums over all lines that are inside the input; each is a partial sum if they are
        long.
        """
        zeros = [self.b.constant(0.0, like=sum_) for sum_ in accs]

        def body(kd: Index, kh: Index, accs: Sequence[Value]) -> list[Value]:
            if not self.is_long:
                return list(line(kd, kh, accs))
            return [added(self.b, *pair) for pair in zip(accs, line(kd, kh, zeros))]

        return rows_inside(self.b, self.spec, (self.place.depth, self.place.row), accs, body)

    def sums(self, accs: list[Value]) -> list[Value]:
        """To override: the sums over the window, from those before it."""
        raise NotImplementedError(f"{type(self).__name__} does not define sums")

    def input_line(self, kd: Index, kh: Index) -> Index:
        """The first element of the input's row under a line."""
        return input_line(self.b, self.spec, (self.place.depth, self.place.row), (kd, kh))


class ByTap(TileSums):
    """Channels innermost: for taps (kd, kh, kw): for c: acc[m] += x[m + tap, c] * w[tap, c]."""

    def sums(self, accs: list[Value]) -> list[Value]:
        # ``multiply`` handles a single tap, so that a dense layer on one row sums as one on many.
        self.is_long = self.is_long and product(self.spec.kernel) > 1
        if self.place.runs is not None:
            return self._given_runs(self.place.runs, accs)
        for reach, run in runs_of_taps(self.tile):
            accs = self._run(run[0], run[-1] + 1, reach, accs)
        return accs

    def _run(
        self, first: Index, stop: Index, reach: tuple[int, int], accs: list[Value]
    ) -> list[Value]:
        """Add the products of a range of taps to the sums of the columns in reach."""

        def line(kd: Index, kh: Index, accs: Sequence[Value]) -> Sequence[Value]:
            if isinstance(first, int) and isinstance(stop, int) and stop - first == 1:
                return self._tap(kd, kh, first, accs, reach)
            most = self.spec.kernel[2]
            with self.b.loop("kw", first, stop, carry=accs, most=most) as loop:
                loop.yields(self._tap(kd, kh, loop.index, loop.carried, reach))
            return loop.results

        return self.over_lines(accs, line)

    def _tap(
        self, kd: Index, kh: Index, kw: Index, accs: Sequence[Value], reach: tuple[int, int]
    ) -> list[Value]:
        b, spec, nv = self.b, self.spec, self.block.nv
        line = self.input_line(kd, kh)
        first = b.add(self.left, b.mul(kw, spec.dilate[2]))
        at = b.add(line, b.mul(first, spec.xs[3]))
        tap = b.add(b.mul(b.add(b.mul(kd, spec.kernel[1]), kh), spec.kernel[2]), kw)
        of_tap = b.mul(steps_of_sum(b, spec.ic), nv * b.lanes)
        weights = b.at(self.place.w, b.mul(tap, of_tap))
        x = b.at(self.place.x, at)
        # A narrower tile leaves registers free, into which LLVM would load all weights of a round
        # at once; with few registers it then spills them (measured: 4 per 40 FMAs, AVX2).
        tight = reach != (0, self.tile.width) and b.target.vector_registers < 32
        ahead = None if tight else _ahead(b, spec, self.place, tap, self.column)
        unroll = 1 if tight else spec.unroll
        is_whole = not isinstance(spec.ic, int)
        return multiply(
            b, x, weights, spec.ic, unroll, self.rows, nv, accs, reach, ahead, is_whole=is_whole
        )

    def _given_runs(self, runs: Runs, accs: list[Value]) -> list[Value]:
        """Sum run by run, if the call gives the runs. Every run serves all columns, except at an
        edge, where a tile is a single column.
        """
        b, spec = self.b, self.spec
        with b.loop("run", 0, spec.kernel[2], carry=accs) as run:
            first, stop = run.index, runs.end(run.index)
            begins = b.less(first, stop)
            if not self.tile.reach:
                at = b.i64(b.add(self.left, b.mul(first, spec.dilate[2])))
                begins = b.b.and_(begins, b.b.icmp_unsigned("<", at, b.i64(spec.inp[2])))
            there = b.b.zext(begins, I64)
            with b.loop("some", 0, there, carry=run.carried, most=1) as some:
                some.yields(self._run(first, stop, (0, self.tile.width), some.carried))
            run.yields(some.results)
        return run.results


def _is_long(spec: ConvSpec) -> bool:
    """Whether a sum is a sum of partial sums over lines of taps, as in ``multiply``."""
    return isinstance(spec.ic, int) and product(spec.kernel) * spec.ic > LONG


def lines_ahead(b: LoopBuilder, spec: ConvSpec) -> int:
    """Number of cache lines of the next block of weights that a round prefetches; 0 without one.

    The first block of the next group follows the last of a group. In ResNeXt-50, whose weights come
    from memory: 14x14 of 32 groups of 16 at 79 % of the FMA peak, without at 67 %; 7x7 of 32 groups
    of 32 at 93 %, without at 68 %.
    """
    if spec.ahead is not None:
        return spec.ahead
    width = spec.nv * b.lanes
    if spec.groups * spec.oc <= width:
        return 0
    round_ = spec.kernel[2] if spec.taps else spec.unroll
    return Ahead.lines_for(width * b.target.element_bytes, round_, spec.rows)


def _ahead(b: LoopBuilder, spec: ConvSpec, place: Place, tap: Index, column: Index) -> Ahead | None:
    lines, tile = lines_ahead(b, spec), _next_tile(b, spec, place, column)
    if not lines and tile is None:
        return None
    rounds, _ = b.divmod(steps_of_sum(b, spec.ic), spec.unroll)
    step = b.mul(lines * line_elements(b), rounds)
    return Ahead(b.at(place.ahead, b.mul(tap, step)), lines, tile)


def _next_tile(b: LoopBuilder, spec: ConvSpec, place: Place, column: Index) -> NextTile | None:
    """The operands of the next unit's program, if a sum is short, with a single tap."""
    steps = steps_of_sum(b, spec.ic)
    if not isinstance(steps, int):  # then no operand has an element for each position
        return None
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


class ByChannel(TileSums):
    """Horizontal taps innermost: for few channels, with any stride."""

    def sums(self, accs: list[Value]) -> list[Value]:
        if self.spec.ic == 1:
            return self._channel(0, accs)
        with self.b.loop("ic", 0, self.spec.ic, carry=accs) as loop:
            loop.yields(self._channel(loop.index, loop.carried))
        return loop.results

    def _channel(self, c: Index, accs: list[Value]) -> list[Value]:
        b, spec, place = self.b, self.spec, self.place

        def line(kd: Index, kh: Index, accs: Sequence[Value]) -> Sequence[Value]:
            row = self.input_line(kd, kh)
            at = b.add(b.add(row, b.mul(self.left, spec.xs[3])), b.mul(c, spec.xs[4]))
            line = b.add(b.mul(b.add(b.mul(c, spec.kernel[0]), kd), spec.kernel[1]), kh)
            x, w = b.at(place.x, at), b.at(place.w, b.mul(line, spec.kernel[2] * self._columns))
            _ask_by_channel(b, spec, place, self.tile, line, x)
            return self._taps(x, w, accs)

        return self.over_lines(accs, line)

    @property
    def _columns(self) -> int:
        return self.block.nv * self.b.lanes

    def _taps(self, x: Value, w: Value, values: Sequence[Value]) -> Sequence[Value]:
        """The sums after the horizontal taps of a line.

        The taps are unrolled only if sums leave half of the registers free: LLVM keeps every value
        of A for the taps that share it, and would spill sums (measured: 128 against 185 GFLOP/s).
        Without FMA products need registers as well.
        """
        b, spec, tile = self.b, self.spec, self.tile
        sums = tile.width * self.block.nv
        unrolled = b.target.has_fma and 2 * sums <= b.target.vector_registers
        if not tile.reach:
            taps = valid_taps(b, spec, 2, self.column)
            values = self._loop(x, w, *taps, values, (0, tile.width))
        for reach, run in runs_of_taps(tile):
            if len(run) > 1 and not unrolled:
                values = self._loop(x, w, run[0], run[-1] + 1, values, reach)
                continue
            for k in run:
                offset = k * spec.dilate[2] * spec.xs[3]
                values = rank_one(b, x, w, offset, k, self.rows, self.block.nv, values, reach)
        return values

    def _loop(
        self,
        x: Value,
        w: Value,
        first: Index,
        stop: Index,
        values: Sequence[Value],
        reach: tuple[int, int],
    ) -> list[Value]:
        b, step = self.b, self.spec.dilate[2] * self.spec.xs[3]
        with b.loop("kw", first, stop, carry=values, most=self.spec.kernel[2]) as kw:
            xk, wk = b.at(x, b.mul(kw.index, step)), b.at(w, b.mul(kw.index, self._columns))
            kw.yields(rank_one(b, xk, wk, 0, 0, self.rows, self.block.nv, kw.carried, reach))
        return kw.results


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
    lines = lines_ahead(b, spec)
    for number in range(lines):
        b.prefetch(place.ahead, b.mul(b.add(b.mul(line, lines), number), line_elements(b)))
    reach, below = tile.width * spec.stride[2] * spec.xs[3], b.mul(spec.stride[1], spec.xs[2])
    for first in range(0, reach, line_elements(b)):
        b.prefetch(x, b.add(below, first))
