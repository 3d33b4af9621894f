"""The GIL and signals during native code.

A call releases the GIL and takes it back. Kernels and steps poll: the caller's thread checks for
signals periodically, the workers check whether it stopped the job.
"""

from __future__ import annotations

import time

from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.types import I32, I64, PTR, VOID, Value
from .pool_memory import (
    HEARER,
    NEXT,
    ORPHANED,
    POOL,
    QUEUE,
    STATE,
    STEP,
    STOPPED,
    WORKER_POLL,
    load_slot,
    new_function,
    null,
    slot_at,
)

# Nanoseconds between two checks for signals.
_DEAF = 20_000_000


def emit_poll(lb: LoopBuilder, poll: Value) -> Value:
    """The result of a poll's function: 0 to continue."""
    function = load_slot(lb, poll, 0, ir.FunctionType(I64, [PTR]).as_pointer())
    return lb.b.call(function, [poll])


def emit_let_go(
    lb: LoopBuilder, poll: Value, listen: ir.Function, hearer: Value, pool: Value, queue: Value
) -> None:
    """Release the GIL, and initialise the state that the caller's kernels poll."""
    b = lb.b
    state = b.call(lb.declare("PyEval_SaveThread", PTR, []), [])
    values = {
        0: b.ptrtoint(listen, I64),
        STOPPED: lb.i64(0),
        NEXT: lb.i64(0),
        STATE: b.ptrtoint(state, I64),
        HEARER: hearer,
        POOL: pool,
        QUEUE: queue,
    }
    for slot, value in values.items():
        b.store(value, slot_at(lb, poll, slot), align=8)


def emit_take_back(lb: LoopBuilder, poll: Value) -> None:
    lb.b.call(lb.declare("PyEval_RestoreThread", VOID, [PTR]), [load_slot(lb, poll, STATE, PTR)])


def emit_obey(module: ir.Module, target: Target) -> ir.Function:
    """i64 obey(poll): the poll function of workers."""
    lb, function = new_function(module, target, "obey", I64, [PTR])
    stopped = slot_at(lb, function.args[0], STOPPED)
    lb.b.ret(lb.b.load_atomic(stopped, "acquire", 8, typ=I64))
    return function


def emit_listen(module: ir.Module, target: Target) -> ir.Function:
    """i64 listen(poll): the poll function of callers; handles signals periodically."""
    hear = _emit_hear(module, target)
    lb, function = new_function(module, target, "listen", I64, [PTR])
    b = lb.b
    poll = function.args[0]
    now, following = _emit_now(lb), load_slot(lb, poll, NEXT)
    with lb.when(b.icmp_signed("==", following, lb.i64(0))):
        self = b.call(lb.declare("pthread_self", I64, []), [])
        hears = b.icmp_signed("==", self, load_slot(lb, poll, HEARER))
        never = lb.i64(2**63 - 1)
        b.store(b.select(hears, lb.add(now, _DEAF), never), slot_at(lb, poll, NEXT), align=8)
        b.ret(lb.i64(0))
    with lb.when(lb.less(now, following)):
        b.ret(lb.i64(0))
    b.ret(b.call(hear, [poll]))
    return function


def _emit_hear(module: ir.Module, target: Target) -> ir.Function:
    """i64 hear(poll): run the handlers of pending signals; returns the step's number if one raises.

    A handler may fork: the child cannot finish a shared job, because it has no workers.
    """
    lb, function = new_function(module, target, "hear", I64, [PTR])
    b = lb.b
    poll = function.args[0]
    emit_take_back(lb, poll)
    raised = b.zext(b.call(lb.declare("PyErr_CheckSignals", I32, []), []), I64)
    state = b.call(lb.declare("PyEval_SaveThread", PTR, []), [])
    b.store(b.ptrtoint(state, I64), slot_at(lb, poll, STATE), align=8)
    b.store(lb.add(_emit_now(lb), _DEAF), slot_at(lb, poll, NEXT), align=8)
    step, pool = load_slot(lb, poll, STEP), load_slot(lb, poll, POOL, PTR)
    with lb.when(b.icmp_unsigned("==", pool, null())):
        stopped = b.select(b.icmp_signed("==", raised, lb.i64(0)), lb.i64(0), step)
        b.store(stopped, slot_at(lb, poll, STOPPED), align=8)
        b.ret(stopped)
    ends = b.or_(raised, load_slot(lb, pool, ORPHANED))
    with lb.when(b.icmp_signed("==", ends, lb.i64(0))):
        b.ret(lb.i64(0))
    b.store(step, slot_at(lb, poll, STOPPED), align=8)
    b.atomic_rmw("xchg", slot_at(lb, pool, WORKER_POLL + STOPPED), step, "release")
    b.ret(step)
    return function


def _emit_now(lb: LoopBuilder) -> Value:
    """The time in nanoseconds."""
    place = lb.b.alloca(I64, 2)
    emit_clock(lb, place, ir.Constant(I32, time.CLOCK_MONOTONIC))
    return lb.add(lb.mul(load_slot(lb, place, 0), 1_000_000_000), load_slot(lb, place, 1))


def emit_clock(lb: LoopBuilder, place: Value, clock: Value) -> None:
    """Store the time of a clock of the system, as seconds and nanoseconds."""
    lb.b.call(lb.declare("clock_gettime", I32, [I32, PTR]), [clock, place])
