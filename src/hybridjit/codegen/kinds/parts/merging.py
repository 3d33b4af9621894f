"""Merge sort: indices in the order of their keys, stable."""

from __future__ import annotations

from collections.abc import Callable

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I1, I64, Value

# Maximum levels of merging if the call gives the number of indices.
_MOST_LEVELS = 32
Key = Callable[[Value], Value]  # the key of an index
Precedes = Callable[[Value, Value], Value]  # whether one key comes before another


def load_place(b: LoopBuilder, order: Value, index: Value) -> Value:
    """An index in an order."""
    return b.b.load(b.at(order, index, I64), typ=I64, align=8)


def merge_sort(
    b: LoopBuilder,
    orders: tuple[Value, Value],
    found: Value,
    most: Index,
    key: Key,
    precedes: Precedes,
) -> Value:
    """The order of the first ``found`` indices of ``orders[0]``, merged in runs of 1, 2, 4, ...

    orders  memory for ``most`` indices each; the result is one of them
    """
    if isinstance(most, int):
        levels: Index = max(0, (most - 1).bit_length())
    else:
        levels = b.sub(64, _leading_zeros(b, b.sub(most, 1)))
    with b.loop("level", 0, levels, carry=[*orders], most=_MOST_LEVELS) as level:
        source, target = level.carried
        run = b.b.shl(b.i64(1), level.index)
        _merge(b, found, (source, target), run, most, key, precedes)
        level.yields([target, source])
    return level.results[0]


def _leading_zeros(b: LoopBuilder, value: Value) -> Value:
    """The number of leading zero bits, of 64."""
    count = b.declare("llvm.ctlz.i64", I64, [I64, I1])
    return b.b.call(count, [value, b.bit(False)])


def _merge(
    b: LoopBuilder,
    found: Value,
    orders: tuple[Value, Value],
    run: Value,
    most: Index,
    key: Key,
    precedes: Precedes,
) -> None:
    """Merge pairs of sorted runs, index by index.

    ``left`` and ``right`` are the next positions in a pair, which begins where ``place`` is a
    multiple.
    """
    source, target = orders
    last = b.sub(found, 1)
    rounds = most if isinstance(most, int) else None

    def key_at(place: Value) -> Value:
        return key(load_place(b, source, b.min(place, last)))

    with b.loop("place", 0, found, carry=[b.i64(0), b.i64(0)], most=rounds) as place:
        inside = b.b.and_(place.index, b.sub(b.add(run, run), 1))
        starts = b.b.icmp_signed("==", inside, b.i64(0))
        begin = b.sub(place.index, inside)
        middle = b.min(b.add(begin, run), found)
        end = b.min(b.add(middle, run), found)
        left = b.b.select(starts, begin, place.carried[0])
        right = b.b.select(starts, middle, place.carried[1])
        takes_right = b.b.and_(b.less(right, end), precedes(key_at(right), key_at(left)))
        takes_right = b.b.or_(takes_right, b.b.not_(b.less(left, middle)))
        taken = load_place(b, source, b.b.select(takes_right, right, left))
        b.b.store(taken, b.at(target, place.index, I64), align=8)
        step = b.b.zext(takes_right, I64)
        place.yields([b.add(left, b.sub(1, step)), b.add(right, step)])
