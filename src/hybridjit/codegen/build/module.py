"""An LLVM module for each kernel.

A kernel is ``void kernel(ptr args, i64 tid, i64 threads, ptr poll)``; it does the part of the work
that is thread ``tid``'s, and nothing decides that share but the arguments and these two numbers.
``driver`` calls it. A share is done in parts of about 0.3 ms, and after each ``poll`` is asked
whether to go on: see ``builder.Part``.
"""

from __future__ import annotations

import hashlib

from ...target import Target
from ..kinds import emitter_of
from ..kinds.parts.arguments import Arguments
from ..llvm import ir
from ..llvm.builder import LoopBuilder, Part
from ..llvm.types import I64, PTR, VOID
from ..spec import KernelSpec


def kernel_name(spec: KernelSpec) -> str:
    """A symbol for the spec: its kind, and enough of a hash to tell it from all others."""
    return f"{spec.kind}_{hashlib.sha256(str(spec).encode()).hexdigest()[:12]}"


def emit_kernel(spec: KernelSpec, target: Target, name: str = "") -> ir.Module:
    """The module of one kernel, called ``name``, or :func:`kernel_name` of its spec."""
    module = ir.Module(name or kernel_name(spec))
    module.triple = target.triple
    part = ir.Function(module, ir.FunctionType(I64, [PTR, I64, I64, PTR, I64, I64]), "part")
    # LLVM makes no calls of memset of its own: kernels need no library.
    part.linkage, part.attributes = "internal", 'noinline "no-builtins"'
    slots, tid, threads, *given = part.args
    for argument, word in zip(part.args, ("args", "tid", "threads", "poll", "start", "count")):
        argument.name = word
    builder = LoopBuilder(part, target.of(spec.element), Part(*given))
    emitter_of(spec.kind)(builder, spec, Arguments(builder, slots, tid, threads))
    _emit_parts(module, target, part, builder.end_part())
    return module


def _emit_parts(module: ir.Module, target: Target, part: ir.Function, count: int) -> None:
    """The kernel: one part of its work after the other, and a poll between them."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, I64, I64, PTR]), module.name)
    lb = LoopBuilder(function, target)
    b, entry = lb.b, lb.b.block
    more, ask, done = b.blocks("more", "ask", "done")
    b.branch(more)
    b.position_at_end(more)
    start = b.phi(I64)
    following = b.call(part, [*function.args, start, lb.i64(count)])
    start.add_incoming(lb.i64(0), entry)
    start.add_incoming(following, ask)
    b.cbranch(b.icmp_signed("==", following, lb.i64(0)), done, ask)
    b.position_at_end(ask)
    poll = function.args[3]
    answer = ir.FunctionType(I64, [PTR]).as_pointer()
    stops = b.call(b.load(poll, typ=answer, align=8), [poll])
    b.cbranch(b.icmp_signed("==", stops, lb.i64(0)), more, done)
    b.position_at_end(done)
    b.ret_void()
