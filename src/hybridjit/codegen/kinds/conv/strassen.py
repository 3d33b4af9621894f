"""1x1 convolution by one level of Strassen's algorithm, in Winograd's form of fifteen sums.

The matrices x [pixels, channels] and w [channels, filters] are divided into quarters. Seven
products of half as many channels by half as many filters, P1 to P7, make y; zeros stand for filters
that the second half lacks:

    S1 = x21 + x22    S2 = S1 - x11     S3 = x11 - x21    S4 = x12 - S2
    P1 = x11 w11      P2 = x12 w21      P3 = S4 w22       P4 = x22 T4
    P5 = S1 T1        P6 = S2 T2        P7 = S3 T3        (T1 to T4: ``packing.StrassenPacking``)
    y11 = P1 + P2             y12 = P1 + P6 + P5 + P3
    y21 = P1 + P6 + P7 - P4   y22 = P1 + P6 + P7 + P5

Per unit of work: a block of pairs of pixels is transformed, each of the products is summed (a GEMM
over channels), and the results enter the program and the stores. A unit is a block of pairs and a
part of the output channels; a thread that continues with the same pairs transforms them once. Many
channels are transformed in chunks, with products accumulated in memory.

Channels and the size of a block may be arguments, see ``given_channels``: then there is one chunk,
and both halves of the filters are full blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...._core.frozen import dataclass
from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...packing import first_half
from ...spec import Extents
from ..parts.arguments import Arguments
from ..parts.gemm import USUAL_GIVEN, Ahead, Rows, line_elements, multiply
from ..parts.partial import read_vector
from ..parts.program import store_epilogue
from .spec import PRODUCTS, ROW_PADDING, StrassenSpec


def emit_strassen(b: LoopBuilder, spec: StrassenSpec, args: Arguments) -> None:
    """y[n,o,f] = program(bias[f] + sum over channels of x[n,o,c] * w[f,c]), by pairs of pixels."""
    _Strassen(b, spec, args).emit()


@dataclass(frozen=True)
class Row:
    """The products of a pair, its biases, and its pixels' operands and results."""

    sums: Value
    bias: Value
    places: list[list[Value]]
    is_pair: Value | None


# Cache level for prefetching the next filters. Into the first, BERT takes 2.5 % less than into the
# second, MobileNet 2 %; Winograd's filters would take 16 % more, because they evict data in use.
_ASKED_LEVEL = 1
# Typical numbers of pairs in a block and of blocks of filters, if they are arguments.
_USUAL_TILES, _USUAL_COLUMNS = 64, 8


class _Strassen:
    def __init__(self, b: LoopBuilder, spec: StrassenSpec, args: Arguments) -> None:
        self.b, self.args = b, args
        self.x, self.u, self.bias = args.pointer("x"), args.working("u"), args.working("bias")
        self.reads, self.writes = args.of_program(spec.program)
        scratch, self.batch = args.working("scratch"), args.integer("batch")
        self.spec = spec = args.sized(spec)
        self.pixels = b.product(spec.out)
        self.pairs = b.divided_up(self.pixels, 2)
        self.width = spec.nv * b.lanes
        self.channels, self.filters = b.divmod(spec.ic, 2)[0], self._first_filters()
        self.chunk, _ = b.divmod(self.channels, spec.chunks)
        self.columns = b.divided_up(self.filters, self.width)
        self.row_step = b.add(self.chunk, ROW_PADDING)
        rows = b.mul(b.divided_up(spec.tiles, spec.mr), spec.mr)
        self.v_step = b.add(b.mul(rows, self.row_step), 16)
        self.m_step = b.add(b.mul(rows, self.width), 16)
        v = b.mul(PRODUCTS, self.v_step)
        m = b.mul(PRODUCTS, b.mul(self.m_step, self.columns if spec.chunks > 1 else 1))
        self.v = b.at(scratch, b.mul(args.tid, b.add(v, m)))
        self.m = b.at(self.v, v)
        self.usual_tiles = spec.tiles if isinstance(spec.tiles, int) else _USUAL_TILES
        self.usual_columns = self.columns if isinstance(self.columns, int) else _USUAL_COLUMNS

    def _first_filters(self) -> Index:
        """Number of filters in the first half."""
        b, count = self.b, self.spec.oc
        return first_half(count, b.lanes) if isinstance(count, int) else b.divmod(count, 2)[0]

    def emit(self) -> None:
        """Threads share (block of pairs, block of channels) as in ``winograd``."""
        b, spec = self.b, self.spec
        of_image = b.divided_up(self.pairs, spec.tiles)
        usual = -(-product(spec.usual or spec.out) // 2)
        b.balance(-(-usual // self.usual_tiles) * self.usual_columns)
        blocks, thread = b.mul(self.batch, of_image), (self.args.share, self.args.shares)
        with b.each_run(blocks, self.columns, *thread) as (block, start, stop):
            image, number = b.split(block, (0, of_image))
            first = b.mul(number, spec.tiles)
            count = b.min(b.sub(self.pairs, first), spec.tiles)
            if spec.chunks > 1:
                self._emit_chunks(image, first, count, start, stop)
            else:
                with b.when_new(block):
                    self._transform_block(image, first, count, 0)
                self._emit_block(image, first, count, start, stop)

    def _transform_block(self, image: Index, first: Index, count: Index, channel: Index) -> None:
        """Transform a chunk of the channels, from ``channel`` of each half on."""
        b = self.b
        x = b.at(self.x, b.mul(image, self.spec.xs[0]))
        with b.loop("pairs", 0, count, most=self.usual_tiles) as pair:
            self._transform_input(x, b.add(first, pair.index), pair.index, channel)

    def _emit_block(
        self, image: Index, first: Index, count: Index, start: Index, stop: Index
    ) -> None:
        """A block of pairs, for the blocks of filters from ``start`` to ``stop``."""
        b = self.b
        with b.loop("filters", start, stop, most=self.usual_columns) as block:
            self._multiply_block(block.index, self.m, count, 0)
            self._store_block(image, first, count, block.index, self.m)

    def _emit_chunks(
        self, image: Index, first: Index, count: Index, start: Index, stop: Index
    ) -> None:
        """As :meth:`_emit_block`, accumulating products over chunks of the channels."""
        b, spec = self.b, self.spec
        of_block = b.mul(PRODUCTS, self.m_step)
        with b.loop("zero", 0, b.mul(b.sub(stop, start), of_block), b.lanes) as at:
            b.store(b.splat(0.0), self.m, at.index)
        with b.loop("chunk", 0, spec.chunks) as chunk:
            channel = b.mul(chunk.index, self.chunk)
            self._transform_block(image, first, count, channel)
            with b.loop("filters", start, stop, most=self.usual_columns) as block:
                m = b.at(self.m, b.mul(b.sub(block.index, start), of_block))
                self._multiply_block(block.index, m, count, channel)
        with b.loop("results", start, stop, most=self.usual_columns) as block:
            m = b.at(self.m, b.mul(b.sub(block.index, start), of_block))
            self._store_block(image, first, count, block.index, m)

    # --- addresses ---

    def _offsets(self, pair: Index, strides: Extents) -> list[Index]:
        """Offsets of a pair's pixels from the image's first pixel."""
        b, (_, height, width) = self.b, self.spec.out
        pixels = (pair, b.add(pair, self.pairs))
        if self.spec.out[:2] == (1, 1):
            return [b.mul(pixel, strides[3]) for pixel in pixels]
        return [b.dot(b.split(pixel, (0, height, width)), strides[1:4]) for pixel in pixels]

    def _is_pair(self, pair: Index) -> Value | None:
        """Whether the pair has a second pixel; None if it always has."""
        b, pixels = self.b, self.pixels
        if isinstance(pixels, int):
            return b.less(pair, b.sub(self.pairs, 1)) if pixels % 2 else None
        return b.less(b.add(pair, self.pairs), pixels)

    # --- sums of x ---

    def _transform_input(self, x: Value, pair: Index, row: Index, channel: Index) -> None:
        b, spec = self.b, self.spec
        first, second = (b.at(x, offset) for offset in self._offsets(pair, spec.xs))
        is_pair = self._is_pair(pair)
        if is_pair is not None:
            second = b.b.select(is_pair, second, first)
        target = b.at(self.v, b.mul(row, self.row_step))
        most = None if isinstance(self.chunk, int) else USUAL_GIVEN // b.lanes
        with b.loop("c", 0, self.chunk, b.lanes, most=most) as c:
            halves = (b.add(channel, c.index), b.add(b.add(channel, c.index), self.channels))
            x11, x12, x21, x22 = (
                read_vector(b, pixel, b.mul(half, spec.xs[4]), spec.xs[4], b.lanes)
                for pixel in (first, second)
                for half in halves
            )
            if is_pair is not None:
                x21, x22 = (b.b.select(is_pair, value, b.splat(0.0)) for value in (x21, x22))
            s1 = b.b.fadd(x21, x22)
            s2 = b.b.fsub(s1, x11)
            sums = (x11, x12, b.b.fsub(x12, s2), x22, s1, s2, b.b.fsub(x11, x21))
            for number, value in enumerate(sums):
                b.store(value, target, b.add(b.mul(number, self.v_step), c.index))

    # --- products ---

    def _multiply_block(self, block: Index, m: Value, count: Index, channel: Index) -> None:
        """All products with a block of filters, for the chunk that begins with ``channel``."""
        b = self.b
        size = b.mul(self.channels, self.width)
        first = b.add(b.mul(block, b.mul(PRODUCTS, size)), b.mul(channel, self.width))
        with b.loop("product", 0, PRODUCTS) as number:
            u = b.at(self.u, b.add(first, b.mul(number.index, size)))
            self._multiply(u, m, number.index, count)

    def _multiply(self, u: Value, m: Value, number: Index, count: Index) -> None:
        """All rows of one product with a block of filters; prefetches the next filters."""
        b, spec = self.b, self.spec
        rows, tiles = Rows(self.row_step, 1), -(-self.usual_tiles // spec.mr)
        lines = spec.ahead
        if lines is None:
            lines = Ahead.lines_for(4 * self.width, spec.unroll, tiles)
        rounds, _ = b.divmod(self.chunk, spec.unroll)
        asked = b.mul(lines * line_elements(b), rounds)
        v, m = b.at(self.v, b.mul(number, self.v_step)), b.at(m, b.mul(number, self.m_step))
        following = b.at(u, b.mul(self.channels, self.width))
        zeros = [b.splat(0.0)] * (spec.mr * spec.nv)
        with b.loop("row", 0, count, spec.mr, most=tiles) as row:
            part = b.mul(b.b.udiv(row.index, b.i64(spec.mr)), asked)
            ahead = Ahead(b.at(following, part), lines, level=_ASKED_LEVEL) if lines else None
            data = b.at(v, b.mul(row.index, self.row_step))
            at = b.at(m, b.mul(row.index, self.width))
            sums = multiply(
                b, data, u, self.chunk, spec.unroll, rows, spec.nv, zeros, (0, spec.mr), ahead,
                is_whole=not isinstance(self.chunk, int),
            )  # fmt: skip
            for place, value in enumerate(sums):
                if spec.chunks > 1:
                    value = b.b.fadd(b.load(at, place * b.lanes), value)
                b.store(value, at, place * b.lanes)

    # --- results ---

    def _store_block(
        self, image: Index, first: Index, count: Index, block: Index, m: Value
    ) -> None:
        b, spec = self.b, self.spec
        channel = b.mul(block, self.width)
        bias = b.at(self.bias, channel)
        tensors = [*zip(self.reads, spec.reads), *zip(self.writes, spec.writes)]
        bases = [b.at(p, b.dot((image, channel), (s[0], s[4]))) for p, s in tensors]
        with b.loop("pair", 0, count, most=self.usual_tiles) as row:
            pair = b.add(first, row.index)
            offsets = [self._offsets(pair, s) for _, s in tensors]
            places = [[*map(b.at, bases, at)] for at in zip(*offsets)]
            source = b.at(m, b.mul(row.index, self.width))
            self._store_pair(Row(source, bias, places, self._is_pair(pair)), channel)

    def _store_pair(self, row: Row, channel: Index) -> None:
        """The results of a pair, for a block of channels of either half."""
        b, lanes = self.b, self.b.lanes
        self._store_vector(row, channel, 0)
        for c in range(lanes, self.width, lanes):
            if not isinstance(self.filters, int) or self.filters % self.width == 0:
                self._store_vector(row, channel, c)
                continue
            with b.when(b.less(channel, self.filters - c)):
                self._store_vector(row, channel, c)

    def _store_vector(self, row: Row, channel: Index, c: int) -> None:
        """Vector ``c`` of a block that begins with ``channel``, of either half of the filters."""
        b, results = self.b, self._results(row.sums, c)
        filters = self.filters
        if not isinstance(filters, int) or self.spec.oc == 2 * filters:
            self._store_of(row, results, (c, b.add(filters, c)), b.lanes)
            return
        halves, second = (c, c + filters), self.spec.oc - filters
        self._store_of(row, [values[:1] for values in results], halves[:1], b.lanes)
        last = second % b.lanes
        others = [values[1:] for values in results]
        with b.when(b.less(channel, second - last - c)):
            self._store_of(row, others, halves[1:], b.lanes)
        if last:
            with b.when(b.equal(channel, second - last - c)):
                self._store_of(row, others, halves[1:], last)

    def _store_of(
        self, row: Row, results: Sequence[Sequence[Value]], channels: Sequence[Index], count: int
    ) -> None:
        """The results of both pixels at some channels, ``count`` lanes of each."""
        b = self.b
        bias = [b.load(row.bias, at) for at in channels]
        first, second = ([*map(b.b.fadd, values, bias)] for values in results)
        self._store(first, row.places[0], channels, count)
        if row.is_pair is None:
            self._store(second, row.places[1], channels, count)
            return
        with b.when(row.is_pair):
            self._store(second, row.places[1], channels, count)

    def _results(self, sums: Value, c: int) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
        """Results of the first and of the second pixel, each for both halves of the filters."""
        b, add = self.b, self.b.b.fadd
        p1, p2, p3, p4, p5, p6, p7 = (
            b.load(sums, b.add(b.mul(number, self.m_step), c)) for number in range(PRODUCTS)
        )
        both = add(p1, p6)
        below = add(both, p7)
        first = add(p1, p2), add(add(both, p5), p3)
        return first, (b.b.fsub(below, p4), add(below, p5))

    def _store(
        self,
        values: Sequence[Value],
        pointers: Sequence[Value],
        channels: Sequence[Index],
        count: int,
    ) -> None:
        b, spec = self.b, self.spec
        steps, split = [s[4] for s in (*spec.reads, *spec.writes)], len(spec.reads)
        for value, channel in zip(values, channels):
            at = [(p, self.b.mul(channel, step), step) for p, step in zip(pointers, steps)]
            store_epilogue(b, spec.program, value, at[:split], at[split:], count)
