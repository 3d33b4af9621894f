"""Dense layers on any number of rows of data: the row count is an argument.

A unit of work is a register tile of rows by a block of output channels. Rows are divided into tiles
of at most ``mr`` rows that differ by at most one row: there is code for each height from ``least``
on. Every tile adds in the same order: a row's bits depend neither on its position nor on the number
of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...._core.frozen import dataclass
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..conv.blocks import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.gemm import (
    Ahead,
    Rows,
    ending_in_half,
    line_elements,
    multiply,
    steps_of_round,
    steps_of_sum,
    tiles_of,
)
from ..parts.program import operand_addresses, store_epilogue
from .spec import DenseSpec

# Number of tiles that together prefetch the next block of weights.
_ASKING = 8


def emit_dense(b: LoopBuilder, spec: DenseSpec, args: Arguments) -> None:
    """y[n,f] = program(bias[f] + sum over c of x[n,c] * w[f,c]) for the rows n < ``rows``."""
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    pointers = _Pointers(x, w, bias, *args.of_program(spec.program))
    rows = args.integer("rows")
    blocks = blocks_of(spec.oc, spec.nv, b.lanes)
    tiles, place_of = tiles_of(b, rows, spec.mr)
    chunks = b.quotient_up(tiles, spec.chunk)
    chunk = b.quotient_up(tiles, chunks)
    with b.each_unit(b.mul(b.mul(chunks, chunk), len(blocks)), args.share, args.shares) as unit:
        rest, within = b.divmod(unit.index, chunk)
        at, block = b.divmod(rest, len(blocks))
        tile = b.add(b.mul(at, chunk), within)
        first, count = place_of(tile)
        with b.when(b.less(tile, tiles)):
            for kind, number, start in runs_of_blocks(blocks):
                with b.when(in_range(b, block, start, start + number, len(blocks))):
                    place = _locate(b, spec, pointers, block, within)
                    _Tiles(b, spec, kind, place, first).emit(count)


@dataclass(frozen=True)
class _Pointers:
    """Addresses of a block of channels; rows are counted from the first of all."""

    x: Value
    w: Value
    bias: Value
    reads: list[Value]
    writes: list[Value]
    ahead: Value | None = None


def _locate(
    b: LoopBuilder, spec: DenseSpec, all_: _Pointers, block: Index, within: Index
) -> _Pointers:
    """Addresses of a block of channels, and of the tile's part of the next block."""
    channel = b.mul(block, spec.nv * b.lanes)
    steps = steps_of_sum(b, spec.ic)
    following = b.mul(b.add(channel, spec.nv * b.lanes), steps)
    asked = _lines_ahead(b, spec) * line_elements(b) * (steps // spec.unroll)
    return _Pointers(
        all_.x,
        b.at(all_.w, b.mul(channel, steps)),
        b.at(all_.bias, channel),
        [b.at(p, b.mul(channel, s[1])) for p, s in zip(all_.reads, spec.reads)],
        [b.at(p, b.mul(channel, s[1])) for p, s in zip(all_.writes, spec.writes)],
        b.at(all_.w, b.add(following, b.mul(within, asked))),
    )


def _lines_ahead(b: LoopBuilder, spec: DenseSpec) -> int:
    """Number of lines of the next block of weights that a round prefetches; 0 without one."""
    width = spec.nv * b.lanes
    if spec.oc <= width:
        return 0
    return Ahead.lines_for(width * b.target.element_bytes, spec.unroll, min(_ASKING, spec.chunk))


class _Tiles:
    """The code of a block's tiles, from row ``first`` on, for each height."""

    def __init__(
        self, b: LoopBuilder, spec: DenseSpec, block: Block, place: _Pointers, first: Index
    ) -> None:
        self.b, self.spec, self.block, self.place, self.first = b, spec, block, place, first
        room = spec.mr * block.nv
        self.sums = b.scratch(b.vector_type(), room) if spec.by_row else None

    def emit(self, height: Index) -> None:
        b, spec = self.b, self.spec
        for known in range(spec.least, spec.mr + 1):
            with b.when(b.equal(height, known)):
                self._store(self._multiplied(known))
        if self.sums is not None:
            self._finish_rows(self.sums, height)

    def _multiplied(self, height: int) -> list[Value]:
        """One register tile: accumulate over all of K."""
        b, spec, place, nv = self.b, self.spec, self.place, self.block.nv
        biases = [b.load(place.bias, j * b.lanes) for j in range(nv)]
        start = ending_in_half(b, biases, self.block.last, spec.half_last)
        x = b.at(place.x, b.mul(self.first, spec.xs[0]))
        rows, lines = Rows(spec.xs[0], spec.xs[1]), _lines_ahead(b, spec)
        ahead = Ahead(place.ahead, lines) if lines and place.ahead is not None else None
        unroll = steps_of_round(b, nv * height, nv, spec.unroll)
        return multiply(
            b, x, place.w, spec.ic, unroll, rows, nv, start * height, (0, height), ahead
        )

    def _store(self, sums: Sequence[Value]) -> None:
        """The program and the stores; or the sums only, for :meth:`_finish_rows`."""
        b, nv = self.b, self.block.nv
        for i, value in enumerate(sums):
            if self.sums is None:
                self._finish(b.add(self.first, i // nv), i % nv, b.widened(value))
            else:
                b.store(b.widened(value), self.sums, i * b.lanes)

    def _finish_rows(self, sums: Value, height: Index) -> None:
        """The program row by row: a single copy of its code, which may be long."""
        b, nv = self.b, self.block.nv
        with b.loop("row", 0, height, most=self.spec.mr) as row:
            for j in range(nv):
                at = b.mul(b.add(b.mul(row.index, nv), j), b.lanes)
                self._finish(b.add(self.first, row.index), j, b.load(sums, at))

    def _finish(self, at: Index, vector: int, value: Value) -> None:
        b, spec, place, channel = self.b, self.spec, self.place, vector * self.b.lanes
        count = self.block.last if vector == self.block.nv - 1 else b.lanes
        operands = operand_addresses(b, place.reads, spec.reads, at, channel)
        results = operand_addresses(b, place.writes, spec.writes, at, channel)
        store_epilogue(b, spec.program, value, operands, results, count)
