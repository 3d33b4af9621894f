"""Code for layers of bytes by Winograd's F(4x4, 3x3) in integers, with the bits of direct sums.

The usual points 0, 1, -1, 2, -2 and infinity, with filters times 24: the data and the filters at
the points fit into int16, of which one instruction multiplies two pairs in each lane. Products and
results are integers modulo 2**32. A result is 576 times a sum: divided by 9 modulo 2**32 it is 64
times the sum, which is thus known modulo 2**26. The least value of a filter's sums is added before,
so that they are in [0, 2**26), and subtracted afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I16, I32, Pointer, Value, constant_of, vector_of
from ...spec import Extent
from ..conv.transforms import both_ways
from ..conv.winograd import Winograd
from ..parts.arguments import Arguments
from ..parts.program import Operand, Part, store_parts
from .spec import BITS, ODD, POINTS, ByteWinogradSpec

_INVERSE = pow(ODD, -1, 1 << 32)


def emit_byte_winograd(b: LoopBuilder, spec: ByteWinogradSpec, args: Arguments) -> None:
    """y[n,o,f] = program(bias[f] + sum over taps and channels of x * w), by tiles."""
    _ByteWinograd(b, spec, args).emit()


class _ByteWinograd(Winograd):
    spec: ByteWinogradSpec

    def _take_filters(self, args: Arguments) -> None:
        super()._take_filters(args)
        self.lows = args.summed("lows")

    def _memory(self, count: int) -> Value:
        words = self.b.scratch(vector_of(I32, self.b.lanes), count)
        return Pointer(words.ref, "int32", I32)

    def _transform_vector(self, target: Value, c: Index, lanes: int) -> None:
        b, down, across = self.b, self.down, self.across
        part, own = b.divmod(c, self.spec.of_part)
        first = b.at(target, b.mul(part, POINTS * self.v_step))
        place = b.at(_as_shorts(first), own)
        shorts = vector_of(I16, lanes)

        def column(q: Index) -> list[Value]:
            places = [self.data.noted(r, q) for r in range(down.reach)]
            return into_points(b, [b.b.zext(b.load(at, c), shorts) for at in places])

        def row(r: Index, half: list[Value]) -> None:
            at = b.at(place, b.mul(r, 2 * across.points * self.v_step))
            for q, value in enumerate(into_points(b, half)):
                b.store(value, at, 2 * q * self.v_step)

        both_ways(b, _as_shorts(self.halves), (down.points, across.reach), column, row)

    def _channels(self) -> Extent:
        return self.row_step

    def _sums_so_far(self, m: Value, row: Index, column: Index) -> list[Value]:
        zeros = constant_of(vector_of(I32, self.b.lanes), 0)
        return [zeros] * (self.spec.mr * self.spec.nv)

    def _added(self) -> list[Value]:
        step = -(-self.spec.oc // self.b.lanes) * self.b.lanes
        lows = [self.b.at(self.lows, part * step) for part in range(self.spec.parts)]
        return [self.bias, *lows]

    def _output_vector(self, source: Value, added: Sequence[Value], c: Index, lanes: int) -> None:
        b, sides = self.b, (self.down.m, self.across.m)
        bias, *lows = (b.load(at, c) for at in added)
        sums = [[reduce(b.b.sub, lows, bias)] * sides[1]] * sides[0]
        for part, low in enumerate(lows):
            products = b.at(b.at(source, part * POINTS * self.m_step), c)
            results = self._results(products, low)
            sums = [[b.b.add(*pair) for pair in zip(*rows)] for rows in zip(sums, results)]
        for r, row in enumerate(sums):
            store_parts(b, self.spec.program, self._parts(r, row, c, lanes))

    def _results(self, source: Value, low: Value) -> list[list[Value]]:
        """The results of a part, to which ``low`` is added."""
        b, down, across = self.b, self.down, self.across
        scaled = b.b.mul(low, constant_of(low.type, ODD << BITS))
        results: list[list[Value]] = []

        def column(q: Index) -> list[Value]:
            place, step = b.at(source, b.mul(q, self.m_step)), across.points * self.m_step
            products = [b.load(place, r * step) for r in range(down.points)]
            if q == 1:  # the product at the point (1, 1) is a term of every result
                products[1] = b.b.add(products[1], scaled)
            return from_points(b, products)

        def row(r: Index, half: list[Value]) -> None:
            results.append([_divided(b, value) for value in from_points(b, half)])

        both_ways(b, self.halves, (down.m, across.points), column, row)
        return results

    def _parts(self, r: Index, sums: Sequence[Value], c: Index, lanes: int) -> list[Part]:
        b, spec, split = self.b, self.spec, len(self.spec.reads)
        parts = []
        for q, value in enumerate(sums):
            noted = [
                (places.noted(r, q), b.mul(c, s[4]), s[4])
                for places, s in zip(self.places, (*spec.reads, *spec.writes))
            ]
            reads: list[Operand] = [*noted[:split]]
            parts.append(Part(value, reads, noted[split:], lanes))
        return parts


def _as_shorts(pointer: Value) -> Value:
    return Pointer(pointer.ref, "int16", I16)


def _divided(b: LoopBuilder, value: Value) -> Value:
    """A result, which is not negative, divided by 576."""
    odd = b.b.mul(value, constant_of(value.type, _INVERSE))
    return b.b.lshr(odd, constant_of(value.type, BITS))


def _times(b: LoopBuilder, value: Value, power: int) -> Value:
    """value * 2**power."""
    return b.b.shl(value, constant_of(value.type, power))


def into_points(b: LoopBuilder, d: Sequence[Value]) -> list[Value]:
    """The values of six elements at the points, times the distances of the other points."""
    add, sub = b.b.add, b.b.sub
    even, odd = sub(d[4], _times(b, d[2], 2)), sub(d[3], _times(b, d[1], 2))
    outer, inner = sub(d[4], d[2]), _times(b, sub(d[3], d[1]), 1)
    return [
        add(_times(b, sub(d[0], d[2]), 2), outer),
        add(even, odd),
        sub(even, odd),
        add(outer, inner),
        sub(outer, inner),
        sub(sub(d[5], d[3]), _times(b, inner, 1)),
    ]


def from_points(b: LoopBuilder, m: Sequence[Value]) -> list[Value]:
    """Four results of six products, times 24."""
    add, sub = b.b.add, b.b.sub
    near, nearly = add(m[1], m[2]), sub(m[1], m[2])
    far, farther = add(m[3], m[4]), sub(m[3], m[4])
    last = add(m[5], _times(b, m[5], 1))
    return [
        add(add(m[0], near), far),
        add(nearly, _times(b, farther, 1)),
        add(near, _times(b, far, 2)),
        add(add(nearly, _times(b, farther, 3)), last),
    ]
