"""The micro-kernel: updates a tile of results in registers, by one row of B and one value of A.

Rows of A are addresses ``x + m * row_step``, so a convolution's implicit column matrix, a dense
layer's data and Winograd's transformed tiles all serve as A. B is packed [k][nv * lanes].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from ...._core.frozen import dataclass
from ...._core.target import PAIRS, QUADS, SHORTS
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import F32, I32, Value, byte_count
from .addresses import StridedRows
from .partial import read_bytes, read_pair, read_quad, read_scalar


@dataclass(frozen=True)
class Rows:
    """The layout of A: strides of rows and of k, in elements."""

    row_step: Index
    k_step: Index


LINE_BYTES = 64


@dataclass(frozen=True)
class Operand:
    """An operand of a tile's program: its first row, its row stride, and the elements of a row."""

    pointer: Value
    row_step: Index
    columns: int

    def ask(self, b: LoopBuilder, row: Index) -> None:
        """Prefetch the lines of a row."""
        line = LINE_BYTES // byte_count(b.element_at(self.pointer))
        for column in range(0, self.columns, line):
            b.prefetch(self.pointer, b.add(b.mul(row, self.row_step), column))


@dataclass(frozen=True)
class NextTile:
    """The operands of the following code, of ``rows`` rows, prefetched row by row in ``steps`` of
    k.

    They belong to the program of the next tile, or to code after the sums of this tile, and are
    loaded from memory while products are summed. Prefetching all of them at once exceeds the fill
    buffers: 8 images of 56x56, 64 to 256 channels, with a sum of two operands, take 7.6 ms without
    prefetch, 7.1 ms with prefetch at once, and 5.0 ms row by row.
    """

    operands: tuple[Operand, ...]
    rows: int
    steps: int
    first: Index = 0

    def ask(self, b: LoopBuilder, k: Index, unroll: int) -> None:
        """Prefetch the rows for a round that begins at ``k``."""
        rounds = self.steps // unroll
        row, _ = b.divmod(b.mul(b.add(k, self.first), self.rows), rounds * unroll)
        for number in range(-(-self.rows // rounds)):
            for operand in self.operands:
                operand.ask(b, b.add(row, number))


@dataclass(frozen=True)
class Ahead:
    """Prefetch of the next weights: the address of a tile's part, and cache lines per round.

    A block of weights serves several tiles. Each tile prefetches a part of the next block while it
    computes, so that the first tile on that block does not wait for memory. ``level`` is the cache
    level of the prefetch.
    """

    pointer: Value
    lines: int
    tile: NextTile | None = None
    level: int = 2

    @staticmethod
    def lines_for(nbytes: int, unroll: int, tiles: int, least: int = 2) -> int:
        """Cache lines per round for ``tiles`` tiles to prefetch a block with rows of ``nbytes``.

        0 for fewer than ``least`` tiles.
        """
        return -(-nbytes * unroll // (LINE_BYTES * tiles)) if tiles >= least else 0

    def after(self, b: LoopBuilder, k: Index, unroll: int) -> Ahead:
        """The remaining prefetch after ``k`` steps."""
        tile = self.tile and replace(self.tile, first=b.add(self.tile.first, k))
        pointer = b.at(self.pointer, b.mul(k, self.per_step(b, unroll)))
        return replace(self, pointer=pointer, tile=tile)

    def ask(self, b: LoopBuilder, k: Index, unroll: int) -> None:
        """Prefetch in the round that begins at ``k``."""
        line = b.mul(k, self.per_step(b, unroll))
        for n in range(self.lines):
            b.prefetch(self.pointer, b.add(line, n * line_elements(b)), self.level)
        if self.tile is not None:
            self.tile.ask(b, k, unroll)

    def per_step(self, b: LoopBuilder, unroll: int) -> int:
        """Elements prefetched in one step of k."""
        return self.lines * line_elements(b) // unroll


# Steps of a partial sum, for sums with more than four times as many: a dense layer of 16,384
# positive numbers then has an error of 3e-6, NumPy's has 2e-6; with partial sums of 8,192 it is
# 1.3e-5. A multiple of every unrolling.
LONGEST = 512
# Maximum products of a plain sum; longer ones are sums of partial sums.
MOST_GIVEN = 4 * LONGEST
# Typical number of products of a network's layer, if the number is an argument.
USUAL_GIVEN = 256
# Approximate number of partial sums if the length is an argument.
_MOST_PARTS = 64


def line_elements(b: LoopBuilder) -> int:
    """Elements of a cache line."""
    return LINE_BYTES // b.target.element_bytes


def steps_of_round(b: LoopBuilder, sums: int, nv: int, unroll: int) -> int:
    """Steps of k in a round of a tile with ``sums`` sums: at most ``unroll``.

    If a tile leaves registers free, LLVM loads all weights of a round at once; with few registers
    it then spills them (measured: 4 per 40 FMAs, AVX2).
    """
    target = b.target
    if target.vector_registers >= 32 or sums >= (12 if target.has_fma else 8):
        return unroll
    fitting = (target.vector_registers - 1 - sums) // nv
    return max(1, min(unroll, 1 << max(0, fitting.bit_length() - 1)))


def is_in_pairs(b: LoopBuilder) -> bool:
    """Whether lanes hold pairs of adjacent elements of a sum."""
    return b.dtype == PAIRS.computed


def is_in_quads(b: LoopBuilder) -> bool:
    """Whether lanes hold four adjacent bytes of a sum."""
    return b.dtype == QUADS.computed


def is_in_shorts(b: LoopBuilder) -> bool:
    """Whether lanes hold two adjacent int16 of a sum."""
    return b.dtype == SHORTS.computed


@overload
def steps_of_sum(b: LoopBuilder, size: int) -> int: ...
@overload
def steps_of_sum(b: LoopBuilder, size: Index) -> Index: ...
def steps_of_sum(b: LoopBuilder, size: Index) -> Index:
    """Steps of k in a sum of ``size`` products; the last word may be partly empty.

    A size that is an argument counts single elements.
    """
    return -(-size // b.target.element.together) if isinstance(size, int) else size


def added(b: LoopBuilder, x: Value, y: Value) -> Value:
    """The sum of two sums."""
    return b.b.add(x, y) if is_in_quads(b) else b.b.fadd(x, y)


def tiles_of(
    b: LoopBuilder, rows: Index, most: int
) -> tuple[Value, Callable[[Index], tuple[Index, Index]]]:
    """The number of tiles of at most ``most`` rows, and a function for a tile's first row and
    height.

    Heights differ by at most one: a tile of few rows has few sums, so that each addition would wait
    for the previous one.
    """
    tiles = b.max(b.quotient_up(rows, most), 1)
    height, taller = b.divmod(rows, tiles)

    def start(tile: Index) -> Index:
        return b.add(b.mul(tile, height), b.min(tile, taller))

    def place(tile: Index) -> tuple[Index, Index]:
        return start(tile), b.sub(start(b.add(tile, 1)), start(tile))

    return tiles, place


def ending_in_half(
    b: LoopBuilder, vectors: Sequence[Value], last: int, half_last: bool
) -> list[Value]:
    """The initial sums of a row: the last vector is half a vector if that holds its ``last`` lanes
    and ``half_last`` is set.
    """
    if not half_last or 2 * last > b.lanes:
        return list(vectors)
    return [*vectors[:-1], b.narrowed(vectors[-1], b.lanes // 2)]


def _in_half(b: LoopBuilder, x: Value, at: Index, value: Value) -> Value:
    """x[at] in half as many lanes; ``value`` has it in all lanes.

    The value is loaded again, as a word: LLVM then merges both loads into one broadcast from
    memory; if the second vector were half of the first, it would emit two from a register.
    """
    lanes = b.lanes // 2
    if b.element_at(x) != F32:
        return b.narrowed(value, lanes)
    return b.splat_word(b.load_scalar(x, at, I32), lanes)


def rank_one(
    b: LoopBuilder,
    x: Value | Sequence[Value],
    w: Value,
    offset: Index,
    k: Index,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
    pitch: int = 0,
) -> list[Value]:
    """acc[m, v] += x[m * row_step + offset] * w[k, v] for the rows m in ``reach``.

    Words of several elements are multiplied by as many adjacent elements of x. A half vector
    is multiplied first; otherwise LLVM keeps its sums in the value's register, and spills. ``x``
    may be the addresses of all rows.
    """
    if reach[0] == reach[1]:
        return list(accs)
    lanes = [sum_.type.count for sum_ in accs[reach[0] * nv : reach[0] * nv + nv]]
    vectors = [
        b.narrowed(b.load(w, b.mul(b.add(b.mul(k, pitch or nv), j), b.lanes)), n)
        for j, n in enumerate(lanes)
    ]
    order = range(nv) if len(set(lanes)) == 1 else range(nv - 1, -1, -1)
    read, add = read_scalar, b.fma
    if is_in_pairs(b):
        read, add = read_pair, b.add_pairs
    elif is_in_quads(b):
        read, add = read_quad, b.add_quads
    elif is_in_shorts(b):
        add = b.add_shorts
    result = list(accs)
    for m in range(*reach):
        row, at = (
            (x, b.add(b.mul(m, rows.row_step), offset)) if isinstance(x, Value) else (x[m], offset)
        )
        value = b.splat(read(b, row, at))
        for j in order:
            factor = value
            if lanes[j] < b.lanes:
                factor = _in_half(b, row, at, value)
            result[m * nv + j] = add(factor, vectors[j], result[m * nv + j])
    return result


def multiply(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: Index,
    unroll: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
    ahead: Ahead | None = None,
    is_long: bool = False,
    pitch: int = 0,
    is_whole: bool = False,
) -> list[Value]:
    """acc[m, v] += sum over k < size of x[m, k] * w[k, v], ``unroll`` steps of k per round.

    A size that is an argument excludes pairs; of int16, it counts pairs. ``is_long`` states that it
    exceeds :data:`MOST_GIVEN`; ``is_whole`` that it does not, that it is a multiple of ``unroll``,
    and that the distance of rows is an argument too. A row of w has ``pitch`` vectors, or ``nv`` if
    it is 0.
    """
    sums = _Sums(b, unroll, rows, nv, reach, pitch or nv)
    if not isinstance(size, int):
        if is_whole:
            return sums.of_rounds(x, w, size, accs, ahead)
        return (sums.of_given_parts if is_long else sums.of_given)(x, w, size, accs)
    if is_in_shorts(b):
        return sums.of(x, w, size, accs, ahead)
    if is_in_quads(b):
        sums = replace(sums, rows=Rows(rows.row_step, 4))
        words, rest = divmod(size, 4)
        found = sums.of(x, w, words, accs, ahead)
        return sums.with_rest(x, w, words, rest, found) if rest else found
    if not is_in_pairs(b):
        return sums.of_parts(x, w, size, accs, ahead)
    sums = replace(sums, rows=Rows(rows.row_step, b.mul(2, rows.k_step)))
    words, rest = divmod(size, 2)
    found = sums.of_parts(x, w, words, accs, ahead)
    return sums.with_rest(x, w, words, rest, found) if rest else found


@dataclass(frozen=True)
class _Sums:
    """Sums of a tile: the rows in ``reach`` of ``nv`` vectors, ``unroll`` steps of k per round."""

    b: LoopBuilder
    unroll: int
    rows: Rows
    nv: int
    reach: tuple[int, int]
    pitch: int

    @property
    def changing(self) -> slice:
        """The sums of the rows in ``reach``.

        Loops carry only these, because the others would be copied between registers per round.
        """
        return slice(self.reach[0] * self.nv, self.reach[1] * self.nv)

    def replaced(self, accs: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """All sums, with these values of the changing ones."""
        found = list(accs)
        found[self.changing] = values
        return found

    def at(self, x: Value, w: Value, k: Index) -> tuple[Value, Value]:
        """The addresses of step ``k``."""
        b = self.b
        return b.at(x, b.mul(k, self.rows.k_step)), b.at(w, b.mul(k, self.pitch * b.lanes))

    def steps(
        self, x: Value | Sequence[Value], w: Value, ks: range, accs: Sequence[Value]
    ) -> list[Value]:
        """The sums after these steps."""
        values = list(accs)
        for k in ks:
            offset = self.b.mul(k, self.rows.k_step)
            values = rank_one(
                self.b, x, w, offset, k, self.rows, self.nv, values, self.reach, self.pitch
            )
        return values

    def of(
        self, x: Value, w: Value, size: int, accs: Sequence[Value], ahead: Ahead | None
    ) -> list[Value]:
        """acc[m, v] += sum over k < size of x[m, k] * w[k, v], in the order of k."""
        b, unroll = self.b, self.unroll
        whole = size - size % unroll
        if whole <= unroll:
            return self.steps(x, w, range(size), accs)
        with b.loop("k", 0, whole, unroll, carry=accs[self.changing]) as loop:
            place = self.at(x, w, loop.index)
            if ahead is not None:
                ahead.ask(b, loop.index, unroll)
            values = self.steps(*place, range(unroll), self.replaced(accs, loop.carried))
            loop.yields(values[self.changing])
        return self.steps(x, w, range(whole, size), self.replaced(accs, loop.results))

    def of_given(self, x: Value, w: Value, size: Value, accs: Sequence[Value]) -> list[Value]:
        """The same sum, in the same order, for a number of products that is an argument."""
        b, unroll = self.b, self.unroll
        whole = b.mul(b.b.udiv(size, b.i64(unroll)), unroll)
        done = list(accs)
        for name, start, stop, step in (("k", 0, whole, unroll), ("rest", whole, size, 1)):
            carry, most = done[self.changing], MOST_GIVEN // step
            with b.loop(name, start, stop, step, carry=carry, most=most) as loop:
                place = self.at(x, w, loop.index)
                values = self.steps(*place, range(step), self.replaced(done, loop.carried))
                loop.yields(values[self.changing])
            done = self.replaced(done, loop.results)
        return done

    def of_rounds(
        self, x: Value, w: Value, size: Value, accs: Sequence[Value], ahead: Ahead | None
    ) -> list[Value]:
        """The sum of :meth:`of` for a number of full rounds and a distance of rows that are
        arguments.
        """
        b, unroll, step = self.b, self.unroll, self.rows.row_step
        assert not isinstance(step, int), "constant distances need no bases"
        rows, carry = StridedRows.of(b, x, step, self.reach[1]), accs[self.changing]
        with b.loop("k", 0, size, unroll, carry=carry, most=USUAL_GIVEN // unroll) as loop:
            pointers = rows.pointers(b, self.reach[1], loop.index)
            weights = b.at(w, b.mul(loop.index, self.pitch * b.lanes))
            if ahead is not None:
                ahead.ask(b, loop.index, unroll)
            values = self.replaced(accs, loop.carried)
            loop.yields(self.steps(pointers, weights, range(unroll), values)[self.changing])
        return self.replaced(accs, loop.results)

    def of_parts(
        self, x: Value, w: Value, size: int, accs: Sequence[Value], ahead: Ahead | None
    ) -> list[Value]:
        """A long sum as a sum of partial sums of ``LONGEST`` steps: the error of a sum in f32 grows
        with the number of consecutive additions.
        """
        if size <= MOST_GIVEN:
            return self.of(x, w, size, accs, ahead)
        whole, carry = size - size % LONGEST, accs[self.changing]
        with self.b.loop("part", 0, whole, LONGEST, carry=carry) as loop:
            loop.yields(self._with_part(x, w, loop.index, LONGEST, loop.carried, accs, ahead))
        totals = loop.results
        if size > whole:
            totals = self._with_part(x, w, whole, size - whole, totals, accs, ahead)
        return self.replaced(accs, totals)

    def of_given_parts(self, x: Value, w: Value, size: Value, accs: Sequence[Value]) -> list[Value]:
        """As :meth:`of_parts`, for a number of products that is an argument."""
        b, carry = self.b, accs[self.changing]
        whole = b.mul(b.b.udiv(size, b.i64(LONGEST)), LONGEST)
        with b.loop("part", 0, whole, LONGEST, carry=carry, most=_MOST_PARTS) as loop:
            loop.yields(self._with_part(x, w, loop.index, LONGEST, loop.carried, accs))
        with b.loop("last", whole, size, LONGEST, carry=loop.results, most=1) as rest:
            count = b.sub(size, rest.index)
            rest.yields(self._with_part(x, w, rest.index, count, rest.carried, accs))
        return self.replaced(accs, rest.results)

    def _with_part(
        self,
        x: Value,
        w: Value,
        at: Index,
        count: Index,
        totals: Sequence[Value],
        accs: Sequence[Value],
        ahead: Ahead | None = None,
    ) -> list[Value]:
        """The totals of the changing sums, with a partial sum of ``count`` steps from ``at`` on."""
        b = self.b
        place = self.at(x, w, at)
        zeros = [b.constant(0.0, like=sum_) for sum_ in accs]
        if isinstance(count, int):
            part = self.of(*place, count, zeros, ahead and ahead.after(b, at, self.unroll))
        else:
            part = self.of_given(*place, count, zeros)
        return [b.b.fadd(*pair) for pair in zip(totals, part[self.changing])]

    def with_rest(
        self, x: Value, w: Value, words: int, count: int, accs: Sequence[Value]
    ) -> list[Value]:
        """The last ``count`` products, which fill a word in part: nothing beyond them is read."""
        b, nv = self.b, self.nv
        vectors = [b.load(w, (words * self.pitch + j) * b.lanes) for j in range(nv)]
        add = b.add_quads if is_in_quads(b) else b.add_pairs
        result = list(accs)
        for m in range(*self.reach):
            at = b.add(b.mul(m, self.rows.row_step), b.mul(words, self.rows.k_step))
            if is_in_quads(b):
                word = read_bytes(b, x, at, count)
            else:
                word = b.b.zext(b.load_scalar(x, at), I32)
            value = b.splat(word)
            for j, vector in enumerate(vectors):
                result[m * nv + j] = add(value, vector, result[m * nv + j])
        return result
