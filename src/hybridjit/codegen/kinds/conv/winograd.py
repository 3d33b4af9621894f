"""Convolution by Winograd's F(m x m, window), as F(4x4, 3x3) (Lavin and Gray 2015).

Per unit of work: a block of tiles is transformed (V = Bt d B), each of its points is multiplied
with the filters' (M = V U, a GEMM over channels), and the products are transformed back (y = At M
A) into the program and the stores. A unit is a block of tiles and a part of the output channels; a
thread that continues with the same tiles transforms them once.

Groups are separate layers, one after the other: the filters of one stay in the cache for all of its
tiles.

Tiles that exceed an edge use the same code: every tile has a table of addresses, in which positions
outside point to zeros, or to memory for discarded results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...._core.frozen import replace
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Extent, Ints
from ..parts.addresses import Addresses, Corner, Inside, Places
from ..parts.arguments import Arguments
from ..parts.gemm import Ahead, Rows, line_elements, multiply
from ..parts.partial import read_vector
from ..parts.program import store_epilogue
from ..parts.regions import Region, region_of
from ..weights.filters import Layout, transform_vector, turn_filters
from .spec import WinogradSpec
from .tile_blocks import own_tiles
from .transforms import both_ways, from_points, into_points

# Number of blocks of tiles of an image up to which the position of a smaller one matters.
_FEW_BLOCKS = 7


def _reads_inside(spec: WinogradSpec) -> bool:
    """Whether no tile reads a position outside the image."""
    if spec.usual:
        return False
    reaches = [
        (count - 1) * line.m * step + line.reach
        for count, line, step in zip(spec.grid, spec.lines, spec.stride)
    ]
    is_plane = spec.depth == (1, 1, 1) and spec.dilate == (1, 1) and not any(spec.pad)
    return is_plane and all(reach <= size for reach, size in zip(reaches, spec.inp[1:]))


def _writes_inside(spec: WinogradSpec) -> bool:
    """Whether every result of a tile is inside the image."""
    if spec.usual:
        return False
    whole = (size % line.m == 0 for size, line in zip(spec.out[1:], spec.lines))
    return spec.dilate == (1, 1) and all(whole)


class Winograd:
    def __init__(self, b: LoopBuilder, spec: WinogradSpec, args: Arguments) -> None:
        self.b, self.args = b, args
        self.x = args.pointer("x")
        self._take_filters(args)
        self.bias = args.summed("bias")
        self.reads, self.writes = args.of_program(spec.program)
        scratch, self.batch = args.working("scratch"), args.integer("batch")
        self.spec = spec = args.sized(spec)
        self.grid = [
            b.divided_up(b.divided_up(size, d), line.m)
            for size, d, line in zip(spec.out[1:], spec.dilate, spec.lines)
        ]
        self.of_image = b.product((spec.out[0], *self.grid, *spec.dilate))
        self.width = spec.nv * b.lanes
        self.down, self.across = spec.lines
        self._divide(scratch)
        self.data = self._places(_reads_inside(spec), self.down.reach, self.across.reach)
        halves = self.down.points * self.across.reach, self.down.m * self.across.points
        self.halves = self._memory(max(halves))
        are_inside, sides = _writes_inside(spec), (self.down.m, self.across.m)
        self.places = [self._places(are_inside, *sides) for _ in (*self.reads, *self.writes)]

    def _take_filters(self, args: Arguments) -> None:
        self.u = args.working("u")

    def _divide(self, scratch: Value) -> None:
        """Divide the work into blocks, and a thread's memory into data, products and the rest."""
        b, spec = self.b, self.spec
        # Approximate number of blocks of tiles of an image.
        usual = replace(spec, out=spec.usual) if spec.usual else spec
        self.usual_blocks = -(-usual.tiles_of_image // spec.tiles)
        self.padded: Extent = -(-spec.channels // b.lanes) * b.lanes
        self.row_step: Extent = spec.row_step(b.lanes)
        self.v_step: Extent = spec.rows * self.row_step + 16
        self.of_row: Extent = self.width * spec.blocks
        self.m_step: Extent = spec.rows * self.of_row + 16
        v, m, rest = spec.scratch_floats(b.lanes)
        filters = spec.filter_floats(b.lanes)
        self.v = b.at(scratch, b.mul(self.args.tid, v + m + rest + sum(filters)))
        self.m = b.at(self.v, v)
        self.filters = b.at(self.m, m)
        self.zeros = b.at(self.filters, sum(filters))
        self.waste = b.at(self.zeros, self.padded)
        self.columns: Extent = -(-spec.oc // self.width)
        self.shares_tiles = self.columns == spec.groups == 1 and not spec.live
        self.last = spec.oc % b.lanes
        self.usual_rows, self.usual_columns = spec.rows, spec.blocks
        self.usual_vectors: int = self.padded // b.lanes
        self.usual_chunks = -(-self.columns // spec.blocks)

    def _memory(self, count: int) -> Value:
        """Memory for vectors of a tile halfway through its transform."""
        return self.b.scratch(self.b.vector_type(), count)

    def _places(self, are_inside: bool, rows: int, columns: int) -> Places:
        return Inside(self.b) if are_inside else Addresses(self.b, rows, columns)

    def emit(self) -> None:
        """Threads share (tile block, block of channels) pairs; the pairs of a tile block are
        adjacent.

        If the run of a thread begins inside a tile block, both threads transform that block. With a
        single block of channels, each thread has separate tiles.
        """
        b, spec = self.b, self.spec
        b.balance(spec.groups * self.usual_blocks * self.columns // spec.blocks)
        self._clear_zeros()
        total = b.mul(self.batch, self.of_image)
        thread = self.args.share, self.args.shares
        own, blocks = None, b.quotient_up(total, spec.tiles)
        if self.shares_tiles:
            own = own_tiles(b, total, spec.mr, spec.rows // spec.mr, self.args.shares)
            blocks = own.count(b)
        of_all = b.mul(blocks, spec.groups)
        with b.each_run(of_all, self.columns, *thread) as (block, start, stop):
            number = self._enter_group(block, blocks)
            cut = own.block(b, number) if own else self._tiles_of(number, blocks, total)
            first, count = cut
            with b.when_new(block):
                self._transform_block(first, count)
            self._emit_block(first, count, start, stop)

    def _enter_group(self, block: Value, blocks: Index) -> Value:
        """Set the addresses to the block's group; returns the block's number in the group."""
        b, spec = self.b, self.spec
        if spec.groups == 1:
            return block
        group, number = b.divmod(block, blocks)
        self.x = b.at(self.x, b.mul(group, b.mul(spec.ic, spec.xs[4])))
        filters = self.columns * self.width
        self.u = b.at(self.u, b.mul(group, filters * spec.points * spec.channels))
        self.bias = b.at(self.bias, b.mul(group, -(-spec.oc // b.lanes) * b.lanes))

        def parts(pointers: list[Value], strides: Sequence[Ints]) -> list[Value]:
            return [b.at(p, b.mul(group, b.mul(spec.oc, s[4]))) for p, s in zip(pointers, strides)]

        self.reads, self.writes = parts(self.reads, spec.reads), parts(self.writes, spec.writes)
        return b.i64(number)

    def _tiles_of(self, block: Index, blocks: Index, total: Index) -> tuple[Index, Index]:
        """A block's first tile, and its number of tiles. The smaller block of an image with few
        blocks is in the middle: of two threads, one begins with the first block and one ends with
        the last. 28x28, 128 to 128 channels, 49 tiles in blocks of 20, on 2 threads: 0.13 ms, 0.16
        with the smaller block last. Otherwise it is the last, which saves registers in the inner
        loops.
        """
        b, spec = self.b, self.spec
        if not 3 <= self.usual_blocks <= _FEW_BLOCKS:
            first = b.mul(block, spec.tiles)
            return first, b.min(b.sub(total, first), spec.tiles)
        missing = b.i64(b.sub(b.mul(blocks, spec.tiles), total))
        middle, _ = b.divmod(blocks, 2)
        behind = b.b.select(b.less(middle, block), missing, b.i64(0))
        less = b.b.select(b.equal(middle, block), missing, b.i64(0))
        first = b.sub(b.i64(b.mul(block, spec.tiles)), behind)
        return first, b.sub(b.i64(spec.tiles), less)

    def _transform_block(self, first: Index, count: Index) -> None:
        b = self.b
        with b.loop("tiles", 0, count, most=self.usual_rows) as tile:
            self._transform_input(b.add(first, tile.index), tile.index)

    def _emit_block(self, first: Index, count: Index, start: Index, stop: Index) -> None:
        """A block of tiles, for the blocks of channels from ``start`` to ``stop``."""
        b, spec = self.b, self.spec
        with b.loop("chunk", start, stop, spec.blocks, most=self.usual_chunks) as chunk:
            after = b.min(b.add(chunk.index, spec.blocks), stop)
            self._multiply(chunk.index, after, count)
            with b.loop("tiles", 0, count, most=self.usual_rows) as tile:
                self._transform_output(b.add(first, tile.index), tile.index, chunk.index, after)

    def _clear_zeros(self) -> None:
        most = self.usual_vectors
        with self.b.loop("zero", 0, self.padded, self.b.lanes, most=most) as c:
            self.b.store(self.b.splat(0.0), self.zeros, c.index)

    # --- addresses ---

    def _locate(self, tile: Index) -> tuple[Index, Index, Index, Index]:
        """Image, output slice of its depth, and first output row and column of a tile."""
        b, spec, (below, beside) = self.b, self.spec, self.spec.dilate
        sizes = (0, spec.out[0], below, beside, *self.grid)
        image, slice_, top, left, row, column = b.split(tile, sizes)
        row, column = b.mul(row, self.down.m * below), b.mul(column, self.across.m * beside)
        return image, slice_, b.add(top, row), b.add(left, column)

    def _inside(self, value: Index, size: Index) -> Value:
        """Whether 0 <= value < size, as one unsigned comparison."""
        return self.b.b.icmp_unsigned("<", self.b.i64(value), self.b.i64(size))

    # --- V = Bt d B ---

    def _transform_input(self, tile: Index, row: Index) -> None:
        b, spec = self.b, self.spec
        image, slice_, top, left = self._locate(tile)
        top = b.sub(b.mul(top, spec.stride[0]), spec.pad[1])
        left = b.sub(b.mul(left, spec.stride[1]), spec.pad[2])
        taps, step, apart = spec.depth
        near = b.sub(b.mul(slice_, step), spec.pad[0])
        target = b.at(self.v, b.mul(row, self.row_step))
        for tap in range(taps):
            place = (image, b.add(near, tap * apart), top, left)
            self._note_places(place)
            self._transform_slice(b.at(target, b.mul(tap, spec.ic)))

    def _note_places(self, place: tuple[Index, Index, Index, Index]) -> None:
        """Store the addresses of a tile's data in one slice of the depth."""
        b, spec, (below, beside) = self.b, self.spec, self.spec.dilate
        image, slice_, top, left = place
        is_there = None
        if spec.depth[0] > 1 or spec.pad[0]:
            is_there = self._inside(slice_, spec.inp[0])

        def is_row_inside(r: Index) -> Value:
            is_inside = self._inside(b.add(top, b.mul(r, below)), spec.inp[1])
            return is_inside if is_there is None else b.b.and_(is_inside, is_there)

        across = range(self.across.reach)
        columns = [self._inside(b.add(left, q * beside), spec.inp[2]) for q in across]
        corner = b.at(self.x, b.dot(place, spec.xs[:4]))
        steps = b.mul(below, spec.xs[2]), b.mul(beside, spec.xs[3])
        self.data.note(Corner(corner, *steps), is_row_inside, columns, self.zeros)

    def _transform_slice(self, target: Value) -> None:
        b, spec = self.b, self.spec
        whole = spec.ic - spec.ic % b.lanes
        if whole:
            with b.loop("c", 0, whole, b.lanes) as c:
                self._transform_vector(target, c.index, b.lanes)
        if spec.ic % b.lanes:
            self._transform_vector(target, whole, spec.ic % b.lanes)

    def _transform_vector(self, target: Value, c: Index, lanes: int) -> None:
        b, down, across = self.b, self.down, self.across
        place = b.at(target, self._channel_of_data(c))

        def column(q: Index) -> list[Value]:
            places = [self.data.noted(r, q) for r in range(down.reach)]
            return into_points(b, down, [read_vector(b, at, c, 1, lanes) for at in places])

        def row(r: Index, half: list[Value]) -> None:
            at = b.at(place, b.mul(r, self._data_step(across.points)))
            for q, value in enumerate(into_points(b, across, half)):
                b.store(value, at, self._data_step(q))

        size, is_any = (down.points, across.reach), bool(self.spec.usual)
        both_ways(b, self.halves, size, column, row, is_any)

    def _data_step(self, points: int) -> Index:
        """Elements of transformed data between points that are ``points`` apart."""
        step: Index = points * self.v_step
        return step

    def _channel_of_data(self, c: Index) -> Index:
        """The offset of a channel in a row of transformed data."""
        return c

    # --- M = V U ---

    def _multiply(self, start: Index, stop: Index, count: Index) -> None:
        b, spec = self.b, self.spec
        size = b.mul(self._channels(), self.width)
        each_block = b.loop("block", start, stop, most=self.usual_columns)
        with each_block as block, b.loop("point", 0, spec.points) as point:
            number = b.add(b.mul(block.index, spec.points), point.index)
            v = b.at(self.v, b.mul(point.index, self.v_step))
            u = b.at(self.u, b.mul(number, size))
            column = b.mul(b.sub(block.index, start), self.width)
            self._multiply_point(v, (u, b.at(u, size)), point.index, column, count)

    def _multiply_point(
        self, v: Value, u: tuple[Value, Value], point: Index, column: Index, count: Index
    ) -> None:
        """All rows of a point, with a block of filters; prefetches the following memory."""
        b, spec, channels = self.b, self.spec, self._channels()
        rows = Rows(self.row_step, 1)
        tiles = spec.rows // spec.mr
        # A share may be one register tile, after which no other one prefetches.
        least = 1 if self.shares_tiles else 2
        lines = Ahead.lines_for(4 * self.width, spec.unroll, tiles, least)
        asked = lines * line_elements(b) * (channels // spec.unroll)
        m = b.at(self.m, b.mul(point, self.m_step))
        with b.loop("row", 0, count, spec.mr, most=tiles) as row:
            part = b.mul(b.b.udiv(row.index, b.i64(spec.mr)), asked)
            ahead = Ahead(b.at(u[1], part), lines) if lines else None
            before = self._sums_so_far(m, row.index, column)
            sums = multiply(
                b,
                b.at(v, b.mul(row.index, self.row_step)),
                u[0],
                channels,
                spec.unroll,
                rows,
                spec.nv,
                before,
                (0, spec.mr),
                ahead,
            )
            place = b.at(m, self._first_sum(row.index, column))
            for value, offset in zip(sums, self._offsets()):
                b.store(value, place, offset)

    def _first_sum(self, row: Index, column: Index) -> Index:
        """The offset of a tile's first product."""
        return self.b.add(self.b.mul(row, self.of_row), column)

    def _offsets(self) -> list[int]:
        """The offsets of its products from there on."""
        spec, lanes = self.spec, self.b.lanes
        step = self.of_row
        return [r * step + j * lanes for r in range(spec.mr) for j in range(spec.nv)]

    def _channels(self) -> Extent:
        """Number of channels whose products are summed at a time."""
        return self.spec.channels

    def _sums_so_far(self, m: Value, row: Index, column: Index) -> list[Value]:
        """The initial sums of a tile's products."""
        return [self.b.splat(0.0)] * (self.spec.mr * self.spec.nv)

    # --- y = At M A ---

    def _transform_output(self, tile: Index, row: Index, start: Index, stop: Index) -> None:
        b, spec = self.b, self.spec
        *image, top, left = self._locate(tile)
        channel = b.mul(start, self.width)
        below, beside = spec.dilate
        columns = [b.less(b.add(left, q * beside), spec.out[2]) for q in range(self.across.m)]
        known: tuple[Index, Index] = (top, left)
        if spec.dilate != (1, 1):
            known = (b.min(top, b.sub(spec.out[1], 1)), b.min(left, b.sub(spec.out[2], 1)))
        tensors = [*zip(self.reads, spec.reads), *zip(self.writes, spec.writes)]
        for number, (places, (pointer, s)) in enumerate(zip(self.places, tensors)):
            base = b.at(pointer, b.dot((*image, top, left, channel), s))
            corner = Corner(base, b.mul(below, s[2]), b.mul(beside, s[3]))
            # A position outside reads the operands of the tile's first position, which exist for
            # any channel stride. An empty tile reads those of the image's last position. Only
            # results have separate memory for discarded values.
            outside = self.waste
            if number < len(self.reads):
                outside = b.at(pointer, b.dot((*image, *known, channel), s))
            places.note(
                corner,
                lambda r: b.less(b.add(top, b.mul(r, below)), spec.out[1]),
                columns,
                outside,
            )
        source = b.at(self.m, b.mul(row, self.of_row))
        added = [b.at(pointer, channel) for pointer in self._added()]
        size = b.min(b.sub(spec.oc, channel), b.mul(b.sub(stop, start), self.width))
        self._each_vector(size, lambda c, lanes: self._output_vector(source, added, c, lanes))

    def _added(self) -> list[Value]:
        """The terms that are added to all results of a filter: its bias."""
        return [self.bias]

    def _each_vector(self, size: Index, body: Callable[[Index, int], None]) -> None:
        """The channels of a chunk: full vectors, then the last, partial one of all channels."""
        b = self.b
        whole = b.b.and_(b.i64(size), b.i64(-b.lanes))
        with b.loop("c", 0, whole, b.lanes, most=self.usual_columns * self.spec.nv) as c:
            body(c.index, b.lanes)
        if self.last:
            with b.when(b.less(whole, size)):
                body(whole, self.last)

    def _output_vector(self, source: Value, added: Sequence[Value], c: Index, lanes: int) -> None:
        b, down, across = self.b, self.down, self.across
        source, offset = b.at(source, c), b.load(added[0], c)

        def column(q: Index) -> list[Value]:
            place, lines = b.at(source, b.mul(q, self.m_step)), range(down.points)
            read = [b.load(place, self._product_step(r * across.points)) for r in lines]
            return from_points(b, down, read)

        def row(r: Index, half: list[Value]) -> None:
            for q, value in enumerate(from_points(b, across, half)):
                self._store_output(r, q, b.b.fadd(value, offset), c, lanes)

        size, is_any = (down.m, across.points), bool(self.spec.usual)
        both_ways(b, self.halves, size, column, row, is_any)

    def _product_step(self, points: int) -> Index:
        """Elements of products between points that are ``points`` apart."""
        step: Index = points * self.m_step
        return step

    def _store_output(self, r: Index, q: Index, value: Value, c: Index, lanes: int) -> None:
        b, spec = self.b, self.spec
        noted = [
            (places.noted(r, q), b.mul(c, s[4]), s[4])
            for places, s in zip(self.places, (*spec.reads, *spec.writes))
        ]
        split = len(spec.reads)
        store_epilogue(b, spec.program, value, noted[:split], noted[split:], lanes)


class LiveWinograd(Winograd):
    """Winograd with filters that are not parameters: a unit of work transforms its filters.

    Some channels at a time, which are multiplied while they are cached. Data are stored in the
    order in which they are read: [channels at a time][point][tile][channel].
    """

    def __init__(self, b: LoopBuilder, spec: WinogradSpec, args: Arguments) -> None:
        super().__init__(b, spec, args)
        assert spec.live is not None
        self.live = spec.live
        self.row_step = self.live.channels
        self.v_step, self.u_step = self.live.step(spec.rows), self.live.step(self.width)
        self.transformed = b.at(self.filters, spec.filter_floats(b.lanes)[0])
        self.layout = Layout(spec.oc, self.width, True, list(self.live.strides))

    def _take_filters(self, args: Arguments) -> None:
        self.u = args.pointer("w")

    def _channels(self) -> int:
        return self.live.channels

    def _channel_of_data(self, c: Index) -> Index:
        b, several = self.b, self.live.channels
        run, channel = b.divmod(c, several)
        return b.add(b.mul(run, self.spec.points * self.v_step), channel)

    def _sums_so_far(self, m: Value, row: Index, column: Index) -> list[Value]:
        place = self.b.at(m, self._first_sum(row, column))
        return [self.b.load(place, offset) for offset in self._offsets()]

    def _multiply(self, start: Index, stop: Index, count: Index) -> None:
        b, spec, several = self.b, self.spec, self.live.channels
        self._clear_products()
        with b.loop("run", 0, spec.ic // several) as run:
            self._transform_filters(start, stop, b.mul(run.index, several))
            data = b.at(self.v, b.mul(run.index, spec.points * self.v_step))
            following = self._following(start, b.add(run.index, 1))
            each_block = b.loop("block", start, stop, most=spec.blocks)
            with each_block as block, b.loop("point", 0, spec.points) as point:
                number = b.sub(block.index, start)
                place = b.add(b.mul(number, spec.points), point.index)
                following.ask(b, place, spec.blocks * spec.points)
                u = b.at(self.transformed, b.mul(place, self.u_step))
                v = b.at(data, b.mul(point.index, self.v_step))
                column = b.mul(number, self.width)
                self._multiply_point(v, (u, b.at(u, self.u_step)), point.index, column, count)

    def _following(self, start: Index, run: Index) -> Region:
        """The filters that are transformed next: these at other channels, or the next ones.

        They are prefetched from memory while products are summed.
        """
        b, spec, several = self.b, self.spec, self.live.channels
        filter_, down, across, channel = self.live.strides
        next_unit, run = b.divmod(run, spec.ic // several)
        filters = spec.blocks * self.width
        first = b.mul(b.add(start, b.mul(next_unit, spec.blocks)), self.width)
        offset = b.dot((first, b.mul(run, several)), (filter_, channel))
        corner = b.at(self.u, b.add(offset, 2 * min(down, 0) + 2 * min(across, 0)))
        if filter_ < channel:
            return region_of(b, corner, several, filters * filter_, channel)
        return region_of(b, corner, filters, several * channel, filter_)

    def _clear_products(self) -> None:
        b = self.b
        with b.loop("m", 0, self.spec.points * self.m_step, b.lanes) as at:
            b.store(b.splat(0.0), self.m, at.index)

    def _transform_filters(self, start: Index, stop: Index, channel: Index) -> None:
        """The filters of the unit's blocks, from a channel on, vector by vector."""
        b, spec = self.b, self.spec
        each_block = b.loop("block", start, stop, most=spec.blocks)
        with each_block as block, b.loop("c", 0, self.live.channels, b.lanes) as c:
            first = b.mul(block.index, spec.nv)
            some = b.add(channel, c.index)
            turn_filters(b, self.layout, self.u, first, some, b.lanes, self.filters)
            place = b.mul(b.sub(block.index, start), spec.points * self.u_step)
            target = b.at(self.transformed, b.add(place, b.mul(c.index, self.width)))
            with b.loop("row", 0, b.lanes) as row, b.loop("f", 0, self.width, b.lanes) as f:
                taps = b.at(self.filters, b.add(b.mul(row.index, 9 * self.width), f.index))
                result = b.at(target, b.add(b.mul(row.index, self.width), f.index))
                transform_vector(b, spec.m, taps, self.width, result, self.u_step)
