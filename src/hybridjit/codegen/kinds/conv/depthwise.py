"""Convolution of small groups, most often of one channel; vectors along channels.

A tile of output columns stays in registers; each input vector of a row serves every tap that
reaches it. In groups of several channels, every channel's place in the vector takes the group's
first input channel, then its second, and so on: the vector's lanes are exchanged as it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, product

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from ..parts.program import operand_addresses, store_epilogue
from ..parts.window import Tile, first_input, input_line, rows_inside, tiles_of_row
from .spec import DepthwiseSpec


def emit_depthwise(b: LoopBuilder, spec: DepthwiseSpec, args: Arguments) -> None:
    """y[n,o,c] = program(bias[c] + sum over taps and i of x[n,o+tap,group of c,i] * w[tap,i,c])."""
    x, w, bias = args.pointer("x"), args.working("w"), args.summed("bias")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    vectors = -(-spec.channels // b.lanes)
    lines = spec.out[0] * spec.out[1]
    with b.each_unit(b.mul(batch, lines), args.tid, args.threads) as unit:
        image, depth, row = b.split(unit.index, (0, spec.out[0], spec.out[1]))

        def emit_vectors(first: Index, count: int, last: int) -> None:
            channel = b.mul(first, b.lanes)
            at = (image, depth, row, 0, channel)
            bases = [b.at(p, b.dot(at, s)) for p, s in zip(reads, spec.reads)]
            targets = [b.at(p, b.dot(at, s)) for p, s in zip(writes, spec.writes)]
            source = b.at(x, b.add(b.mul(image, spec.xs[0]), channel))
            tile = _Tiles(b, spec, (depth, row), source, b.at(w, channel), b.at(bias, channel))
            tile.emit_row(bases, targets, count, last)

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
        self.padded = -(-spec.channels // b.lanes) * b.lanes

    def emit_row(self, reads: list[Value], writes: list[Value], count: int, last: int) -> None:
        for _, members in groupby(tiles_of_row(self.spec, self.spec.cols), key=lambda t: t.shape):
            run = list(members)
            if len(run) == 1:
                self._emit_tile(run[0], run[0].start, reads, writes, count, last)
                continue
            stop = run[-1].start + run[-1].width
            with self.b.loop("col", run[0].start, stop, run[0].width) as col:
                self._emit_tile(run[0], col.index, reads, writes, count, last)

    def _emit_tile(
        self,
        tile: Tile,
        column: Index,
        reads: list[Value],
        writes: list[Value],
        count: int,
        last: int,
    ) -> None:
        b, spec = self.b, self.spec
        start = [b.load(self.bias, j * b.lanes) for j in range(count)] * tile.width
        left = first_input(b, column, spec.stride[2], spec.pad[2])

        def body(kd: Index, kh: Index, accs: Sequence[Value]) -> list[Value]:
            line = input_line(b, spec, self.place, (kd, kh))
            x = b.at(self.x, b.add(line, b.mul(left, spec.xs[3])))
            taps = b.mul(b.add(b.mul(kd, spec.kernel[1]), kh), spec.kernel[2])
            w = b.at(self.w, b.mul(taps, spec.group * self.padded))
            return self._sum_row(tile, x, w, accs, count, last)

        accs = rows_inside(b, spec, self.place, start, body)
        for m in range(tile.width):
            for j in range(count):
                lanes = last if j == count - 1 else b.lanes
                at, channel = b.add(column, m), j * b.lanes
                sources = operand_addresses(b, reads, spec.reads, at, channel)
                targets = operand_addresses(b, writes, spec.writes, at, channel)
                store_epilogue(b, spec.program, accs[m * count + j], sources, targets, lanes)

    def _sum_row(
        self, tile: Tile, x: Value, w: Value, accs: Sequence[Value], count: int, last: int
    ) -> list[Value]:
        """One input row: a vector under the tile is loaded once for all its taps."""
        b, spec = self.b, self.spec
        pairs: dict[int, list[tuple[int, int]]] = {}
        for kw, (low, high) in enumerate(tile.reach):
            for m in range(low, high):
                position = m * spec.stride[2] + kw * spec.dilate[2]
                pairs.setdefault(position, []).append((m, kw))
        result = list(accs)
        for j, i in product(range(count), range(spec.group)):
            lanes = last if j == count - 1 else b.lanes
            rows = [(kw * spec.group + i) * self.padded for kw in range(spec.kernel[2])]
            filters = [b.load(w, row + j * b.lanes) for row in rows]
            for position in sorted(pairs):
                value = read_vector(b, x, position * spec.xs[3] + j * b.lanes, 1, lanes)
                value = self._spread(value, i)
                for m, kw in pairs[position]:
                    k = m * count + j
                    result[k] = b.fma(value, filters[kw], result[k])
        return result

    def _spread(self, value: Value, i: int) -> Value:
        """In every lane, the ``i``-th channel of that lane's group."""
        size = self.spec.group
        if size == 1:
            return value
        return self.b.shuffle(value, [lane - lane % size + i for lane in range(self.b.lanes)])
