"""Reductions over any axes of strided data.

Along a reduced axis, four vectors of partial results are combined at the end, always in the same
order; across, each lane has a separate result, and a unit of work has up to four vectors of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS, converted, stored
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import CHAINS
from ..parts.arguments import Arguments
from ..parts.partial import read_vector, write_vector
from .partial import Carried, Partial, partial_of
from .spec import ReduceSpec

# Consecutive combinations per lane of a line: the error of a sum in f32 grows with the number of
# additions. A LayerNorm of a million elements around 100 has an error of 5.6e-5 without this limit,
# 3e-6 with it.
_ROUNDS = 64

# ``joined(partial result, index, lanes)``: the partial result with a further vector.
Joined = Callable[[Carried, Index, Index], Carried]


def emit_reduce(b: LoopBuilder, spec: ReduceSpec, args: Arguments) -> None:
    """y[row, kept] = the sum, mean, largest, ... of x[row, kept, reduced]."""
    x = [args.pointer(name) for name in ("x", "other")[: 1 + bool(spec.other)]]
    y = args.pointer("y")
    about = args.pointer("about") if spec.about else None
    rows = args.integer("rows")
    (Along if spec.along else Across)(b, spec, x, y, about, args).emit(rows, args)


class _Reduction:
    """The shared part of both ways: addresses, and the loops over the reduced axes."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: ReduceSpec,
        x: list[Value],
        y: Value,
        about: Value | None,
        args: Arguments,
    ) -> None:
        """``x`` are the data and, for pairs, the operand that they are multiplied with."""
        self.b, self.spec, self.x, self.y, self.about = b, spec, x, y, about
        self.middle: Value | None = None
        self.kept, self.reduced = args.given(spec.kept), args.given(spec.reduced)
        self.partial: Partial = partial_of(b, spec, b.product(self.reduced))
        kept, strides = 1 + len(spec.kept), (spec.x, spec.other)[: len(x)]
        self.kept_strides = [args.given(each[:kept]) for each in strides]
        self.reduced_strides = [args.given(each[kept:]) for each in strides]
        self.y_strides, self.about_strides = args.given(spec.y), args.given(spec.about)

    def read(
        self,
        bases: Sequence[Value],
        places: Sequence[tuple[Index, Index]],
        lanes: Index,
        about: Value | None = None,
    ) -> Value:
        """The next elements, from the index and the stride of the single operand."""
        (base,), ((index, stride),) = bases, places
        value = read_vector(self.b, base, index, stride, lanes, self.spec.dtype)
        return self.partial.taken(value, about)

    def centre(self, place: list[Index], lanes: Index) -> Value | None:
        """The references of distances at a position, one for each lane."""
        if self.about is None:
            return None
        b, dtype, strides = self.b, self.spec.dtype, self.about_strides
        base = b.at(self.about, b.dot(place, strides), ELEMENTS[dtype].stored)
        stride = 0 if self.spec.along else strides[-1]
        return converted(b, read_vector(b, base, 0, stride, lanes, dtype), dtype, self.partial.type)

    def over_outer(
        self, carried: Carried, body: Callable[[Sequence[Index], Carried], Carried]
    ) -> Carried:
        """``carried = body(offsets, carried)`` for every position of the outer reduced axes."""
        b, sizes = self.b, self.reduced[:-1]
        count = b.product(sizes)
        if isinstance(count, int) and count == 1:
            return body([0] * len(self.x), carried)
        with b.loop("outer", 0, count, carry=carried) as outer:
            place = b.split(outer.index, sizes)
            offsets = [b.dot(place, strides[:-1]) for strides in self.reduced_strides]
            outer.yields(body(offsets, outer.carried))
        return list(outer.results)

    def addresses(self, place: list[Index], element: str) -> tuple[list[Value], Value]:
        """The addresses of the data of a result, and of the result."""
        b, spec = self.b, self.spec
        result, stored_as = spec.result or spec.dtype, ELEMENTS[element].stored
        bases = zip(self.x, self.kept_strides)
        return (
            [b.at(x, b.dot(place, strides), stored_as) for x, strides in bases],
            b.at(self.y, b.dot(place, self.y_strides), ELEMENTS[result].stored),
        )


class Along(_Reduction):
    """Vectors along the last reduced axis; a unit of work is one result."""

    def emit(self, rows: Value, args: Arguments) -> None:
        b, spec = self.b, self.spec
        units = b.mul(rows, b.product(self.kept))
        with b.each_unit(units, args.share, args.shares) as unit:
            place = b.split(unit.index, (0, *self.kept))
            sources, target = self.addresses(place, spec.dtype)
            self.result(sources, target, place)

    def result(self, sources: list[Value], target: Value, place: list[Index]) -> None:
        """Compute and store the result of the data at ``sources``."""
        b, spec = self.b, self.spec
        self.middle = self.centre(place, b.lanes)
        parts = self._parts(sources)
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [self.partial.joined(p, q) for p, q in zip(parts[:half], parts[half:])]
        result = self.partial.result(self.partial.lanes_joined(parts[0]))
        b.store(stored(b, result, spec.result or spec.dtype), target)

    def _parts(self, sources: list[Value]) -> list[Carried]:
        """Partial results: one for each chain, with a lane for each position in a vector."""
        width = len(self.partial.start())
        chains = 1 if self.partial.has_places else CHAINS
        flat = [value for _ in range(chains) for value in self.partial.start()]
        flat = self.over_outer(flat, lambda offsets, carried: self._line(sources, offsets, carried))
        return [flat[i : i + width] for i in range(0, len(flat), width)]

    def _line(self, sources: list[Value], offsets: Sequence[Index], flat: Carried) -> Carried:
        """The chains after one run of the last reduced axis."""
        b, size = self.b, self.reduced[-1]
        steps = [strides[-1] for strides in self.reduced_strides]
        width = len(self.partial.start())

        def joined(part: Carried, index: Index, lanes: Index) -> Carried:
            places = [(b.add(o, b.mul(index, step)), step) for o, step in zip(offsets, steps)]
            value = self.read(sources, places, lanes, self.middle)
            return self.partial.step(part, value, index, lanes)

        chains = [flat[i : i + width] for i in range(0, len(flat), width)]
        return [value for part in in_chains(b, chains, 0, size, joined) for value in part]


def in_chains(
    b: LoopBuilder,
    chains: Sequence[Carried],
    start: Index,
    size: Index,
    joined: Joined,
    most: int | None = None,
) -> list[Carried]:
    """Chains of partial results after ``size`` elements from ``start`` on: each joins a vector in
    turn by ``joined(chain, index, lanes)``; ``most`` as in ``LoopBuilder.loop``.
    """
    step, width = len(chains) * b.lanes, len(chains[0])
    rest = b.divmod(size, step)[1]
    whole = b.sub(size, rest)
    if whole != 0:
        flat = [value for chain in chains for value in chain]
        with b.loop("i", start, b.add(start, whole), step, carry=flat, most=most) as i:
            firsts = [b.add(i.index, j * b.lanes) for j in range(len(chains))]
            made = [joined(*each, b.lanes) for each in zip(_parts(i.carried, width), firsts)]
            i.yields([value for chain in made for value in chain])
        chains = _parts(i.results, width)
    return rest_in_chains(b, chains, b.add(start, whole), rest, joined)


def _parts(flat: Sequence[Value], width: int) -> list[Carried]:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)]


def rest_in_chains(
    b: LoopBuilder, chains: Sequence[Carried], start: Index, count: Index, joined: Joined
) -> list[Carried]:
    """Chains after the last ``count`` elements, which are fewer than a vector for each chain."""
    if isinstance(count, int):
        made = [
            joined(chain, b.add(start, first), min(b.lanes, count - first))
            for chain, first in zip(chains, range(0, count, b.lanes))
        ]
        return [*made, *chains[len(made) :]]
    flat, width = [value for chain in chains for value in chain], len(chains[0])
    with b.loop("rest", 0, count, b.lanes, carry=flat, most=len(chains)) as i:
        turns = [b.equal(i.index, j * b.lanes) for j in range(len(chains))]
        now = _parts(i.carried, width)
        part = now[0]
        for turn, chain in zip(turns[1:], now[1:]):
            part = [b.b.select(turn, *pair) for pair in zip(chain, part)]
        after = joined(part, b.add(start, i.index), b.min(b.sub(count, i.index), b.lanes))
        i.yields([b.b.select(t, *pair) for t, c in zip(turns, now) for pair in zip(after, c)])
    return _parts(i.results, width)


class Across(_Reduction):
    """Vectors across the last kept axis; a unit of work is up to ``CHAINS`` of them."""

    def emit(self, rows: Value, args: Arguments) -> None:
        b, spec = self.b, self.spec
        *outer, columns = self.kept
        if not isinstance(columns, int) and not spec.most:
            self._emit_open(rows, args)
            return
        blocks, width, last = self._blocks(columns)
        units = b.mul(rows, b.product([*outer, blocks]))
        with b.each_unit(units, args.share, args.shares) as unit:
            *place, block = b.split(unit.index, (0, *outer, blocks))
            place = [*place, b.mul(block, width)]
            sources, target = self.addresses(place, spec.dtype)
            if last == width:
                self.columns(sources, target, self._vectors(width), place)
                return
            if blocks != 1:
                with b.when(b.less(block, b.sub(blocks, 1))):
                    self.columns(sources, target, self._vectors(width), place)
            with b.when(b.less(b.sub(blocks, 2), block)):
                self.columns(sources, target, self._vectors(last), place)

    def _emit_open(self, rows: Value, args: Arguments) -> None:
        """Any number of columns: the last ones vector by vector."""
        b, width = self.b, CHAINS * self.b.lanes
        *outer, columns = self.kept
        blocks = b.quotient_up(columns, width)
        units = b.mul(rows, b.product([*outer, blocks]))
        with b.each_unit(units, args.share, args.shares) as unit:
            *place, block = b.split(unit.index, (0, *outer, blocks))
            first = b.mul(block, width)
            left = b.sub(columns, first)
            with b.when(b.less(width - 1, left)):
                self._columns_at([*place, first], self._vectors(width))
            with b.when(b.less(left, width)), b.loop("v", 0, left, b.lanes, most=CHAINS) as v:
                count = b.min(b.sub(left, v.index), b.lanes)
                self._columns_at([*place, b.add(first, v.index)], [count])

    def _columns_at(self, place: list[Index], lanes: Sequence[Index]) -> None:
        sources, target = self.addresses(place, self.spec.dtype)
        self.columns(sources, target, lanes, place)

    def _vectors(self, count: int) -> list[Index]:
        """The lanes of the vectors of ``count`` columns."""
        lanes = self.b.lanes
        return [min(lanes, count - at) for at in range(0, count, lanes)]

    def _blocks(self, columns: Index) -> tuple[Index, int, int]:
        """The number of blocks, and the results of one and of the last; full if given."""
        lanes = self.b.lanes
        if not isinstance(columns, int):
            width = CHAINS * lanes
            return self.b.divmod(columns, width)[0], width, width
        width = min(CHAINS, -(-columns // lanes)) * lanes
        blocks = -(-columns // width)
        return blocks, width, columns - (blocks - 1) * width

    def columns(
        self, sources: list[Value], target: Value, lanes: Sequence[Index], place: list[Index]
    ) -> None:
        """Adjacent vectors of results with these numbers of lanes."""
        b = self.b
        *outer, first = place
        middles = [self.centre([*outer, b.add(first, j * b.lanes)], n) for j, n in enumerate(lanes)]
        steps, width = [each[-1] for each in self.kept_strides], len(self.partial.start())

        def run(offsets: Sequence[Index], carried: Carried) -> Carried:
            with b.loop("k", 0, self.reduced[-1], carry=carried, most=self.spec.most or None) as k:
                along = [strides[-1] for strides in self.reduced_strides]
                at = [b.add(o, b.mul(k.index, stride)) for o, stride in zip(offsets, along)]
                now: Carried = []
                for j, n in enumerate(lanes):
                    places = [
                        (b.add(a, b.mul(step, j * b.lanes)), step) for a, step in zip(at, steps)
                    ]
                    value = self.read(sources, places, n, middles[j])
                    part = k.carried[j * width : (j + 1) * width]
                    now += self.partial.step(part, value, k.index, b.lanes, is_across=True)
                k.yields(now)
            return list(k.results)

        flat = self.over_outer([v for _ in lanes for v in self.partial.start()], run)
        for j, n in enumerate(lanes):
            result = self.partial.result(flat[j * width : (j + 1) * width])
            stride = self.y_strides[-1]
            dtype = self.spec.result or self.spec.dtype
            write_vector(b, result, target, b.mul(stride, j * b.lanes), stride, n, dtype)


def reduce_line(
    b: LoopBuilder,
    x: Value,
    size: Index,
    neutral: float,
    combine: Callable[[Value, Value], Value],
    each: Callable[[Value], Value] = lambda value: value,
) -> Value:
    """``each`` element of x[0:size] combined, as one scalar."""
    stride = CHAINS * b.lanes
    rest = b.divmod(size, stride)[1]
    whole = b.sub(size, rest)

    def joined(acc: Carried, index: Index, lanes: Index) -> Carried:
        value = each(read_vector(b, x, index, 1, lanes))
        if lanes != b.lanes:
            value = b.b.select(b.mask_first(lanes), value, b.splat(neutral))
        return [combine(acc[0], value)]

    def rounds(start: Index, stop: Index) -> list[Value]:
        zeros = [b.splat(neutral)] * CHAINS
        with b.loop("i", start, stop, stride, carry=zeros, most=_ROUNDS) as i:
            values = [
                each(read_vector(b, x, b.add(i.index, j * b.lanes), 1, b.lanes))
                for j in range(CHAINS)
            ]
            i.yields([combine(*pair) for pair in zip(i.carried, values)])
        return list(i.results)

    accs: list[Value] = [b.splat(neutral)] * CHAINS
    if not isinstance(whole, int) or whole > _ROUNDS * stride:
        with b.loop("part", 0, whole, _ROUNDS * stride, carry=accs) as part:
            stop = b.min(b.add(part.index, _ROUNDS * stride), whole)
            found = rounds(part.index, stop)
            part.yields([combine(*pair) for pair in zip(part.carried, found)])
        accs = list(part.results)
    elif whole:
        accs = rounds(0, whole)
    ends = rest_in_chains(b, [[acc] for acc in accs], whole, rest, joined)
    first, second, third, fourth = (acc for (acc,) in ends)
    return b.reduce_lanes(combine(combine(first, second), combine(third, fourth)), combine)
