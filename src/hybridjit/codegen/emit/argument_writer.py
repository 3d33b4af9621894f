"""Machine code that writes the kernels' arguments of a template for the sizes of a call.

A job has the fields of :data:`~hybridjit.ir.argument_rows.JOB`. A repeated call gets a step and
arguments for each round. The tables of an LSTM of 60 steps take 3 us (AMD Zen 4), those that NumPy
writes 50 us and more.
"""

from __future__ import annotations

from ..._core.target import Target
from ...ir.argument_rows import ARGUMENT_ROW, CALL_ROW, JOB
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, PTR, VOID, Value
from .pool_memory import STEP_SLOTS, load_slot, slot_at


def emit_argument_writer(module: ir.Module, target: Target, name: str) -> None:
    """Emit void name(job), which fills the tables that the job names."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR]), name)
    lb = LoopBuilder(function, target)
    b, job = lb.b, function.args[0]
    addresses = set(JOB) - {"call_count"}
    of = {
        name: load_slot(lb, job, place, PTR if name in addresses else I64)
        for place, name in enumerate(JOB)
    }
    step, slot, place = (_Counter(lb) for _ in range(3))
    with lb.loop("call", 0, of["call_count"]) as call:
        row = _fields(lb, of["calls"], call.index, CALL_ROW)
        low, high = (load_slot(lb, of["numbers"], row[end]) for end in ("low", "high"))
        rounds = lb.max(lb.sub(high, low), 0)
        with lb.loop("round", 0, rounds) as number:
            is_last = b.icmp_signed("==", lb.i64(number.index), lb.i64(lb.sub(rounds, 1)))
            to = slot_at(lb, of["steps"], lb.mul(step.value, STEP_SLOTS))
            arguments = slot_at(lb, of["slots"], slot.value)
            _store(lb, to, 0, row["kernel"])
            _store(lb, to, 1, b.ptrtoint(arguments, I64))
            _store(lb, to, 2, b.select(is_last, row["last"], row["unfenced"]))
            with lb.loop("slot", 0, row["width"]) as at:
                found = _fields(lb, of["arguments"], lb.add(row["first"], at.index), ARGUMENT_ROW)
                value = _value(lb, of, found, number.index)
                _store(lb, arguments, at.index, value)
                with lb.when(b.icmp_signed(">=", found["array"], lb.i64(0))):
                    filled = slot_at(lb, of["places"], lb.mul(place.value, 3))
                    _store(lb, filled, 0, found["array"])
                    _store(lb, filled, 1, lb.i64(lb.add(slot.value, at.index)))
                    _store(lb, filled, 2, value)
                    place.add(1)
            step.add(1)
            slot.add(row["width"])
    _store(lb, of["last"], 0, step.value)
    _store(lb, of["count"], 0, place.value)
    b.ret_void()


class _Counter:
    """A number in memory."""

    def __init__(self, lb: LoopBuilder) -> None:
        self._lb = lb
        self._at = lb.b.alloca(I64)
        lb.b.store(lb.i64(0), self._at, align=8)

    @property
    def value(self) -> Value:
        return self._lb.b.load(self._at, typ=I64, align=8)

    def add(self, more: Index) -> None:
        """Increase the number."""
        self._lb.b.store(self._lb.i64(self._lb.add(self.value, more)), self._at, align=8)


def _store(lb: LoopBuilder, base: Value, slot: Index, value: Value) -> None:
    lb.b.store(value, slot_at(lb, base, slot), align=8)


def _fields(lb: LoopBuilder, rows: Value, index: Index, names: tuple[str, ...]) -> dict[str, Value]:
    row = slot_at(lb, rows, lb.mul(index, len(names)))
    return {name: load_slot(lb, row, place) for place, name in enumerate(names)}


def _value(lb: LoopBuilder, of: dict[str, Value], found: dict[str, Value], number: Index) -> Value:
    """The value of a slot in a round: the sum of its constant, the round's part and the base."""
    step = lb.add(found["step"], load_slot(lb, of["numbers"], found["step_number"]))
    value = lb.add(found["value"], load_slot(lb, of["numbers"], found["number"]))
    value = lb.add(value, lb.mul(step, number))
    return lb.i64(lb.add(value, load_slot(lb, of["bases"], found["base"])))
