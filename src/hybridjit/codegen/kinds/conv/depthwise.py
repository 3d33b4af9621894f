"""Convolution of small groups, most often of one channel; vectors along channels.

A tile of output columns stays in registers; each input vector of a row serves every tap that reads
it. In groups of several channels, every lane of a group takes the group's first input channel, then
the second, and so on: lanes are exchanged as a vector is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, product

from ...call import rounds_of
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I32, Value, constant_of
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from ..parts.program import at_column, operand_addresses, store_epilogue
from ..parts.window import (
    GivenRow,
    Positions,
    Tile,
    first_input,
    input_line,
    rows_inside,
    stored_from,
    tiles_of_row,
)
from .spec import DepthwiseSpec
from .strips import emit_strips
from .wide_windows import WideWindows, has_wide_windows

# A typical number of full tiles of channels, if the call gives it.
_USUAL = 4


def emit_depthwise(b: LoopBuilder, spec: DepthwiseSpec, args: Arguments) -> None:
    """y[n,o,c] = program(bias[c] + sum over taps and i of x[n,o+tap,group of c,i] * w[tap,i,c])."""
    if spec.lines:
        emit_strips(b, spec, args)
        return
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    spec = args.sized(spec)
    lines = b.product(spec.out[:2])
    usual = spec.usual or spec.out
    b.balance(usual[0] * usual[1])
    with b.each_unit(b.mul(batch, lines), args.share, args.shares) as unit:
        image, depth, row = b.split(unit.index, (0, spec.out[0], spec.out[1]))

        def emit_vectors(first: Index, count: int, last: int) -> None:
            channel = b.mul(first, b.lanes)
            at = (image, depth, row, 0, channel)
            bases = [b.at(p, b.dot(at, s)) for p, s in zip(reads, spec.reads)]
            targets = [b.at(p, b.dot(at, s)) for p, s in zip(writes, spec.writes)]
            source = b.at(x, b.add(b.mul(image, spec.xs[0]), channel))
            tile = _Tiles(b, spec, (depth, row), source, b.at(w, channel), b.at(bias, channel))
            tile.emit_row(bases, targets, count, last)

        if not isinstance(spec.channels, int):  # full tiles
            with b.loop(
                "vectors", 0, b.divmod(spec.channels, b.lanes)[0], spec.nv, most=_USUAL
            ) as v:
                emit_vectors(v.index, spec.nv, b.lanes)
            return
        vectors = -(-spec.channels // b.lanes)
        lanes_last = spec.channels - (vectors - 1) * b.lanes
        whole = vectors - 1 if lanes_last < b.lanes else vectors
        blocks = whole - whole % spec.nv
        if blocks:
            with b.loop("vectors", 0, blocks, spec.nv) as v:
                emit_vectors(v.index, spec.nv, b.lanes)
        if whole % spec.nv:
            emit_vectors(blocks, whole % spec.nv, b.lanes)
        if whole < vectors:
            emit_vectors(whole, 1, lanes_last)


class _Tiles:
    """The output columns of one row, for a few vectors of channels."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: DepthwiseSpec,
        place: tuple[Index, Index],
        x: Value,
        w: Value,
        bias: Value,
    ) -> None:
        self.b, self.spec, self.place = b, spec, place
        self.x, self.w, self.bias = x, w, bias
        self.padded = b.whole_vectors(spec.channels)

    def emit_row(self, reads: list[Value], writes: list[Value], count: int, last: int) -> None:
        if self.spec.over:
            self._emit_given_row(reads, writes, count, last)
            return
        for _, members in groupby(tiles_of_row(self.spec, self.spec.cols), key=self._code_of):
            run = list(members)
            if len(run) == 1:
                self._emit_tile(run[0], run[0].start, reads, writes, count, last)
                continue
            stop = run[-1].start + run[-1].width
            with self.b.loop("col", run[0].start, stop, run[0].width) as col:
                self._emit_tile(run[0], col.index, reads, writes, count, last)

    def _code_of(self, tile: Tile) -> object:
        """The properties of a tile on which its code depends."""
        return tile.width if has_wide_windows(self.spec) else tile.shape

    def _emit_given_row(
        self, reads: list[Value], writes: list[Value], count: int, last: int
    ) -> None:
        """A row whose number of columns the call gives."""
        b, spec = self.b, self.spec
        row = GivenRow(b, spec, spec.cols, spec.over)

        def emit(tile: Tile, column: Index, first: Index) -> None:
            self._emit_tile(tile, column, reads, writes, count, last, first)

        with b.loop("tile", 0, row.count, most=rounds_of(spec.usual[2] // spec.cols)) as tile:
            row.tile(tile.index, emit)

    def _emit_tile(
        self,
        tile: Tile,
        column: Index,
        reads: list[Value],
        writes: list[Value],
        count: int,
        last: int,
        first: Index = 0,
    ) -> None:
        """A tile whose columns before ``first`` are not stored."""
        b, spec = self.b, self.spec
        start = [b.load(self.bias, j * b.lanes) for j in range(count)] * tile.width
        left = first_input(b, column, spec.stride[2], spec.pad[2])

        def body(kd: Index, kh: Index, accs: Sequence[Value]) -> list[Value]:
            line = input_line(b, spec, self.place, (kd, kh))
            x = b.at(self.x, b.add(line, b.mul(left, spec.xs[3])))
            taps = b.mul(b.add(b.mul(kd, spec.kernel[1]), kh), spec.kernel[2])
            w = b.at(self.w, b.mul(taps, b.mul(spec.group, self.padded)))
            if has_wide_windows(spec):
                lanes = [*(b.lanes,) * (count - 1), last]
                return WideWindows(b, spec, column, tile.width, lanes).add(x, w, accs)
            return self._sum_row(tile, x, w, accs, count, last, left)

        accs = rows_inside(b, spec, self.place, start, body)
        reads = at_column(b, reads, spec.reads, column)
        writes = at_column(b, writes, spec.writes, column)
        for m in range(tile.width):
            with stored_from(b, first, m):
                for j in range(count):
                    lanes = last if j == count - 1 else b.lanes
                    sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                    targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                    store_epilogue(b, spec.program, accs[m * count + j], sources, targets, lanes)

    def _sum_row(
        self,
        tile: Tile,
        x: Value,
        w: Value,
        accs: Sequence[Value],
        count: int,
        last: int,
        left: Index,
    ) -> list[Value]:
        """One input row: each vector that the tile reads is loaded once for all its taps."""
        b, spec = self.b, self.spec
        pairs = Positions(b, spec, tile, left)
        lanes = [*(b.lanes,) * (count - 1), last]
        if not self._looks_up:
            result = list(accs)
            for j, i in product(range(count), range(spec.group)):
                spread = partial(self._spread, i=i)
                row = b.at(w, b.mul(i, self.padded))
                result = self._sum_channel(pairs, x, row, spread, result, j, lanes)
            return result
        first = [lane - lane % spec.group for lane in range(b.lanes)]
        places = ir.Constant(ir.VectorType(I32, b.lanes), first)
        with b.loop("i", 0, spec.group, carry=[places, *accs]) as loop:
            here, *result = loop.carried
            spread = partial(self._looked_up, places=here)
            row = b.at(w, b.mul(loop.index, self.padded))
            for j in range(count):
                result = self._sum_channel(pairs, x, row, spread, result, j, lanes)
            loop.yields([b.b.add(here, constant_of(here.type, 1)), *result])
        return loop.results[1:]

    @property
    def _looks_up(self) -> bool:
        """Whether a loop runs over a group's channels, with one instruction that exchanges lanes by
        a vector of indices. Unrolled, groups of 8 need two shuffles each, and spill; groups of 4
        need one, and are 13 % faster than the loop.
        """
        b = self.b
        return self.spec.group >= 8 and b.target.has_tables and b.dtype == "float32"

    def _sum_channel(
        self,
        pairs: Positions,
        x: Value,
        w: Value,
        spread: Callable[[Value], Value],
        accs: Sequence[Value],
        j: int,
        lanes: Sequence[int],
    ) -> list[Value]:
        """The products of vector ``j`` with one channel of every group, whose weights are ``w``."""
        b, spec, result = self.b, self.spec, list(accs)
        inputs = pairs.inputs(b, x, spec.xs[3])
        steps = range(0, spec.kernel[2] * spec.group, spec.group)
        filters = [b.load(w, b.add(b.mul(step, self.padded), j * b.lanes)) for step in steps]
        for position in pairs.all:
            pointer, at = position.place(b, x, spec.xs[3], inputs)
            value = spread(read_vector(b, pointer, b.add(at, j * b.lanes), 1, lanes[j]))
            for m, kw in position.pairs:
                k = m * len(lanes) + j
                result[k] = position.kept(b, b.fma(value, filters[kw], result[k]), result[k])
        return result

    def _looked_up(self, value: Value, places: Value) -> Value:
        """In every lane, the element at its index."""
        name, kind = "llvm.x86.avx512.permvar.sf.512", value.type
        return self.b.b.call(self.b.declare(name, kind, [kind, places.type]), [value, places])

    def _spread(self, value: Value, i: int) -> Value:
        """In every lane, the ``i``-th channel of that lane's group."""
        size = self.spec.group
        if size == 1:
            return value
        return self.b.shuffle(value, [lane - lane % size + i for lane in range(self.b.lanes)])
