"""An LLVM module for each kernel.

A kernel is ``void kernel(ptr args, i64 tid, i64 threads)``; it does the part of the work that is
thread ``tid``'s, and nothing decides that part but the three numbers. ``driver`` calls it.
"""

from __future__ import annotations

import hashlib

from ...target import Target
from ..kinds import KERNELS
from ..kinds.parts.arguments import Arguments
from ..llvm import ir
from ..llvm.builder import I64, PTR, VOID, LoopBuilder
from ..spec import KernelSpec


def kernel_name(spec: KernelSpec) -> str:
    """A symbol for the spec: its kind, and enough of a hash to tell it from all others."""
    return f"{spec.kind}_{hashlib.sha256(str(spec).encode()).hexdigest()[:12]}"


def emit_kernel(spec: KernelSpec, target: Target) -> ir.Module:
    """The module of one kernel."""
    module = ir.Module(kernel_name(spec))
    module.triple = target.triple
    signature = ir.FunctionType(VOID, [PTR, I64, I64])
    function = ir.Function(module, signature, kernel_name(spec))
    slots, tid, threads = function.args
    slots.name, tid.name, threads.name = "args", "tid", "threads"
    builder = LoopBuilder(function, target.of(spec.element))
    KERNELS[spec.kind](builder, spec, Arguments(builder, slots, tid, threads))
    builder.b.ret_void()
    return module
