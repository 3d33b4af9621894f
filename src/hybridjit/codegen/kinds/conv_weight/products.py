"""Gradient with respect to a weight as products of data and output gradient over all positions.

A unit of work is a part of the images, for some blocks of filters. It processes its images in
chunks whose data stay in the cache. For each chunk the data are copied with their padding, if any,
and for each block of filters its gradients are copied contiguously; then every register tile of the
weight adds the products of the chunk's positions. Sums of a chunk are formed in registers, those of
chunks in the part's buffer, so that sums are short enough to keep the precision of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from itertools import product as combinations

from ...._core.frozen import dataclass
from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..conv.blocks import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.partial import read_scalar, read_vector
from ..parts.regions import Region
from .ahead import next_regions
from .spec import ByWeightSpec

# Columns of a line that are multiplied in one round.
_UNROLL = 2


def emit_conv_weight(b: LoopBuilder, spec: ByWeightSpec, args: Arguments) -> None:
    """buffer[part,f,tap,c] = sum over n in part and o of x[n,o+tap,c] * d[n,o,f]."""
    x, d = args.pointer("x"), args.pointer("d")
    buffers, scratch = args.working("buffers"), args.working("scratch")
    batch, parts = args.integer("batch"), args.integer("parts")
    blocks = blocks_of(spec.oc, spec.nv, b.lanes)
    spec = args.sized(spec)
    scratch = b.at(scratch, b.mul(args.tid, b.add(*spec.scratch_floats(b.lanes))))
    shares = product(spec.tiled_places) if spec.is_split else 1
    sizes = (0, spec.groups, -(-len(blocks) // spec.blocks), shares)
    with b.each_unit(b.mul(parts, product(sizes[1:])), args.share, args.shares) as unit:
        part, group, several, share = b.split(unit.index, sizes)
        images = b.share(b.mul(batch, spec.out[0]), b.i64(part), parts)
        place = b.mul(b.add(b.mul(part, spec.groups), group), len(blocks))
        target = b.at(buffers, b.mul(place, spec.block_floats(b.lanes)))
        source, heads = b.at(x, b.mul(group, spec.ic)), b.at(d, b.mul(group, spec.oc))
        sums = _Sums(b, spec, (source, heads, target), scratch, share if spec.is_split else None)
        sums.emit(images, b.mul(several, spec.blocks))


@dataclass(frozen=True)
class _Chunk:
    """Positions that are multiplied together: ``images`` from ``image`` on, ``lines`` of each.

    The slices of a volume count as images.

    regions  memory that the next chunk reads
    """

    image: Index
    images: Index
    line: Index
    lines: Index
    regions: tuple[Region, ...]


@dataclass(frozen=True)
class _Filters:
    """A block of filters: its gradients, the address of its sums, and elements of a copied column.

    number  of the block among those of its unit
    """

    block: Block
    d: Value
    target: Value
    columns: int
    number: Index


class _Sums:
    """The sums of several blocks of filters over the images of a part.

    pointers  of a group: its data, its gradients and its sums
    share     the number of this unit's block of taps, or None if it has all of them
    """

    def __init__(
        self,
        b: LoopBuilder,
        spec: ByWeightSpec,
        pointers: tuple[Value, Value, Value],
        scratch: Value,
        share: Index | None,
    ) -> None:
        self.b, self.spec, self.share = b, spec, share
        self.x, self.d, self.target = pointers
        self.copy = scratch
        self.heads = b.at(scratch, spec.scratch_floats(b.lanes)[0])
        self.blocks = blocks_of(spec.oc, spec.nv, b.lanes)
        # Rounds of loops over images, lines and columns: estimates for sizes that the call gives.
        self.most_images, self.most_lines, self.most_columns = (
            size if isinstance(size, int) else 2 * usual
            for size, usual in zip(
                (spec.images, spec.lines, spec.out[2]), (4, *(spec.usual or (0, 0, 0))[1:])
            )
        )

    def emit(self, images: tuple[Value, Value], first: Index) -> None:
        """Compute the sums of the blocks from ``first`` on."""
        b, spec = self.b, self.spec
        self._each_block(first, self._clear)
        with b.loop("image", *images, spec.images) as image:
            count = b.min(b.sub(images[1], image.index), spec.images)
            with b.loop("chunk", 0, spec.out[1], spec.lines) as chunk:
                lines = b.min(b.sub(spec.out[1], chunk.index), spec.lines)
                following = b.add(b.mul(image.index, spec.out[1]), b.mul(count, lines))
                following = b.add(following, chunk.index)
                d = b.at(self.d, b.mul(first, spec.nv * b.lanes))
                regions = next_regions(b, spec, self.x, d, following)
                part = _Chunk(image.index, count, chunk.index, lines, regions)
                if spec.is_packed:
                    self._copy_data(part)
                self._each_block(first, partial(self._add_chunk, part))

    def _each_block(self, first: Index, body: Callable[[_Filters], None]) -> None:
        """``body`` for the unit's blocks, with separate code for different kinds of blocks."""
        b, spec, total = self.b, self.spec, len(self.blocks)
        count = b.min(b.sub(total, first), spec.blocks)
        with b.loop("block", first, b.add(first, count), most=spec.blocks) as loop:
            block = loop.index
            d = b.at(self.d, b.mul(block, spec.nv * b.lanes))
            target = b.at(self.target, b.mul(block, spec.block_floats(b.lanes)))
            for kind, number, start in runs_of_blocks(self.blocks):
                with b.when(in_range(b, block, start, start + number, total)):
                    body(_Filters(kind, d, target, kind.nv * b.lanes, b.sub(block, first)))

    def _add_chunk(self, chunk: _Chunk, filters: _Filters) -> None:
        self._copy_heads(chunk, filters)
        self._at_taps(partial(self._add_taps, chunk, filters))

    def _at_taps(self, body: Callable[[list[Index]], None]) -> None:
        """``body`` at each block of taps, or at this unit's block."""
        b, places = self.b, self.spec.tiled_places
        if self.share is not None:
            body(b.split(self.share, (0, *places[1:])))
            return
        with b.loop("taps", 0, product(places)) as taps:
            body(b.split(taps.index, (0, *places[1:])))

    def _row(self, at: Sequence[Index], tap: int) -> Index:
        """The buffer's first row of a tap of a block."""
        b, spec = self.b, self.spec
        height = b.add(b.mul(at[1], spec.taps), tap)
        _, down, across = spec.places
        return b.mul(b.dot((at[0], height, at[2]), (down * across, across, 1)), spec.rows)

    def _clear(self, filters: _Filters) -> None:
        """Clear the buffer of sums."""
        b, spec = self.b, self.spec

        def clear(at: list[Index]) -> None:
            for tap in range(spec.taps):
                first = b.mul(self._row(at, tap), spec.nv * b.lanes)
                with b.loop("row", 0, spec.rows * spec.nv * b.lanes, b.lanes) as row:
                    b.store(b.splat(0.0), filters.target, b.add(first, row.index))

        self._at_taps(clear)

    # --- copies ---

    def _each_line(
        self, chunk: _Chunk, body: Callable[[Index, tuple[Index, Index], Index], None]
    ) -> None:
        """``body(number in the chunk, (image, slice), line)`` for every line of the result."""
        b, spec = self.b, self.spec
        with b.loop("n", 0, chunk.images, most=self.most_images) as n:
            place = b.divmod(b.add(chunk.image, n.index), spec.out[0])
            with b.loop("line", 0, chunk.lines, most=self.most_lines) as line:
                number = b.add(b.mul(n.index, spec.lines), line.index)
                body(number, place, line.index)

    def _copy_heads(self, chunk: _Chunk, filters: _Filters) -> None:
        """Copy the gradients of a block of filters, with zeros after the last filter."""
        b, spec, block, columns = self.b, self.spec, filters.block, filters.columns

        def copy(number: Index, place: tuple[Index, Index], line: Index) -> None:
            at = b.dot((*place, b.add(chunk.line, line)), spec.ds[:3])
            start = b.mul(number, b.mul(spec.out[2], columns))
            with b.loop("col", 0, spec.out[2], most=self.most_columns) as col:
                source = b.at(filters.d, b.add(at, b.mul(col.index, spec.ds[3])))
                target = b.at(self.heads, b.add(start, b.mul(col.index, columns)))
                for j in range(block.nv):
                    lanes = block.last if j == block.nv - 1 else b.lanes
                    b.store(read_vector(b, source, j * b.lanes, 1, lanes), target, j * b.lanes)

        self._each_line(chunk, copy)

    def _copy_data(self, chunk: _Chunk) -> None:
        """Copy the input lines of the chunk's windows, with zeros outside the image."""
        b, spec = self.b, self.spec
        heights = spec.kernel[1] if spec.is_apart else 1
        with b.loop("n", 0, chunk.images, most=self.most_images) as n:
            image, slice_ = b.divmod(b.add(chunk.image, n.index), spec.out[0])
            with b.loop("tap", 0, spec.kernel[0] * heights) as tap:
                kd, kh = b.divmod(tap.index, heights)
                depth = self._under(0, slice_, kd)
                start = b.dot((n.index, kd, kh), spec.copied[:3])
                most = self.most_lines * spec.kernel[1] if spec.derived else None
                with b.loop("line", 0, spec.copied_lines, most=most) as line:
                    row = self._input_line(chunk, line.index, kh)
                    step = b.mul(spec.width, spec.ic)
                    target = b.at(self.copy, b.add(start, b.mul(line.index, step)))
                    source = b.at(self.x, b.dot((image, depth, row), spec.xs[:3]))
                    self._copy_line(source, target, self._is_inside(depth, row))

    def _under(self, axis: int, out: Index, tap: Index) -> Index:
        """The input coordinate of a tap of a window."""
        b, spec = self.b, self.spec
        first = b.sub(b.mul(out, spec.stride[axis]), spec.pad[axis])
        return b.add(first, b.mul(tap, spec.dilate[axis]))

    def _input_line(self, chunk: _Chunk, line: Index, kh: Index) -> Index:
        """The input line that a line of the copy contains."""
        if self.spec.is_apart:
            return self._under(1, self.b.add(chunk.line, line), kh)
        return self.b.add(self._under(1, chunk.line, 0), line)

    def _is_inside(self, depth: Index, row: Index) -> Value:
        b, spec = self.b, self.spec
        inside = [
            b.b.icmp_unsigned("<", b.i64(at), b.i64(size))
            for at, size in zip((depth, row), spec.inp)
        ]
        return b.b.and_(*inside)

    def _copy_line(self, source: Value, target: Value, is_inside: Value) -> None:
        """A line of the copy: zeros, the input's columns, zeros; or zeros only."""
        b, spec = self.b, self.spec
        before = b.min(spec.pad[2], spec.width)
        inner = b.max(b.sub(b.min(spec.width, b.add(spec.inp[2], spec.pad[2])), before), 0)
        after = b.sub(b.sub(spec.width, before), inner)
        start, end = b.mul(before, spec.ic), b.mul(b.add(before, inner), spec.ic)

        def zeros(first: Index, count: Index) -> None:
            def store(i: Index, lanes: int) -> None:
                b.store(b.splat(0.0), target, b.add(first, i))

            self._each_vector(count, store)

        with b.b.if_else(is_inside) as (then, otherwise):
            with then:
                zeros(0, before)
                self._copy_columns(source, b.at(target, start), inner)
                zeros(end, after)
            with otherwise:
                zeros(0, spec.width)

    def _copy_columns(self, source: Value, target: Value, count: Index) -> None:
        """Copy columns of the input from its first on; a vector may overlap the next write."""
        b, spec = self.b, self.spec

        def run(source: Value, target: Value, columns: Index) -> None:
            def copy(i: Index, lanes: int) -> None:
                b.store(read_vector(b, source, i, 1, lanes), target, i)

            self._each_vector(columns, copy)

        if spec.xs[3] == spec.ic:
            run(source, target, count)
            return
        with b.loop("col", 0, count, most=self.most_columns) as col:
            at, to = b.mul(col.index, spec.xs[3]), b.mul(col.index, spec.ic)
            run(b.at(source, at), b.at(target, to), 1)

    def _each_vector(self, columns: Index, body: Callable[[Index, int], None]) -> None:
        """``body(first, lanes)`` for a run of columns; of the last vector of a number of columns
        that the call gives, element by element.
        """
        b, size = self.b, self.b.mul(columns, self.spec.ic)
        if isinstance(size, int):
            whole = size - size % b.lanes
            if whole:
                with b.loop("i", 0, whole, b.lanes) as i:
                    body(i.index, b.lanes)
            if size > whole:
                body(whole, size - whole)
            return
        most = -(-self.most_columns * self.spec.ic // b.lanes)
        end = b.mul(b.divmod(size, b.lanes)[0], b.lanes)
        with b.loop("i", 0, end, b.lanes, most=most) as i:
            body(i.index, b.lanes)
        if self.spec.ic % b.lanes:
            with b.loop("i", end, size, most=b.lanes) as i:
                body(i.index, 1)

    # --- sums ---

    def _add_taps(self, chunk: _Chunk, filters: _Filters, at: list[Index]) -> None:
        """Every register tile of a block of taps."""
        b, spec = self.b, self.spec
        for height, members in groupby(tiles_of_rows(spec.rows, spec.mr), key=lambda tile: tile[1]):
            run = [first for first, _ in members]
            with b.loop("row", run[0], run[-1] + 1, height) as row:
                self._add_tile(chunk, filters, at, row.index, height)

    def _add_tile(
        self, chunk: _Chunk, filters: _Filters, at: list[Index], row: Index, height: int
    ) -> None:
        """buffer[taps, rows of the tile] += the sums over the chunk's positions."""
        b, spec, nv = self.b, self.spec, filters.block.nv
        sums = self._multiply(chunk, filters, at, row, height)
        for tap in range(spec.taps):
            first = b.mul(b.add(self._row(at, tap), row), spec.nv * b.lanes)
            place = b.at(filters.target, first)
            for m in range(height):
                for j in range(nv):
                    offset = (m * spec.nv + j) * b.lanes
                    total = b.b.fadd(b.load(place, offset), sums[(tap * height + m) * nv + j])
                    b.store(total, place, offset)

    def _multiply(
        self, chunk: _Chunk, filters: _Filters, at: list[Index], row: Index, height: int
    ) -> list[Value]:
        b, spec = self.b, self.spec
        start = [b.splat(0.0)] * (spec.taps * height * filters.block.nv)
        with b.loop("n", 0, chunk.images, carry=start, most=self.most_images) as n:
            with b.loop("line", 0, chunk.lines, carry=n.carried, most=self.most_lines) as line:
                number = b.add(b.mul(n.index, spec.lines), line.index)
                self._ask(chunk, filters, at, row, number)
                source = b.add(self._data_at(chunk, n.index, line.index, at), row)
                of_line = b.mul(spec.out[2], filters.columns)
                heads = b.at(self.heads, b.mul(number, of_line))
                data = b.at(self.copy if spec.is_packed else self.x, source)
                line.yields(self._add_line(data, heads, height, filters.block.nv, line.carried))
            n.yields(line.results)
        return list(n.results)

    def _ask(
        self, chunk: _Chunk, filters: _Filters, at: list[Index], row: Index, line: Index
    ) -> None:
        """Prefetch memory of the next chunk, a part of it at every line of every tile."""
        b, spec = self.b, self.spec
        tiles = len(tiles_of_rows(spec.rows, spec.mr))
        tile, _ = b.divmod(b.mul(row, tiles), spec.rows)
        sizes = (min(spec.blocks, len(self.blocks)), *spec.tiled_places, tiles)
        numbers: tuple[Index, ...] = (filters.number, *at, tile)
        if self.share is not None:
            sizes, numbers = (sizes[0], tiles), (filters.number, tile)
        step: Index = 0
        for number, size in zip(numbers, sizes):
            step = b.add(b.mul(step, size), number)
        if not chunk.regions:
            return
        lines = spec.images * spec.lines
        for region in chunk.regions:
            region.ask(b, b.add(b.mul(step, lines), line), product(sizes) * lines)

    def _data_at(self, chunk: _Chunk, n: Index, line: Index, at: list[Index]) -> Index:
        """The offset of the data of a line of windows, for a block of taps."""
        b, spec = self.b, self.spec
        height = b.mul(at[1], spec.taps)
        across = b.mul(at[2], b.mul(spec.steps[3], spec.dilate[2]))
        if not spec.is_packed:
            image = b.add(chunk.image, n)
            row = b.add(
                b.mul(b.add(chunk.line, line), spec.stride[1]), b.mul(height, spec.dilate[1])
            )
            return b.add(b.dot((image, row), (spec.xs[0], spec.xs[2])), across)
        step = 1 if spec.is_apart else spec.stride[1]
        of_line = b.mul(line, b.mul(spec.width, step * spec.ic))
        return b.add(b.add(b.dot((n, at[0], height), spec.copied[:3]), of_line), across)

    def _add_line(
        self, data: Value, heads: Value, height: int, nv: int, sums: Sequence[Value]
    ) -> list[Value]:
        """The sums after one line of positions."""
        b, width = self.b, self.spec.out[2]
        steps = (b.mul(self.spec.steps[3], self.spec.stride[2]), nv * b.lanes)

        def columns(at: Index, count: int, sums: Sequence[Value]) -> list[Value]:
            x, d = (b.at(p, b.mul(at, step)) for p, step in zip((data, heads), steps))
            for u in range(count):
                place = (b.at(x, b.mul(steps[0], u)), b.at(d, u * steps[1]))
                sums = self._add_column(*place, height, nv, sums)
            return list(sums)

        _, rest = b.divmod(width, _UNROLL)
        whole, most = b.sub(width, rest), -(-self.most_columns // _UNROLL)
        if not isinstance(whole, int) or whole:
            with b.loop("col", 0, whole, _UNROLL, carry=sums, most=most) as col:
                col.yields(columns(col.index, _UNROLL, col.carried))
            sums = col.results
        if isinstance(rest, int):
            return columns(whole, rest, sums)
        with b.loop("col", whole, width, carry=sums, most=1) as col:
            col.yields(columns(col.index, 1, col.carried))
        return list(col.results)

    def _add_column(
        self, data: Value, heads: Value, height: int, nv: int, sums: Sequence[Value]
    ) -> list[Value]:
        """sum[tap, m, v] += x[tap, m] * d[v]."""
        b, spec = self.b, self.spec
        vectors = [b.load(heads, j * b.lanes) for j in range(nv)]
        result: list[Value] = []
        for tap, m in combinations(range(spec.taps), range(height)):
            value = b.splat(read_scalar(b, data, b.add(b.mul(spec.steps[2], tap), m)))
            result += [b.fma(value, v, sums[len(result) + j]) for j, v in enumerate(vectors)]
        return result


def tiles_of_rows(rows: int, most: int) -> list[tuple[int, int]]:
    """Rows in nearly equal tiles of at most ``most``: (first, height), the high ones first."""
    count = -(-rows // most)
    small, high = divmod(rows, count)
    heights = [small + (number < high) for number in range(count)]
    return [(sum(heights[:i]), height) for i, height in enumerate(heights)]
