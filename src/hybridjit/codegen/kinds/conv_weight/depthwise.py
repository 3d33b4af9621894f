"""Gradient with respect to the weight of a convolution of single channels; vectors along channels.

A unit of work is a part of the images, for a few vectors of channels. The taps of a line are summed
in registers over a line of the result, and lines in the part's buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..conv.blocks import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from ..parts.window import first_input, input_line, rows_inside, whole_windows
from .spec import DepthwiseByWeightSpec


def emit_depthwise_weight(b: LoopBuilder, spec: DepthwiseByWeightSpec, args: Arguments) -> None:
    """buffer[part,tap,c] = sum over n in part and o of x[n,o+tap,c] * d[n,o,c]."""
    x, d, buffers = args.pointer("x"), args.pointer("d"), args.working("buffers")
    batch, parts = args.integer("batch"), args.integer("parts")
    blocks = blocks_of(spec.oc, spec.nv, b.lanes)
    spec = args.sized(spec)
    with b.each_unit(b.mul(parts, len(blocks)), args.share, args.shares) as unit:
        part, block = b.split(unit.index, (0, len(blocks)))
        images = b.share(batch, b.i64(part), parts)
        channel = b.mul(block, spec.nv * b.lanes)
        target = b.at(buffers, b.mul(unit.index, product(spec.kernel) * spec.nv * b.lanes))
        for kind, count, first in runs_of_blocks(blocks):
            with b.when(in_range(b, block, first, first + count, len(blocks))):
                sums = _Sums(b, spec, kind, b.at(x, channel), b.at(d, channel), target)
                sums.emit(images)


class _Sums:
    """The sums of a block of channels over the images of a part."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: DepthwiseByWeightSpec,
        block: Block,
        x: Value,
        d: Value,
        target: Value,
    ) -> None:
        self.b, self.spec, self.block = b, spec, block
        self.x, self.d, self.target = x, d, target

    def emit(self, images: tuple[Value, Value]) -> None:
        b, spec = self.b, self.spec
        with b.loop("i", 0, product(spec.kernel) * spec.nv * b.lanes, b.lanes) as i:
            b.store(b.splat(0.0), self.target, i.index)
        lines = b.mul(spec.out[0], spec.out[1])
        most = 2 * product(spec.usual[:2]) if spec.usual else None
        with b.loop("image", *images) as image, b.loop("line", 0, lines, most=most) as line:
            depth, row = b.divmod(line.index, spec.out[1])
            data = b.at(self.x, b.mul(image.index, spec.xs[0]))
            heads = b.at(self.d, b.dot((image.index, depth, row), spec.ds[:3]))
            body = partial(self._add_line, data, heads, (depth, row))
            rows_inside(b, spec, (depth, row), (), body)

    def _add_line(
        self,
        data: Value,
        heads: Value,
        place: tuple[Index, Index],
        kd: Index,
        kh: Index,
        carry: Sequence[Value],
    ) -> list[Value]:
        """buffer[kd, kh] += the sums of a line of the result, for all horizontal taps."""
        b, spec, nv = self.b, self.spec, self.block.nv
        x = b.at(data, input_line(b, spec, place, (kd, kh)))
        tap = b.mul(b.add(b.mul(kd, spec.kernel[1]), kh), spec.kernel[2])
        target = b.at(self.target, b.mul(tap, spec.nv * b.lanes))
        at = [(k * spec.nv + j) * b.lanes for k in range(spec.kernel[2]) for j in range(nv)]
        sums = self._columns(x, heads, [b.load(target, index) for index in at])
        for index, value in zip(at, sums):
            b.store(value, target, index)
        return []

    def _columns(self, x: Value, heads: Value, sums: list[Value]) -> list[Value]:
        """The sums after all columns; columns whose windows exceed the image are unrolled."""
        b, spec = self.b, self.spec
        if not (isinstance(spec.out[2], int) and isinstance(spec.inp[2], int)):
            return self._given_columns(x, heads, sums)
        inside = [c for c in range(spec.out[2]) if len(self._taps(c)) == spec.kernel[2]]
        first, last = (inside[0], inside[-1] + 1) if inside else (spec.out[2], spec.out[2])
        for column in range(first):
            sums = self._column(x, heads, column, self._taps(column), sums)
        if inside:
            with b.loop("col", first, last, carry=sums) as col:
                col.yields(self._column(x, heads, col.index, self._taps(first), col.carried))
            sums = list(col.results)
        for column in range(last, spec.out[2]):
            sums = self._column(x, heads, column, self._taps(column), sums)
        return sums

    def _given_columns(self, x: Value, heads: Value, sums: list[Value]) -> list[Value]:
        """The same for a width that the call gives, with tests of the taps at both edges."""
        b, spec = self.b, self.spec
        first, last = whole_windows(b, spec)
        taps, most = range(spec.kernel[2]), 2 * spec.usual[2]
        runs = [("left", 0, first, True), ("col", first, last, False), ("right", last, None, True)]
        for name, start, stop, is_edge in runs:
            stop = spec.out[2] if stop is None else stop
            with b.loop(name, start, stop, carry=sums, most=most) as col:
                col.yields(self._column(x, heads, col.index, taps, col.carried, is_edge))
            sums = list(col.results)
        return sums

    def _taps(self, column: int) -> list[int]:
        """The horizontal taps whose input is inside the image for a column."""
        spec = self.spec
        first = column * spec.stride[2] - spec.pad[2]
        return [k for k in range(spec.kernel[2]) if 0 <= first + k * spec.dilate[2] < spec.inp[2]]

    def _column(
        self, x: Value, heads: Value, column: Index, taps: Sequence[int], sums: Sequence[Value],
        is_edge: bool = False,
    ) -> list[Value]:  # fmt: skip
        """The sums after a column, for these taps; at an edge those whose input exists."""
        b, spec, nv = self.b, self.spec, self.block.nv
        result = list(sums)
        left = first_input(b, column, spec.stride[2], spec.pad[2])
        for j in range(nv):
            lanes = self.block.last if j == nv - 1 else b.lanes
            at = b.add(b.mul(column, spec.ds[3]), j * b.lanes)
            head = read_vector(b, heads, at, 1, lanes)
            for k in taps:
                place, before = b.add(left, k * spec.dilate[2]), result[k * nv + j]
                inside = None
                if is_edge:
                    inside = b.b.icmp_unsigned("<", b.i64(place), b.i64(spec.inp[2]))
                    place = b.b.select(inside, b.i64(place), b.i64(0))
                source = b.add(b.mul(place, spec.xs[3]), j * b.lanes)
                total = b.fma(read_vector(b, x, source, 1, lanes), head, before)
                result[k * nv + j] = b.b.select(inside, total, before) if inside else total
        return result
