"""Checks of a call's arguments before any byte is written.

Input: pointers and sizes, unchecked. Output: an error code, or 0.
"""

from __future__ import annotations

from ..codegen.emit.pool_memory import load_slot
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I32, I64, PTR, Value
from .functions import Emitter, code, is_null, number_of, return_failure, return_when
from .interface import (
    ALIGNMENT,
    BATCH,
    MISALIGNED,
    NO_ARRAY,
    NULL,
    OVERLAP,
    ROOM,
    SIZE,
    Interface,
)


def emit_checks(emitter: Emitter, interface: Interface) -> None:
    """Emit all functions of this module."""
    emitter.numbers("array_bytes", [a.nbytes for a in interface.arrays])
    emit_array_checks(emitter, interface)
    _emit_check(emitter, interface)


def emit_array_checks(emitter: Emitter, interface: Interface) -> None:
    """Emit the functions that check arrays and workspaces of known sizes."""
    emitter.numbers("masks", [a.dtype.itemsize - 1 for a in interface.arrays])
    _emit_check_array(emitter)
    _emit_is_apart(emitter)
    _emit_check_apart(emitter, interface)
    _emit_check_room(emitter)


def _emit_check_array(emitter: Emitter) -> None:
    """int check_array(array, number, wanted): check the bytes, the pointer and its alignment."""
    lb, (array, number, wanted) = emitter.function("check_array", I32, [PTR, I64, I64])
    b = lb.b
    start, nbytes = load_slot(lb, array, 0), load_slot(lb, array, 1)
    mask = load_slot(lb, emitter.known("masks"), number)
    zero = lb.i64(0)
    place = b.shl(number, lb.i64(8))

    def refuse(condition: Value, kind: int) -> None:
        with lb.when(condition):
            b.ret(b.trunc(b.or_(place, lb.i64(kind)), I32))

    refuse(b.icmp_signed("!=", nbytes, wanted), SIZE)
    is_missing = b.and_(b.icmp_signed("==", start, zero), b.icmp_signed("!=", wanted, zero))
    refuse(is_missing, NO_ARRAY)
    refuse(b.icmp_signed("!=", b.and_(start, mask), zero), MISALIGNED)
    b.ret(code(0))


def _emit_is_apart(emitter: Emitter) -> None:
    """i64 is_apart(start, bytes, other start, other bytes): whether two ranges are disjoint."""
    lb, (start, nbytes, other, others) = emitter.function("is_apart", I64, [I64] * 4)
    b = lb.b
    before = b.icmp_unsigned("<=", lb.add(start, nbytes), other)
    after = b.icmp_unsigned("<=", lb.add(other, others), start)
    empty = lb.less(lb.min(nbytes, others), 1)
    b.ret(b.zext(b.or_(b.or_(before, after), empty), I64))


def _emit_check_apart(emitter: Emitter, interface: Interface) -> None:
    """int check_apart(inputs, outputs, workspace, bytes): refuse written memory that overlaps.

    Outputs and the workspace are written. Each array is compared with the workspace and with all
    later outputs.
    """
    lb, args = emitter.function("check_apart", I32, [PTR, PTR, PTR, I64])
    inputs, outputs, workspace, room = args
    b = lb.b
    count, first = len(interface.arrays), len(interface.inputs)
    array_at, is_apart = emitter.known("array_at"), emitter.known("is_apart")
    with lb.loop("array", 0, count) as array:
        one = b.call(array_at, [inputs, outputs, array.index])
        extent = [load_slot(lb, one, 0), load_slot(lb, one, 1)]
        place = b.trunc(b.or_(b.shl(array.index, lb.i64(8)), lb.i64(OVERLAP)), I32)
        apart = b.call(is_apart, [*extent, number_of(lb, workspace), room])
        with lb.when(b.icmp_signed("==", apart, lb.i64(0))):
            b.ret(place)
        with lb.loop("output", lb.max(lb.add(array.index, 1), first), count) as output:
            other = b.call(array_at, [inputs, outputs, output.index])
            others = [load_slot(lb, other, 0), load_slot(lb, other, 1)]
            apart = b.call(is_apart, [*extent, *others])
            with lb.when(b.icmp_signed("==", apart, lb.i64(0))):
                b.ret(place)
    b.ret(code(0))


def _emit_check_room(emitter: Emitter) -> None:
    """int check_room(workspace, bytes, wanted): check the caller's workspace, if it is given."""
    lb, (workspace, nbytes, wanted) = emitter.function("check_room", I32, [PTR, I64, I64])
    b = lb.b
    with lb.when(is_null(lb, workspace)):
        return_when(lb, b.icmp_signed("!=", nbytes, lb.i64(0)), ROOM)
        b.ret(code(0))
    return_when(lb, b.icmp_unsigned("<", nbytes, wanted), ROOM)
    off = b.and_(number_of(lb, workspace), lb.i64(ALIGNMENT - 1))
    return_when(lb, b.icmp_signed("!=", off, lb.i64(0)), ROOM)
    b.ret(code(0))


def _emit_check(emitter: Emitter, interface: Interface) -> None:
    """int check(context, inputs, outputs, batch, workspace, bytes): check all arguments."""
    lb, args = emitter.function("check", I32, [PTR, PTR, PTR, I64, PTR, I64])
    context, inputs, outputs, batch, workspace, room = args
    b = lb.b
    for pointer in (context, inputs, outputs):
        return_when(lb, is_null(lb, pointer), NULL)
    return_when(lb, b.icmp_signed("<", batch, lb.i64(1)), BATCH)
    return_when(lb, b.icmp_signed(">", batch, lb.i64(interface.max_batch)), BATCH)
    wanted = b.call(emitter.known("workspace_size"), [context])
    return_failure(lb, b.call(emitter.known("check_room"), [workspace, room, wanted]))
    with lb.loop("array", 0, len(interface.arrays)) as array:
        given = b.call(emitter.known("array_at"), [inputs, outputs, array.index])
        nbytes = lb.mul(load_slot(lb, emitter.known("array_bytes"), array.index), batch)
        words = [given, array.index, lb.i64(nbytes)]
        return_failure(lb, b.call(emitter.known("check_array"), words))
    b.ret(apart_from(emitter, lb, inputs, outputs, workspace, wanted))


def apart_from(
    emitter: Emitter,
    lb: LoopBuilder,
    inputs: Value,
    outputs: Value,
    workspace: Value,
    wanted: Value,
) -> Value:
    """Call ``check_apart`` with the bytes of a workspace that a call uses, however many there are:
    the end of the range does not wrap."""
    used = lb.b.select(is_null(lb, workspace), lb.i64(0), wanted)
    return lb.b.call(emitter.known("check_apart"), [inputs, outputs, workspace, used])
