"""Workers: threads that wait for jobs, do their part, and wait for each other between steps.

Input: jobs that a caller publishes in the pool's memory. A worker spins for a bounded time for the
next one, then sleeps; it ends with the process, or with its pool if the pool is ended.
"""

from __future__ import annotations

from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I32, I64, PTR, VOID, Value
from .pool_memory import (
    ARRIVALS,
    ASLEEP,
    CONDITION,
    HANDLE,
    HURRIED,
    JOINED,
    MUTEX,
    ORPHANED,
    ROUND,
    WORKER_POLL,
    WORKERS,
    first_number,
    job_record,
    load_slot,
    new_function,
    null,
    slot_at,
    worker_record,
)

# Rounds of waiting in a barrier before a thread yields its core: about 20 us.
_SPINS = 400
# The same after a wait that took longer: the threads may share one core, on which a spinning thread
# blocks the others. With another program on one of two cores, a plan of 245 short steps (an LSTM's
# training) took 4.3 ms with 400 rounds in each barrier, and 2.0 with 20.
_HURRIED_SPINS = 20
# Rounds in which an idle worker spins for the next job before it sleeps: about 120 us, so that it
# is awake when a training loop calls the next plan, after 60 to 100 us of Python. Waking it takes
# 35 us, of the 150 that LeNet's forward pass takes on two cores.
_IDLE_SPINS = 6000
# The same if threads share a core: the system schedules a woken thread at once, but not one that
# has spun.
_HURRIED_IDLE_SPINS = 1000


def emit_publish(lb: LoopBuilder, pool: Value, job: list[Value]) -> Value:
    """Publish a job to the workers. Returns the base of its steps' numbers.

    Jobs alternate between two records, so that a late worker that is not needed for its job cannot
    read a mixture of it and the next job.
    """
    b = lb.b
    sequence = lb.add(b.load_atomic(pool, "monotonic", 8, typ=I64), 1)
    record = job_record(lb, pool, sequence)
    for i, value in enumerate(job):
        b.store(value, slot_at(lb, record, i), align=8)
    b.atomic_rmw("xchg", pool, sequence, "seq_cst")
    return first_number(lb, sequence)


def emit_serve(module: ir.Module, target: Target, run: ir.Function) -> ir.Function:
    """ptr serve(record): the main loop of a worker. A job without steps ends it.

    If a worker has read the complete record of a job that needs it, all others wait for it: no
    other job can follow before it has done its part.
    """
    sleep = _emit_sleep(module, target)
    lb, function = new_function(module, target, "serve", PTR, [PTR])
    b = lb.b
    record = function.args[0]
    pool, tid, seen = (
        load_slot(lb, record, 0, PTR),
        load_slot(lb, record, 1),
        load_slot(lb, record, 2),
    )
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
    hurried = b.load_atomic(slot_at(lb, pool, HURRIED), "monotonic", 8, typ=I64)
    is_hurried = b.icmp_signed("!=", hurried, lb.i64(0))
    limit = b.select(is_hurried, lb.i64(_HURRIED_IDLE_SPINS), lb.i64(_IDLE_SPINS))
    b.cbranch(b.icmp_signed("<", rounds, limit), look, tired)

    b.position_at_end(tired)
    b.call(sleep, [record, pool, known])
    look_again(tired, known, 0)
    b.branch(look)

    b.position_at_end(work)
    job = job_record(lb, pool, now)
    steps, first, last, threads, stamps = (
        b.load_atomic(slot_at(lb, job, i), "acquire", 8, typ=I64) for i in range(5)
    )
    unchanged = b.icmp_signed("==", b.load_atomic(pool, "acquire", 8, typ=I64), now)
    look_again(work, known, 0)
    b.cbranch(unchanged, whole, look)

    b.position_at_end(whole)
    look_again(whole, now, rounds)
    b.cbranch(b.icmp_signed("<", tid, threads), mine, look)

    b.position_at_end(mine)
    with lb.when(b.icmp_signed("==", steps, lb.i64(0))):
        b.ret(null())
    poll, base = slot_at(lb, pool, WORKER_POLL), first_number(lb, now)
    plan, times = b.inttoptr(steps, PTR), b.inttoptr(stamps, PTR)
    b.call(run, [pool, plan, first, last, tid, threads, poll, base, times])
    b.branch(after)

    b.position_at_end(after)
    look_again(after, now, 0)
    b.branch(look)
    return function


def emit_start_workers(
    module: ir.Module, target: Target, serve: ir.Function, are_joined: bool = False
) -> ir.Function:
    """i64 start_workers(pool, wanted): create workers up to ``wanted``, if the system allows.

    Returns their number. Those that ``are_joined`` end before their pool does; their records have
    their handles. Others stay until the process ends.
    """
    lb, function = new_function(module, target, "start_workers", I64, [PTR, I64])
    b = lb.b
    pool, wanted = function.args
    count = slot_at(lb, pool, WORKERS)
    create = lb.declare("pthread_create", I32, [PTR] * 4)
    there = b.load_atomic(count, "monotonic", 8, typ=I64)
    with lb.loop("worker", there, wanted) as worker:
        record = worker_record(lb, pool, worker.index)
        seen = b.load_atomic(pool, "monotonic", 8, typ=I64)
        for i, value in enumerate((b.ptrtoint(pool, I64), lb.add(worker.index, 1), seen)):
            b.store(value, slot_at(lb, record, i), align=8)
        for kind, slot in (("mutex", MUTEX), ("cond", CONDITION)):
            start = lb.declare(f"pthread_{kind}_init", I32, [PTR, PTR])
            b.call(start, [slot_at(lb, record, slot), null()])
        handle = slot_at(lb, record, JOINED) if are_joined else slot_at(lb, pool, HANDLE)
        failed = b.call(create, [handle, null(), serve, record])
        with lb.when(b.icmp_signed("!=", failed, ir.Constant(I32, 0))):
            b.ret(worker.index)
        if not are_joined:
            detach = lb.declare("pthread_detach", I32, [I64])
            b.call(detach, [b.load(handle, typ=I64, align=8)])
        b.atomic_rmw("add", count, lb.i64(1), "release")
    b.ret(lb.max(there, wanted))
    return function


def _emit_sleep(module: ir.Module, target: Target) -> ir.Function:
    """void sleep(record, pool, seen): until woken, or until there is another job.

    A worker sets its flag before it reads the sequence once more; a caller raises the sequence
    before it reads the flags. At least one of the two sees the other.
    """
    lb, function = new_function(module, target, "sleep", VOID, [PTR, PTR, I64])
    b = lb.b
    record, pool, seen = function.args
    mutex, condition = slot_at(lb, record, MUTEX), slot_at(lb, record, CONDITION)
    asleep = slot_at(lb, record, ASLEEP)
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


def emit_end_workers(module: ir.Module, target: Target) -> ir.Function:
    """void end_workers(pool): end and join all workers, after which the pool can be freed."""
    lb, function = new_function(module, target, "end_workers", VOID, [PTR])
    b = lb.b
    pool = function.args[0]
    count = load_slot(lb, pool, WORKERS)
    nothing = lb.i64(0)
    emit_publish(lb, pool, [nothing, nothing, nothing, lb.add(count, 1), nothing])
    with lb.loop("wake", 0, count) as worker:
        emit_wake(lb, worker_record(lb, pool, worker.index))
    join = lb.declare("pthread_join", I32, [I64, PTR])
    with lb.loop("join", 0, count) as worker:
        record = worker_record(lb, pool, worker.index)
        b.call(join, [load_slot(lb, record, JOINED), null()])
        for kind, slot in (("mutex", MUTEX), ("cond", CONDITION)):
            destroy = lb.declare(f"pthread_{kind}_destroy", I32, [PTR])
            b.call(destroy, [slot_at(lb, record, slot)])
    b.ret_void()
    return function


def emit_wake(lb: LoopBuilder, record: Value) -> None:
    """Wake a worker if it sleeps."""
    b = lb.b
    asleep = slot_at(lb, record, ASLEEP)
    sleeps = b.icmp_signed("!=", b.load_atomic(asleep, "seq_cst", 8, typ=I64), lb.i64(0))
    with lb.when(sleeps):
        mutex = slot_at(lb, record, MUTEX)
        b.call(_lock(lb, "lock"), [mutex])
        b.atomic_rmw("xchg", asleep, lb.i64(0), "seq_cst")
        b.call(_lock(lb, "unlock"), [mutex])
        signal = lb.declare("pthread_cond_signal", I32, [PTR])
        b.call(signal, [slot_at(lb, record, CONDITION)])


def _lock(lb: LoopBuilder, what: str) -> Value:
    return lb.declare(f"pthread_mutex_{what}", I32, [PTR])


def emit_barrier(module: ir.Module, target: Target) -> ir.Function:
    """void barrier(pool, threads): all arrive before any leaves; the last one starts a round."""
    lb, function = new_function(module, target, "barrier", VOID, [PTR, I64])
    pool, threads = function.args
    b = lb.b
    with lb.when(b.icmp_signed("==", threads, lb.i64(1))):
        b.ret_void()
    arrivals, current = slot_at(lb, pool, ARRIVALS), slot_at(lb, pool, ROUND)
    before = b.load_atomic(current, "acquire", 8, typ=I64)
    arrived = b.atomic_rmw("add", arrivals, lb.i64(1), "acq_rel")
    is_last = b.icmp_signed("==", arrived, lb.sub(threads, 1))
    with b.if_else(is_last) as (last, waiting):
        with last:
            b.atomic_rmw("xchg", arrivals, lb.i64(0), "monotonic")
            b.atomic_rmw("add", current, lb.i64(1), "release")
        with waiting:
            hurried = slot_at(lb, pool, HURRIED)
            was_hurried = b.load_atomic(hurried, "monotonic", 8, typ=I64)
            orphaned = slot_at(lb, pool, ORPHANED)
            is_hurried = _emit_wait(lb, current, before, was_hurried, orphaned)
            with lb.when(b.icmp_signed("!=", is_hurried, was_hurried)):
                b.atomic_rmw("xchg", hurried, is_hurried, "monotonic")
    b.ret_void()
    return function


def _emit_wait(
    lb: LoopBuilder, current: Value, before: Value, hurried: Value, orphaned: Value
) -> Value:
    """Spin for a bounded time, then yield the core between checks. An orphan does not wait.

    Returns whether the core was yielded.
    """
    b = lb.b
    no = b.icmp_signed("==", hurried, lb.i64(0))
    patience = b.select(no, lb.i64(_SPINS), lb.i64(_HURRIED_SPINS))
    entry = b.block
    spin = lb.function.append_basic_block("spin")
    pause = lb.function.append_basic_block("pause")
    give = lb.function.append_basic_block("yield")
    done = lb.function.append_basic_block("passed")
    b.branch(spin)
    b.position_at_end(spin)
    rounds, given = b.phi(I64), b.phi(I64)

    def spin_again(waited: Index, gave: int) -> None:
        rounds.add_incoming(lb.i64(waited), b.block)
        given.add_incoming(lb.i64(gave), b.block)

    rounds.add_incoming(lb.i64(0), entry)
    given.add_incoming(lb.i64(0), entry)
    now = b.load_atomic(current, "acquire", 8, typ=I64)
    again = lb.add(rounds, 1)
    check = b.icmp_signed("==", now, before)
    tired = b.icmp_signed(">", rounds, patience)
    choose = lb.function.append_basic_block("still")
    b.cbranch(check, choose, done)
    b.position_at_end(choose)
    b.cbranch(tired, give, pause)
    b.position_at_end(pause)
    _emit_pause(lb)
    spin_again(again, 0)
    b.branch(spin)
    b.position_at_end(give)
    b.call(lb.declare("sched_yield", I32, []), [])
    spin_again(again, 1)
    b.cbranch(b.icmp_signed("==", b.load(orphaned, typ=I64, align=8), lb.i64(0)), spin, done)
    b.position_at_end(done)
    return given


def _emit_pause(lb: LoopBuilder) -> None:
    """The CPU's hint for waiting loops, if it has one."""
    if "x86" in lb.target.triple:
        lb.b.call(lb.declare("llvm.x86.sse2.pause", VOID, []), [])
    elif "aarch64" in lb.target.triple or "arm64" in lb.target.triple:
        lb.b.call(lb.declare("llvm.aarch64.hint", VOID, [I32]), [ir.Constant(I32, 1)])
