"""Weighted draws: the first index at which a row's prefix sum exceeds a fraction of its total.

A unit of work is a row. Its elements are added once, in steps of 16 whose sums are independent.
Each draw searches the step, then the element.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.elements import converted
from ..llvm.indices import Index
from ..llvm.types import I64, Value
from ..spec import KernelSpec

# Bounds of the binary search among the ends of steps: a row has fewer than 2**48 steps.
_FEW: dict[str, Any] = {"most": 48, "by_data": True}


@dataclass(frozen=True)
class DrawSpec(KernelSpec):
    """Draws of indices from rows of weights.

    Arguments: rows (R, size) of ``dtype``, fractions of the sum (R, draws), drawn indices (R,
    draws) of int64, scratch memory for the prefix sums at the ends of steps (R, steps); then R,
    size, draws, steps, and the number of halvings that reduce all steps to one.

    step  number of elements per step
    """

    dtype: str
    step: int
    element: ElementTypes = TYPES_OF["float64"]
    kind = "draw"


def emit_draw(b: LoopBuilder, spec: DrawSpec, args: Arguments) -> None:
    """Emit the draw of an index for each part."""
    _Draw(b, spec, args).emit()


class _Draw:
    def __init__(self, b: LoopBuilder, spec: DrawSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.rows, self.parts = args.pointer("rows", spec.dtype), args.pointer("parts")
        self.places, self.sums = args.pointer("places", "int64"), args.pointer("ends")
        names = ("count", "size", "draws", "steps", "halvings")
        self.count, self.size, self.draws, self.steps, self.halvings = map(args.integer, names)

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.count, self.args.share, self.args.shares) as unit:
            self.row = b.at(self.rows, b.mul(unit.index, self.size))
            self.ends = b.at(self.sums, b.mul(unit.index, self.steps))
            total = self._add_steps()
            first = b.mul(unit.index, self.draws)
            with b.loop("draw", 0, self.draws) as draw:
                at = b.add(first, draw.index)
                place = self._found(b.b.fmul(b.load_scalar(self.parts, at), total))
                b.b.store(place, b.at(self.places, at, I64), align=8)

    def _add_steps(self) -> Value:
        """Store the prefix sums at the ends of all steps; the last one is the sum of the row."""
        b = self.b
        last = b.sub(self.steps, 1)
        with b.loop("step", 0, last, carry=[b.number(0.0)]) as step:
            begin = b.mul(step.index, self.spec.step)
            added = self._value(begin)
            for k in range(1, self.spec.step):
                added = b.b.fadd(added, self._value(b.add(begin, k)))
            end = b.b.fadd(step.carried[0], added)
            b.store(end, self.ends, step.index)
            step.yields([end])
        begin = b.mul(last, self.spec.step)
        with b.loop("rest", begin, self.size, carry=[b.number(0.0)]) as rest:
            rest.yields([b.b.fadd(rest.carried[0], self._value(rest.index))])
        end = b.b.fadd(step.results[0], rest.results[0])
        b.store(end, self.ends, last)
        return end

    def _value(self, place: Index) -> Value:
        value = self.b.load_scalar(self.row, place)
        return converted(self.b, value, self.spec.dtype, "float64")

    def _found(self, level: Value) -> Value:
        """The first index at which the prefix sum exceeds ``level``; the last if none does."""
        b = self.b
        last = b.sub(self.steps, 1)
        with b.loop("half", 0, self.halvings, carry=[b.i64(0), last], **_FEW) as half:
            low, high = half.carried
            middle = b.b.lshr(b.add(low, high), b.i64(1))
            is_above = b.b.fcmp_ordered(">", b.load_scalar(self.ends, middle), level)
            after = b.min(b.add(middle, 1), high)
            half.yields([b.b.select(is_above, low, after), b.b.select(is_above, middle, high)])
        step = half.results[0]
        return self._found_in(step, level)

    def _found_in(self, step: Value, level: Value) -> Value:
        b, many = self.b, self.spec.step
        begin = b.mul(step, many)
        before = b.load_scalar(self.ends, b.max(b.sub(step, 1), 0))
        start = b.b.select(b.equal(step, 0), b.number(0.0), before)
        least = b.min(b.add(begin, many), self.size)
        count = b.sub(least, begin)
        carry = [b.number(0.0), b.i64(0)]
        with b.loop("element", 0, count, carry=carry, most=many) as element:
            total = b.b.fadd(element.carried[0], self._value(b.add(begin, element.index)))
            is_above = b.b.fcmp_ordered(">", b.b.fadd(total, start), level)
            passed = b.b.select(is_above, b.i64(0), b.i64(1))
            element.yields([total, b.add(element.carried[1], passed)])
        return b.min(b.add(begin, element.results[1]), b.sub(self.size, 1))
