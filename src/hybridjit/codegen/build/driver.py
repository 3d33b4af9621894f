"""The driver: machine code that walks a plan's steps, on one thread or on all of a pool.

Each row of ``steps`` is a kernel's address and the address of its arguments. ``call`` runs a small
plan on the calling thread. ``share`` does all of a call on several threads by itself: it publishes
the job, wakes sleeping workers, runs the caller's part and gives the pool back. No Python runs in
between, so no exception of Python can leave a job half told.

A worker is a thread of the system that stays in ``serve`` until the process ends: it spins for a
bounded time for the next job, then sleeps. A job is a range of steps, which every worker walks with
its part of each; all wait for each other between two steps. What all of them share lies in the
pool's memory, which is never given back: a late worker may still look at it.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ...records import dataclass
from ...target import Target
from ..llvm import ir
from ..llvm.builder import I32, I64, PTR, VOID, LoopBuilder
from ..llvm.jit import Library

# The pool's memory, in 64-bit slots; what different threads write is on cache lines of its own.
_SEQUENCE = 0  # of the last job
_JOBS = 8  # two records of steps, first, last, threads; the sequence's parity says which
_ARRIVALS = 24  # threads at the barrier
_ROUND = 32  # how often all have left it
_CALLERS = 40
_BUSY = 48  # whether the workers have a job
WORKERS = 56  # how many there are
_HANDLE = 57  # where the system puts a new thread's
_RECORDS = 64  # one for each worker
# A worker's record: the pool, the worker's number, the last job before it came, whether it sleeps.
_RECORD_SLOTS = 32
_ASLEEP = 3
# The system's mutex and condition: at most 64 bytes each on what LLVM's x86 and ARM hosts run.
_MUTEX, _CONDITION = 8, 16
MAX_WORKERS = 1023
POOL_SLOTS = _RECORDS + MAX_WORKERS * _RECORD_SLOTS

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SHARE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p)

# Rounds of waiting in a barrier before a thread lets others have its core: about 20 us.
_SPINS = 400
# Rounds in which an idle worker looks for the next job before it sleeps: about 50 us.
_IDLE_SPINS = 1000


@dataclass(frozen=True)
class Driver:
    """The driver's functions as callables; they release the GIL while they run.

    ``share`` is given a pool's memory: ``pool_slots`` numbers of 64 bits, all zero at first; the
    one at ``workers_slot`` says how many workers there are. Whoever gives it keeps it for good.
    """

    call: Any
    share: Any
    pool_slots: int
    workers_slot: int


_PUBLIC = ("call", "share")
# Workers stay in their driver's code until the process ends.
_LOADED: list[Library] = []


def load_driver(code: bytes, target: Target) -> Driver:
    """Load the object of :func:`emit_driver`, for good."""
    library = Library([code], target)
    _LOADED.append(library)
    call, share = _CALL(library.address("call")), _SHARE(library.address("share"))
    return Driver(call, share, POOL_SLOTS, WORKERS)


def emit_driver(target: Target) -> ir.Module:
    """The module that holds ``call`` and ``share``."""
    module = ir.Module("driver")
    module.triple = target.triple
    run = _emit_run(module, target, _emit_barrier(module, target))
    _emit_call(module, target, run)
    serve = _emit_serve(module, target, run)
    together = _emit_together(module, target, run, _emit_hire(module, target, serve))
    _emit_share(module, target, run, together)
    return module


def _function(
    module: ir.Module, target: Target, name: str, result: Any, kinds: list[Any]
) -> tuple[LoopBuilder, Any]:
    function = ir.Function(module, ir.FunctionType(result, kinds), name)
    if name not in _PUBLIC:
        function.linkage = "internal"
    return LoopBuilder(function, target), function


# --- steps ---


def _emit_run(module: ir.Module, target: Target, barrier: ir.Function) -> ir.Function:
    """void run(pool, steps, first, last, tid, threads, stamps): thread ``tid``'s part of the steps.

    The time before and after each step goes to ``stamps``, pairs of seconds and nanoseconds, if
    there are any. A thread that is alone needs no pool.
    """
    kinds = [PTR, PTR, I64, I64, I64, I64, PTR]
    lb, function = _function(module, target, "run", VOID, kinds)
    pool, steps, first, last, tid, threads, stamps = function.args
    kernel_type = ir.FunctionType(VOID, [PTR, I64, I64])
    _emit_stamp(lb, stamps, 0)
    with lb.loop("step", first, last) as step:
        row = lb.mul(step.index, 2)
        kernel = _load(lb, steps, row, kernel_type.as_pointer())
        args = _load(lb, steps, lb.add(row, 1), PTR)
        lb.b.call(kernel, [args, tid, threads])
        lb.b.call(barrier, [pool, threads])
        _emit_stamp(lb, stamps, lb.add(lb.sub(step.index, first), 1))
    lb.b.ret_void()
    return function


def _emit_stamp(lb: LoopBuilder, stamps: Any, number: Any) -> None:
    """Note the time as pair ``number``, if times are noted."""
    with lb.when(lb.b.icmp_unsigned("!=", stamps, _null())):
        clock = lb.declare("clock_gettime", I32, [I32, PTR])
        place = lb.b.gep(stamps, [lb.i64(lb.mul(number, 2))], source_etype=I64)
        lb.b.call(clock, [ir.Constant(I32, time.CLOCK_MONOTONIC), place])


def _emit_call(module: ir.Module, target: Target, run: ir.Function) -> None:
    """void call(job): run a job (steps, first, last) on this thread alone.

    One argument costs ctypes 0.3 us less than six.
    """
    lb, function = _function(module, target, "call", VOID, [PTR])
    job = function.args[0]
    first, last = (_load(lb, job, i) for i in (1, 2))
    _emit_alone(lb, run, _load(lb, job, 0, PTR), first, last, _null())
    lb.b.ret_void()


def _emit_alone(
    lb: LoopBuilder, run: ir.Function, steps: Any, first: Any, last: Any, stamps: Any
) -> None:
    lb.b.call(run, [_null(), steps, first, last, lb.i64(0), lb.i64(1), stamps])


def _emit_share(module: ir.Module, target: Target, run: ir.Function, together: ir.Function) -> None:
    """void share(pool, steps, first, last, threads, stamps): run the steps on up to ``threads``.

    Callers at the same time have equal parts of the threads; while one has the workers, the others
    do all of their work themselves.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR]
    lb, function = _function(module, target, "share", VOID, kinds)
    pool, steps, first, last, threads, stamps = function.args
    b = lb.b
    with lb.when(lb.less(threads, 2)):
        _emit_alone(lb, run, steps, first, last, stamps)
        b.ret_void()
    callers = lb.add(b.atomic_rmw("add", _at(lb, pool, _CALLERS), lb.i64(1), "seq_cst"), 1)
    part = lb.min(b.udiv(threads, callers), MAX_WORKERS + 1)
    with b.if_else(lb.less(part, 2)) as (few, enough):
        with few:
            _emit_alone(lb, run, steps, first, last, stamps)
        with enough:
            taken = b.atomic_rmw("xchg", _at(lb, pool, _BUSY), lb.i64(1), "acquire")
            with b.if_else(b.icmp_signed("==", taken, lb.i64(0))) as (free, busy):
                with free:
                    b.call(together, [pool, steps, first, last, part, stamps])
                    b.atomic_rmw("xchg", _at(lb, pool, _BUSY), lb.i64(0), "release")
                with busy:
                    _emit_alone(lb, run, steps, first, last, stamps)
    b.atomic_rmw("sub", _at(lb, pool, _CALLERS), lb.i64(1), "seq_cst")
    b.ret_void()


def _emit_together(
    module: ir.Module, target: Target, run: ir.Function, hire: ir.Function
) -> ir.Function:
    """void together(pool, steps, first, last, threads, stamps): as worker 0; the pool is ours.

    Where the system makes no more threads, those that there are do the work.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR]
    lb, function = _function(module, target, "together", VOID, kinds)
    pool, steps, first, last, wished, stamps = function.args
    b = lb.b
    workers = b.call(hire, [pool, lb.sub(wished, 1)])
    threads = lb.min(wished, lb.add(workers, 1))
    _emit_publish(lb, pool, [b.ptrtoint(steps, I64), first, last, threads])
    with lb.loop("worker", 0, lb.sub(threads, 1)) as worker:
        _emit_wake(lb, _record(lb, pool, worker.index))
    b.call(run, [pool, steps, first, last, lb.i64(0), threads, stamps])
    b.ret_void()
    return function


# --- jobs ---


def _emit_publish(lb: LoopBuilder, pool: Any, job: list[Any]) -> None:
    """Jobs alternate between two records, so that a late worker that is not needed for the job it
    sees can never take half of the next one for it.
    """
    b = lb.b
    sequence = lb.add(b.load_atomic(pool, "monotonic", 8, typ=I64), 1)
    record = _job(lb, pool, sequence)
    for i, value in enumerate(job):
        b.store(value, _at(lb, record, i), align=8)
    b.atomic_rmw("xchg", pool, sequence, "seq_cst")


def _job(lb: LoopBuilder, pool: Any, sequence: Any) -> Any:
    """The address of the job's record for a sequence number: one of two cache lines."""
    which = lb.mul(lb.b.and_(sequence, lb.i64(1)), 8)
    return _at(lb, pool, lb.add(which, _JOBS))


def _record(lb: LoopBuilder, pool: Any, number: Any) -> Any:
    """The address of a worker's record; ``number`` counts from 0."""
    return _at(lb, pool, lb.add(lb.mul(number, _RECORD_SLOTS), _RECORDS))


def _emit_serve(module: ir.Module, target: Target, run: ir.Function) -> ir.Function:
    """ptr serve(record): a worker's life. It does not end before the process does.

    A worker that has read a whole record of a job that needs it will be waited for: no other job
    can follow before it has done its part.
    """
    sleep = _emit_sleep(module, target)
    lb, function = _function(module, target, "serve", PTR, [PTR])
    b = lb.b
    record = function.args[0]
    pool, tid, seen = _load(lb, record, 0, PTR), _load(lb, record, 1), _load(lb, record, 2)
    entry = b.block
    look, idle, tired, work, whole, mine, after = (
        function.append_basic_block(n)
        for n in ("look", "idle", "tired", "work", "whole", "mine", "after")
    )
    b.branch(look)
    b.position_at_end(look)
    known, rounds = b.phi(I64), b.phi(I64)

    def look_again(block: ir.Block, sequence: Any, waited: Any) -> None:
        known.add_incoming(sequence, block)
        rounds.add_incoming(lb.i64(waited), block)

    look_again(entry, seen, 0)
    now = b.load_atomic(pool, "acquire", 8, typ=I64)
    b.cbranch(b.icmp_signed("==", now, known), idle, work)

    b.position_at_end(idle)
    _emit_pause(lb)
    look_again(idle, known, lb.add(rounds, 1))
    b.cbranch(b.icmp_signed("<", rounds, lb.i64(_IDLE_SPINS)), look, tired)

    b.position_at_end(tired)
    b.call(sleep, [record, pool, known])
    look_again(tired, known, 0)
    b.branch(look)

    b.position_at_end(work)
    job = _job(lb, pool, now)
    steps, first, last, threads = (
        b.load_atomic(_at(lb, job, i), "acquire", 8, typ=I64) for i in range(4)
    )
    unchanged = b.icmp_signed("==", b.load_atomic(pool, "acquire", 8, typ=I64), now)
    look_again(work, known, 0)
    b.cbranch(unchanged, whole, look)

    b.position_at_end(whole)
    look_again(whole, now, rounds)
    b.cbranch(b.icmp_signed("<", tid, threads), mine, look)

    b.position_at_end(mine)
    b.call(run, [pool, b.inttoptr(steps, PTR), first, last, tid, threads, _null()])
    b.branch(after)

    b.position_at_end(after)
    look_again(after, now, 0)
    b.branch(look)
    return function


# --- workers ---


def _emit_hire(module: ir.Module, target: Target, serve: ir.Function) -> ir.Function:
    """i64 hire(pool, wanted): make workers until there are as many, or the system makes no more.

    Returns how many there are.
    """
    lb, function = _function(module, target, "hire", I64, [PTR, I64])
    b = lb.b
    pool, wanted = function.args
    count = _at(lb, pool, WORKERS)
    create = lb.declare("pthread_create", I32, [PTR] * 4)
    detach = lb.declare("pthread_detach", I32, [I64])
    there = b.load_atomic(count, "monotonic", 8, typ=I64)
    with lb.loop("worker", there, wanted) as worker:
        record = _record(lb, pool, worker.index)
        seen = b.load_atomic(pool, "monotonic", 8, typ=I64)
        for i, value in enumerate((b.ptrtoint(pool, I64), lb.add(worker.index, 1), seen)):
            b.store(value, _at(lb, record, i), align=8)
        for kind, slot in (("mutex", _MUTEX), ("cond", _CONDITION)):
            start = lb.declare(f"pthread_{kind}_init", I32, [PTR, PTR])
            b.call(start, [_at(lb, record, slot), _null()])
        handle = _at(lb, pool, _HANDLE)
        failed = b.call(create, [handle, _null(), serve, record])
        with lb.when(b.icmp_signed("!=", failed, ir.Constant(I32, 0))):
            b.ret(worker.index)
        b.call(detach, [b.load(handle, typ=I64, align=8)])
        b.atomic_rmw("add", count, lb.i64(1), "release")
    b.ret(lb.max(there, wanted))
    return function


def _emit_sleep(module: ir.Module, target: Target) -> ir.Function:
    """void sleep(record, pool, seen): until woken, or until there is another job.

    A worker says that it sleeps before it looks at the sequence once more; a caller raises the
    sequence before it looks for sleepers. One of the two always sees the other.
    """
    lb, function = _function(module, target, "sleep", VOID, [PTR, PTR, I64])
    b = lb.b
    record, pool, seen = function.args
    mutex, condition = _at(lb, record, _MUTEX), _at(lb, record, _CONDITION)
    asleep = _at(lb, record, _ASLEEP)
    look, wait, awake = (function.append_basic_block(n) for n in ("look", "wait", "awake"))
    b.call(_lock(lb, "lock"), [mutex])
    b.atomic_rmw("xchg", asleep, lb.i64(1), "seq_cst")
    b.branch(look)
    b.position_at_end(look)
    sequence = b.load_atomic(pool, "seq_cst", 8, typ=I64)
    still = b.load_atomic(asleep, "seq_cst", 8, typ=I64)
    is_idle = b.icmp_signed("==", sequence, seen)
    b.cbranch(b.and_(is_idle, b.icmp_signed("==", still, lb.i64(1))), wait, awake)
    b.position_at_end(wait)
    b.call(lb.declare("pthread_cond_wait", I32, [PTR, PTR]), [condition, mutex])
    b.branch(look)
    b.position_at_end(awake)
    b.atomic_rmw("xchg", asleep, lb.i64(0), "seq_cst")
    b.call(_lock(lb, "unlock"), [mutex])
    b.ret_void()
    return function


def _emit_wake(lb: LoopBuilder, record: Any) -> None:
    """Wake a worker if it sleeps."""
    b = lb.b
    asleep = _at(lb, record, _ASLEEP)
    sleeps = b.icmp_signed("!=", b.load_atomic(asleep, "seq_cst", 8, typ=I64), lb.i64(0))
    with lb.when(sleeps):
        mutex = _at(lb, record, _MUTEX)
        b.call(_lock(lb, "lock"), [mutex])
        b.atomic_rmw("xchg", asleep, lb.i64(0), "seq_cst")
        b.call(_lock(lb, "unlock"), [mutex])
        signal = lb.declare("pthread_cond_signal", I32, [PTR])
        b.call(signal, [_at(lb, record, _CONDITION)])


def _lock(lb: LoopBuilder, what: str) -> Any:
    return lb.declare(f"pthread_mutex_{what}", I32, [PTR])


# --- waiting for each other ---


def _emit_barrier(module: ir.Module, target: Target) -> ir.Function:
    """void barrier(pool, threads): all arrive before any leaves; the last one starts a round."""
    lb, function = _function(module, target, "barrier", VOID, [PTR, I64])
    pool, threads = function.args
    b = lb.b
    with lb.when(b.icmp_signed("==", threads, lb.i64(1))):
        b.ret_void()
    arrivals, current = _at(lb, pool, _ARRIVALS), _at(lb, pool, _ROUND)
    before = b.load_atomic(current, "acquire", 8, typ=I64)
    arrived = b.atomic_rmw("add", arrivals, lb.i64(1), "acq_rel")
    is_last = b.icmp_signed("==", arrived, lb.sub(threads, 1))
    with b.if_else(is_last) as (last, waiting):
        with last:
            b.atomic_rmw("xchg", arrivals, lb.i64(0), "monotonic")
            b.atomic_rmw("add", current, lb.i64(1), "release")
        with waiting:
            _emit_wait(lb, current, before)
    b.ret_void()
    return function


def _emit_wait(lb: LoopBuilder, current: Any, before: Any) -> None:
    """Spin a bounded time, then give the core away between looks."""
    b = lb.b
    entry = b.block
    spin = lb.function.append_basic_block("spin")
    pause = lb.function.append_basic_block("pause")
    give = lb.function.append_basic_block("yield")
    done = lb.function.append_basic_block("passed")
    b.branch(spin)
    b.position_at_end(spin)
    rounds = b.phi(I64)
    rounds.add_incoming(lb.i64(0), entry)
    now = b.load_atomic(current, "acquire", 8, typ=I64)
    again = lb.add(rounds, 1)
    check = b.icmp_signed("==", now, before)
    tired = b.icmp_signed(">", rounds, lb.i64(_SPINS))
    choose = lb.function.append_basic_block("still")
    b.cbranch(check, choose, done)
    b.position_at_end(choose)
    b.cbranch(tired, give, pause)
    b.position_at_end(pause)
    _emit_pause(lb)
    rounds.add_incoming(again, b.block)
    b.branch(spin)
    b.position_at_end(give)
    b.call(lb.declare("sched_yield", I32, []), [])
    rounds.add_incoming(again, b.block)
    b.branch(spin)
    b.position_at_end(done)


def _emit_pause(lb: LoopBuilder) -> None:
    """Tell the CPU that this is a waiting loop, where it has a word for that."""
    if "x86" in lb.target.triple:
        lb.b.call(lb.declare("llvm.x86.sse2.pause", VOID, []), [])
    elif "aarch64" in lb.target.triple or "arm64" in lb.target.triple:
        lb.b.call(lb.declare("llvm.aarch64.hint", VOID, [I32]), [ir.Constant(I32, 1)])


# --- memory ---


def _at(lb: LoopBuilder, base: Any, slot: Any) -> Any:
    """The address of a 64-bit slot."""
    return lb.b.gep(base, [lb.i64(slot)], source_etype=I64)


def _load(lb: LoopBuilder, base: Any, slot: Any, kind: Any = I64) -> Any:
    return lb.b.load(_at(lb, base, slot), typ=kind, align=8)


def _null() -> Any:
    return ir.Value(PTR, "null")
