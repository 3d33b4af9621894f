"""Public functions of a library for inference, as its header declares them.

A context may be used from any thread. A call writes to its outputs and to a workspace: the caller's
or the context's. The first call without one allocates the context's workspace, which one call at a
time may use.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.emit.pool_memory import load_slot, slot_at
from ..codegen.llvm import ir
from ..codegen.llvm.builder import LoopBuilder
from ..codegen.llvm.types import I32, I64, PTR, VOID, Value
from .checks import emit_checks
from .cpu import emit_cpu_words, emit_find_variant
from .functions import Emitter, code, is_null, put, return_failure, return_when
from .interface import BUSY, CPU, DATA, MEMORY, NULL, Interface
from .layout import CALLS, CONTEXT_SLOTS, FLAG, IS_BUSY, NAME, OWN, VARIANT
from .pool import emit_alone, emit_pool
from .workspace import emit_walking, emit_workspace


def emit_entries(emitter: Emitter, interface: Interface, variants: Value) -> None:
    """Emit all functions. The functions for weights and the records of variants exist already."""
    emit_new_memory(emitter)
    emit_common(emitter, interface, variants)
    emit_constant(emitter, interface)
    _emit_rounds(emitter, interface)
    _emit_run(emitter)


def emit_constant(emitter: Emitter, interface: Interface) -> None:
    """Emit the functions of a library whose calls have a constant size."""
    emit_workspace(emitter)
    emit_checks(emitter, interface)
    lb, (context,) = emitter.entry("workspace_bytes", I64, [PTR])
    with lb.when(is_null(lb, context)):
        lb.b.ret(lb.i64(0))
    lb.b.ret(lb.b.call(emitter.known("workspace_size"), [context]))
    _emit_make_own(emitter)


def emit_common(
    emitter: Emitter, interface: Interface, variants: Value, memory: Sequence[str] = ()
) -> None:
    """Emit the functions of every library. They call those of :func:`emit_new_memory`.

    ``memory`` names a function that allocates more memory for a context, and one that frees it.
    """
    emit_cpu_words(emitter)
    emit_find_variant(emitter, variants, len(interface.targets))
    emit_walking(emitter, len(interface.inputs))
    if interface.threads:
        emit_pool(emitter)
    else:
        emit_alone(emitter)
    _emit_facts(emitter, interface)
    _emit_free(emitter, memory[1:])
    _emit_init(emitter, memory[:1])
    _emit_begin_run(emitter)


def emit_new_memory(emitter: Emitter) -> None:
    """ptr new_memory(bytes): zeroed cache lines; NULL if out of memory."""
    lb, (nbytes,) = emitter.function("new_memory", PTR, [I64])
    made = lb.b.call(lb.declare("aligned_alloc", PTR, [I64, I64]), [lb.i64(64), nbytes])
    with lb.when(is_null(lb, made)):
        lb.b.ret(made)
    clear = lb.declare("memset", PTR, [PTR, I32, I64])
    lb.b.call(clear, [made, code(0), nbytes])
    lb.b.ret(made)


def _emit_facts(emitter: Emitter, interface: Interface) -> None:
    """Functions that do not compute: version, description, messages, target."""
    lb, _ = emitter.entry("abi_version", I32, [])
    lb.b.ret(code(interface.abi))
    lb, _ = emitter.entry("description", PTR, [])
    lb.b.ret(emitter.text("description_text", interface.description()))
    _emit_error_text(emitter, interface)
    lb, (context,) = emitter.entry("target", PTR, [PTR])
    with lb.when(is_null(lb, context)):
        lb.b.ret(emitter.text("no_target", ""))
    lb.b.ret(load_slot(lb, load_slot(lb, context, VARIANT, PTR), NAME, PTR))


def _emit_error_text(emitter: Emitter, interface: Interface) -> None:
    """const char *error_text(int): never NULL."""
    rows: list[Value] = []
    for number, said in interface.texts():
        rows += [ir.Constant(I64, number), emitter.text(f"text_{number}", said)]
    table = emitter.record("texts", rows)
    lb, (wanted,) = emitter.entry("error_text", PTR, [I32])
    with lb.loop("text", 0, len(rows) // 2) as text:
        row = lb.mul(text.index, 2)
        found = lb.b.icmp_signed("==", load_slot(lb, table, row), lb.b.sext(wanted, I64))
        with lb.when(found):
            lb.b.ret(load_slot(lb, table, lb.add(row, 1), PTR))
    lb.b.ret(emitter.text("no_text", "no error of this library has this code"))


def _emit_free(emitter: Emitter, more: Sequence[str]) -> None:
    """void free(context): NULL is permitted."""
    lb, (context,) = emitter.entry("free", VOID, [PTR])
    b = lb.b
    with lb.when(is_null(lb, context)):
        b.ret_void()
    for what in ("end_pool", "close_weights", *more):
        b.call(emitter.known(what), [context])
    free = lb.declare("free", VOID, [PTR])
    b.call(free, [load_slot(lb, context, OWN, PTR)])
    b.call(free, [context])
    b.ret_void()


def _emit_init(emitter: Emitter, more: Sequence[str]) -> None:
    """int init(context **, const char *weights, int threads): make a context, or return a code."""
    lb, (result, path, threads) = emitter.entry("init", I32, [PTR, PTR, I32])
    b = lb.b
    return_when(lb, is_null(lb, result), NULL)
    put(lb, result, 0, lb.i64(0))
    variant = b.call(emitter.known("find_variant"), [])
    return_when(lb, is_null(lb, variant), CPU)
    context = b.call(emitter.known("new_memory"), [lb.i64(8 * CONTEXT_SLOTS)])
    return_when(lb, is_null(lb, context), MEMORY)
    put(lb, context, VARIANT, variant)
    steps = [("open_weights", [path]), ("start_pool", [threads])]
    for what, arguments in [*steps, *((each, []) for each in more)]:
        failure = b.call(emitter.known(what), [context, *arguments])
        with lb.when(b.icmp_signed("!=", failure, code(0))):
            b.call(emitter.known(f"{emitter.name}_free"), [context])
            b.ret(failure)
    put(lb, result, 0, context)
    b.ret(code(0))


def _emit_rounds(emitter: Emitter, interface: Interface) -> None:
    """int rounds(context, inputs, outputs, batch, workspace): compute on a prepared workspace."""
    lb, args = emitter.function("rounds", I32, [PTR, PTR, PTR, I64, PTR])
    context, inputs, outputs, batch, workspace = args
    b = lb.b
    variant = load_slot(lb, context, VARIANT, PTR)
    put(lb, workspace, FLAG, lb.i64(0))
    with lb.loop("rounds", 0, lb.mul(batch, interface.rounds)) as number:
        arrays = [inputs, outputs, number.index]
        b.call(emitter.known("connect"), [variant, workspace, *arrays])
        every = [lb.i64(0), load_slot(lb, variant, CALLS)]
        return_failure(lb, b.call(emitter.known("compute"), [context, workspace, *every]))
        raised = b.icmp_signed("!=", load_slot(lb, workspace, FLAG), lb.i64(0))
        return_when(lb, raised, DATA)
    b.ret(code(0))


def _emit_begin_run(emitter: Emitter) -> None:
    """int begin_run(context): claim exclusive use. void end_run(context): release it."""
    lb, (context,) = emitter.function("begin_run", I32, [PTR])
    taken = lb.b.atomic_rmw("xchg", slot_at(lb, context, IS_BUSY), lb.i64(1), "acquire")
    return_when(lb, lb.b.icmp_signed("!=", taken, lb.i64(0)), BUSY)
    lb.b.ret(code(0))
    lb, (context,) = emitter.function("end_run", VOID, [PTR])
    lb.b.atomic_rmw("xchg", slot_at(lb, context, IS_BUSY), lb.i64(0), "release")
    lb.b.ret_void()


def _emit_make_own(emitter: Emitter) -> None:
    """int make_own(context): allocate the context's workspace, if absent. Needs ``begin_run``."""
    lb, (context,) = emitter.function("make_own", I32, [PTR])
    b = lb.b
    with lb.when(b.not_(is_null(lb, load_slot(lb, context, OWN, PTR)))):
        b.ret(code(0))
    nbytes = b.call(emitter.known("workspace_size"), [context])
    made = b.call(lb.declare("aligned_alloc", PTR, [I64, I64]), [lb.i64(64), nbytes])
    return_when(lb, is_null(lb, made), MEMORY)
    b.call(emitter.known("prepare"), [context, made])
    put(lb, context, OWN, made)
    b.ret(code(0))


def _emit_run(emitter: Emitter) -> None:
    """int run(context, inputs, outputs, batch, workspace, bytes)"""
    lb, args = emitter.entry("run", I32, [PTR, PTR, PTR, I64, PTR, I64])
    context, inputs, outputs, batch, workspace, _ = args
    b = lb.b
    return_failure(lb, b.call(emitter.known("check"), args))
    with lb.when(b.not_(is_null(lb, workspace))):
        b.call(emitter.known("prepare"), [context, workspace])
    emit_calls(lb, emitter, [context, inputs, outputs, batch], workspace, [context])


def emit_calls(
    lb: LoopBuilder, emitter: Emitter, words: Sequence[Value], workspace: Value,
    own: Sequence[Value],
) -> None:  # fmt: skip
    """Return the result of ``rounds(*words, workspace)``, with the context's workspace for NULL.

    The context is the first of ``words``; ``own`` are the arguments of ``make_own``.
    """
    b, context, rounds = lb.b, words[0], emitter.known("rounds")
    with lb.when(b.not_(is_null(lb, workspace))):
        b.ret(b.call(rounds, [*words, workspace]))
    return_failure(lb, b.call(emitter.known("begin_run"), [context]))
    failure = b.call(emitter.known("make_own"), own)
    with lb.when(b.icmp_signed("!=", failure, code(0))):
        b.call(emitter.known("end_run"), [context])
        b.ret(failure)
    result = b.call(rounds, [*words, load_slot(lb, context, OWN, PTR)])
    b.call(emitter.known("end_run"), [context])
    b.ret(result)
