"""Winograd's algorithm for layers whose channels and blocks the call gives.

A kernel serves all layers with the same tile, window, stride and program, and all sizes of their
images. Rows beyond full register tiles are multiplied in smaller ones. The bits are those of
constant sizes: the sum over channels has the same order for each row.
"""

from __future__ import annotations

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.arguments import Arguments
from ..parts.gemm import USUAL_GIVEN, Ahead, Rows, multiply
from .spec import WinogradSpec
from .winograd import LiveWinograd, Winograd

# Typical numbers of rows of a block, of blocks of filters and of chunks of them, and of units that
# threads divide without repeating transforms.
_USUAL_ROWS, _USUAL_COLUMNS, _USUAL_CHUNKS, _USUAL_UNITS = 24, 4, 2, 4
# Number of register tiles that prefetch the next block of filters.
_ASKING_TILES = 2


def emit_winograd(b: LoopBuilder, spec: WinogradSpec, args: Arguments) -> None:
    """y[n,o,f] = program(bias[f] + sum over taps and channels of x * w), by tiles."""
    kernel = LiveWinograd if spec.live else GivenWinograd if spec.tail else Winograd
    kernel(b, spec, args).emit()


class GivenWinograd(Winograd):
    """A kernel with a ``tail``: full vectors of channels, in and out, of one group."""

    def _divide(self, scratch: Value) -> None:
        b, spec = self.b, self.spec
        self.padded = self.row_step = spec.ic
        self.of_row = b.mul(self.width, spec.blocks)
        self.total = b.mul(self.batch, self.of_image)
        even = b.quotient_up(self.total, b.quotient_up(self.total, spec.tiles))
        self.tiles = b.mul(b.quotient_up(even, spec.tail), spec.tail)
        self.v_step = b.add(b.mul(self.tiles, self.row_step), 16)
        self.m_step = b.add(b.mul(self.tiles, self.of_row), 16)
        v, m = b.mul(spec.points, self.v_step), b.mul(spec.points, self.m_step)
        rest = b.add(b.add(self.padded, self.of_row), b.lanes)
        self.v = b.at(scratch, b.mul(self.args.tid, b.add(b.add(v, m), rest)))
        self.m = b.at(self.v, v)
        self.zeros = b.at(self.m, m)
        self.waste = b.at(self.zeros, self.padded)
        self.columns, _ = b.divmod(spec.oc, self.width)
        self.last = 0
        self.usual_rows, self.usual_columns = _USUAL_ROWS, _USUAL_COLUMNS
        self.usual_chunks = _USUAL_CHUNKS
        self.usual_vectors = USUAL_GIVEN // b.lanes
        self._of_data = [b.mul(n, self.v_step) for n in range(self.across.points + 1)]
        asking = _ASKING_TILES * spec.mr
        asked, _ = b.divmod(b.mul(spec.ic, self.width), asking)
        of_row = self.row_step, self.of_row, asked
        tiles = (spec.mr, spec.tail)
        self.steps = {rows: [b.mul(rows, step) for step in of_row] for rows in tiles}
        lines = range(0, spec.points, self.across.points)
        self._of_products = {n: b.mul(n, self.m_step) for n in lines}

    def emit(self) -> None:
        b, thread = self.b, (self.args.share, self.args.shares)
        b.balance(_USUAL_UNITS)
        self._clear_zeros()
        blocks = b.quotient_up(self.total, self.tiles)
        with b.each_run(blocks, self.columns, *thread) as (block, start, stop):
            first = b.mul(block, self.tiles)
            count = b.min(b.sub(self.total, first), self.tiles)
            with b.when_new(block):
                self._transform_block(first, count)
            self._emit_block(first, count, start, stop)

    def _data_step(self, points: int) -> Index:
        return self._of_data[points]

    def _product_step(self, points: int) -> Index:
        return self._of_products[points]

    def _transform_slice(self, target: Value) -> None:
        b = self.b
        with b.loop("c", 0, self.spec.ic, b.lanes, most=self.usual_vectors) as c:
            self._transform_vector(target, c.index, b.lanes)

    def _channels(self) -> Value:
        channels: Value = self.spec.ic
        return channels

    def _multiply(self, start: Index, stop: Index, count: Index) -> None:
        """Full register tiles, then small ones; three small ones would load filters three times."""
        b, spec = self.b, self.spec
        full, _ = b.divmod(b.add(count, spec.tail - 1), spec.mr)
        self.whole = b.mul(full, spec.mr)
        self.is_single = b.less(count, spec.mr + 1)
        super()._multiply(start, stop, count)

    def _multiply_point(
        self, v: Value, u: tuple[Value, Value], point: Index, column: Index, count: Index
    ) -> None:
        b, spec = self.b, self.spec
        m = b.at(b.at(self.m, b.mul(point, self.m_step)), column)
        # A single register tile has no time for it: these lines are in the cache already.
        following = b.b.select(self.is_single, *u)
        at: tuple[Index, ...] = 0, 0, 0
        parts = ("row", 0, self.whole, spec.mr), ("tail", self.whole, count, spec.tail)
        for name, first, stop, rows in parts:
            carry = [b.i64(offset) for offset in at]
            with b.loop(name, first, stop, rows, carry=carry, most=2) as row:
                data, products, asked = row.carried
                places = b.at(v, data), b.at(following, asked), b.at(m, products)
                self._multiply_rows(places[0], u[0], *places[1:], rows)
                row.yields([*map(b.add, row.carried, self.steps[rows])])
            at = tuple(row.results)

    def _multiply_rows(self, v: Value, u: Value, following: Value, m: Value, count: int) -> None:
        """A register tile of ``count`` rows, which prefetches a part of the following filters."""
        b, spec = self.b, self.spec
        lines = Ahead.lines_for(4 * self.width * count, spec.unroll, _ASKING_TILES * spec.mr)
        zeros = [b.splat(0.0)] * (count * spec.nv)
        sums = multiply(
            b, v, u, spec.ic, spec.unroll, Rows(self.row_step, 1), spec.nv, zeros, (0, count),
            Ahead(following, lines), is_whole=True,
        )  # fmt: skip
        for first in range(0, len(sums), spec.nv):
            for vector, value in enumerate(sums[first : first + spec.nv]):
                b.store(value, m, vector * b.lanes)
            m = b.at(m, self.of_row)
