"""The driver: machine code that executes a plan's steps, on one thread or on all of a pool.

Each row of ``steps`` is a kernel's address, the address of its arguments, and the maximal number of
threads that continue with the next step without a barrier. ``call`` runs a small plan on the
calling thread. ``share`` performs a whole call on several threads: it publishes the job, wakes
sleeping workers, runs the caller's part and releases the pool. No Python code runs in between that
could leave a job partly published.

A worker is a system thread that stays in ``serve`` until the process ends: it spins for a bounded
time for the next job, then sleeps. A job is a range of steps; every worker executes its part of
each, with a barrier between two steps. Their shared state is in the pool's memory, which is never
freed: a late worker may still read it.

Steps between two barriers are a stretch, see :mod:`.barriers`: threads may be at different steps.

Both functions release the GIL and take it back. In a long call of the main thread they take it
every 20 ms to run Python's signal handlers: steps and kernels poll, see ``LoopBuilder.poll``. If a
handler raises, all threads leave their current step, and the call ends with that exception. Python
handles signals only in the main thread, so other threads do not poll for them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ..._core.frozen import dataclass
from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.library import Library, provide
from ..llvm.types import I32, I64, PTR, VOID, Value
from .entries import FROM_PYTHON, Entries, emit_entries
from .listening import emit_clock, emit_let_go, emit_listen, emit_obey, emit_poll, emit_take_back
from .pool_memory import (
    BUSY,
    CALLER_POLL,
    CALLERS,
    CLAIMS,
    MAX_WORKERS,
    ORPHANED,
    POLL_SLOTS,
    PUBLIC,
    QUEUE,
    STEP,
    STEP_SLOTS,
    STOPPED,
    WORKER_POLL,
    PoolLayout,
    claims_of,
    load_slot,
    new_function,
    null,
    slot_at,
    worker_record,
)
from .workers import emit_barrier, emit_publish, emit_serve, emit_start_workers, emit_wake

# Called with the GIL, which they release; they may end with an exception.
_CALL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_SHARE = ctypes.PYFUNCTYPE(
    ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_int64
)
_FROM_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals", *FROM_PYTHON)
_FEW = 64


@dataclass(frozen=True)
class Driver:
    """The driver's functions as callables; they release the GIL while they run.

    ``call(job)`` takes an address; ``share(pool, steps, first, last, threads, stamps, hearer)``
    returns whether the process was forked meanwhile and this is the child. The hearer is the thread
    whose calls handle signals; 0 is none. ``entries`` do the same as ``call`` for one instance.
    ``layout`` describes the pool's memory.
    """

    call: Callable[..., None]
    share: Callable[..., int]
    entries: Entries
    layout: PoolLayout


# Workers execute their driver's code until the process ends.
_LOADED: list[Library] = []


def load_driver(code: bytes, target: Target) -> Driver:
    """Load the object of :func:`emit_driver`, never to be unloaded."""
    for name in _FROM_PYTHON:
        provide(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
    library = Library([code], target, PUBLIC)
    _LOADED.append(library)
    call, share = _CALL(library.address("call")), _SHARE(library.address("share"))
    return Driver(call, share, Entries(library), PoolLayout())


def emit_driver(target: Target) -> ir.Module:
    """The module with ``call``, ``share`` and the entries."""
    module = ir.Module("driver")
    module.triple = target.triple
    listen = emit_listen(module, target)
    emit_entries(module, target, _emit_call(module, target, listen))
    run = emit_run(module, target, emit_barrier(module, target))
    serve = emit_serve(module, target, run)
    start_workers = emit_start_workers(module, target, serve)
    together = _emit_together(module, target, run, start_workers, listen)
    _emit_share(module, target, _emit_alone(module, target, run, listen), together)
    return module


# --- steps ---

KERNEL = ir.FunctionType(VOID, [PTR, I64, I64, PTR])


def _emit_kernel_call(
    lb: LoopBuilder, steps: Value, step: Value, tid: Value, threads: Value, poll: Value
) -> None:
    row = lb.mul(step, STEP_SLOTS)
    kernel = load_slot(lb, steps, row, KERNEL.as_pointer())
    lb.b.call(kernel, [load_slot(lb, steps, lb.add(row, 1), PTR), tid, threads, poll])


def emit_run(module: ir.Module, target: Target, barrier: ir.Function) -> ir.Function:
    """void run(pool, steps, first, last, tid, threads, poll, base, stamps): thread ``tid``'s part.

    Unless ``stamps`` is null, the times before and after this thread's part of each step are stored
    there, and behind them the caller's time after the last barrier: a row of pairs of seconds and
    nanoseconds for each thread, after the number of the clock. A single thread needs no pool. A
    stretch of steps has the number of its first one: its index plus ``base``, which is unique among
    the jobs of a pool. After a stop, threads begin no other step of the stretch, and a further
    barrier at its end ensures that all have seen the stop before the caller leaves.
    """
    kinds = [PTR, PTR, I64, I64, I64, I64, PTR, I64, PTR]
    lb, function = new_function(module, target, "run", VOID, kinds)
    pool, steps, first, last, tid, threads, poll, base, stamps = function.args
    b = lb.b
    count = lb.mul(lb.sub(last, first), 2)
    row = lb.mul(lb.add(count, 1), tid)
    with lb.loop("step", first, last, carry=[lb.add(lb.add(base, first), 1)]) as step:
        (number,) = step.carried
        with lb.when(b.icmp_signed("==", tid, lb.i64(0))):
            b.store(number, slot_at(lb, poll, STEP), align=8)
        before = lb.add(row, lb.mul(lb.sub(step.index, first), 2))
        _emit_stamp(lb, stamps, before)
        with (
            lb.when(b.icmp_signed("==", _stopped(lb, poll), lb.i64(0))),
            lb.when(b.icmp_signed("==", emit_poll(lb, poll), lb.i64(0))),
        ):
            _emit_kernel_call(lb, steps, step.index, tid, threads, poll)
        _emit_stamp(lb, stamps, lb.add(before, 1))
        following = lb.add(step.index, 1)
        ends = _is_end(lb, steps, step.index, b.icmp_signed("==", following, last), threads)
        with lb.when(ends):
            b.call(barrier, [pool, threads])
            with lb.when(b.icmp_signed("==", _stopped(lb, poll), number)):
                b.call(barrier, [pool, threads])
                _emit_forget_claims(lb, pool, tid, threads)
                b.ret_void()
        step.yields([b.select(ends, lb.add(lb.add(base, following), 1), number)])
    # Behind the last barrier a worker may be later than the caller, who then frees the memory.
    with lb.when(b.icmp_signed("==", tid, lb.i64(0))):
        _emit_stamp(lb, stamps, count)
    b.ret_void()
    return function


def _stopped(lb: LoopBuilder, poll: Value) -> Value:
    """The number of the stretch that was stopped; 0 if none of this job was."""
    return lb.b.load_atomic(slot_at(lb, poll, STOPPED), "acquire", 8, typ=I64)


def _is_end(lb: LoopBuilder, steps: Value, step: Value, is_last: Value, threads: Value) -> Value:
    """Whether a barrier follows a step."""
    unfenced = load_slot(lb, steps, lb.add(lb.mul(step, STEP_SLOTS), 2))
    return lb.b.or_(lb.less(unfenced, threads), is_last)


def _emit_forget_claims(lb: LoopBuilder, pool: Value, tid: Value, threads: Value) -> None:
    """Discard the unclaimed work of an aborted step, which the next step would find."""
    with lb.when(lb.less(1, threads)):
        claims = claims_of(lb, slot_at(lb, pool, CLAIMS), tid)
        lb.b.atomic_rmw("xchg", claims, lb.i64(0), "acq_rel")


def _emit_stamp(lb: LoopBuilder, stamps: Value, number: Index) -> None:
    """Store the time as pair ``number`` after the clock's, unless ``stamps`` is null."""
    with lb.when(lb.b.icmp_unsigned("!=", stamps, null())):
        clock = lb.b.trunc(load_slot(lb, stamps, 0), I32)
        emit_clock(lb, slot_at(lb, stamps, lb.mul(lb.add(number, 1), 2)), clock)


def _emit_call(module: ir.Module, target: Target, listen: ir.Function) -> ir.Function:
    """void call(job): run a job (steps, first, last, main thread) on the calling thread.

    One argument costs ctypes 0.3 us less than six. Steps are short: beyond the polls of their
    kernels, there is a poll every :data:`_FEW` steps.
    """
    lb, function = new_function(module, target, "call", VOID, [PTR])
    b = lb.b
    job = function.args[0]
    poll = b.alloca(I64, POLL_SLOTS)
    steps, first, last = (load_slot(lb, job, i, kind) for i, kind in enumerate((PTR, I64, I64)))
    emit_let_go(lb, poll, listen, load_slot(lb, job, 3), lb.i64(0), lb.i64(0))
    b.store(lb.i64(1), slot_at(lb, poll, STEP), align=8)
    with lb.loop("step", first, last) as step:
        _emit_kernel_call(lb, steps, step.index, lb.i64(0), lb.i64(1), poll)
        is_last_of_few = b.icmp_signed("==", b.and_(step.index, lb.i64(_FEW - 1)), lb.i64(_FEW - 1))
        with lb.when(is_last_of_few):
            emit_poll(lb, poll)
        with lb.when(b.icmp_signed("!=", load_slot(lb, poll, STOPPED), lb.i64(0))):
            emit_take_back(lb, poll)
            b.ret_void()
    emit_take_back(lb, poll)
    b.ret_void()
    return function


def _emit_alone(
    module: ir.Module, target: Target, run: ir.Function, listen: ir.Function
) -> ir.Function:
    """void alone(steps, first, last, stamps, hearer): run steps on the calling thread."""
    lb, function = new_function(module, target, "alone", VOID, [PTR, I64, I64, PTR, I64])
    steps, first, last, stamps, hearer = function.args
    b = lb.b
    poll = b.alloca(I64, POLL_SLOTS)
    emit_let_go(lb, poll, listen, hearer, lb.i64(0), lb.i64(0))
    zero = lb.i64(0)
    b.call(run, [null(), steps, first, last, zero, lb.i64(1), poll, zero, stamps])
    emit_take_back(lb, poll)
    b.ret_void()
    return function


def _emit_share(
    module: ir.Module, target: Target, alone: ir.Function, together: ir.Function
) -> None:
    """i64 share(pool, steps, first, last, threads, stamps, hearer): run steps on up to ``threads``.

    Concurrent callers have equal shares of the threads; while one has the workers, the others do
    all of their work themselves. Returns whether the pool is orphaned.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR, I64]
    lb, function = new_function(module, target, "share", I64, kinds)
    pool, steps, first, last, threads, stamps, hearer = function.args
    by_itself = [steps, first, last, stamps, hearer]
    b = lb.b
    orphaned = b.alloca(I64)
    b.store(lb.i64(0), orphaned, align=8)
    with lb.when(lb.less(threads, 2)):
        b.call(alone, by_itself)
        b.ret(lb.i64(0))
    callers = lb.add(b.atomic_rmw("add", slot_at(lb, pool, CALLERS), lb.i64(1), "seq_cst"), 1)
    part = lb.min(b.udiv(threads, callers), MAX_WORKERS + 1)
    with b.if_else(lb.less(part, 2)) as (few, enough):
        with few:
            b.call(alone, by_itself)
        with enough:
            taken = b.atomic_rmw("xchg", slot_at(lb, pool, BUSY), lb.i64(1), "acquire")
            with b.if_else(b.icmp_signed("==", taken, lb.i64(0))) as (free, busy):
                with free:
                    b.call(together, [pool, steps, first, last, part, stamps, hearer])
                    b.store(load_slot(lb, pool, ORPHANED), orphaned, align=8)
                    b.atomic_rmw("xchg", slot_at(lb, pool, BUSY), lb.i64(0), "release")
                with busy:
                    b.call(alone, by_itself)
    b.atomic_rmw("sub", slot_at(lb, pool, CALLERS), lb.i64(1), "seq_cst")
    b.ret(b.load(orphaned, typ=I64, align=8))


def _emit_together(
    module: ir.Module,
    target: Target,
    run: ir.Function,
    start_workers: ir.Function,
    listen: ir.Function,
) -> ir.Function:
    """void together(pool, steps, first, last, threads, stamps, hearer): as worker 0, with the pool.

    If the system creates no more threads, the existing ones do the work.
    """
    kinds = [PTR, PTR, I64, I64, I64, PTR, I64]
    lb, function = new_function(module, target, "together", VOID, kinds)
    pool, steps, first, last, wished, stamps, hearer = function.args
    b = lb.b
    poll, workers_poll = slot_at(lb, pool, CALLER_POLL), slot_at(lb, pool, WORKER_POLL)
    queue = b.ptrtoint(slot_at(lb, pool, CLAIMS), I64)
    emit_let_go(lb, poll, listen, hearer, b.ptrtoint(pool, I64), queue)
    obey = emit_obey(module, target)
    for slot, value in ((0, b.ptrtoint(obey, I64)), (STOPPED, lb.i64(0)), (QUEUE, queue)):
        b.store(value, slot_at(lb, workers_poll, slot), align=8)
    workers = b.call(start_workers, [pool, lb.sub(wished, 1)])
    threads = lb.min(wished, lb.add(workers, 1))
    job = [b.ptrtoint(steps, I64), first, last, threads, b.ptrtoint(stamps, I64)]
    base = emit_publish(lb, pool, job)
    with lb.loop("worker", 0, lb.sub(threads, 1)) as worker:
        emit_wake(lb, worker_record(lb, pool, worker.index))
    b.call(run, [pool, steps, first, last, lb.i64(0), threads, poll, base, stamps])
    emit_take_back(lb, poll)
    b.ret_void()
    return function
