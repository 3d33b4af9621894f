"""Transposition of filters, which are rows in memory, a square at a time.

A square has as many elements of as many filters as a vector has lanes. It is read along the filters
and written across them, without loads or stores of single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...._core.frozen import dataclass
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I32, Value
from .partial import read_vector


@dataclass(frozen=True)
class Digits:
    """The index of element q of a filter: k(q) = q % minor * k_minor + q // minor * k_major.

    k(q) = q * k_minor if ``minor`` is None.
    """

    k_minor: Index
    minor: Index | None = None
    k_major: Index = 0


def transpose_rows(
    b: LoopBuilder,
    rows: Sequence[Value],
    known: Sequence[Value],
    size: Index,
    digits: Digits,
    store: Callable[[Value, Index], None],
    most: int | None = None,
) -> None:
    """``store(vector, k)`` for ``size`` elements, at least a vector, of the filters at ``rows``.

    Filters that are not ``known`` are zeros. There are at most ``most`` squares.
    """
    with b.loop("q", 0, size, b.lanes, most=most) as q:
        # The last vector begins where it is full: some elements are written twice.
        at = b.min(q.index, b.sub(size, b.lanes))
        read = [read_vector(b, row, at, 1, b.lanes) for row in rows]
        zeros = b.constant(0, read[0])
        square = [b.b.select(is_one, vector, zeros) for vector, is_one in zip(read, known)]
        transpose_square(b, square, at, digits, store)


def transpose_square(
    b: LoopBuilder,
    square: Sequence[Value],
    at: Index,
    digits: Digits,
    store: Callable[[Value, Index], None],
) -> None:
    """``store(vector, k)`` for the elements from ``at`` on; ``square`` has a vector per filter."""
    minor, k_minor, k_major = digits.minor, digits.k_minor, digits.k_major
    vectors = transposed(b, square)
    if minor is None:
        for q, vector in enumerate(vectors):
            store(vector, b.mul(b.add(at, q), k_minor))
        return
    high, low = b.divmod(at, minor)
    k = b.add(b.mul(low, k_minor), b.mul(high, k_major))
    over = b.sub(k_major, b.mul(b.sub(minor, 1), k_minor))
    for vector in vectors:
        store(vector, k)
        low = b.add(low, 1)
        is_over = b.b.icmp_signed("==", b.i64(low), b.i64(minor))
        k = b.add(k, b.b.select(is_over, b.i64(over), b.i64(k_minor)))
        low = b.b.select(is_over, b.i64(0), b.i64(low))


def transposed(b: LoopBuilder, rows: Sequence[Value]) -> list[Value]:
    """result[i] lane j = rows[j] lane i: squares off the diagonal are swapped, 1 x 1 first."""
    square = list(rows)
    for side in _sides(len(square)):
        for i in range(len(square)):
            if not i & side:
                square[i], square[i + side] = _swapped(b, square[i], square[i + side], side)
    return square


def transpose_in_memory(b: LoopBuilder, square: Value) -> None:
    """Transpose a square of full vectors at this address, in loops over pairs of rows.

    LLVM takes 3 ms for it, and 15 ms for a square of 16 in registers, which is as fast.
    """
    for side in _sides(b.lanes):
        with b.loop("pair", 0, b.lanes // 2) as pair:
            # The rows of a pair are ``side`` apart; pairs fill groups of twice as many rows.
            i = b.sub(b.mul(pair.index, 2), b.b.and_(pair.index, b.i64(side - 1)))
            place = b.mul(i, b.lanes)
            other = b.add(place, side * b.lanes)
            one, two = _swapped(b, b.load(square, place), b.load(square, other), side)
            b.store(one, square, place)
            b.store(two, square, other)


def _sides(lanes: int) -> list[int]:
    """The sides of the squares that are swapped, for rows of a power of two elements."""
    return [1 << bit for bit in range(lanes.bit_length() - 1)]


def _swapped(b: LoopBuilder, x: Value, y: Value, side: int) -> tuple[Value, Value]:
    """Two rows ``side`` apart with their squares off the diagonal swapped."""
    count = x.type.count
    low = [lane if not lane & side else count + lane - side for lane in range(count)]
    high = [lane + side if not lane & side else count + lane for lane in range(count)]
    first, second = (ir.Constant(ir.VectorType(I32, count), each) for each in (low, high))
    return b.b.shuffle_vector(x, y, first), b.b.shuffle_vector(x, y, second)
