"""Functions of a library whose sizes are arguments of its calls.

A call locates the part for its sizes, evaluates the part's instructions, and fills the workspace:
the kernels with their arguments. All of this is in a *frame* on the stack, see :mod:`.layout`.
"""

from __future__ import annotations

from .._core.symbolic.instructions import Operation
from ..codegen.emit.pool_memory import STEP_SLOTS, load_slot, slot_at
from ..codegen.emit.size_operations import emit_operate, is_beyond
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I8, I32, I64, PTR, VOID, Value
from ..runtime.executable import WORTH_SHARING
from .checks import apart_from, emit_array_checks
from .cover import REFUSED as FIRST_REFUSED
from .entries import emit_calls, emit_common, emit_new_memory
from .functions import (
    Emitter,
    code,
    fields,
    is_null,
    number_of,
    put,
    return_failure,
    return_when,
    whole_lines,
)
from .interface import BATCH, BOUND, DATA, MAX_BYTES, MEMORY, NULL, REFUSED, Interface
from .layout import (
    ARENA_AT,
    AT_FLAG,
    BATCH_SIZE,
    CALLS_OF_PART,
    FIRST_ARRAY,
    FIRST_BASE,
    FLAG,
    IN_ARENA,
    IN_SCRATCH,
    IN_SHARED,
    IN_STATE,
    IN_WEIGHTS,
    INSTRUCTIONS,
    IS_SMALL_CALL,
    NOTHING,
    OWN,
    OWN_BYTES,
    PART,
    PART_ARRAYS,
    PART_CALL_ROW,
    PART_NUMBERS,
    PART_SHAPES,
    PART_SIZES,
    PART_SLOT_ROW,
    PART_SLOTS,
    PARTS,
    ROOM,
    SCRATCH_AT,
    SHARED_AT,
    SLOTS_AT,
    SMALL,
    STEP_COUNT,
    STEPS,
    THREAD_COUNT,
    VARIANT,
    WEIGHTS,
)


def emit_sized_entries(
    emitter: Emitter, interface: Interface, variants: Value, registers: int
) -> None:
    """Emit all functions. ``registers`` is the largest number of registers of a part."""
    emit_new_memory(emitter)
    first = FIRST_BASE + FIRST_ARRAY + len(interface.arrays)
    _emit_locate(emitter, interface)
    _emit_evaluate(emitter, interface, first)
    _emit_measure(emitter, interface, first)
    emit_common(emitter, interface, variants)
    emit_array_checks(emitter, interface)
    _emit_fill(emitter, interface, first)
    _emit_check(emitter, interface, first)
    _emit_make_own(emitter)
    _emit_rounds(emitter)
    frame = first + registers
    _emit_shapes(emitter, interface, first, frame)
    _emit_run(emitter, frame)


def _emit_locate(emitter: Emitter, interface: Interface) -> None:
    """int locate(context, sizes, frame): find the part for these sizes."""
    lb, (context, sizes, frame) = emitter.function("locate", I32, [PTR, PTR, PTR])
    b = lb.b
    point: Value = lb.i64(0)
    for number, bound in enumerate(interface.bounds):
        size = load_slot(lb, sizes, interface.place(bound.name))
        kind = BOUND | interface.place(bound.name) << 8
        return_when(lb, lb.less(size, bound.low), kind)
        return_when(lb, lb.less(bound.values[-1], size), kind)
        above = lb.i64(lb.sub(size, bound.low))
        return_when(lb, b.icmp_signed("!=", b.urem(above, lb.i64(bound.step)), lb.i64(0)), kind)
        place = b.udiv(above, lb.i64(bound.step))
        point = lb.i64(lb.add(lb.mul(point, len(bound.values)), place)) if number else place
    variant = load_slot(lb, context, VARIANT, PTR)
    at = b.gep(load_slot(lb, variant, PART_NUMBERS, PTR), [point], source_etype=I8)
    found = b.zext(b.load(at, typ=I8, align=1), I64)
    with lb.when(b.icmp_signed(">=", found, lb.i64(FIRST_REFUSED))):
        place = b.shl(lb.i64(lb.sub(found, FIRST_REFUSED)), lb.i64(8))
        b.ret(b.trunc(b.or_(place, lb.i64(REFUSED)), I32))
    put(lb, frame, PART, load_slot(lb, load_slot(lb, variant, PARTS, PTR), found, PTR))
    batch = interface.batch_place
    put(lb, frame, BATCH_SIZE, lb.i64(1) if batch is None else load_slot(lb, sizes, batch))
    b.ret(code(0))


def _emit_evaluate(emitter: Emitter, interface: Interface, first: int) -> None:
    """int evaluate(sizes, frame): execute the instructions of the part.

    It returns MEMORY if a number is too large.
    """
    lb, (sizes, frame) = emitter.function("evaluate", I32, [PTR, PTR])
    b = lb.b
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    for number, bound in enumerate(interface.bounds):
        put(lb, registers, number, load_slot(lb, sizes, interface.place(bound.name)))
    count = load_slot(lb, part, INSTRUCTIONS)
    rows = load_slot(lb, part, INSTRUCTIONS + 1, PTR)
    with lb.loop("row", 0, count) as row:
        operation, one, other = fields(lb, rows, row.index, 3)
        result = slot_at(lb, registers, lb.add(row.index, len(interface.bounds)))
        b.store(one, result, align=8)
        is_constant = b.icmp_signed("==", operation, lb.i64(Operation.CONSTANT))
        with lb.when(b.not_(is_constant)):
            operands = load_slot(lb, registers, one), load_slot(lb, registers, other)
            b.store(b.call(_operate(emitter), [operation, *operands]), result, align=8)
        made = b.load(result, typ=I64, align=8)
        return_when(lb, is_beyond(lb, made), MEMORY)
    b.ret(code(0))


def _operate(emitter: Emitter) -> Value:
    """i64 operate(operation, x, y): the result, or a number above the limit."""
    if "operate" not in emitter.module.globals:
        emit_operate(*emitter.function("operate", I64, [I64, I64, I64]))
    return emitter.known("operate")


def _emit_measure(emitter: Emitter, interface: Interface, first: int) -> None:
    """int measure(context, sizes, frame): find the part, its numbers, and the layout of the
    workspace.
    """
    lb, (context, sizes, frame) = emitter.function("measure", I32, [PTR, PTR, PTR])
    b = lb.b
    return_failure(lb, b.call(emitter.known("locate"), [context, sizes, frame]))
    return_failure(lb, b.call(emitter.known("evaluate"), [sizes, frame]))
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    _emit_batch_check(lb, interface, frame, part, registers)
    put(lb, frame, STEP_COUNT, lb.i64(0))
    put(lb, frame, ROOM, lb.i64(0))  # first the number of slots
    calls = load_slot(lb, part, CALLS_OF_PART + 1, PTR)
    with lb.loop("call", 0, load_slot(lb, part, CALLS_OF_PART)) as row:
        _, _, width, rounds = _call(lb, calls, row.index, registers)
        put(lb, frame, STEP_COUNT, lb.add(load_slot(lb, frame, STEP_COUNT), rounds))
        put(lb, frame, ROOM, lb.add(load_slot(lb, frame, ROOM), lb.mul(rounds, width)))
    steps = lb.mul(load_slot(lb, frame, STEP_COUNT), 8 * STEP_SLOTS)
    slots_at = whole_lines(lb, lb.add(steps, 8 * STEPS))
    slots = lb.mul(load_slot(lb, frame, ROOM), 8)
    scratch_at = whole_lines(lb, lb.add(slots_at, slots))
    arena, scratch, shared, work = _numbers(lb, part, registers)
    put(lb, frame, SMALL, b.zext(lb.less(work, WORTH_SHARING), I64))
    of_threads = lb.mul(scratch, load_slot(lb, context, THREAD_COUNT))
    shared_at = lb.add(scratch_at, of_threads)
    arena_at = whole_lines(lb, lb.add(shared_at, shared))
    put(lb, frame, SLOTS_AT, slots_at)
    put(lb, frame, SCRATCH_AT, scratch_at)
    put(lb, frame, SHARED_AT, lb.i64(shared_at))
    put(lb, frame, ARENA_AT, arena_at)
    put(lb, frame, ROOM, whole_lines(lb, lb.add(arena_at, arena)))
    b.ret(code(0))


def _emit_batch_check(
    lb: LoopBuilder, interface: Interface, frame: Value, part: Value, registers: Value
) -> None:
    """Return BATCH unless the batch is positive and every array has at most MAX_BYTES bytes."""
    batch = load_slot(lb, frame, BATCH_SIZE)
    return_when(lb, lb.less(batch, 1), BATCH)
    arrays = load_slot(lb, part, PART_ARRAYS, PTR)
    with lb.loop("array", 0, len(interface.arrays)) as array:
        nbytes = load_slot(lb, registers, load_slot(lb, arrays, array.index))
        most = lb.b.udiv(lb.i64(MAX_BYTES), lb.i64(lb.max(nbytes, 1)))
        return_when(lb, lb.less(most, batch), BATCH)


def _call(
    lb: LoopBuilder, calls: Value, index: Value, registers: Value
) -> tuple[Value, Value, Value, Value]:
    """A row of the table of calls: kernel, first row of its slots, their number, rounds."""
    kernel, slot, width, low, high = fields(lb, calls, index, PART_CALL_ROW)
    rounds = lb.sub(load_slot(lb, registers, high), load_slot(lb, registers, low))
    return kernel, slot, width, lb.i64(lb.max(rounds, 0))


def _numbers(lb: LoopBuilder, part: Value, registers: Value) -> list[Value]:
    """Bytes of the arena, of scratch per thread and of shared scratch; count of multiplications."""
    table = load_slot(lb, part, PART_SIZES, PTR)
    return [load_slot(lb, registers, load_slot(lb, table, i)) for i in range(4)]


def _emit_fill(emitter: Emitter, interface: Interface, first: int) -> None:
    """void fill(frame, workspace): write the steps and the kernels' arguments."""
    _emit_bases(emitter)
    _emit_arrays(emitter, interface, first)
    lb, (frame, workspace) = emitter.function("fill", VOID, [PTR, PTR])
    b = lb.b
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    bases = slot_at(lb, frame, FIRST_BASE)
    calls = load_slot(lb, part, CALLS_OF_PART + 1, PTR)
    rows = load_slot(lb, part, PART_SLOTS, PTR)
    step = b.alloca(I64)
    place = b.alloca(PTR)
    b.store(slot_at(lb, workspace, STEPS), step, align=8)
    b.store(b.gep(workspace, [load_slot(lb, frame, SLOTS_AT)], source_etype=I8), place, align=8)
    with lb.loop("call", 0, load_slot(lb, part, CALLS_OF_PART)) as row:
        kernel, slot, width, rounds = _call(lb, calls, row.index, registers)
        with lb.loop("round", 0, rounds) as number:
            to, arguments = b.load(step, typ=PTR, align=8), b.load(place, typ=PTR, align=8)
            put(lb, to, 0, kernel)
            put(lb, to, 1, number_of(lb, arguments))
            put(lb, to, 2, lb.i64(0))
            with lb.loop("slot", 0, width) as at:
                base, value, added = fields(lb, rows, lb.add(slot, at.index), PART_SLOT_ROW)
                more = lb.mul(number.index, load_slot(lb, registers, added))
                whole = lb.add(load_slot(lb, registers, value), more)
                put(lb, arguments, at.index, lb.i64(lb.add(whole, load_slot(lb, bases, base))))
            b.store(slot_at(lb, to, STEP_SLOTS), step, align=8)
            b.store(slot_at(lb, arguments, width), place, align=8)
    b.ret_void()


def _emit_bases(emitter: Emitter) -> None:
    """void set_bases(context, workspace, frame): the bases of addresses, except arrays.

    Working memory is zeroed before the first step, as for calls from Python.
    """
    lb, (context, workspace, frame) = emitter.function("set_bases", VOID, [PTR, PTR, PTR])
    b = lb.b
    start = number_of(lb, workspace)
    found = {
        IN_ARENA: lb.add(start, load_slot(lb, frame, ARENA_AT)),
        IN_WEIGHTS: load_slot(lb, context, WEIGHTS),
        IN_SCRATCH: lb.add(start, load_slot(lb, frame, SCRATCH_AT)),
        IN_SHARED: lb.add(start, load_slot(lb, frame, SHARED_AT)),
        AT_FLAG: lb.add(start, 8 * FLAG),
        IN_STATE: lb.i64(0),
        NOTHING: lb.i64(0),
    }
    for base, value in found.items():
        put(lb, frame, FIRST_BASE + base, lb.i64(value))
    clear, zero = lb.declare("memset", PTR, [PTR, I32, I64]), code(0)
    b.call(clear, [workspace, zero, lb.i64(8 * STEPS)])
    working = lb.sub(load_slot(lb, frame, ARENA_AT), load_slot(lb, frame, SCRATCH_AT))
    scratch = b.gep(workspace, [load_slot(lb, frame, SCRATCH_AT)], source_etype=I8)
    b.call(clear, [scratch, zero, lb.i64(working)])
    put(lb, workspace, 0, emitter.known("go_on"))
    b.ret_void()


def _emit_arrays(emitter: Emitter, interface: Interface, first: int) -> None:
    """void set_arrays(frame, inputs, outputs, round): the addresses of a round's arrays."""
    lb, (frame, inputs, outputs, number) = emitter.function(
        "set_arrays", VOID, [PTR, PTR, PTR, I64]
    )
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    arrays = load_slot(lb, part, PART_ARRAYS, PTR)
    with lb.loop("array", 0, len(interface.arrays)) as array:
        given = lb.b.call(emitter.known("array_at"), [inputs, outputs, array.index])
        nbytes = load_slot(lb, registers, load_slot(lb, arrays, array.index))
        start = lb.add(load_slot(lb, given, 0), lb.mul(nbytes, number))
        put(lb, frame, lb.add(array.index, FIRST_BASE + FIRST_ARRAY), lb.i64(start))
    lb.b.ret_void()


def _emit_check(emitter: Emitter, interface: Interface, first: int) -> None:
    """int check_call(inputs, outputs, frame, workspace, bytes): check all arguments."""
    kinds = [PTR, PTR, PTR, PTR, I64]
    lb, (inputs, outputs, frame, workspace, room) = emitter.function("check_call", I32, kinds)
    b = lb.b
    wanted = load_slot(lb, frame, ROOM)
    return_failure(lb, b.call(emitter.known("check_room"), [workspace, room, wanted]))
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    arrays, batch = load_slot(lb, part, PART_ARRAYS, PTR), load_slot(lb, frame, BATCH_SIZE)
    with lb.loop("array", 0, len(interface.arrays)) as array:
        given = b.call(emitter.known("array_at"), [inputs, outputs, array.index])
        nbytes = load_slot(lb, registers, load_slot(lb, arrays, array.index))
        words = [given, array.index, lb.i64(lb.mul(nbytes, batch))]
        return_failure(lb, b.call(emitter.known("check_array"), words))
    b.ret(apart_from(emitter, lb, inputs, outputs, workspace, wanted))


def _emit_make_own(emitter: Emitter) -> None:
    """int make_own(context, frame): make the context's workspace large enough.

    Requires ``begin_run``.
    """
    lb, (context, frame) = emitter.function("make_own", I32, [PTR, PTR])
    b = lb.b
    wanted = load_slot(lb, frame, ROOM)
    with lb.when(b.not_(lb.less(load_slot(lb, context, OWN_BYTES), wanted))):
        b.ret(code(0))
    b.call(lb.declare("free", VOID, [PTR]), [load_slot(lb, context, OWN, PTR)])
    put(lb, context, OWN_BYTES, lb.i64(0))
    made = b.call(lb.declare("aligned_alloc", PTR, [I64, I64]), [lb.i64(64), wanted])
    put(lb, context, OWN, made)
    return_when(lb, is_null(lb, made), MEMORY)
    put(lb, context, OWN_BYTES, wanted)
    b.ret(code(0))


def _emit_rounds(emitter: Emitter) -> None:
    """int rounds(context, inputs, outputs, frame, workspace): compute the outputs.

    If the batch is an argument, each round computes one sample.
    """
    lb, args = emitter.function("rounds", I32, [PTR, PTR, PTR, PTR, PTR])
    context, inputs, outputs, frame, workspace = args
    b = lb.b
    b.call(emitter.known("set_bases"), [context, workspace, frame])
    put(lb, workspace, IS_SMALL_CALL, load_slot(lb, frame, SMALL))
    with lb.loop("rounds", 0, load_slot(lb, frame, BATCH_SIZE)) as number:
        b.call(emitter.known("set_arrays"), [frame, inputs, outputs, number.index])
        b.call(emitter.known("fill"), [frame, workspace])
        every = [lb.i64(0), load_slot(lb, frame, STEP_COUNT)]
        return_failure(lb, b.call(emitter.known("compute"), [context, workspace, *every]))
        raised = b.icmp_signed("!=", load_slot(lb, workspace, FLAG), lb.i64(0))
        return_when(lb, raised, DATA)
    b.ret(code(0))


def _emit_shapes(emitter: Emitter, interface: Interface, first: int, size: int) -> None:
    """int shapes(context, sizes, output_shapes, workspace_bytes)"""
    lb, args = emitter.entry("shapes", I32, [PTR, PTR, PTR, PTR])
    context, sizes, shapes, room = args
    b = lb.b
    for pointer in (context, sizes):
        return_when(lb, is_null(lb, pointer), NULL)
    frame = b.alloca(I64, size)
    return_failure(lb, b.call(emitter.known("measure"), [context, sizes, frame]))
    part, registers = load_slot(lb, frame, PART, PTR), slot_at(lb, frame, first)
    table, place = load_slot(lb, part, PART_SHAPES, PTR), 0
    with lb.when(b.not_(is_null(lb, shapes))):
        for array in interface.outputs:
            for axis in range(len(array.shape)):
                found = load_slot(lb, registers, load_slot(lb, table, place))
                if axis == 0 and interface.batch_place is not None:
                    found = lb.i64(lb.mul(found, load_slot(lb, frame, BATCH_SIZE)))
                put(lb, shapes, place, found)
                place += 1
    with lb.when(b.not_(is_null(lb, room))):
        put(lb, room, 0, load_slot(lb, frame, ROOM))
    b.ret(code(0))


def _emit_run(emitter: Emitter, size: int) -> None:
    """int run(context, inputs, outputs, sizes, workspace, bytes)"""
    lb, args = emitter.entry("run", I32, [PTR, PTR, PTR, PTR, PTR, I64])
    context, inputs, outputs, sizes, workspace, room = args
    b = lb.b
    for pointer in (context, inputs, outputs, sizes):
        return_when(lb, is_null(lb, pointer), NULL)
    frame = b.alloca(I64, size)
    return_failure(lb, b.call(emitter.known("measure"), [context, sizes, frame]))
    checked = [inputs, outputs, frame, workspace, room]
    return_failure(lb, b.call(emitter.known("check_call"), checked))
    emit_calls(lb, emitter, [context, inputs, outputs, frame], workspace, [context, frame])
