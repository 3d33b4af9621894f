"""Machine code that tests conditions on the sizes of a call and evaluates expressions.

A job has the fields of :data:`~hybridjit.ir.prologue.PROLOGUE_JOB`. Before a call with new sizes,
the caches hold the data of the previous call: reading a table of a few kilobytes then takes a tenth
of the time of a Python function with the same expressions.
"""

from __future__ import annotations

from ..._core.symbolic.instructions import Operation
from ..._core.target import Target
from ...ir.prologue import CONDITIONS, FIRST_CHOICE, FUNCTIONS, PROLOGUE_JOB, PROLOGUE_ROW
from ..kinds.conv.size_choices import SIZE_FUNCTIONS
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.scalar import emit_scalar
from ..llvm.types import I1, I64, PTR, Value
from .pool_memory import load_slot, new_function, slot_at
from .size_operations import emit_operate, is_beyond


def emit_prologue(module: ir.Module, target: Target, name: str) -> None:
    """Emit i64 name(job, sizes, outputs).

    It writes all outputs and returns 1, or returns 0 if a condition does not hold.
    """
    operate, compare = _emit_operate(module, target), _emit_compare(module, target)
    choose = _emit_choose(module, target)
    function = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, PTR]), name)
    lb = LoopBuilder(function, target)
    b, (job, sizes, outputs) = lb.b, function.args
    addresses = ("registers", "rows", "outputs", "records")
    of = {
        name: load_slot(lb, job, place, PTR if name in addresses else I64)
        for place, name in enumerate(PROLOGUE_JOB)
    }
    registers = of["registers"]
    with lb.loop("size", 0, of["sizes"]) as size:
        _copy(lb, sizes, size.index, registers, size.index)
    with lb.loop("row", 0, of["row_count"]) as row:
        at = slot_at(lb, of["rows"], lb.mul(row.index, len(PROLOGUE_ROW)))
        operation, one, other, result = (load_slot(lb, at, i) for i in range(len(PROLOGUE_ROW)))
        x = load_slot(lb, registers, b.select(lb.less(operation, FIRST_CHOICE), one, lb.i64(0)))
        is_computed = lb.less(operation, len(Operation))
        with b.if_else(is_computed) as (computed, others):
            with computed:
                made = b.call(operate, [operation, x, load_slot(lb, registers, other)])
                with lb.when(is_beyond(lb, made)):
                    b.ret(lb.i64(0))
                b.store(made, slot_at(lb, registers, result), align=8)
            with others, b.if_else(lb.less(operation, FIRST_CHOICE)) as (tested, chosen):
                with tested, lb.when(b.not_(b.call(compare, [operation, x, other]))):
                    b.ret(lb.i64(0))
                with chosen:
                    record = slot_at(lb, of["records"], one)
                    made = b.call(choose, [operation, record, registers])
                    b.store(made, slot_at(lb, registers, result), align=8)
    with lb.loop("output", 0, of["output_count"]) as output:
        _copy(lb, registers, load_slot(lb, of["outputs"], output.index), outputs, output.index)
    b.ret(lb.i64(1))


def _copy(lb: LoopBuilder, source: Value, place: Value, target: Value, to: Value) -> None:
    lb.b.store(load_slot(lb, source, place), slot_at(lb, target, to), align=8)


def _emit_operate(module: ir.Module, target: Target) -> ir.Function:
    lb, function = new_function(module, target, "operate", I64, [I64, I64, I64])
    emit_operate(lb, function.args)
    return function


def _emit_compare(module: ir.Module, target: Target) -> ir.Function:
    """Emit i1 compare(condition, x, y)."""
    lb, function = new_function(module, target, "compare", I1, [I64, I64, I64])
    b, (condition, x, y) = lb.b, function.args
    for test, number in CONDITIONS.items():
        with lb.when(lb.equal(condition, number)):
            b.ret(b.icmp_signed(test, x, y))
    b.ret(b.icmp_signed("!=", x, x))
    return function


def _emit_choose(module: ir.Module, target: Target) -> ir.Function:
    """Emit i64 choose(operation, record, registers), which calls a function of ``FUNCTIONS``."""
    known: dict[str, Value] = {}
    for each in SIZE_FUNCTIONS:
        known[each.__name__] = emit_scalar(module, target, each, known)
    lb, function = new_function(module, target, "choose", I64, [I64, PTR, PTR])
    b, (operation, record, registers) = lb.b, function.args
    for number, (name, count) in enumerate(FUNCTIONS.items()):
        with lb.when(lb.equal(operation, FIRST_CHOICE + number)):
            sizes = [load_slot(lb, registers, load_slot(lb, record, i)) for i in range(count)]
            rest = slot_at(lb, record, count)
            b.ret(b.call(known[name], [*sizes, rest, rest]))
    b.ret(lb.i64(0))
    return function
