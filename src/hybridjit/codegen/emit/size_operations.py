"""Emitted code for the operations on sizes of :mod:`..._core.symbolic.instructions`."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.symbolic.instructions import Operation
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.types import F64, Value

# Largest magnitude of a number, so that sums fit into 64 bits; a larger one ends the computation.
LIMIT = 1 << 62


def emit_operate(lb: LoopBuilder, args: Sequence[Value]) -> None:
    """Emit the body of i64 operate(operation, x, y).

    It returns the result, or a number above the limit for an overflow or a divisor below 1.
    """
    b, (operation, x, y) = lb.b, args

    def when(wanted: Operation, result: Value) -> None:
        with lb.when(b.icmp_signed("==", operation, lb.i64(wanted))):
            b.ret(result)

    beyond = lb.i64(LIMIT + 1)
    when(Operation.ADD, b.add(x, y))
    when(Operation.MAXIMUM, lb.i64(lb.max(x, y)))
    near = b.fmul(b.sitofp(x, F64), b.sitofp(y, F64))
    limit = ir.Constant(F64, float(LIMIT))
    fits = b.and_(b.fcmp_ordered("<=", near, limit), b.fcmp_ordered(">=", near, b.fneg(limit)))
    when(Operation.MULTIPLY, b.select(fits, b.mul(x, y), beyond))
    with lb.when(lb.less(y, 1)):
        b.ret(beyond)
    zero = lb.i64(0)

    def floor(number: Value) -> Value:
        quotient, rest = b.sdiv(number, y), b.srem(number, y)
        return b.select(lb.less(rest, 0), b.sub(quotient, lb.i64(1)), quotient)

    when(Operation.DIVIDE, floor(x))
    when(Operation.DIVIDE_UP, b.sub(zero, floor(b.sub(zero, x))))
    b.ret(b.sub(x, b.mul(floor(x), y)))


def is_beyond(lb: LoopBuilder, number: Value) -> Value:
    """Whether the magnitude of a number is above the limit."""
    return lb.b.or_(lb.less(LIMIT, number), lb.less(number, -LIMIT))
