"""Public functions of a library for training: steps, and access to states.

A context has private memory for weights, states and counts. One call at a time reads or writes
it, even with different workspaces.
"""

from __future__ import annotations

from ..codegen.emit.pool_memory import load_slot
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import F32, F64, I8, I32, I64, PTR, VOID, Value
from .entries import emit_common, emit_constant, emit_new_memory
from .functions import Emitter, address, code, is_null, number_of, put, return_failure, return_when
from .interface import (
    CHANCE,
    COUNT,
    DATA,
    MAX_COUNT,
    MEMORY,
    NO_STATE,
    NULL,
    RATE,
    STATE_SIZE,
    STATE_VALUE,
    Interface,
)
from .layout import CALLS, FLAG, LEARNED, OWN, STATE, VARIANT, WEIGHTS
from .random_generator import emit_draw, emit_start
from .training import Memory, Training

_STATE_ROW = 3  # name, place, bytes
_BEYOND = 2.0**128 - 2.0**103  # the least number that float32 rounds to infinity


def emit_step_entries(
    emitter: Emitter,
    interface: Interface,
    variants: Value,
    training: Training,
    memory: Memory,
    first_place: int,
) -> None:
    """Emit all functions; ``first_place`` is the offset of the initial states in the weights."""
    emit_new_memory(emitter)
    _emit_memory(emitter, memory, first_place)
    emit_common(emitter, interface, variants, ("make_state", "drop_state"))
    emit_constant(emitter, interface)
    _emit_rate(emitter, training)
    _emit_count_up(emitter, training, memory)
    if CHANCE in memory.arrays:
        emit_draw(emitter)
        emit_start(emitter)
        _emit_seed(emitter, memory)
    _emit_learn(emitter)
    _emit_step(emitter)
    _emit_find_state(emitter, interface, memory)
    _emit_state_facts(emitter, interface)
    _emit_takes(emitter, interface)
    for name, is_read in (("get", True), ("set", False)):
        _emit_access(emitter, name, is_read)


def _emit_memory(emitter: Emitter, memory: Memory, first_place: int) -> None:
    """int make_state(context); void drop_state(context)"""
    lb, (context,) = emitter.function("make_state", I32, [PTR])
    b = lb.b
    made = b.call(emitter.known("new_memory"), [lb.i64(memory.nbytes)])
    return_when(lb, is_null(lb, made), MEMORY)
    put(lb, context, STATE, made)
    first = lb.add(load_slot(lb, context, WEIGHTS), first_place)
    copy = lb.declare("memcpy", PTR, [PTR, PTR, I64])
    b.call(copy, [made, address(lb, first), lb.i64(memory.first.nbytes)])
    b.ret(code(0))
    lb, (context,) = emitter.function("drop_state", VOID, [PTR])
    lb.b.call(lb.declare("free", VOID, [PTR]), [load_slot(lb, context, STATE, PTR)])
    lb.b.ret_void()


def _at(lb: LoopBuilder, base: Value, offset: int) -> Value:
    return lb.b.gep(base, [lb.i64(offset)], source_etype=I8)


def _double(value: float) -> Value:
    return ir.Constant(F64, value)


def _emit_rate(emitter: Emitter, training: Training) -> None:
    """double correction(double count): the factor of the learning rates at this update."""
    lb, (count,) = emitter.function("correction", F64, [F64])
    b, one = lb.b, _double(1.0)
    if training.unbiased is None:
        b.ret(one)
        return
    power = lb.declare("pow", F64, [F64, F64])
    first, second = (
        b.fsub(one, b.call(power, [_double(factor), count])) for factor in training.unbiased
    )
    root = b.call(lb.declare("sqrt", F64, [F64]), [second])
    b.ret(b.fdiv(root, first))


def _emit_count_up(emitter: Emitter, training: Training, memory: Memory) -> None:
    """void count_up(context, double rate): increment the count and set the rates of the update."""
    lb, (context, rate) = emitter.function("count_up", VOID, [PTR, F64])
    b = lb.b
    state = load_slot(lb, context, STATE, PTR)
    count = lb.add(load_slot(lb, _at(lb, state, memory.place(COUNT)), 0), 1)
    put(lb, _at(lb, state, memory.place(COUNT)), 0, count)
    correction = b.call(emitter.known("correction"), [b.sitofp(count, F64)])
    for row, update in enumerate(training.updates):
        own = b.fmul(b.fmul(rate, _double(update.lr_mult)), correction)
        b.store(b.fptrunc(own, F32), _at(lb, state, memory.number(row, 0)))
    b.ret_void()


def _emit_seed(emitter: Emitter, memory: Memory) -> None:
    """int seed(context, seed): set the random generator."""
    lb, (context, seed) = emitter.entry("seed", I32, [PTR, I64])
    return_when(lb, is_null(lb, context), NULL)
    return_failure(lb, lb.b.call(emitter.known("begin_run"), [context]))
    state = _at(lb, load_slot(lb, context, STATE, PTR), memory.place(CHANCE))
    lb.b.call(emitter.known("start_chance"), [state, seed])
    lb.b.call(emitter.known("end_run"), [context])
    lb.b.ret(code(0))


def _emit_learn(emitter: Emitter) -> None:
    """int learn(context, inputs, outputs, double rate, workspace): a step on a prepared workspace.

    Nothing is updated if a kernel raises the flag for invalid data.
    """
    lb, args = emitter.function("learn", I32, [PTR, PTR, PTR, F64, PTR])
    context, inputs, outputs, rate, workspace = args
    b, compute = lb.b, emitter.known("compute")
    variant = load_slot(lb, context, VARIANT, PTR)
    put(lb, workspace, FLAG, lb.i64(0))
    b.call(emitter.known("connect"), [variant, workspace, inputs, outputs, lb.i64(0)])
    learned, every = load_slot(lb, variant, LEARNED), load_slot(lb, variant, CALLS)
    return_failure(lb, b.call(compute, [context, workspace, lb.i64(0), learned]))
    raised = b.icmp_signed("!=", load_slot(lb, workspace, FLAG), lb.i64(0))
    return_when(lb, raised, DATA)
    b.call(emitter.known("count_up"), [context, rate])
    b.ret(b.call(compute, [context, workspace, learned, every]))


def _emit_step(emitter: Emitter) -> None:
    """int step(context, inputs, outputs, double rate, workspace, bytes)"""
    lb, args = emitter.entry("step", I32, [PTR, PTR, PTR, F64, PTR, I64])
    context, inputs, outputs, rate, workspace, room = args
    b, learn = lb.b, emitter.known("learn")
    checked = [context, inputs, outputs, lb.i64(1), workspace, room]
    return_failure(lb, b.call(emitter.known("check"), checked))
    is_within = b.and_(
        b.fcmp_ordered("<", rate, _double(_BEYOND)), b.fcmp_ordered(">", rate, _double(-_BEYOND))
    )
    return_when(lb, b.not_(is_within), RATE)  # of NaN too
    return_failure(lb, b.call(emitter.known("begin_run"), [context]))
    with b.if_else(is_null(lb, workspace)) as (own, given):
        with own:
            failure = b.call(emitter.known("make_own"), [context])
            with lb.when(b.icmp_signed("!=", failure, code(0))):
                b.call(emitter.known("end_run"), [context])
                b.ret(failure)
            kept = load_slot(lb, context, OWN, PTR)
            mine = b.call(learn, [context, inputs, outputs, rate, kept])
            b.call(emitter.known("end_run"), [context])
            b.ret(mine)
        with given:
            b.call(emitter.known("prepare"), [context, workspace])
    result = b.call(learn, [context, inputs, outputs, rate, workspace])
    b.call(emitter.known("end_run"), [context])
    b.ret(result)


def _emit_find_state(emitter: Emitter, interface: Interface, memory: Memory) -> None:
    """i64 find_state(name): the index of the state with this name, or -1."""
    rows: list[Value] = []
    for number, array in enumerate(interface.states):
        numbers = memory.place(array.name), array.nbytes
        rows += [emitter.text(f"state_{number}", array.name)]
        rows += [ir.Constant(I64, n) for n in numbers]
    table = emitter.record("states", rows)
    lb, (name,) = emitter.function("find_state", I64, [PTR])
    compare = lb.declare("strcmp", I32, [PTR, PTR])
    with lb.loop("state", 0, len(interface.states)) as state:
        known = load_slot(lb, table, lb.mul(state.index, _STATE_ROW), PTR)
        with lb.when(lb.b.icmp_signed("==", lb.b.call(compare, [known, name]), code(0))):
            lb.b.ret(state.index)
    lb.b.ret(lb.i64(-1))


def _emit_state_facts(emitter: Emitter, interface: Interface) -> None:
    """const char *state_name(number) and size_t state_bytes(number): NULL and 0 if out of range."""
    count = len(interface.states)
    for what, slot, kind in (("state_name", 0, PTR), ("state_bytes", 2, I64)):
        lb, (number,) = emitter.entry(what, kind, [I64])
        nothing = ir.Value(PTR, "null") if kind is PTR else lb.i64(0)
        with lb.when(lb.b.icmp_unsigned(">=", number, lb.i64(count))):
            lb.b.ret(nothing)
        row = lb.mul(number, _STATE_ROW)
        lb.b.ret(load_slot(lb, emitter.known("states"), lb.add(row, slot), kind))


def _emit_takes(emitter: Emitter, interface: Interface) -> None:
    """i32 takes(number, data): whether a state accepts this value; data may be unaligned."""
    lb, (number, data) = emitter.function("takes", I32, [I64, PTR])
    b = lb.b
    for place, array in enumerate(interface.states):
        if array.name not in (COUNT, CHANCE):
            continue
        with lb.when(b.icmp_signed("==", number, lb.i64(place))):
            word = b.load(_at(lb, data, 16 if array.name == CHANCE else 0), typ=I64, align=1)
            if array.name == COUNT:
                fits = b.icmp_unsigned("<=", word, lb.i64(MAX_COUNT))
            else:
                fits = b.icmp_signed("!=", b.and_(word, lb.i64(1)), lb.i64(0))
            b.ret(b.zext(fits, I32))
    b.ret(code(1))


def _emit_access(emitter: Emitter, name: str, is_read: bool) -> None:
    """int get(context, name, data, bytes), and set: copy a state out of a context, or into it."""
    lb, args = emitter.entry(name, I32, [PTR, PTR, PTR, I64])
    context, _, data, nbytes = args
    b = lb.b
    for pointer in args[:3]:
        return_when(lb, is_null(lb, pointer), NULL)
    number = b.call(emitter.known("find_state"), [args[1]])
    return_when(lb, lb.less(number, 0), NO_STATE)
    row = lb.mul(number, _STATE_ROW)
    place, wanted = (load_slot(lb, emitter.known("states"), lb.add(row, i)) for i in (1, 2))
    with lb.when(b.icmp_signed("!=", nbytes, wanted)):
        found = b.or_(b.shl(number, lb.i64(8)), lb.i64(STATE_SIZE))
        b.ret(b.trunc(found, I32))
    if not is_read:
        fits = b.call(emitter.known("takes"), [number, data])
        with lb.when(b.icmp_signed("==", fits, code(0))):
            b.ret(b.trunc(b.or_(b.shl(number, lb.i64(8)), lb.i64(STATE_VALUE)), I32))
    return_failure(lb, b.call(emitter.known("begin_run"), [context]))
    kept = address(lb, lb.add(number_of(lb, load_slot(lb, context, STATE, PTR)), place))
    ends = (data, kept) if is_read else (kept, data)
    b.call(lb.declare("memmove", PTR, [PTR, PTR, I64]), [*ends, wanted])
    b.call(emitter.known("end_run"), [context])
    b.ret(code(0))
