"""Gradient with respect to the weight of a 3x3 convolution by Winograd's F(3x3, 4x4).

Per unit of work, which is a part of the images for a block of channels and one of filters: a chunk
of tiles is transformed, 6x6 of the data and 4x4 of the output gradient, to 36 points each; for
every point the sums over the chunk's tiles are accumulated (a GEMM over tiles). At the end the 36
sums become 9 taps. That is a quarter of the definition's multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from ...._core.frozen import dataclass
from ...._core.types import product
from ...interpolation import filter_matrix
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Extents, Ints
from ..conv.transforms import both_ways, input_transform, output_transform
from ..parts.addresses import Addresses, Corner
from ..parts.arguments import Arguments
from ..parts.partial import read_scalar, read_vector
from ..parts.regions import Region, region_of
from .products import tiles_of_rows
from .spec import WinogradByWeightSpec

_TILE = 4  # output rows and columns of a tile
_SIDE = 6  # input rows and columns of a tile


def emit_winograd_weight(b: LoopBuilder, spec: WinogradByWeightSpec, args: Arguments) -> None:
    """buffer[part,f,tap,c] = sum over n in part and o of x[n,o+tap,c] * d[n,o,f], by tiles."""
    x, d = args.pointer("x"), args.pointer("d")
    buffers, scratch = args.working("buffers"), args.working("scratch")
    batch, parts = args.integer("batch"), args.integer("parts")
    scratch = b.at(scratch, b.mul(args.tid, sum(spec.scratch_floats(b.lanes))))
    spec = args.sized(spec)
    places = {side: Addresses(b, side, side) for side in (_SIDE, _TILE)}
    sizes = (0, spec.blocks_of_rows(b.lanes), spec.blocks_of_columns(b.lanes))
    with b.each_unit(b.mul(parts, product(sizes[1:])), args.share, args.shares) as unit:
        part, rows, columns = b.split(unit.index, sizes)
        images = b.share(batch, b.i64(part), parts)
        target = b.at(buffers, b.mul(part, spec.buffer_floats(b.lanes)))
        sums = _Sums(b, spec, (x, d), target, scratch, places)
        sums.emit(images, b.mul(rows, spec.rows), b.mul(columns, spec.columns))


@dataclass(frozen=True)
class _Operand:
    """The data or the gradients of a block of channels, and their transform.

    pointer   of the block's first channel
    side      rows and columns of a tile, which begins ``pad`` before its position
    channels  of all blocks
    first     the block's first vector, of ``vectors``
    target    its transformed tiles, with ``step`` elements between points
    """

    pointer: Value
    strides: Extents
    shape: Extents
    side: int
    pad: Ints
    channels: int
    first: Index
    vectors: int
    target: Value
    step: int
    transform: Callable[[LoopBuilder, Sequence[Value]], list[Value]]


class _Sums:
    """The sums of a block of channels x filters over the images of a part."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: WinogradByWeightSpec,
        operands: tuple[Value, Value],
        target: Value,
        scratch: Value,
        places: Mapping[int, Addresses],
    ) -> None:
        self.b, self.spec, self.target, self.places = b, spec, target, places
        self.x, self.d = operands
        data, gradients, sums, zeros = spec.scratch_floats(b.lanes)
        self.data = scratch
        self.gradients = b.at(scratch, data)
        self.sums = b.at(self.gradients, gradients)
        self.zeros = b.at(self.sums, sums)
        self.zeros_size = zeros
        self.data_step, self.gradient_step, self.sum_step = (
            size // spec.points for size in (data, gradients, sums)
        )
        self.width = spec.nv * b.lanes
        self.halves = b.scratch(b.vector_type(), _SIDE**2)

    def emit(self, images: tuple[Value, Value], row: Index, column: Index) -> None:
        """``row`` is the block's first vector of channels, ``column`` its first register tile."""
        b, spec = self.b, self.spec
        with b.loop("zero", 0, self.zeros_size, b.lanes) as c:
            b.store(b.splat(0.0), self.zeros, c.index)
        of_data = _Operand(
            b.at(self.x, b.mul(row, b.lanes)), spec.xs, spec.inp[1:], _SIDE, spec.pad[1:],
            spec.ic, row, spec.rows, self.data, self.data_step, input_transform,
        )  # fmt: skip
        of_gradients = _Operand(
            b.at(self.d, b.mul(column, self.width)), spec.ds, spec.out[1:], _TILE, (0, 0),
            spec.oc, b.mul(column, spec.nv), spec.columns * spec.nv, self.gradients,
            self.gradient_step, _gradient_transform,
        )  # fmt: skip
        begin, end = (b.mul(image, b.product(spec.grid)) for image in images)
        with b.loop("chunk", begin, end, spec.tiles) as chunk:
            count = b.min(b.sub(end, chunk.index), spec.tiles)
            for operand in (of_data, of_gradients):
                with b.loop("tile", 0, count, most=spec.tiles) as tile:
                    self._transform(operand, b.add(chunk.index, tile.index), tile.index)
            is_first = b.equal(chunk.index, begin)
            # For small images a chunk is all data of a unit of work.
            is_all = not spec.derived and product(spec.grid) <= spec.tiles
            operands = () if is_all else (of_data, of_gradients)
            following = b.add(chunk.index, spec.tiles)
            regions = [self._region(operand, following) for operand in operands]
            with b.loop("point", 0, spec.points) as point:
                self._multiply(point.index, count, is_first, regions)
        self._finish(row, column)

    # --- V = Bt d B, U = G e Gt ---

    def _transform(self, operand: _Operand, tile: Index, number: Index) -> None:
        b, spec, side = self.b, self.spec, operand.side
        image, down, across = b.split(tile, (0, *spec.grid))
        top, left = (b.sub(b.mul(at, _TILE), pad) for at, pad in zip((down, across), operand.pad))
        columns = [self._is_inside(b.add(left, q), operand.shape[1]) for q in range(side)]
        strides = operand.strides
        start = b.dot((image, top, left), (strides[0], strides[2], strides[3]))
        self.places[side].note(
            Corner(b.at(operand.pointer, start), *strides[2:4]),
            lambda r: self._is_inside(b.add(top, r), operand.shape[0]),
            columns,
            self.zeros,
        )
        target = b.at(operand.target, b.mul(number, operand.vectors * b.lanes))
        self._each_vector(operand, target)

    def _region(self, operand: _Operand, tile: Index) -> Region:
        """The approximate memory that the chunk at ``tile`` reads, if images are contiguous pixels.

        It is prefetched while products are summed: of 2.8 ms for 8 images of 56x56, 64 to 64
        channels, 0.9 are transforms, which wait for memory.
        """
        b, spec, strides = self.b, self.spec, operand.strides
        image, down, _ = b.split(tile, (0, *spec.grid))
        start = b.dot((image, b.mul(down, _TILE)), (strides[0], strides[2]))
        pixels, channels = spec.tiles * _TILE**2, operand.vectors * b.lanes
        return region_of(b, b.at(operand.pointer, start), pixels, channels, strides[3])

    def _is_inside(self, at: Index, size: Index) -> Value:
        """Whether 0 <= at < size, as one unsigned comparison."""
        return self.b.b.icmp_unsigned("<", self.b.i64(at), self.b.i64(size))

    def _each_vector(self, operand: _Operand, target: Value) -> None:
        """The block's vectors: full ones, a partial one, and zeros after the last channel."""
        b, most = self.b, operand.vectors
        full, last = divmod(operand.channels, b.lanes)
        whole = b.min(b.sub(full, operand.first), most)
        with b.loop("c", 0, b.mul(whole, b.lanes), b.lanes, most=most) as c:
            self._transform_vector(operand, target, c.index, b.lanes)
        if last:
            with b.when(b.less(whole, most)):
                self._transform_vector(operand, target, b.mul(whole, b.lanes), last)
        if -(-operand.channels // b.lanes) % most:
            filled = b.mul(b.add(whole, 1 if last else 0), b.lanes)
            with b.loop("c", filled, most * b.lanes, b.lanes, most=most) as c:
                for point in range(self.spec.points):
                    b.store(b.splat(0.0), target, b.add(point * operand.step, c.index))

    def _transform_vector(self, operand: _Operand, target: Value, c: Index, lanes: int) -> None:
        b, side = self.b, operand.side
        places = self.places[side]

        place = b.at(target, c)

        def column(q: Index) -> list[Value]:
            return operand.transform(
                b, [read_vector(b, places.noted(r, q), c, 1, lanes) for r in range(side)]
            )

        def row(r: Index, half: list[Value]) -> None:
            at = b.at(place, b.mul(r, _SIDE * operand.step))
            for q, value in enumerate(operand.transform(b, half)):
                b.store(value, at, q * operand.step)

        both_ways(b, self.halves, (_SIDE, side), column, row)

    # --- M += V U ---

    def _multiply(
        self, point: Index, count: Index, is_first: Value, regions: Sequence[Region]
    ) -> None:
        """The sums of a point, for all channels and filters of the block."""
        b, spec = self.b, self.spec
        data = b.at(self.data, b.mul(point, self.data_step))
        gradients = b.at(self.gradients, b.mul(point, self.gradient_step))
        sums = b.at(self.sums, b.mul(point, self.sum_step))
        rows = spec.rows * b.lanes
        with b.loop("column", 0, spec.columns) as column:
            source = b.at(gradients, b.mul(column.index, self.width))
            target = b.at(sums, b.mul(column.index, rows * self.width))
            tiles = tiles_of_rows(rows, spec.mr)
            for height, members in groupby(tiles, key=lambda tile: tile[1]):
                run = [first for first, _ in members]
                with b.loop("row", run[0], run[-1] + 1, height) as row:
                    self._ask(regions, (point, column.index, row.index))
                    place = b.at(target, b.mul(row.index, self.width))
                    found = self._tile(b.at(data, row.index), source, height, count)
                    self._add(place, found, is_first)

    def _ask(self, regions: Sequence[Region], at: tuple[Index, Index, Index]) -> None:
        """Prefetch memory of the next chunk, a part of it at each register tile."""
        b, spec, (point, column, row) = self.b, self.spec, at
        rows = spec.rows * b.lanes
        tiles = len(tiles_of_rows(rows, spec.mr))
        tile, _ = b.divmod(b.mul(row, tiles), rows)
        step = b.add(b.mul(b.add(b.mul(point, spec.columns), column), tiles), tile)
        for region in regions:
            region.ask(b, step, spec.points * spec.columns * tiles)

    def _tile(self, data: Value, gradients: Value, height: int, count: Index) -> list[Value]:
        """sum[m, v] = the sum over tiles of data[tile, m] * gradients[tile, v]."""
        b, spec = self.b, self.spec
        steps = (spec.rows * b.lanes, spec.columns * self.width)
        start = [b.splat(0.0)] * (height * spec.nv)
        with b.loop("t", 0, count, carry=start, most=spec.tiles) as t:
            x, d = (b.at(p, b.mul(t.index, s)) for p, s in zip((data, gradients), steps))
            vectors = [b.load(d, j * b.lanes) for j in range(spec.nv)]
            result: list[Value] = []
            for m in range(height):
                value = b.splat(read_scalar(b, x, m))
                result += [
                    b.fma(value, v, t.carried[len(result) + j]) for j, v in enumerate(vectors)
                ]
            t.yields(result)
        return list(t.results)

    def _add(self, place: Value, found: Sequence[Value], is_first: Value) -> None:
        """Add to the sums of earlier chunks, if any."""
        b = self.b
        with b.b.if_else(is_first) as (then, otherwise):
            with then:
                for i, value in enumerate(found):
                    b.store(value, place, i * b.lanes)
            with otherwise:
                for i, value in enumerate(found):
                    total = b.b.fadd(b.load(place, i * b.lanes), value)
                    b.store(total, place, i * b.lanes)

    # --- At M A ---

    def _finish(self, row: Index, column: Index) -> None:
        """Write the taps of every existing channel and filter to the part's buffer."""
        b, spec = self.b, self.spec
        first = b.mul(row, b.lanes)
        rows = b.min(b.sub(spec.ic, first), spec.rows * b.lanes)
        total = -(-spec.oc // self.width)
        columns = b.min(b.sub(total, column), spec.columns)
        with b.loop("column", 0, columns, most=spec.columns) as c:
            block = b.at(self.target, b.mul(b.add(column, c.index), spec.block_floats(b.lanes)))
            source = b.at(self.sums, b.mul(c.index, spec.rows * b.lanes * self.width))
            with b.loop(
                "row", 0, b.mul(rows, self.width), b.lanes, most=spec.rows * self.width
            ) as r:
                place = b.at(block, b.add(b.mul(first, self.width), r.index))
                self._finish_vector(b.at(source, r.index), place)

    def _finish_vector(self, source: Value, target: Value) -> None:
        b, spec = self.b, self.spec

        def column(q: Index) -> list[Value]:
            place, step = b.at(source, b.mul(q, self.sum_step)), _SIDE * self.sum_step
            return output_transform(b, [b.load(place, r * step) for r in range(_SIDE)], 3)

        def row(r: Index, half: list[Value]) -> None:
            place, step = b.at(target, b.mul(r, 3 * spec.ic * self.width)), spec.ic * self.width
            for q, value in enumerate(output_transform(b, half, 3)):
                b.store(value, place, q * step)

        both_ways(b, self.halves, (3, _SIDE), column, row)


def _gradient_transform(b: LoopBuilder, e: Sequence[Value]) -> list[Value]:
    """G e for 4 elements, sharing terms of points p and -p."""
    g = filter_matrix(_TILE).tolist()
    rows = [b.b.fmul(e[0], b.splat(g[0][0]))]
    for one, p, square in g[1:-1:2]:
        cube = square * p / one
        even = b.fma(e[2], b.splat(square), b.b.fmul(e[0], b.splat(one)))
        odd = b.fma(e[3], b.splat(cube), b.b.fmul(e[1], b.splat(p)))
        rows += [b.b.fadd(even, odd), b.b.fsub(even, odd)]
    return [*rows, e[3]]
