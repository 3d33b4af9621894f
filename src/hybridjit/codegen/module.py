"""LLVM modules: one for each kernel, and the driver that walks a plan's steps.

A kernel is ``void kernel(ptr args, i64 tid, i64 threads)``; it does the part of the work that is
thread ``tid``'s, and nothing decides that part but the three numbers. The driver is
``void run(ptr steps, ptr barrier, i64 first, i64 last, i64 tid, i64 threads)``: each row of
``steps`` is a kernel's address and the address of its arguments, and all threads wait for each
other between two steps. ``publish`` and ``serve`` hand jobs to workers, see ``runtime.threads``.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..target import Target
from . import llvmir as ir
from .builder import I32, I64, PTR, VOID, LoopBuilder
from .kernels import KERNELS
from .kernels.arguments import Arguments
from .spec import KernelSpec

DRIVER = "run"
BARRIER_SLOTS = 16  # two 64-byte lines: arrivals, and the round
# Rounds of waiting in a barrier before a thread lets others have its core: about 20 us.
_SPINS = 400
# Rounds in which an idle worker looks for the next job before it sleeps: about 50 us.
_IDLE_SPINS = 1000


def kernel_name(spec: KernelSpec) -> str:
    """A symbol for the spec: its kind, and enough of a hash to tell it from all others."""
    return f"{spec.kind}_{hashlib.sha256(str(spec).encode()).hexdigest()[:12]}"


def emit_kernel(spec: KernelSpec, target: Target) -> ir.Module:
    """The module of one kernel."""
    module = _module(kernel_name(spec), target)
    signature = ir.FunctionType(VOID, [PTR, I64, I64])
    function = ir.Function(module, signature, kernel_name(spec))
    slots, tid, threads = function.args
    slots.name, tid.name, threads.name = "args", "tid", "threads"
    builder = LoopBuilder(function, target.of(spec.element))
    KERNELS[spec.kind](builder, spec, Arguments(builder, slots, tid, threads))
    builder.b.ret_void()
    return module


def emit_driver(target: Target) -> ir.Module:
    """The module that holds ``run``."""
    module = _module(DRIVER, target)
    barrier = _emit_barrier(module, target)
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR] + [I64] * 4), DRIVER)
    steps, state, first, last, tid, threads = function.args
    lb = LoopBuilder(function, target)
    kernel_type = ir.FunctionType(VOID, [PTR, I64, I64])
    with lb.loop("step", first, last) as step:
        row = lb.mul(step.index, 2)
        kernel = _slot(lb, steps, row, kernel_type.as_pointer())
        args = _slot(lb, steps, lb.add(row, 1), PTR)
        lb.b.call(kernel, [args, tid, threads])
        lb.b.call(barrier, [state, threads])
    lb.b.ret_void()
    _emit_call(module, target, function)
    _emit_publish(module, target)
    _emit_serve(module, target, function)
    return module


def _emit_call(module: ir.Module, target: Target, run: ir.Function) -> None:
    """void call(ptr job): run a job (steps, barrier, first, last) on this thread alone.

    One argument costs ctypes 0.3 us less than six.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [PTR]), "call")
    lb = LoopBuilder(function, target)
    job = function.args[0]
    steps, barrier = (_slot(lb, job, lb.i64(i), PTR) for i in (0, 1))
    first, last = (_slot(lb, job, lb.i64(i), I64) for i in (2, 3))
    lb.b.call(run, [steps, barrier, first, last, lb.i64(0), lb.i64(1)])
    lb.b.ret_void()


def _emit_publish(module: ir.Module, target: Target) -> None:
    """void publish(ptr pool, ptr steps, ptr barrier, i64 first, i64 last, i64 threads).

    Jobs alternate between two records, so that a late worker that is not needed for the job it
    sees can never take half of the next one for it.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [PTR] * 3 + [I64] * 3), "publish")
    pool, steps, barrier, *numbers = function.args
    lb = LoopBuilder(function, target)
    b = lb.b
    sequence = lb.add(b.load_atomic(pool, "monotonic", 8, typ=I64), 1)
    record = _record(lb, pool, sequence)
    for i, value in enumerate([b.ptrtoint(steps, I64), b.ptrtoint(barrier, I64), *numbers]):
        b.store(value, b.gep(record, [lb.i64(i)], source_etype=I64), align=8)
    b.atomic_rmw("xchg", pool, sequence, "seq_cst")
    b.ret_void()


def _record(lb: LoopBuilder, pool: Any, sequence: Any) -> Any:
    """The address of the job record for a sequence number: one of two cache lines."""
    which = lb.mul(lb.b.and_(sequence, lb.i64(1)), 8)
    return lb.b.gep(pool, [lb.add(which, 8)], source_etype=I64)


def _emit_serve(module: ir.Module, target: Target, run: ir.Function) -> None:
    """i64 serve(ptr pool, i64 seen, i64 tid): run jobs until none came for a while.

    Returns the last sequence number that it saw.
    """
    function = ir.Function(module, ir.FunctionType(I64, [PTR, I64, I64]), "serve")
    pool, seen, tid = function.args
    lb = LoopBuilder(function, target)
    b = lb.b
    entry = b.block
    look, idle, work, whole, mine, after, leave = (
        function.append_basic_block(n)
        for n in ("look", "idle", "work", "whole", "mine", "after", "leave")
    )
    b.branch(look)
    b.position_at_end(look)
    known, rounds = b.phi(I64), b.phi(I64)
    known.add_incoming(seen, entry)
    rounds.add_incoming(lb.i64(0), entry)
    now = b.load_atomic(pool, "acquire", 8, typ=I64)
    b.cbranch(b.icmp_signed("==", now, known), idle, work)

    b.position_at_end(idle)
    _emit_pause(lb)
    known.add_incoming(known, idle)
    rounds.add_incoming(lb.add(rounds, 1), idle)
    b.cbranch(b.icmp_signed("<", rounds, lb.i64(_IDLE_SPINS)), look, leave)

    b.position_at_end(work)
    record = _record(lb, pool, now)
    job = [_atomic_slot(lb, record, i) for i in range(5)]
    unchanged = b.icmp_signed("==", b.load_atomic(pool, "acquire", 8, typ=I64), now)
    known.add_incoming(known, work)
    rounds.add_incoming(lb.i64(0), work)
    b.cbranch(unchanged, whole, look)

    b.position_at_end(whole)
    b.cbranch(b.icmp_signed("<", tid, job[4]), mine, after)

    b.position_at_end(mine)
    steps, barrier = b.inttoptr(job[0], PTR), b.inttoptr(job[1], PTR)
    b.call(run, [steps, barrier, job[2], job[3], tid, job[4]])
    b.branch(after)

    b.position_at_end(after)
    known.add_incoming(now, after)
    rounds.add_incoming(lb.i64(0), after)
    b.branch(look)

    b.position_at_end(leave)
    b.ret(known)


def _atomic_slot(lb: LoopBuilder, base: Any, index: int) -> Any:
    slot = lb.b.gep(base, [lb.i64(index)], source_etype=I64)
    return lb.b.load_atomic(slot, "acquire", 8, typ=I64)


def _emit_barrier(module: ir.Module, target: Target) -> ir.Function:
    """All threads arrive before any leaves: the last one to arrive starts the next round."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64]), "barrier")
    function.linkage = "internal"
    state, threads = function.args
    lb = LoopBuilder(function, target)
    b = lb.b
    alone = b.icmp_signed("==", threads, lb.i64(1))
    with b.if_then(alone):
        b.ret_void()
    arrivals, current = state, b.gep(state, [lb.i64(8)], source_etype=I64)
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


def _slot(lb: LoopBuilder, base: Any, index: Any, kind: Any) -> Any:
    return lb.b.load(lb.b.gep(base, [lb.i64(index)], source_etype=I64), typ=kind, align=8)


def _module(name: str, target: Target) -> ir.Module:
    module = ir.Module(name)
    module.triple = target.triple
    return module
