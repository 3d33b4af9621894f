"""Two statistics in one pass over memory: a mean and a spread, or two sums.

Sums are computed in the data's type over chunks of a few dozen consecutive additions, and carried
in f64 over chunks. The spread of a chunk is summed about the chunk's mean, in a second pass while
the chunk is in the cache; two chunks are joined by the method of Chan, Golub and LeVeque (Am. Stat.
37(3), 1983).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS, converted, stored
from ...llvm.indices import Index
from ...llvm.types import F64, Value, constant_of
from ...math.numbers import FloatMath, float_numbers_of
from ...spec import CHAINS
from ..parts.arguments import Arguments
from ..parts.partial import read_vector, write_vector
from .emit import Across, Along, in_chains
from .partial import Carried
from .spec import PairSpec, Statistic

# Additions to one sum before it is carried on in f64: the error of a sum in f32 grows with their
# number. 64 rows of four vectors are 16 KB, which stay in the first cache for the second pass.
_CHUNK = 64

# (a sum's carried values, the loaded operands, the reference of distances) -> the next values.
_Step = Callable[[Carried, Sequence[Value], Value | None], Carried]
# ``run(step, abouts, width)``: ``width`` sums over a chunk, for each vector of results.
_Run = Callable[[_Step, Sequence[Value | None], int], list[Carried]]


def emit_pair(b: LoopBuilder, spec: PairSpec, args: Arguments) -> None:
    """Two results of x[row, kept, reduced] at [row, kept]."""
    x = [args.pointer(name) for name in ("x", "other")[: 1 + bool(spec.other)]]
    y, second = args.pointer("y"), args.pointer("second")
    about = args.pointer("about") if spec.about else None
    rows = args.integer("rows")
    reduction = (_AlongPair if spec.along else _AcrossPair)(b, spec, x, y, about, args)
    reduction.pair = _Pair(b, spec)
    reduction.second, reduction.second_strides = second, args.given(spec.second)
    reduction.emit(rows, args)


class _Pair:
    """The arithmetic of two statistics, on vectors and on scalars."""

    def __init__(self, b: LoopBuilder, spec: PairSpec) -> None:
        self.b, self.spec = b, spec
        self.has_moments = spec.how is Statistic.MOMENTS
        self.single = "float64" if spec.dtype == "float64" else "float32"

    def math(self, like: Value) -> FloatMath:
        """Arithmetic on values of the type of ``like``."""
        is_double = like.type.element == F64
        return float_numbers_of(self.b, like, "float64" if is_double else "float32")

    def read(self, base: Value, index: Index, stride: Index, lanes: Index) -> Value:
        value = read_vector(self.b, base, index, stride, lanes, self.spec.dtype)
        return converted(self.b, value, self.spec.dtype, self.single)

    def zeros(self, count: int) -> Carried:
        """Initial values of sums over a chunk."""
        kind = self.b.vector_type(element=ELEMENTS[self.single].held)
        return [constant_of(kind, 0.0)] * count

    def joined(
        self, carried: Carried, before: Value, size: Value, run: _Run, abouts: list[Value | None]
    ) -> Carried:
        """The carried pairs of ``before`` elements, joined by a chunk of ``size``, both f64."""
        pairs = [carried[i : i + 2] for i in range(0, len(carried), 2)]
        if not self.has_moments:
            found = run(self._add_products, abouts, 2)
            return [v for pair, sums in zip(pairs, found) for v in self._added(pair, sums)]
        means, weights = self._means(size, run, abouts), self._weights(before, size)
        found = run(self._add_distances, means, 2)
        return [v for each in zip(pairs, found, means) for v in self._moved(*each, weights)]

    def _weights(self, before: Value, size: Value) -> Carried:
        """n, 1 / n, 1 / m and m n / (m + n), for n elements after m; 1 for 1 / 0."""
        m = float_numbers_of(self.b, size, "float64")
        one, product = m.const(1.0), m.mul(size, before)
        some = m.max(before, one)
        return [size, m.div(one, size), m.div(one, some), m.div(product, m.add(size, before))]

    def _add_products(self, sums: Carried, x: Sequence[Value], about: Value | None) -> Carried:
        assert about is not None
        m = self.math(x[0])
        return [m.add(sums[0], x[0]), self.b.fma(x[0], m.sub(x[1], about), sums[1])]

    def _add_distances(self, sums: Carried, x: Sequence[Value], mean: Value | None) -> Carried:
        assert mean is not None
        m = self.math(x[0])
        distance = m.sub(x[0], mean)
        return [m.add(sums[0], distance), self.b.fma(distance, distance, sums[1])]

    def _means(self, size: Value, run: _Run, abouts: list[Value | None]) -> list[Value | None]:
        """The chunk's means, to a rounding or two: distances include the remaining error."""
        sums = run(lambda s, x, _: [self.math(x[0]).add(s[0], x[0])], abouts, 1)
        count = self._like(size, sums[0][0], self.single)
        return [self.math(s).div(s, count) for (s,) in sums]

    def _like(self, number: Value, like: Value, dtype: str) -> Value:
        """An f64 scalar in the type of ``like``: of its element type, in all lanes of a vector."""
        number = converted(self.b, number, "float64", dtype)
        return number if like.type.count == 1 else self.b.splat(number)

    def _wide(self, value: Value) -> Value:
        return converted(self.b, value, self.single, "float64")

    def _added(self, pair: Carried, sums: Carried) -> Carried:
        return [self.math(p).add(p, self._wide(s)) for p, s in zip(pair, sums)]

    def _moved(self, pair: Carried, sums: Carried, mean: Value | None, weights: Carried) -> Carried:
        """The sum of all elements, and their squared distances from its mean."""
        assert mean is not None
        m, b = self.math(pair[0]), self.b
        rest, squares = map(self._wide, sums)
        n, part, ahead, weight = (self._like(w, rest, "float64") for w in weights)
        # The distances from an infinite mean are NaN; the mean stays infinite.
        off = m.select(m.is_nan(rest), m.const(0.0), m.mul(rest, part))
        own = m.add(self._wide(mean), off)
        inner = m.sub(squares, m.mul(rest, off))
        apart = m.sub(own, m.mul(pair[0], ahead))
        between = m.mul(m.mul(apart, apart), weight)
        return [b.fma(own, n, pair[0]), m.add(pair[1], m.add(inner, between))]

    def results(self, pair: Carried, count: Value) -> Carried:
        """Both statistics of ``count`` elements, in the type of the results."""
        if self.has_moments:
            m = self.math(pair[0])
            n = self._like(count, pair[0], "float64")
            pair = [m.div(pair[0], n), m.max(m.div(pair[1], n), m.const(0.0))]
        return [converted(self.b, value, "float64", self.spec.dtype) for value in pair]


def _double(b: LoopBuilder, number: Index) -> Value:
    """A count as f64."""
    if isinstance(number, int):
        return constant_of(F64, float(number))
    return b.b.sitofp(number, F64)


class _AlongPair(Along):
    """Vectors along the last reduced axis; the values carried over chunks are scalars."""

    pair: _Pair
    second: Value
    second_strides: list[Index]

    def result(self, sources: list[Value], target: Value, place: list[Index]) -> None:
        b, spec = self.b, self.spec
        about = _about(self, place, b.lanes)
        start = [constant_of(F64, 0.0)] * 3
        count, *pair = self.over_outer(
            start, lambda offsets, flat: self._chunks(sources, offsets, flat, about)
        )
        others = _second(self, place)
        for value, address in zip(self.pair.results(pair, count), (target, others)):
            b.store(stored(b, value, spec.dtype), address)

    def _chunks(
        self, sources: list[Value], offsets: Sequence[Index], flat: Carried, about: Value | None
    ) -> Carried:
        """The carried values after one run of the last reduced axis."""
        b, size = self.b, self.reduced[-1]
        most = _CHUNK * CHAINS * b.lanes
        rest = b.divmod(size, most)[1]
        whole = b.sub(size, rest)

        def joined(flat: Carried, start: Index, count: Index) -> Carried:
            n = _double(b, count)
            run = partial(self._run, sources, offsets, start, count)
            found = self.pair.joined(flat[1:], flat[0], n, run, [about])
            return [b.b.fadd(flat[0], n), *found]

        if whole != 0:
            with b.loop("chunk", 0, whole, most, carry=flat) as chunk:
                chunk.yields(joined(list(chunk.carried), chunk.index, most))
            flat = list(chunk.results)
        if isinstance(rest, int):
            return joined(flat, whole, rest) if rest else flat
        with b.loop("rest", whole, size, most, carry=flat, most=1) as last:
            last.yields(joined(list(last.carried), last.index, rest))
        return list(last.results)

    def _run(
        self,
        sources: list[Value],
        offsets: Sequence[Index],
        start: Index,
        count: Index,
        step: _Step,
        abouts: Sequence[Value | None],
        width: int,
    ) -> list[Carried]:
        """Sums over ``count`` elements in chains and lanes, joined to scalars."""
        b, pair = self.b, self.pair
        steps = [strides[-1] for strides in self.reduced_strides]
        about = abouts[0]
        if about is not None and about.type.count == 1:
            about = b.splat(about)

        def taken(sums: Carried, index: Index, lanes: Index) -> Carried:
            at = zip(sources, offsets, steps)
            x = [pair.read(s, b.add(o, b.mul(index, n)), n, lanes) for s, o, n in at]
            found = step(sums, x, about)
            if lanes == b.lanes:
                return found
            return [b.b.select(b.mask_first(lanes), f, s) for f, s in zip(found, sums)]

        zeros = [pair.zeros(width) for _ in range(CHAINS)]
        chains = in_chains(b, zeros, start, count, taken, most=_CHUNK)
        return [[self._total([chain[n] for chain in chains]) for n in range(width)]]

    def _total(self, chains: Carried) -> Value:
        """Chains and their lanes as one scalar."""
        add = self.b.b.fadd
        first, second, third, fourth = chains
        return self.b.reduce_lanes(add(add(first, second), add(third, fourth)), add)


class _AcrossPair(Across):
    """Vectors across the last kept axis; a lane carries a separate result over chunks."""

    pair: _Pair
    second: Value
    second_strides: list[Index]

    def columns(
        self, sources: list[Value], target: Value, lanes: Sequence[Index], place: list[Index]
    ) -> None:
        b = self.b
        *outer, first = place
        abouts = [_about(self, [*outer, b.add(first, j * b.lanes)], n) for j, n in enumerate(lanes)]
        none = constant_of(b.vector_type(element=F64), 0.0)
        total, *pairs = self.over_outer(
            [constant_of(F64, 0.0), *[none] * (2 * len(lanes))],
            lambda offsets, flat: self._chunks(sources, offsets, flat, abouts, lanes),
        )
        sides = ((target, self.y_strides), (_second(self, place), self.second_strides))
        for j, n in enumerate(lanes):
            results = self.pair.results(pairs[2 * j : 2 * j + 2], total)
            for value, (address, strides) in zip(results, sides):
                at = b.mul(strides[-1], j * b.lanes)
                write_vector(b, value, address, at, strides[-1], n, self.spec.dtype)

    def _chunks(
        self,
        sources: list[Value],
        offsets: Sequence[Index],
        flat: Carried,
        abouts: list[Value | None],
        lanes: Sequence[Index],
    ) -> Carried:
        """The carried values after one run of the last reduced axis."""
        b, size = self.b, self.reduced[-1]

        def joined(flat: Carried, start: Index, stop: Index) -> Carried:
            n = _double(b, b.sub(stop, start))
            run = partial(self._run, sources, offsets, (start, stop), lanes)
            return [b.b.fadd(flat[0], n), *self.pair.joined(flat[1:], flat[0], n, run, abouts)]

        if isinstance(size, int) and size <= _CHUNK:
            return joined(flat, 0, size)
        most = max(1, self.spec.most // _CHUNK)
        with b.loop("chunk", 0, size, _CHUNK, carry=flat, most=most) as chunk:
            stop = b.min(b.add(chunk.index, _CHUNK), size)
            chunk.yields(joined(list(chunk.carried), chunk.index, stop))
        return list(chunk.results)

    def _run(
        self,
        sources: list[Value],
        offsets: Sequence[Index],
        span: tuple[Index, Index],
        lanes: Sequence[Index],
        step: _Step,
        abouts: Sequence[Value | None],
        width: int,
    ) -> list[Carried]:
        """Sums over a chunk, one for each lane of each vector."""
        b, pair = self.b, self.pair
        steps, along = (
            [each[-1] for each in side] for side in (self.kept_strides, self.reduced_strides)
        )
        start = pair.zeros(width * len(lanes))
        with b.loop("k", *span, carry=start, most=_CHUNK) as k:
            at = [b.add(o, b.mul(k.index, stride)) for o, stride in zip(offsets, along)]
            now: Carried = []
            for j, n in enumerate(lanes):
                places = zip(sources, at, steps)
                x = [pair.read(s, b.add(a, b.mul(t, j * b.lanes)), t, n) for s, a, t in places]
                now += step(k.carried[j * width : (j + 1) * width], x, abouts[j])
            k.yields(now)
        return [list(k.results[j * width : (j + 1) * width]) for j in range(len(lanes))]


def _about(reduction: _AlongPair | _AcrossPair, place: list[Index], lanes: Index) -> Value | None:
    """The reference values of distances at a position, one for each lane."""
    if reduction.about is None:
        return None
    b, spec, strides = reduction.b, reduction.spec, reduction.about_strides
    base = b.at(reduction.about, b.dot(place, strides), ELEMENTS[spec.dtype].stored)
    return reduction.pair.read(base, 0, 0 if spec.along else strides[-1], lanes)


def _second(reduction: _AlongPair | _AcrossPair, place: list[Index]) -> Value:
    """The address of the second result at a position."""
    b, element = reduction.b, ELEMENTS[reduction.spec.dtype].stored
    return b.at(reduction.second, b.dot(place, reduction.second_strides), element)
