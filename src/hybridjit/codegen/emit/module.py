"""An LLVM module for each kernel.

A kernel is ``void kernel(ptr args, i64 tid, i64 threads, ptr poll)``; it does thread ``tid``'s
share of the work, which depends on the arguments and these two integers only. ``driver`` calls it.
A share is divided into parts of about 0.3 ms, and after each, ``poll`` decides whether to continue:
see ``builder.Part``.

Cores may differ in speed, because other programs use them too. So a large share consists of several
chunks, which a thread claims one by one; when its own are done, it claims chunks that others have
not begun (work stealing). Chunks are the shares of as many threads as there are chunks, so the
thread that executes one does not affect the bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from ..._core.target import Target
from ..kinds import emitter_of
from ..kinds.parts.arguments import Arguments
from ..llvm import ir
from ..llvm.builder import LoopBuilder, Part
from ..llvm.types import I64, PTR, VOID, Value
from ..spec import KernelSpec
from .pool_memory import QUEUE, claims_of, load_slot, null

# Chunks of a thread's share: the final wait is for a part of one chunk.
_MOST_PIECES = 8
# For functions that run once per part: without optimisation, LLVM takes 5 % less time for the
# kernels of a step.
_SELDOM = "noinline optnone"


class Named(Protocol):
    """A spec, or the text of one."""

    @property
    def kind(self) -> str: ...


def kernel_name(spec: Named) -> str:
    """A symbol for the spec: its kind, and a hash long enough to be unique."""
    return f"{spec.kind}_{hashlib.sha256(str(spec).encode()).hexdigest()[:12]}"


def emit_kernel(spec: KernelSpec, target: Target, name: str = "") -> ir.Module:
    """The module of one kernel, called ``name``, or :func:`kernel_name` of its spec."""
    module = ir.Module(name or kernel_name(spec))
    module.triple = target.triple
    kinds = [PTR, I64, I64, I64, PTR, I64, I64, PTR]
    part = ir.Function(module, ir.FunctionType(I64, kinds), "part")
    # Prevents LLVM from inserting calls of memset: kernels need no library.
    part.linkage, part.attributes = "internal", 'noinline "no-builtins"'
    slots, tid, share, shares, *given = part.args
    words = ("args", "tid", "share", "shares", "poll", "start", "count", "kept")
    for argument, word in zip(part.args, words):
        argument.name = word
    written_for = target.of(spec.element).with_vectors(spec.vector_bytes)
    builder = LoopBuilder(part, written_for, Part(*given))
    emitter_of(spec.kind)(builder, spec, Arguments(builder, slots, tid, share, shares))
    count, pieces = builder.end_part()
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, PTR]), module.name)
    function.attributes = _SELDOM
    lb = LoopBuilder(function, target)
    kept = lb.b.alloca(I64)
    lb.b.store(lb.i64(-1), kept, align=8)
    if pieces < 4:  # two threads would have one chunk each
        slots, tid, threads, poll = function.args
        _emit_parts(lb, part, [slots, tid, tid, threads, poll], kept, count)
    else:
        _emit_claims(lb, _emit_share(module, target, part, count), kept, pieces)
    return module


def _emit_share(module: ir.Module, target: Target, part: ir.Function, count: int) -> ir.Function:
    """i64 share(args, tid, share, shares, poll, kept): 0, or -1 if it was stopped."""
    kinds = [PTR, I64, I64, I64, PTR, PTR]
    function = ir.Function(module, ir.FunctionType(I64, kinds), "share")
    function.linkage, function.attributes = "internal", _SELDOM
    *which, kept = function.args
    _emit_parts(LoopBuilder(function, target), part, which, kept, count)
    return function


def _emit_parts(
    lb: LoopBuilder, part: ir.Function, which: Sequence[Value], kept: Value, count: int
) -> None:
    """The parts of a share in order, with a poll between them; ends the function."""
    b, entry, poll = lb.b, lb.b.block, which[-1]
    more, ask, done, stopped = b.blocks("more", "ask", "done", "stopped")
    b.branch(more)
    b.position_at_end(more)
    start = b.phi(I64)
    following = b.call(part, [*which, start, lb.i64(count), kept])
    start.add_incoming(lb.i64(0), entry)
    start.add_incoming(following, ask)
    b.cbranch(lb.less(0, following), ask, done)
    b.position_at_end(ask)
    asked = ir.FunctionType(I64, [PTR]).as_pointer()
    stops = b.call(b.load(poll, typ=asked, align=8), [poll])
    b.cbranch(b.icmp_signed("==", stops, lb.i64(0)), more, stopped)
    for block, answer in ((done, following), (stopped, lb.i64(-1))):
        b.position_at_end(block)
        if lb.function.kind.result is VOID:
            b.ret_void()
        else:
            b.ret(answer)


def _emit_claims(lb: LoopBuilder, share: ir.Function, kept: Value, pieces: int) -> None:
    """Emit the loop of a thread over its own chunks, then over those that others have not begun.

    Without a queue the thread computes its whole share.

    Claims count up from minus the number of chunks to 0. A thread that finds a larger value has
    nothing to take: the owner has not begun this step, or its work is done.
    """
    b = lb.b
    args, tid, threads, poll = lb.function.args
    alone, look, together, leave = b.blocks("alone", "look", "together", "leave")
    each = lb.min(b.udiv(lb.i64(pieces), threads), _MOST_PIECES)
    b.cbranch(b.or_(lb.less(threads, 2), lb.less(each, 2)), alone, look)
    b.position_at_end(look)
    queue = load_slot(lb, poll, QUEUE, PTR)
    b.cbranch(b.icmp_unsigned("==", queue, null()), alone, together)
    b.position_at_end(alone)
    b.call(share, [args, tid, tid, threads, poll, kept])
    b.ret_void()
    b.position_at_end(together)
    b.atomic_rmw("xchg", claims_of(lb, queue, tid), lb.sub(0, each), "acq_rel")
    with lb.loop("helped", 0, threads) as helped:
        at = lb.add(tid, helped.index)
        victim = b.select(lb.less(at, threads), at, lb.sub(at, threads))
        look, claim, work, others = b.blocks("look", "claim", "work", "others")
        claims = claims_of(lb, queue, victim)
        b.branch(look)
        b.position_at_end(look)  # a load leaves the cache line with its owner
        b.cbranch(lb.less(b.load_atomic(claims, "acquire", 8, typ=I64), 0), claim, others)
        b.position_at_end(claim)
        claimed = b.atomic_rmw("add", claims, lb.i64(1), "acq_rel")
        b.cbranch(lb.less(claimed, 0), work, others)
        b.position_at_end(work)
        number = lb.add(lb.mul(lb.add(victim, 1), each), claimed)
        which = [args, tid, number, lb.mul(threads, each), poll, kept]
        b.cbranch(b.icmp_signed("==", b.call(share, which), lb.i64(0)), look, leave)
        b.position_at_end(others)
    b.branch(leave)
    b.position_at_end(leave)
    b.ret_void()
