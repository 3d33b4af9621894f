"""The driver: machine code that walks a plan's steps, on one thread or on all of a pool.

Each row of ``steps`` is a kernel's address and the address of its arguments. ``call`` runs a small
plan on the calling thread. ``share`` does all of a call on several threads by itself: it publishes
the job, wakes sleeping workers, runs the caller's part and gives the pool back. No Python runs in
between that could leave a job half told.

A worker is a thread of the system that stays in ``serve`` until the process ends: it spins for a
bounded time for the next job, then sleeps. A job is a range of steps, which every worker walks with
its part of each; all wait for each other between two steps. What all of them share lies in the
pool's memory, which is never given back: a late worker may still look at it.

Both give the GIL away and take it back themselves. In a long call of the main thread they take it
every 20 ms and let Python's signal handlers run: steps and kernels poll, see ``LoopBuilder.poll``.
If a handler raises, all threads leave the step that they are in, and the call ends with that
exception. Other threads than the main one would have nothing to hear.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from ...records import dataclass
from ...target import Target
from ..llvm import ir
from ..llvm.builder import I32, I64, PTR, VOID, Index, LoopBuilder
from ..llvm.jit import Library, provide
from ..llvm.types import Type, Value

# The pool's memory, in 64-bit slots; what different threads write is on cache lines of its own.
_SEQUENCE = 0  # of the last job
_JOBS = 8  # two records of steps, first, last, threads; the sequence's parity says which
_ARRIVALS = 24  # threads at the barrier
_ROUND = 32  # how often all have left it
_CALLERS = 40
_BUSY = 48  # whether the workers have a job
_WORKERS = 56  # how many there are
_HANDLE = 57  # where the system puts a new thread's
_ORPHANED = 58  # whether this process is a fork's child, in which they are not
_MAIN = 59  # pthread_self() of Python's main thread
_CALLER_POLL, _WORKER_POLL = 64, 72  # what the caller's and the workers' kernels poll
_RECORDS = 80  # one for each worker
# A worker's record: the pool, the worker's number, the last job before it came, whether it sleeps.
_RECORD_SLOTS = 32
_ASLEEP = 3
# What a kernel polls: a function, which is called with this. Where the function stops a job it
# leaves the number of the step; the caller's listens, the workers' look what came of it.
_POLL_SLOTS = 8
_STOPPED = 1
_NEXT = 2  # when to listen again, in nanoseconds; 0 before the first look at the clock
_STEP = 3  # the number of the step that is being done
_STATE = 4  # Python's state of this thread
_HEARER = 5  # pthread_self() of the thread in which there is something to hear
_POOL = 6  # of the job; 0 for none
# The system's mutex and condition: at most 64 bytes each on what LLVM's x86 and ARM hosts run.
_MUTEX, _CONDITION = 8, 16
MAX_WORKERS = 1023
POOL_SLOTS = _RECORDS + MAX_WORKERS * _RECORD_SLOTS

# Functions of Python's: they give the GIL away themselves, and may end with an exception.
_CALL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_SHARE = ctypes.PYFUNCTYPE(
    ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p
)
_FROM_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")
# Nanoseconds between two looks for signals.
_DEAF = 20_000_000

_FEW = 64
# Rounds of waiting in a barrier before a thread lets others have its core: about 20 us.
_SPINS = 400
# Rounds in which an idle worker looks for the next job before it sleeps: about 50 us.
_IDLE_SPINS = 1000


@dataclass(frozen=True)
class Driver:
    """The driver's functions as callables; they release the GIL while they run.

    ``call(job)`` takes an address, ``share(pool, steps, first, last, threads, stamps)`` returns
    whether the process was forked meanwhile and this is the child. ``layout`` is how the pool's
    memory begins.
    """

    call: Callable[..., None]
    share: Callable[..., int]
    layout: PoolLayout


@dataclass(frozen=True)
class PoolLayout:
    """A pool's memory: so many 64-bit numbers, zero but for ``main``; and places among them.

    Whoever makes it keeps it for good.
    main      written before the first call: what identifies Python's main thread
    workers   how many there are
    orphaned  1 is written in the child of a fork, where they are not
    """

    slots: int = POOL_SLOTS
    main: int = _MAIN
    workers: int = _WORKERS
    orphaned: int = _ORPHANED


_PUBLIC = ("call", "share")
# Workers stay in their driver's code until the process ends.
_LOADED: list[Library] = []


def load_driver(code: bytes, target: Target) -> Driver:
    """Load the object of :func:`emit_driver`, for good."""
    for name in _FROM_PYTHON:
        provide(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
    library = Library([code], target, _PUBLIC)
    _LOADED.append(library)
    call, share = _CALL(library.address("call")), _SHARE(library.address("share"))
    return Driver(call, share, PoolLayout())


def emit_driver(target: Target) -> ir.Module:
    """The module that holds ``call`` and ``share``."""
    module = ir.Module("driver")
    module.triple = target.triple
    listen = _emit_listen(module, target)
    _emit_call(module, target, listen)
    run = _emit_run(module, target, _emit_barrier(module, target))
    serve = _emit_serve(module, target, run)
    start_workers = _emit_start_workers(module, target, serve)
    together = _emit_together(module, target, run, start_workers, listen)
    _emit_share(module, target, _emit_alone(module, target, run, listen), together)
    return module


def _function(
    module: ir.Module, target: Target, name: str, result: Type, kinds: list[Type]
) -> tuple[LoopBuilder, ir.Function]:
    function = ir.Function(module, ir.FunctionType(result, kinds), name)
    if name not in _PUBLIC:
        function.linkage = "internal"
    return LoopBuilder(function, target), function


# --- steps ---

_KERNEL = ir.FunctionType(VOID, [PTR, I64, I64, PTR])


def _emit_kernel_call(
    lb: LoopBuilder, steps: Value, step: Value, tid: Value, threads: Value, poll: Value
) -> None:
    row = lb.mul(step, 2)
    kernel = _load(lb, steps, row, _KERNEL.as_pointer())
    lb.b.call(kernel, [_load(lb, steps, lb.add(row, 1), PTR), tid, threads, poll])


def _emit_run(module: ir.Module, target: Target, barrier: ir.Function) -> ir.Function:
    """void run(pool, steps, first, last, tid, threads, poll, base, stamps): thread ``tid``'s part.

    The time before and after each step goes to ``stamps``, pairs of seconds and nanoseconds, if
    there are any. A thread that is alone needs no pool. The number of a step is its place and
    ``base``, which no two jobs of a pool have in common. When a step is stopped, all wait for each
    other once more, so that all have seen it when the caller leaves.
    """
    kinds = [PTR, PTR, I64, I64, I64, I64, PTR, I64, PTR]
    lb, function = _function(module, target, "run", VOID, kinds)
    pool, steps, first, last, tid, threads, poll, base, stamps = function.args
    b = lb.b
    _emit_stamp(lb, stamps, 0)
    with lb.loop("step", first, last) as step:
        number = lb.add(lb.add(base, step.index), 1)
        with lb.when(b.icmp_signed("==", tid, lb.i64(0))):
            b.store(number, _at(lb, poll, _STEP), align=8)
        with lb.when(b.icmp_signed("==", _emit_poll(lb, poll), lb.i64(0))):
            _emit_kernel_call(lb, steps, step.index, tid, threads, poll)
        b.call(barrier, [pool, threads])
        stopped = b.load_atomic(_at(lb, poll, _STOPPED), "acquire", 8, typ=I64)
        with lb.when(b.icmp_signed("==", stopped, number)):
            b.call(barrier, [pool, threads])
            b.ret_void()
        _emit_stamp(lb, stamps, lb.add(lb.sub(step.index, first), 1))
    b.ret_void()
    return function


def _emit_stamp(lb: LoopBuilder, stamps: Value, number: Index) -> None:
    """Note the time as pair ``number``, if times are noted."""
    with lb.when(lb.b.icmp_unsigned("!=", stamps, _null())):
        place = lb.b.gep(stamps, [lb.i64(lb.mul(number, 2))], source_etype=I64)
        _emit_clock(lb, place)


def _emit_clock(lb: LoopBuilder, place: Value) -> None:
    """The time, as seconds and nanoseconds."""
    clock = lb.declare("clock_gettime", I32, [I32, PTR])
    lb.b.call(clock, [ir.Constant(I32, time.CLOCK_MONOTONIC), place])


def _emit_call(module: ir.Module, target: Target, listen: ir.Function) -> None:
    """void call(job): run a job (steps, first, last, main thread) on this thread alone.

    One argument costs ctypes 0.3 us less than six. Steps are short: what their kernels do not poll
    is polled every :data:`_FEW` steps.
    """
    lb, function = _function(module, target, "call", VOID, [PTR])
    b = lb.b
    job = function.args[0]
    poll = b.alloca(I64, _POLL_SLOTS)
    steps, first, last = (_load(lb, job, i, kind) for i, kind in enumerate((PTR, I64, I64)))
    _emit_let_go(lb, poll, listen, _load(lb, job, 3), lb.i64(0))
    b.store(lb.i64(1), _at(lb, poll, _STEP), align=8)
    with lb.loop("step", first, last) as step:
        _emit_kernel_call(lb, steps, step.index, lb.i64(0), lb.i64(1), poll)
        is_last_of_few = b.icmp_signed("==", b.and_(step.index, lb.i64(_FEW - 1)), lb.i64(_FEW - 1))
        with lb.when(is_last_of_few):
            _emit_poll(lb, poll)
        with lb.when(b.icmp_signed("!=", _load(lb, poll, _STOPPED), lb.i64(0))):
            _emit_take_back(lb, poll)
            b.ret_void()
    _emit_take_back(lb, poll)
    b.ret_void()


def _emit_alone(
    module: ir.Module, target: Target, run: ir.Function, listen: ir.Function
) -> ir.Function:
    """void alone(pool, steps, first, last, stamps): on this thread."""
    lb, function = _function(module, target, "alone", VOID, [PTR, PTR, I64, I64, PTR])
    pool, steps, first, last, stamps = function.args
    b = lb.b
    poll = b.alloca(I64, _POLL_SLOTS)
    _emit_let_go(lb, poll, listen, _load(lb, pool, _MAIN), lb.i64(0))
    zero = lb.i64(0)
    b.call(run, [_null(), steps, first, last, zero, lb.i64(1), poll, zero, stamps])
    _emit_take_back(lb, poll)
    b.ret_void()
    return function


def _emit_share(
    module: ir.Module, target: Target, alone: ir.Function, together: ir.Function
) -> None:
    """i64 share(pool, steps, first, last, threads, stamps): run the steps on up to ``threads``.

    Callers at the same time have equal parts of the threads; while one has the workers, the others
    do all of their work themselves. Returns whether the pool is orphaned.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR]
    lb, function = _function(module, target, "share", I64, kinds)
    pool, steps, first, last, threads, stamps = function.args
    b = lb.b
    orphaned = b.alloca(I64)
    b.store(lb.i64(0), orphaned, align=8)
    with lb.when(lb.less(threads, 2)):
        b.call(alone, [pool, steps, first, last, stamps])
        b.ret(lb.i64(0))
    callers = lb.add(b.atomic_rmw("add", _at(lb, pool, _CALLERS), lb.i64(1), "seq_cst"), 1)
    part = lb.min(b.udiv(threads, callers), MAX_WORKERS + 1)
    with b.if_else(lb.less(part, 2)) as (few, enough):
        with few:
            b.call(alone, [pool, steps, first, last, stamps])
        with enough:
            taken = b.atomic_rmw("xchg", _at(lb, pool, _BUSY), lb.i64(1), "acquire")
            with b.if_else(b.icmp_signed("==", taken, lb.i64(0))) as (free, busy):
                with free:
                    b.call(together, [pool, steps, first, last, part, stamps])
                    b.store(_load(lb, pool, _ORPHANED), orphaned, align=8)
                    b.atomic_rmw("xchg", _at(lb, pool, _BUSY), lb.i64(0), "release")
                with busy:
                    b.call(alone, [pool, steps, first, last, stamps])
    b.atomic_rmw("sub", _at(lb, pool, _CALLERS), lb.i64(1), "seq_cst")
    b.ret(b.load(orphaned, typ=I64, align=8))


def _emit_together(
    module: ir.Module,
    target: Target,
    run: ir.Function,
    start_workers: ir.Function,
    listen: ir.Function,
) -> ir.Function:
    """void together(pool, steps, first, last, threads, stamps): as worker 0; the pool is ours.

    Where the system makes no more threads, those that there are do the work.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR]
    lb, function = _function(module, target, "together", VOID, kinds)
    pool, steps, first, last, wished, stamps = function.args
    b = lb.b
    poll, workers_poll = _at(lb, pool, _CALLER_POLL), _at(lb, pool, _WORKER_POLL)
    _emit_let_go(lb, poll, listen, _load(lb, pool, _MAIN), b.ptrtoint(pool, I64))
    obey = _emit_obey(module, target)
    for slot, value in ((0, b.ptrtoint(obey, I64)), (_STOPPED, lb.i64(0))):
        b.store(value, _at(lb, workers_poll, slot), align=8)
    workers = b.call(start_workers, [pool, lb.sub(wished, 1)])
    threads = lb.min(wished, lb.add(workers, 1))
    base = _emit_publish(lb, pool, [b.ptrtoint(steps, I64), first, last, threads])
    with lb.loop("worker", 0, lb.sub(threads, 1)) as worker:
        _emit_wake(lb, _record(lb, pool, worker.index))
    b.call(run, [pool, steps, first, last, lb.i64(0), threads, poll, base, stamps])
    _emit_take_back(lb, poll)
    b.ret_void()
    return function


# --- Python, while native code runs ---


def _emit_poll(lb: LoopBuilder, poll: Value) -> Value:
    """What a poll's function answers: 0 to go on."""
    function = _load(lb, poll, 0, ir.FunctionType(I64, [PTR]).as_pointer())
    return lb.b.call(function, [poll])


def _emit_let_go(
    lb: LoopBuilder, poll: Value, listen: ir.Function, hearer: Value, pool: Value
) -> None:
    """Give the GIL away, and make what the caller's kernels poll."""
    b = lb.b
    state = b.call(lb.declare("PyEval_SaveThread", PTR, []), [])
    values = {
        0: b.ptrtoint(listen, I64),
        _STOPPED: lb.i64(0),
        _NEXT: lb.i64(0),
        _STATE: b.ptrtoint(state, I64),
        _HEARER: hearer,
        _POOL: pool,
    }
    for slot, value in values.items():
        b.store(value, _at(lb, poll, slot), align=8)


def _emit_take_back(lb: LoopBuilder, poll: Value) -> None:
    lb.b.call(lb.declare("PyEval_RestoreThread", VOID, [PTR]), [_load(lb, poll, _STATE, PTR)])


def _emit_obey(module: ir.Module, target: Target) -> ir.Function:
    """i64 obey(poll): what the workers poll."""
    lb, function = _function(module, target, "obey", I64, [PTR])
    stopped = _at(lb, function.args[0], _STOPPED)
    lb.b.ret(lb.b.load_atomic(stopped, "acquire", 8, typ=I64))
    return function


def _emit_listen(module: ir.Module, target: Target) -> ir.Function:
    """i64 listen(poll): what the caller polls. Now and then, let Python's signal handlers run."""
    hear = _emit_hear(module, target)
    lb, function = _function(module, target, "listen", I64, [PTR])
    b = lb.b
    poll = function.args[0]
    now, following = _emit_now(lb), _load(lb, poll, _NEXT)
    with lb.when(b.icmp_signed("==", following, lb.i64(0))):
        self = b.call(lb.declare("pthread_self", I64, []), [])
        hears = b.icmp_signed("==", self, _load(lb, poll, _HEARER))
        never = lb.i64(2**63 - 1)
        b.store(b.select(hears, lb.add(now, _DEAF), never), _at(lb, poll, _NEXT), align=8)
        b.ret(lb.i64(0))
    with lb.when(lb.less(now, following)):
        b.ret(lb.i64(0))
    b.ret(b.call(hear, [poll]))
    return function


def _emit_hear(module: ir.Module, target: Target) -> ir.Function:
    """i64 hear(poll): run the handlers of signals that came; the step's number if one raises.

    A handler may have forked: in the child a shared job cannot be done, for nobody else is there.
    """
    lb, function = _function(module, target, "hear", I64, [PTR])
    b = lb.b
    poll = function.args[0]
    _emit_take_back(lb, poll)
    raised = b.zext(b.call(lb.declare("PyErr_CheckSignals", I32, []), []), I64)
    state = b.call(lb.declare("PyEval_SaveThread", PTR, []), [])
    b.store(b.ptrtoint(state, I64), _at(lb, poll, _STATE), align=8)
    b.store(lb.add(_emit_now(lb), _DEAF), _at(lb, poll, _NEXT), align=8)
    step, pool = _load(lb, poll, _STEP), _load(lb, poll, _POOL, PTR)
    with lb.when(b.icmp_unsigned("==", pool, _null())):
        stopped = b.select(b.icmp_signed("==", raised, lb.i64(0)), lb.i64(0), step)
        b.store(stopped, _at(lb, poll, _STOPPED), align=8)
        b.ret(stopped)
    ends = b.or_(raised, _load(lb, pool, _ORPHANED))
    with lb.when(b.icmp_signed("==", ends, lb.i64(0))):
        b.ret(lb.i64(0))
    b.store(step, _at(lb, poll, _STOPPED), align=8)
    b.atomic_rmw("xchg", _at(lb, pool, _WORKER_POLL + _STOPPED), step, "release")
    b.ret(step)
    return function


def _emit_now(lb: LoopBuilder) -> Value:
    """The time in nanoseconds."""
    place = lb.b.alloca(I64, 2)
    _emit_clock(lb, place)
    return lb.add(lb.mul(_load(lb, place, 0), 1_000_000_000), _load(lb, place, 1))


# --- jobs ---


def _emit_publish(lb: LoopBuilder, pool: Value, job: list[Value]) -> Value:
    """Tell the workers of a job. Returns the base of its steps' numbers.

    Jobs alternate between two records, so that a late worker that is not needed for the job it
    sees can never take half of the next one for it.
    """
    b = lb.b
    sequence = lb.add(b.load_atomic(pool, "monotonic", 8, typ=I64), 1)
    record = _job(lb, pool, sequence)
    for i, value in enumerate(job):
        b.store(value, _at(lb, record, i), align=8)
    b.atomic_rmw("xchg", pool, sequence, "seq_cst")
    return _base(lb, sequence)


def _base(lb: LoopBuilder, sequence: Index) -> Value:
    return lb.b.shl(lb.i64(sequence), lb.i64(32))


def _job(lb: LoopBuilder, pool: Value, sequence: Index) -> Value:
    """The address of the job's record for a sequence number: one of two cache lines."""
    which = lb.mul(lb.b.and_(lb.i64(sequence), lb.i64(1)), 8)
    return _at(lb, pool, lb.add(which, _JOBS))


def _record(lb: LoopBuilder, pool: Value, number: Index) -> Value:
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

    def look_again(block: ir.Block, sequence: Index, waited: Index) -> None:
        known.add_incoming(lb.i64(sequence), block)
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
    poll, base = _at(lb, pool, _WORKER_POLL), _base(lb, now)
    b.call(run, [pool, b.inttoptr(steps, PTR), first, last, tid, threads, poll, base, _null()])
    b.branch(after)

    b.position_at_end(after)
    look_again(after, now, 0)
    b.branch(look)
    return function


# --- workers ---


def _emit_start_workers(module: ir.Module, target: Target, serve: ir.Function) -> ir.Function:
    """i64 start_workers(pool, wanted): until there are as many, or the system makes no more.

    Returns how many there are.
    """
    lb, function = _function(module, target, "start_workers", I64, [PTR, I64])
    b = lb.b
    pool, wanted = function.args
    count = _at(lb, pool, _WORKERS)
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


def _emit_wake(lb: LoopBuilder, record: Value) -> None:
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


def _lock(lb: LoopBuilder, what: str) -> Value:
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
            _emit_wait(lb, current, before, _at(lb, pool, _ORPHANED))
    b.ret_void()
    return function


def _emit_wait(lb: LoopBuilder, current: Value, before: Value, orphaned: Value) -> None:
    """Spin a bounded time, then give the core away between looks. An orphan waits for nobody."""
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
    b.cbranch(b.icmp_signed("==", b.load(orphaned, typ=I64, align=8), lb.i64(0)), spin, done)
    b.position_at_end(done)


def _emit_pause(lb: LoopBuilder) -> None:
    """Tell the CPU that this is a waiting loop, where it has a word for that."""
    if "x86" in lb.target.triple:
        lb.b.call(lb.declare("llvm.x86.sse2.pause", VOID, []), [])
    elif "aarch64" in lb.target.triple or "arm64" in lb.target.triple:
        lb.b.call(lb.declare("llvm.aarch64.hint", VOID, [I32]), [ir.Constant(I32, 1)])


# --- memory ---


def _at(lb: LoopBuilder, base: Value, slot: Index) -> Value:
    """The address of a 64-bit slot."""
    return lb.b.gep(base, [lb.i64(slot)], source_etype=I64)


def _load(lb: LoopBuilder, base: Value, slot: Index, kind: Type = I64) -> Value:
    return lb.b.load(_at(lb, base, slot), typ=kind, align=8)


def _null() -> Value:
    return ir.Value(PTR, "null")
