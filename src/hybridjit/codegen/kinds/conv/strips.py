"""Depthwise convolution down strips of columns; vectors along channels.

A row of the input is read once. It completes the sums of one row of the result, and contributes to
those of the rows below within reach, whose sums are in registers. Row by row, it would be loaded
from the second-level cache once for every vertical tap: rows of many channels do not stay in the
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.addresses import StridedRows
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from ..parts.program import at_column, operand_addresses, store_epilogue
from ..parts.window import GivenRow, Positions, Tile, first_input, stored_from, tiles_of_row
from .blocks import Block, in_range, runs_of_channels
from .spec import DepthwiseSpec


def emit_strips(b: LoopBuilder, spec: DepthwiseSpec, args: Arguments) -> None:
    """y[n,o,c] = program(bias[c] + sum over taps of x[n,o+tap,c] * w[tap,c]).

    A unit of work is ``spec.lines`` rows of a tile of columns and a block of channels.
    """
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    spec = args.sized(spec)
    tiles = [] if spec.over else tiles_of_row(spec, spec.cols)
    runs, blocks = runs_of_channels(b, spec.channels, spec.nv)
    chunks, count = b.divided_up(spec.out[1], spec.lines), b.divided_up(spec.out[2], spec.cols)
    per_image = b.mul(b.mul(chunks, count), blocks)
    b.balance(_usual_units(spec, blocks))
    with b.each_unit(b.mul(batch, per_image), args.share, args.shares) as unit:
        sizes = (0, chunks, count, blocks)
        image, chunk, number, block = b.split(unit.index, sizes)
        channel = b.mul(block, spec.nv * b.lanes)
        first = b.mul(chunk, spec.lines)
        rows = (first, b.min(b.add(first, spec.lines), spec.out[1]))
        at = (image, 0, 0, 0, channel)
        strip = _Strip(
            b,
            spec,
            b.at(x, b.dot(at, spec.xs)),
            b.at(w, channel),
            b.at(bias, channel),
            [b.at(p, b.dot(at, s)) for p, s in zip(reads, spec.reads)],
            [b.at(p, b.dot(at, s)) for p, s in zip(writes, spec.writes)],
        )
        for kind, several, low in runs:
            with b.when(in_range(b, block, low, b.add(low, several), blocks)):
                if spec.over:
                    strip.emit_given(kind, number, rows)
                for tile, column in _tile_of(b, tiles, number):
                    strip.emit(kind, tile, column, rows)


# A typical number of blocks of channels, and of rows of a unit, if the call gives them.
_USUAL_BLOCKS, _USUAL_LINES = 4, 32


def _usual_units(spec: DepthwiseSpec, blocks: Index) -> int:
    """An estimate of the units of an image."""
    usual = spec.usual or spec.out
    known = blocks if isinstance(blocks, int) else _USUAL_BLOCKS
    return int(-(-usual[1] // _usual_lines(spec)) * -(-usual[2] // spec.cols) * known)


def _usual_lines(spec: DepthwiseSpec) -> int:
    return spec.lines if isinstance(spec.lines, int) else _USUAL_LINES


def _tile_of(b: LoopBuilder, tiles: Sequence[Tile], number: Index) -> Iterator[tuple[Tile, Index]]:
    """Each shape of tile, and the column where tile ``number`` begins if it has this shape; code
    emitted in the loop's body runs for these tiles only.
    """
    low = 0
    for _, members in groupby(tiles, key=lambda tile: tile.shape):
        run = list(members)
        inside = b.b.and_(b.less(low - 1, number), b.less(number, low + len(run)))
        with b.when(inside):
            step = b.mul(b.sub(number, low), run[0].width)
            yield run[0], b.add(step, run[0].start) if len(run) > 1 else run[0].start
        low += len(run)


class _Strip:
    """Rows of a tile of columns, for the channels at which the addresses begin."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: DepthwiseSpec,
        x: Value,
        w: Value,
        bias: Value,
        reads: list[Value],
        writes: list[Value],
    ) -> None:
        self.b, self.spec = b, spec
        self.x, self.w, self.bias, self.reads, self.writes = x, w, bias, reads, writes
        self.padded = b.whole_vectors(spec.channels)
        self.given_taps = None
        if not isinstance(self.padded, int):
            self.given_taps = StridedRows.of(b, w, self.padded, self._taps)

    def emit_given(self, block: Block, number: Index, rows: tuple[Index, Index]) -> None:
        """Tile ``number`` of rows whose width the call gives."""
        row = GivenRow(self.b, self.spec, self.spec.cols, self.spec.over)

        def emit(tile: Tile, column: Index, first: Index) -> None:
            self.emit(block, tile, column, rows, first)

        row.tile(number, emit)

    def emit(
        self,
        block: Block,
        tile: Tile,
        column: Index,
        rows: tuple[Index, Index],
        from_: Index = 0,
    ) -> None:
        """Rows above the first contribute to it but are not stored; nor are columns before
        ``from_``.
        """
        b, spec = self.b, self.spec
        ahead, size = spec.rows_ahead, tile.width * block.nv
        x = self.x
        if not isinstance(spec.xs[3], int):
            left = first_input(b, column, spec.stride[2], spec.pad[2])
            x = b.at(x, b.mul(left, spec.xs[3]))
        first, start = b.sub(rows[0], ahead), self._start(block, tile) * ahead
        with b.loop("row", first, rows[1], carry=start, most=_usual_lines(spec) + ahead) as row:
            # The bias is loaded for each row: keeping it would take a register.
            sums = [*row.carried, *self._start(block, tile)]
            for line in range(spec.stride[1]):
                sums = self._add_line(block, tile, (x, column), row.index, line, sums)
            with b.when(b.less(b.sub(rows[0], 1), row.index)):
                self._store(block, tile, column, row.index, sums[:size], from_)
            row.yields(sums[size:])

    def _start(self, block: Block, tile: Tile) -> list[Value]:
        """The initial sums of a row."""
        return [self.b.load(self.bias, j * self.b.lanes) for j in range(block.nv)] * tile.width

    def _add_line(
        self,
        block: Block,
        tile: Tile,
        begin: tuple[Value, Index],
        row: Index,
        line: int,
        sums: Sequence[Value],
    ) -> list[Value]:
        """Add an input line, if it exists, to the row that it completes and to those below.

        ``begin`` are the address of a line's first element, or of its first input if the call gives
        the distance of columns, and the first column of the result.
        """
        b, spec, (x, column) = self.b, self.spec, begin
        tap = spec.kernel[1] - spec.stride[1] + line
        at = b.add(b.mul(row, spec.stride[1]), tap - spec.pad[1])
        left = first_input(b, column, spec.stride[2], spec.pad[2])
        with b.loop(
            "line", b.max(at, 0), b.min(b.add(at, 1), spec.inp[1]), carry=sums, most=1
        ) as there:
            offset = b.mul(there.index, spec.xs[2])
            if isinstance(spec.xs[3], int):
                offset = b.add(offset, b.mul(left, spec.xs[3]))
            taps = range(tap, -1, -spec.stride[1])
            there.yields(self._sum_line(block, tile, b.at(x, offset), taps, there.carried, left))
        return there.results

    def _sum_line(
        self,
        block: Block,
        tile: Tile,
        x: Value,
        taps: range,
        sums: Sequence[Value],
        left: Index,
    ) -> list[Value]:
        """One input line; its products with vertical tap ``taps[d]`` go to row d of sums."""
        b, spec, result = self.b, self.spec, list(sums)
        size = tile.width * block.nv
        positions = Positions(b, spec, tile, left)
        inputs = positions.inputs(b, x, spec.xs[3])
        for j in range(block.nv):
            lanes = block.last if j == block.nv - 1 else b.lanes
            filters = [self._filters(kh, j) for kh in taps]
            for position in positions.all:
                pointer, at = position.place(b, x, spec.xs[3], inputs)
                value = read_vector(b, pointer, b.add(at, j * b.lanes), 1, lanes)
                for d, of_row in enumerate(filters):
                    for m, kw in position.pairs:
                        k = d * size + m * block.nv + j
                        more = b.fma(value, of_row[kw], result[k])
                        result[k] = position.kept(b, more, result[k])
        return result

    @property
    def _taps(self) -> int:
        return self.spec.kernel[1] * self.spec.kernel[2]

    def _filters(self, kh: int, j: int) -> list[Value]:
        """Vector ``j`` of the taps of a row."""
        b, taps = self.b, range(kh * self.spec.kernel[2], (kh + 1) * self.spec.kernel[2])
        if self.given_taps is not None:
            pointers = self.given_taps.pointers(b, self._taps)
            return [b.load(pointers[tap], j * b.lanes) for tap in taps]
        assert isinstance(self.padded, int)
        return [b.load(self.w, tap * self.padded + j * b.lanes) for tap in taps]

    def _store(
        self,
        block: Block,
        tile: Tile,
        column: Index,
        row: Index,
        sums: Sequence[Value],
        from_: Index,
    ) -> None:
        b, spec = self.b, self.spec
        reads = [b.at(p, b.mul(row, s[2])) for p, s in zip(self.reads, spec.reads)]
        writes = [b.at(p, b.mul(row, s[2])) for p, s in zip(self.writes, spec.writes)]
        reads = at_column(b, reads, spec.reads, column)
        writes = at_column(b, writes, spec.writes, column)
        for k, value in enumerate(sums):
            m, j = divmod(k, block.nv)
            lanes = block.last if j == block.nv - 1 else b.lanes
            with stored_from(b, from_, m):
                sources = operand_addresses(b, reads, spec.reads, m, j * b.lanes)
                targets = operand_addresses(b, writes, spec.writes, m, j * b.lanes)
                store_epilogue(b, spec.program, value, sources, targets, lanes)
