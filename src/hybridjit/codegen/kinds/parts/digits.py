"""Radix sort: indices in the order of integer keys, stable."""

from __future__ import annotations

from collections.abc import Callable

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import I32, I64, Value, byte_count, constant_of
from ...math.numbers import float_numbers_of, is_integer

DIGITS = 256  # values of a digit of eight bits; 8 is 2**3


def key_of(b: LoopBuilder, x: Value, dtype: str, ascending: bool) -> Value:
    """An unsigned key of a number; zeros of either sign are equal, NaN is the largest."""
    kind = I64 if byte_count(b.element) == 8 else I32
    top = constant_of(kind, 1 << (kind.width - 1))
    if is_integer(dtype):
        key = b.b.xor(x, top)
        key = key if ascending else b.b.not_(key)
        return key if kind is I64 else b.b.zext(key, I64)
    numbers = float_numbers_of(b, b.number(0), dtype)
    zero = b.number(0)
    raw = b.b.bitcast(b.b.select(numbers.eq(x, zero), zero, x), kind)
    sign = b.b.ashr(raw, constant_of(kind, kind.width - 1))
    key = b.b.xor(raw, b.b.or_(sign, top))
    key = key if ascending else b.b.not_(key)
    key = b.b.select(numbers.ne(x, x), constant_of(kind, -1), key)
    return key if kind is I64 else b.b.zext(key, I64)


def digit_sort(
    b: LoopBuilder, orders: tuple[Value, Value], count: Index, key: Callable[[Value], Value]
) -> Value:
    """The order of ``count`` indices by their keys, unsigned 64-bit integers.

    orders  memory for ``count`` indices each; the second is followed by memory for two rows of keys
            and for ``DIGITS`` counts, 8 bytes each

    The result is one of the orders.
    """
    keys = b.at(orders[1], count, I64), b.at(orders[1], b.mul(2, count), I64)
    counts = b.at(orders[1], b.mul(3, count), I64)
    digits = byte_count(b.element)
    with b.loop("place", 0, count) as place:
        _put(b, orders[0], place.index, place.index)
        _put(b, keys[0], place.index, key(place.index))
    carry = [orders[0], keys[0], orders[1], keys[1]]
    with b.loop("digit", 0, digits, carry=carry) as digit:
        shift = b.b.shl(digit.index, b.i64(3))
        _pass(b, digit.carried, counts, count, shift)
        digit.yields([*digit.carried[2:], *digit.carried[:2]])
    return digit.results[0]


def _pass(b: LoopBuilder, places: list[Value], counts: Value, count: Index, shift: Value) -> None:
    """Move indices and keys after all those with a lower digit, in their order."""
    order, keys, order_out, keys_out = places

    def digit_of(key: Value) -> Value:
        return b.b.and_(b.b.lshr(key, shift), b.i64(DIGITS - 1))

    with b.loop("bin", 0, DIGITS) as clear:
        _put(b, counts, clear.index, b.i64(0))
    with b.loop("counted", 0, count) as place:
        digit = digit_of(_get(b, keys, place.index))
        _put(b, counts, digit, b.add(_get(b, counts, digit), 1))
    with b.loop("bin", 0, DIGITS, carry=[b.i64(0)]) as bins:
        (before,) = bins.carried
        here = _get(b, counts, bins.index)
        _put(b, counts, bins.index, before)
        bins.yields([b.add(before, here)])
    with b.loop("moved", 0, count) as place:
        key = _get(b, keys, place.index)
        digit = digit_of(key)
        target = _get(b, counts, digit)
        _put(b, counts, digit, b.add(target, 1))
        _put(b, order_out, target, _get(b, order, place.index))
        _put(b, keys_out, target, key)


def _get(b: LoopBuilder, base: Value, index: Value) -> Value:
    return b.b.load(b.at(base, index, I64), typ=I64, align=8)


def _put(b: LoopBuilder, base: Value, index: Value, value: Value) -> None:
    b.b.store(value, b.at(base, index, I64), align=8)
