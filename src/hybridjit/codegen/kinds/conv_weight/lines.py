"""Gradient with respect to the weight of a layer of one channel and few filters; vectors along
lines.

Six filters fill six of sixteen lanes; positions fill all. The gradients of an image are copied
filter by filter, its data with their padding; both have lines of equal length, so that the products
of a tap run over the whole image as over one long line. A unit of work is a part of the images; at
its end the lanes of each sum are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from ...._core.types import product
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I32, Value
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from ..parts.transpose import transposed
from .products import tiles_of_rows
from .spec import LinesByWeightSpec


def emit_lines_weight(b: LoopBuilder, spec: LinesByWeightSpec, args: Arguments) -> None:
    """buffer[part,tap,f] = sum over n in part and o of x[n,o+tap] * d[n,o,f]."""
    x, d = args.pointer("x"), args.pointer("d")
    buffers, scratch = args.working("buffers"), args.working("scratch")
    batch, parts = args.integer("batch"), args.integer("parts")
    scratch = b.at(scratch, b.mul(args.tid, sum(spec.scratch_floats(b.lanes))))
    with b.each_unit(parts, args.share, args.shares) as unit:
        sums = _Sums(b, spec, scratch)
        sums.clear()
        images = b.share(batch, b.i64(unit.index), parts)
        with b.loop("image", *images) as image:
            sums.copy_data(b.at(x, b.mul(image.index, spec.xs[0])))
            sums.copy_heads(b.at(d, b.mul(image.index, spec.ds[0])))
            sums.add()
        sums.write(b.at(buffers, b.mul(unit.index, spec.buffer_floats(b.lanes))))


class _Sums:
    """The sums of a part's images: a vector for each tap and filter."""

    def __init__(self, b: LoopBuilder, spec: LinesByWeightSpec, scratch: Value) -> None:
        self.b, self.spec = b, spec
        self._sizes = spec.scratch_floats(b.lanes)
        self.data = scratch
        self.heads = b.at(scratch, self._sizes[0])
        self.sums = b.at(self.heads, self._sizes[1])

    def clear(self) -> None:
        """Clear sums, and memory that no image writes."""
        b = self.b
        with b.loop("i", 0, sum(self._sizes), b.lanes) as i:
            b.store(b.splat(0.0), self.data, i.index)

    def copy_data(self, x: Value) -> None:
        """Copy an image between the zeros of its padding."""
        b, spec = self.b, self.spec
        with b.loop("row", 0, spec.inp[1]) as row:
            source = b.at(x, b.mul(row.index, spec.xs[2]))
            start = b.add(b.mul(b.add(row.index, spec.pad[1]), spec.width), spec.pad[2])
            for first in range(0, spec.inp[2], b.lanes):
                count = min(b.lanes, spec.inp[2] - first)
                value = read_vector(b, source, first, 1, count)
                b.store_first(value, self.data, b.add(start, first), count)

    def copy_heads(self, d: Value) -> None:
        """Copy the gradients of an image, separately for each filter."""
        b, spec = self.b, self.spec
        with b.loop("row", 0, spec.out[1]) as row:
            source = b.at(d, b.mul(row.index, spec.ds[2]))
            start = b.mul(row.index, spec.width)
            for first in range(0, spec.out[2], b.lanes):
                count = min(b.lanes, spec.out[2] - first)
                read = self._vectors(source, first * spec.oc, count * spec.oc)
                for f in range(spec.oc):
                    place = b.add(start, f * spec.run(b.lanes) + first)
                    value = _every(b, read, f, spec.oc, count)
                    b.store_first(value, self.heads, place, count)

    def _vectors(self, source: Value, first: int, size: int) -> list[Value]:
        b = self.b
        return [
            read_vector(b, source, first + at, 1, min(b.lanes, size - at))
            for at in range(0, size, b.lanes)
        ]

    def add(self) -> None:
        """sums[tap, f] += the products of the image, in tiles of filters by the taps of a line."""
        b, spec = self.b, self.spec
        run = spec.run(b.lanes)
        with b.loop("kh", 0, spec.kernel[1]) as kh:
            data = b.at(self.data, b.mul(kh.index, spec.dilate[1] * spec.width))
            for first, count in tiles_of_rows(spec.oc, spec.filters):
                start = [b.splat(0.0)] * (count * spec.kernel[2])
                with b.loop("i", 0, run, b.lanes, carry=start) as i:
                    heads = b.at(self.heads, b.add(i.index, first * run))
                    i.yields(self._products(b.at(data, i.index), heads, count, i.carried))
                place = b.add(b.mul(kh.index, spec.kernel[2] * spec.oc), first)
                self._add_to(place, count, i.results)

    def _products(
        self, data: Value, heads: Value, count: int, sums: Sequence[Value]
    ) -> list[Value]:
        """sums[tap, f] += x[tap] * d[f] for the taps of a line."""
        b, spec = self.b, self.spec
        filters = [b.load(heads, f * spec.run(b.lanes)) for f in range(count)]
        taps = [b.load(data, k * spec.dilate[2]) for k in range(spec.kernel[2])]
        return [b.fma(x, d, at) for (x, d), at in zip(combinations(taps, filters), sums)]

    def _add_to(self, place: Index, count: int, sums: Sequence[Value]) -> None:
        b, spec = self.b, self.spec
        for number, value in enumerate(sums):
            tap, f = divmod(number, count)
            at = b.mul(b.add(place, tap * spec.oc + f), b.lanes)
            b.store(b.b.fadd(b.load(self.sums, at), value), self.sums, at)

    def write(self, target: Value) -> None:
        """Write the sum of each sum's lanes to the lane of its filter."""
        b, spec = self.b, self.spec
        with b.loop("tap", 0, product(spec.kernel)) as tap:
            first = b.mul(tap.index, spec.oc)
            rows = [b.load(self.sums, b.mul(b.add(first, f), b.lanes)) for f in range(spec.oc)]
            rows += [b.splat(0.0)] * (b.lanes - spec.oc)
            columns = transposed(b, rows)
            while len(columns) > 1:
                half = len(columns) // 2
                columns = [b.b.fadd(*pair) for pair in zip(columns[:half], columns[half:])]
            b.store(columns[0], target, b.mul(tap.index, b.lanes))


def _every(b: LoopBuilder, vectors: Sequence[Value], first: int, step: int, count: int) -> Value:
    """Elements first, first + step, ... of consecutive vectors, ``count`` of them.

    They are selected from two vectors at a time, each into its lane, and merged.
    """
    places = [first + step * lane for lane in range(count)]
    found: Value | None = None
    for low in range(0, len(vectors), 2):
        here = {
            i: at - low * b.lanes for i, at in enumerate(places) if at // b.lanes // 2 * 2 == low
        }
        if here:
            pair = vectors[low], vectors[min(low + 1, len(vectors) - 1)]
            picked = _mixed(b, *pair, [here.get(i, i) for i in range(b.lanes)])
            among = [b.lanes + i if i in here else i for i in range(b.lanes)]
            found = picked if found is None else _mixed(b, found, picked, among)
    assert found is not None
    return found


def _mixed(b: LoopBuilder, x: Value, y: Value, lanes: Sequence[int]) -> Value:
    return b.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))
