"""Vectors of channels at an offset, full or partial: how kernels read operands and write results.

A ``count`` of lanes below the vector width means the last, partial vector of a row; memory beyond
it is never accessed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...._core.target import PAIRS
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS, held, stored, with_element
from ...llvm.indices import Index
from ...llvm.types import I8, I32, Pointer, Type, Value, constant_of


def read_vector(
    b: LoopBuilder, pointer: Value, index: Index, stride: Index, count: Index, dtype: str = ""
) -> Value:
    """``count`` elements from ``index`` on, ``stride`` apart; stride 0 repeats one element.

    The default ``dtype`` is that of the pointer. A count that is known only at run time requires
    strides of 0 or 1.
    """
    dtype = dtype or dtype_at(b, pointer)
    element = ELEMENTS[dtype].stored
    if stride == 0:
        raw = b.splat(b.load_scalar(pointer, index, element))
    elif not isinstance(count, int) and (stride != 1 or element != b.element):
        raw = _read_apart(b, pointer, index, stride, count, element)
    elif stride == -1 and isinstance(count, int):
        raw = _read_backwards(b, pointer, index, count, element)
    elif stride != 1 and isinstance(count, int):
        raw = b.load_strided(pointer, index, stride, count, element)
    else:
        raw = b.load_first(pointer, index, count, element)
    return held(b, raw, dtype)


def dtype_at(b: LoopBuilder, pointer: Value) -> str:
    """The element type at a pointer; that of lanes if the pointer has none."""
    return pointer.dtype if isinstance(pointer, Pointer) else b.dtype


def read_scalar(b: LoopBuilder, pointer: Value, index: Index) -> Value:
    """One element, converted to the type of a lane."""
    return held(b, b.load_scalar(pointer, index), dtype_at(b, pointer))


def read_pair(b: LoopBuilder, pointer: Value, index: Index) -> Value:
    """Two adjacent elements of 16 bits, as a word."""
    return b.b.load(b.at(pointer, index), typ=I32, align=2)


def read_quad(b: LoopBuilder, pointer: Value, index: Index) -> Value:
    """Four adjacent bytes, as a word."""
    return b.b.load(b.at(pointer, index), typ=I32, align=1)


def read_bytes(b: LoopBuilder, pointer: Value, index: Index, count: int) -> Value:
    """``count`` adjacent bytes in the low part of a word; the others are 0."""
    word = b.b.zext(b.load_scalar(pointer, index, I8), I32)
    for number in range(1, count):
        byte = b.b.zext(b.load_scalar(pointer, b.add(index, number), I8), I32)
        word = b.b.or_(word, b.b.shl(byte, ir.Constant(I32, 8 * number)))
    return word


def as_pairs(pointer: Value) -> Value:
    """The same address, of words of two elements of 16 bits."""
    return Pointer(pointer.ref, PAIRS.computed, I32)


def low_halves(b: LoopBuilder, value: Value) -> Value:
    """Words with the bits of ``value``, a bfloat16 value, in their low halves; the others are 0."""
    bits = b.b.bitcast(value, with_element(value.type, I32))
    return b.b.lshr(bits, constant_of(bits.type, 16))


def _read_backwards(
    b: LoopBuilder, pointer: Value, index: Index, count: int, element: Type
) -> Value:
    """``count`` elements that end at ``index``, the last one first."""
    raw = b.load_first(pointer, b.sub(index, count - 1), count, element)
    return b.shuffle(raw, [*reversed(range(count)), *range(count, b.lanes)])


def _read_apart(
    b: LoopBuilder, pointer: Value, index: Index, stride: Index, count: Value, element: Type
) -> Value:
    """``count`` elements ``stride`` apart, one by one; further lanes repeat the last one."""
    last, raw = b.sub(count, 1), constant_of(b.vector_type(element=element), 0)
    for lane in range(b.lanes):
        place = b.add(index, b.mul(b.min(last, lane), stride))
        one = b.load_scalar(pointer, place, element)
        raw = b.b.insert_element(raw, one, ir.Constant(I32, lane))
    return raw


def write_vector(
    b: LoopBuilder,
    value: Value,
    pointer: Value,
    index: Index,
    stride: Index,
    count: Index,
    dtype: str = "",
) -> None:
    """Write the first ``count`` lanes of ``value`` to elements ``stride`` apart."""
    raw = stored(b, value, dtype or dtype_at(b, pointer))
    if stride == 1 and (isinstance(count, int) or raw.type.element == b.element):
        b.store_first(raw, pointer, index, count)
    elif isinstance(count, int):
        b.store_strided(raw, pointer, index, stride, count)
    else:
        with b.loop("lane", 0, count, most=b.lanes) as lane:
            one = b.b.extract_element(raw, b.b.trunc(lane.index, I32))
            b.store(one, pointer, b.add(index, b.mul(lane.index, stride)))


def each_vector(
    b: LoopBuilder, count: Index, body: Callable[[Index, int], None], most: int | None = None
) -> None:
    """``body(first, lanes)`` for vectors of ``count`` elements, with constant ``lanes``: full ones,
    and the rest in chunks of a half, a quarter and so on.
    """
    whole = b.b.and_(b.i64(count), b.i64(-b.lanes))
    with b.loop("i", 0, whole, b.lanes, most=most) as i:
        body(i.index, b.lanes)
    width = b.lanes // 2
    while width:
        before = b.b.and_(b.i64(count), b.i64(-2 * width))
        with b.when(b.less(b.add(before, width - 1), count)):
            body(before, width)
        width //= 2


def whole_and_last(
    b: LoopBuilder, block: Index, blocks: Index, last: Index, body: Callable[..., None]
) -> None:
    """``body(lanes)`` for vector ``block`` of ``blocks``, the last of which has ``last`` lanes."""
    if last == b.lanes:  # never of a number of the call
        body(b.lanes)
        return
    if blocks != 1:
        with b.when(b.less(block, b.sub(blocks, 1))):
            body(b.lanes)
    with b.when(b.less(b.sub(blocks, 2), block)):
        body(last)
