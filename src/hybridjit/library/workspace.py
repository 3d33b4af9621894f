"""Workspaces: the memory that a call writes besides its outputs.

Calls with different workspaces are independent. ``prepare`` fills a workspace, ``connect`` inserts
the array addresses of a round, ``walk`` calls the kernels.
"""

from __future__ import annotations

from ..codegen.emit.driver import KERNEL
from ..codegen.emit.pool_memory import STEP_SLOTS, load_slot, slot_at
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I8, I32, I64, PTR, VOID, Value
from .functions import Emitter, address, fields, number_of, put, table_of, whole_lines
from .layout import (
    ARENA,
    BASES,
    CALL_ROW,
    CALLS,
    FLAG,
    IN_ARENA,
    IN_SCRATCH,
    IN_SHARED,
    IN_STATE,
    IN_WEIGHTS,
    IS_SMALL,
    IS_SMALL_CALL,
    PATCH_ROW,
    PATCHES,
    RELOCATION_ROW,
    RELOCATIONS,
    SCRATCH,
    SHARED,
    SLOTS,
    STATE,
    STEPS,
    THREAD_COUNT,
    VARIANT,
    WEIGHTS,
)


def emit_walking(emitter: Emitter, inputs: int) -> None:
    """Emit the functions of every library; the first ``inputs`` arrays of a call are its inputs."""
    _emit_go_on(emitter)
    _emit_array_at(emitter, inputs)
    _emit_walk(emitter)


def emit_workspace(emitter: Emitter) -> None:
    """Emit the functions for workspaces of constant size."""
    _emit_arguments(emitter)
    _emit_memory(emitter)
    _emit_size(emitter)
    _emit_bases(emitter)
    _emit_prepare(emitter)
    _emit_connect(emitter)


def _emit_go_on(emitter: Emitter) -> None:
    """i64 go_on(poll): polled by kernels; always 0, because nothing stops a call."""
    lb, _ = emitter.function("go_on", I64, [PTR])
    lb.b.ret(lb.i64(0))


def _emit_arguments(emitter: Emitter) -> None:
    """i64 arguments(variant): byte offset of the kernels' arguments in a workspace."""
    lb, (variant,) = emitter.function("arguments", I64, [PTR])
    steps = lb.mul(load_slot(lb, variant, CALLS), 8 * STEP_SLOTS)
    lb.b.ret(whole_lines(lb, lb.add(steps, 8 * STEPS)))


def _emit_memory(emitter: Emitter) -> None:
    """i64 memory(variant): byte offset of the working memory: per thread, shared, then the
    arena."""
    lb, (variant,) = emitter.function("memory", I64, [PTR])
    first = lb.b.call(emitter.known("arguments"), [variant])
    slots = lb.mul(load_slot(lb, variant, SLOTS), 8)
    lb.b.ret(whole_lines(lb, lb.add(first, slots)))


def _emit_size(emitter: Emitter) -> None:
    """i64 workspace_bytes(context)."""
    lb, (context,) = emitter.function("workspace_size", I64, [PTR])
    variant = load_slot(lb, context, VARIANT, PTR)
    first = lb.b.call(emitter.known("memory"), [variant])
    working = _working_bytes(lb, context, variant)
    arena = whole_lines(lb, load_slot(lb, variant, ARENA))
    lb.b.ret(lb.add(lb.add(first, working), arena))


def _of_threads(lb: LoopBuilder, context: Value, variant: Value) -> Value:
    return lb.mul(load_slot(lb, variant, SCRATCH), load_slot(lb, context, THREAD_COUNT))


def _working_bytes(lb: LoopBuilder, context: Value, variant: Value) -> Value:
    """Size of the working memory, per thread and shared, in whole cache lines."""
    both = lb.add(_of_threads(lb, context, variant), load_slot(lb, variant, SHARED))
    return whole_lines(lb, both)


def _emit_bases(emitter: Emitter) -> None:
    """void bases(context, workspace, bases): compute the bases of relocations."""
    lb, (context, workspace, bases) = emitter.function("bases", VOID, [PTR, PTR, PTR])
    variant = load_slot(lb, context, VARIANT, PTR)
    start = number_of(lb, workspace)
    scratch = lb.add(start, lb.b.call(emitter.known("memory"), [variant]))
    found = {
        IN_ARENA: lb.add(scratch, _working_bytes(lb, context, variant)),
        IN_WEIGHTS: load_slot(lb, context, WEIGHTS),
        IN_SCRATCH: scratch,
        IN_SHARED: lb.add(scratch, _of_threads(lb, context, variant)),
        IN_STATE: load_slot(lb, context, STATE),
    }
    for base in BASES:
        put(lb, bases, base, found.get(base, lb.add(start, 8 * FLAG)))
    lb.b.ret_void()


def _emit_prepare(emitter: Emitter) -> None:
    """void prepare(context, workspace): fill a workspace, except for the call's arrays.

    Working memory is zeroed before the first step, as for calls from Python.
    """
    lb, (context, workspace) = emitter.function("prepare", VOID, [PTR, PTR])
    b = lb.b
    variant = load_slot(lb, context, VARIANT, PTR)
    bases = b.alloca(I64, len(BASES))
    b.call(emitter.known("bases"), [context, workspace, bases])
    first = b.call(emitter.known("arguments"), [variant])
    slots = b.gep(workspace, [first], source_etype=I8)
    count, image = table_of(lb, variant, SLOTS)
    copy = lb.declare("memcpy", PTR, [PTR, PTR, I64])
    clear = lb.declare("memset", PTR, [PTR, I32, I64])
    b.call(copy, [slots, image, lb.i64(lb.mul(count, 8))])
    zero = b.trunc(lb.i64(0), I32)
    b.call(clear, [workspace, zero, lb.i64(8 * STEPS)])
    working = _working_bytes(lb, context, variant)
    b.call(clear, [address(lb, load_slot(lb, bases, IN_SCRATCH)), zero, working])
    put(lb, workspace, 0, emitter.known("go_on"))
    put(lb, workspace, IS_SMALL_CALL, load_slot(lb, variant, IS_SMALL))
    rows, relocations = table_of(lb, variant, RELOCATIONS)
    with lb.loop("relocation", 0, rows) as row:
        slot, base, offset = fields(lb, relocations, row.index, RELOCATION_ROW)
        put(lb, slots, slot, lb.add(load_slot(lb, bases, base), offset))
    rows, calls = table_of(lb, variant, CALLS)
    with lb.loop("call", 0, rows) as row:
        kernel, slot = fields(lb, calls, row.index, CALL_ROW)
        step = lb.add(lb.mul(row.index, STEP_SLOTS), STEPS)
        put(lb, workspace, step, kernel)
        put(lb, workspace, lb.add(step, 1), number_of(lb, slot_at(lb, slots, slot)))
        put(lb, workspace, lb.add(step, 2), lb.i64(0))
    b.ret_void()


def _emit_array_at(emitter: Emitter, inputs: int) -> None:
    """ptr array_at(inputs, outputs, number): address of an array's record: pointer and bytes."""
    lb, (given, made, number) = emitter.function("array_at", PTR, [PTR, PTR, I64])
    is_input = lb.less(number, inputs)
    base = lb.b.select(is_input, given, made)
    place = lb.b.select(is_input, number, lb.sub(number, inputs))
    lb.b.ret(slot_at(lb, base, lb.mul(place, 2)))


def _emit_connect(emitter: Emitter) -> None:
    """void connect(variant, workspace, inputs, outputs, round): insert a round's arrays."""
    kinds = [PTR, PTR, PTR, PTR, I64]
    lb, args = emitter.function("connect", VOID, kinds)
    variant, workspace, inputs, outputs, number = args
    b = lb.b
    first = b.call(emitter.known("arguments"), [variant])
    slots = b.gep(workspace, [first], source_etype=I8)
    rows, patches = table_of(lb, variant, PATCHES)
    with lb.loop("patch", 0, rows) as row:
        slot, array, offset, nbytes = fields(lb, patches, row.index, PATCH_ROW)
        start = load_slot(lb, b.call(emitter.known("array_at"), [inputs, outputs, array]), 0)
        put(lb, slots, slot, lb.add(lb.add(start, offset), lb.mul(nbytes, number)))
    b.ret_void()


def _emit_walk(emitter: Emitter) -> None:
    """void walk(workspace, first, last): run these steps in order on the calling thread."""
    lb, (workspace, first, last) = emitter.function("walk", VOID, [PTR, I64, I64])
    with lb.loop("step", first, last) as step:
        row = lb.add(lb.mul(step.index, STEP_SLOTS), STEPS)
        kernel = load_slot(lb, workspace, row, KERNEL.as_pointer())
        arguments = load_slot(lb, workspace, lb.add(row, 1), PTR)
        lb.b.call(kernel, [arguments, lb.i64(0), lb.i64(1), workspace])
    lb.b.ret_void()
