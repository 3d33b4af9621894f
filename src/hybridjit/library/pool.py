"""Threads of a context: started by ``init``, joined by ``free``.

The workers are those of a Python process, see :mod:`..codegen.emit.workers`, but each context has
its own, and they end. Without threads the same functions do all work on the calling thread.
"""

from __future__ import annotations

from ..codegen.emit.driver import emit_run
from ..codegen.emit.pool_memory import (
    BUSY,
    CLAIMS,
    QUEUE,
    RECORD_SLOTS,
    RECORDS,
    WORKER_POLL,
    load_slot,
    null,
    slot_at,
    worker_record,
)
from ..codegen.emit.workers import (
    emit_barrier,
    emit_end_workers,
    emit_publish,
    emit_serve,
    emit_start_workers,
    emit_wake,
)
from ..codegen.llvm.types import I32, I64, PTR, VOID
from .functions import Emitter, code, is_null, number_of, put, return_when, whole_lines
from .interface import FORKED, MAX_THREADS, MEMORY, THREADS
from .layout import IS_SMALL_CALL, POOL, PROCESS, STEPS, THREAD_COUNT


def emit_alone(emitter: Emitter) -> None:
    """The functions of a library without threads."""
    lb, (context, threads) = emitter.function("start_pool", I32, [PTR, I32])
    return_when(lb, lb.b.icmp_signed("!=", threads, code(1)), THREADS)
    put(lb, context, THREAD_COUNT, lb.i64(1))
    lb.b.ret(code(0))
    lb, _ = emitter.function("end_pool", VOID, [PTR])
    lb.b.ret_void()
    lb, (_, workspace, *some) = emitter.function("compute", I32, [PTR, PTR, I64, I64])
    lb.b.call(emitter.known("walk"), [workspace, *some])
    lb.b.ret(code(0))


def emit_pool(emitter: Emitter) -> None:
    """The functions of a library whose contexts have threads."""
    module, target = emitter.module, emitter.target
    run = emit_run(module, target, emit_barrier(module, target))
    serve = emit_serve(module, target, run)
    emit_start_workers(module, target, serve, are_joined=True)
    emit_end_workers(module, target)
    _emit_start(emitter)
    _emit_end(emitter)
    _emit_together(emitter)
    _emit_compute(emitter)


def _emit_start(emitter: Emitter) -> None:
    """int start_pool(context, threads): start all threads, or fail."""
    lb, (context, wished) = emitter.function("start_pool", I32, [PTR, I32])
    b = lb.b
    threads = b.sext(wished, I64)
    return_when(lb, lb.less(threads, 1), THREADS)
    return_when(lb, lb.less(MAX_THREADS, threads), THREADS)
    put(lb, context, THREAD_COUNT, threads)
    process = b.call(lb.declare("getpid", I32, []), [])
    put(lb, context, PROCESS, b.sext(process, I64))
    with lb.when(b.icmp_signed("==", threads, lb.i64(1))):
        b.ret(code(0))
    workers = lb.sub(threads, 1)
    slots = lb.add(lb.mul(workers, RECORD_SLOTS), RECORDS)
    nbytes = whole_lines(lb, lb.mul(slots, 8))
    pool = b.call(emitter.known("new_memory"), [nbytes])
    return_when(lb, is_null(lb, pool), MEMORY)
    put(lb, pool, WORKER_POLL, emitter.known("go_on"))
    put(lb, pool, WORKER_POLL + QUEUE, slot_at(lb, pool, CLAIMS))
    put(lb, context, POOL, pool)
    there = b.call(emitter.known("start_workers"), [pool, workers])
    return_when(lb, lb.less(there, workers), THREADS)
    b.ret(code(0))


def _emit_end(emitter: Emitter) -> None:
    """void end_pool(context): join the threads; a forked child has none to join."""
    lb, (context,) = emitter.function("end_pool", VOID, [PTR])
    b = lb.b
    pool = load_slot(lb, context, POOL, PTR)
    with lb.when(is_null(lb, pool)):
        b.ret_void()
    process = b.sext(b.call(lb.declare("getpid", I32, []), []), I64)
    with lb.when(b.icmp_signed("==", process, load_slot(lb, context, PROCESS))):
        b.call(emitter.known("end_workers"), [pool])
    b.call(lb.declare("free", VOID, [PTR]), [pool])
    b.ret_void()


def _emit_together(emitter: Emitter) -> None:
    """void together(pool, workspace, first, last, threads): run these steps on all threads."""
    lb, args = emitter.function("together", VOID, [PTR, PTR, I64, I64, I64])
    pool, workspace, first, last, threads = args
    b = lb.b
    steps = slot_at(lb, workspace, STEPS)
    put(lb, workspace, QUEUE, slot_at(lb, pool, CLAIMS))
    base = emit_publish(lb, pool, [number_of(lb, steps), first, last, threads, lb.i64(0)])
    with lb.loop("worker", 0, lb.sub(threads, 1)) as worker:
        emit_wake(lb, worker_record(lb, pool, worker.index))
    run = emitter.known("run")
    b.call(run, [pool, steps, first, last, lb.i64(0), threads, workspace, base, null()])
    b.ret_void()


def _emit_compute(emitter: Emitter) -> None:
    """int compute(context, workspace, first, last): run these steps of a round.

    Only the calling thread runs them if they are small or if another call uses the threads.
    """
    lb, (context, workspace, *some) = emitter.function("compute", I32, [PTR, PTR, I64, I64])
    b = lb.b
    pool = load_slot(lb, context, POOL, PTR)
    is_small = b.icmp_signed("!=", load_slot(lb, workspace, IS_SMALL_CALL), lb.i64(0))
    with lb.when(b.or_(is_null(lb, pool), is_small)):
        b.call(emitter.known("walk"), [workspace, *some])
        b.ret(code(0))
    process = b.sext(b.call(lb.declare("getpid", I32, []), []), I64)
    is_other = b.icmp_signed("!=", process, load_slot(lb, context, PROCESS))
    return_when(lb, is_other, FORKED)
    busy = slot_at(lb, pool, BUSY)
    taken = b.atomic_rmw("xchg", busy, lb.i64(1), "acquire")
    with b.if_else(b.icmp_signed("==", taken, lb.i64(0))) as (free, other):
        with free:
            threads = load_slot(lb, context, THREAD_COUNT)
            b.call(emitter.known("together"), [pool, workspace, *some, threads])
            b.atomic_rmw("xchg", busy, lb.i64(0), "release")
        with other:
            b.call(emitter.known("walk"), [workspace, *some])
    b.ret(code(0))
