"""The micro-kernel: a tile of the result in registers, one row of B and one value of A at a time.

Rows of A are addresses ``x + m * row_step``, so a convolution's implicit column matrix, a dense
layer's data and Winograd's transformed tiles all serve as A. B is packed [k][nv * lanes].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...._core.frozen import dataclass
from ...._core.target import PAIRS, QUADS
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import F32, I32, Value, byte_count
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
    row_step: int
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

    They belong to the next tile's program, or to code after this tile's sums. They are loaded from
    memory while products are summed. Prefetched all at once they exceed the fill buffers: 8 images
    of 56x56, 64 to 256 channels, the sum of two operands, take 7.6 ms without prefetch, 7.1 all at
    once, and 5.0 row by row.
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
    """The next weights: the address of a tile's part of them, and lines to prefetch per round.

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
        """Lines per round with which ``tiles`` tiles prefetch a whole block of rows of ``nbytes``.

        0 for fewer than ``least`` tiles.
        """
        return -(-nbytes * unroll // (LINE_BYTES * tiles)) if tiles >= least else 0

    def after(self, b: LoopBuilder, k: Index, unroll: int) -> Ahead:
        """The rest of it after ``k`` steps."""
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
# Approximate number of partial sums if the call gives the length.
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


def steps_of_sum(b: LoopBuilder, size: int) -> int:
    """Steps of k in a sum of ``size`` products; the last word may be partly empty."""
    return -(-size // b.target.element.together)


def added(b: LoopBuilder, x: Value, y: Value) -> Value:
    """The sum of two sums."""
    return b.b.add(x, y) if is_in_quads(b) else b.b.fadd(x, y)


def tiles_of(
    b: LoopBuilder, rows: Index, most: int
) -> tuple[Value, Callable[[Index], tuple[Index, Index]]]:
    """The number of tiles of at most ``most`` rows, and a function for a tile's first row and
    height.

    Heights differ by at most one: a tile of few rows has few sums, each of which would wait for its
    previous addition.
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

    It is loaded again, as a word: for loads of both, LLVM emits a single broadcast from memory, but
    two from a register if the second is the first one's half.
    """
    lanes = b.lanes // 2
    if b.element_at(x) != F32:
        return b.narrowed(value, lanes)
    return b.splat_word(b.load_scalar(x, at, I32), lanes)


def rank_one(
    b: LoopBuilder,
    x: Value,
    w: Value,
    offset: Index,
    k: Index,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
) -> list[Value]:
    """acc[m, v] += x[m * row_step + offset] * w[k, v] for the rows m in ``reach``.

    Words of several elements multiply as many adjacent elements of x. If a half vector came last,
    LLVM would keep its sums in the value's register, and spill.
    """
    if reach[0] == reach[1]:
        return list(accs)
    lanes = [sum_.type.count for sum_ in accs[reach[0] * nv : reach[0] * nv + nv]]
    vectors = [
        b.narrowed(b.load(w, b.mul(b.add(b.mul(k, nv), j), b.lanes)), n)
        for j, n in enumerate(lanes)
    ]
    order = range(nv) if len(set(lanes)) == 1 else range(nv - 1, -1, -1)
    read, add = read_scalar, b.fma
    if is_in_pairs(b):
        read, add = read_pair, b.add_pairs
    elif is_in_quads(b):
        read, add = read_quad, b.add_quads
    result = list(accs)
    for m in range(*reach):
        at = b.add(b.mul(m, rows.row_step), offset)
        value = b.splat(read(b, x, at))
        for j in order:
            factor = value
            if lanes[j] < b.lanes:
                factor = _in_half(b, x, at, value)
            result[m * nv + j] = add(factor, vectors[j], result[m * nv + j])
    return result


def _add_single(
    b: LoopBuilder,
    x: Value,
    w: Value,
    pairs: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
) -> list[Value]:
    """The last of an odd number of products, without access to the missing element of x."""
    vectors = [b.load(w, (pairs * nv + j) * b.lanes) for j in range(nv)]
    result = list(accs)
    for m in range(*reach):
        at = b.add(b.mul(m, rows.row_step), b.mul(pairs, rows.k_step))
        bits = b.load_scalar(x, at)
        value = b.splat(b.b.zext(bits, I32))
        for j, vector in enumerate(vectors):
            result[m * nv + j] = b.add_pairs(value, vector, result[m * nv + j])
    return result


def _add_rest(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
) -> list[Value]:
    """The last one to three of ``size`` products of bytes, without access to bytes beyond them."""
    quads, count = divmod(size, 4)
    vectors = [b.load(w, (quads * nv + j) * b.lanes) for j in range(nv)]
    result = list(accs)
    for m in range(*reach):
        at = b.add(b.mul(m, rows.row_step), 4 * quads)
        value = b.splat(read_bytes(b, x, at, count))
        for j, vector in enumerate(vectors):
            result[m * nv + j] = b.add_quads(value, vector, result[m * nv + j])
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
) -> list[Value]:
    """acc[m, v] += sum over k < size of x[m, k] * w[k, v], ``unroll`` steps of k per round.

    A size that the call gives excludes pairs; ``is_long`` says whether it is more than
    :data:`MOST_GIVEN`.
    """
    if not isinstance(size, int):
        given = _sum_of_given if is_long else _sum_given
        return given(b, x, w, size, unroll, rows, nv, accs, reach)
    if is_in_quads(b):
        words = Rows(rows.row_step, 4)
        sums = _sum(b, x, w, size // 4, unroll, words, nv, accs, reach, ahead)
        return _add_rest(b, x, w, size, rows, nv, sums, reach) if size % 4 else sums
    if not is_in_pairs(b):
        return _sum_of_sums(b, x, w, size, unroll, rows, nv, accs, reach, ahead)
    pairs, step = size // 2, b.mul(2, rows.k_step)
    rows = Rows(rows.row_step, step)
    sums = _sum_of_sums(b, x, w, pairs, unroll, rows, nv, accs, reach, ahead)
    return _add_single(b, x, w, pairs, rows, nv, sums, reach) if size % 2 else sums


def _sum_of_sums(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: int,
    unroll: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
    ahead: Ahead | None,
) -> list[Value]:
    """A long sum as a sum of partial sums of ``LONGEST`` steps: the error of a sum in f32 grows
    with the number of consecutive additions.
    """
    if size <= MOST_GIVEN:
        return _sum(b, x, w, size, unroll, rows, nv, accs, reach, ahead)
    whole = size - size % LONGEST
    first, last = reach[0] * nv, reach[1] * nv
    zeros = [b.constant(0.0, like=sum_) for sum_ in accs]

    def added(totals: Sequence[Value], at: Index, count: int) -> list[Value]:
        place = (b.at(x, b.mul(at, rows.k_step)), b.at(w, b.mul(at, nv * b.lanes)))
        following = ahead and ahead.after(b, at, unroll)
        part = _sum(b, *place, count, unroll, rows, nv, zeros, reach, following)
        return [b.b.fadd(*pair) for pair in zip(totals, part[first:last])]

    with b.loop("part", 0, whole, LONGEST, carry=accs[first:last]) as loop:
        loop.yields(added(loop.carried, loop.index, LONGEST))
    totals = loop.results
    if size > whole:
        totals = added(totals, whole, size - whole)
    return [*accs[:first], *totals, *accs[last:]]


def _sum(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: int,
    unroll: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
    ahead: Ahead | None,
) -> list[Value]:
    """acc[m, v] += sum over k < size of x[m, k] * w[k, v], in the order of k."""
    whole = size - size % unroll
    done = list(accs)
    first, last = reach[0] * nv, reach[1] * nv
    if whole > unroll:
        # Only changing sums are carried: others would be copied in registers in each round.
        with b.loop("k", 0, whole, unroll, carry=done[first:last]) as loop:
            xk = b.at(x, b.mul(loop.index, rows.k_step))
            wk = b.at(w, b.mul(loop.index, nv * b.lanes))
            values = [*done[:first], *loop.carried, *done[last:]]
            if ahead is not None:
                ahead.ask(b, loop.index, unroll)
            for u in range(unroll):
                values = rank_one(b, xk, wk, b.mul(u, rows.k_step), u, rows, nv, values, reach)
            loop.yields(values[first:last])
        done[first:last] = loop.results
    else:
        whole = 0
    for k in range(whole, size):
        done = rank_one(b, x, w, b.mul(k, rows.k_step), k, rows, nv, done, reach)
    return done


def _sum_given(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: Value,
    unroll: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
) -> list[Value]:
    """The same sum, in the same order, for a number of products that the call gives."""
    whole = b.mul(b.b.udiv(size, b.i64(unroll)), unroll)
    first, last = reach[0] * nv, reach[1] * nv
    carry = list(accs[first:last])
    for name, start, stop, step in (("k", 0, whole, unroll), ("rest", whole, size, 1)):
        with b.loop(name, start, stop, step, carry=carry, most=MOST_GIVEN // step) as loop:
            xk = b.at(x, b.mul(loop.index, rows.k_step))
            wk = b.at(w, b.mul(loop.index, nv * b.lanes))
            values = [*accs[:first], *loop.carried, *accs[last:]]
            for u in range(step):
                values = rank_one(b, xk, wk, b.mul(u, rows.k_step), u, rows, nv, values, reach)
            loop.yields(values[first:last])
        carry = loop.results
    return [*accs[:first], *carry, *accs[last:]]


def _sum_of_given(
    b: LoopBuilder,
    x: Value,
    w: Value,
    size: Value,
    unroll: int,
    rows: Rows,
    nv: int,
    accs: Sequence[Value],
    reach: tuple[int, int],
) -> list[Value]:
    """As :func:`_sum_of_sums`, for a number of products given by the call."""
    whole = b.mul(b.b.udiv(size, b.i64(LONGEST)), LONGEST)
    first, last = reach[0] * nv, reach[1] * nv
    zeros = [b.constant(0.0, like=sum_) for sum_ in accs]

    def added(totals: Sequence[Value], at: Index, count: Index) -> list[Value]:
        place = (b.at(x, b.mul(at, rows.k_step)), b.at(w, b.mul(at, nv * b.lanes)))
        if isinstance(count, int):
            part = _sum(b, *place, count, unroll, rows, nv, zeros, reach, None)
        else:
            part = _sum_given(b, *place, count, unroll, rows, nv, zeros, reach)
        return [b.b.fadd(*pair) for pair in zip(totals, part[first:last])]

    with b.loop("part", 0, whole, LONGEST, carry=accs[first:last], most=_MOST_PARTS) as loop:
        loop.yields(added(loop.carried, loop.index, LONGEST))
    with b.loop("last", whole, size, LONGEST, carry=loop.results, most=1) as rest:
        rest.yields(added(rest.carried, rest.index, b.sub(size, rest.index)))
    return [*accs[:first], *rest.results, *accs[last:]]
