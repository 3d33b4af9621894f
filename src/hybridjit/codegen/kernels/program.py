"""A kernel's pointwise tail: a Program on a vector in registers, and the stores of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.registry import lookup
from ..builder import Index, LoopBuilder
from ..spec import Program
from ..vmath import VectorMath
from .tail import read_vector, write_vector

# A tensor's address, the element of it, and the stride from channel to channel.
Place = tuple[Any, Index, int]


def evaluate(b: LoopBuilder, program: Program, inputs: Sequence[Any]) -> list[Any]:
    """The values that the program stores, given its inputs as vectors."""
    values = list(inputs)
    math = VectorMath(b, values[0])
    for instr in program.instrs:
        op = lookup(instr.op)
        assert op.scalar is not None, f"{instr.op} has no scalar formula"
        attrs = {a.name: a.default for a in op.attrs} | dict(instr.attrs)
        values.append(op.scalar(math, *(values[i] for i in instr.args), **attrs))
    return [values[i] for i in program.outputs]


def finish(
    b: LoopBuilder,
    program: Program,
    value: Any,
    reads: Sequence[Place],
    writes: Sequence[Place],
    lanes: int,
) -> None:
    """Store what the program makes of the anchor's ``value`` and its operands, ``lanes`` wide."""
    operands = [read_vector(b, *place, lanes) for place in reads]
    for result, place in zip(evaluate(b, program, [value, *operands]), writes):
        write_vector(b, result, *place, lanes)


def places(
    b: LoopBuilder,
    pointers: Sequence[Any],
    strides: Sequence[Sequence[int]],
    at: Index,
    channel: int,
) -> list[Place]:
    """Where column ``at`` and ``channel`` lie; strides end in the column's and the channel's."""
    return [(p, b.add(b.mul(at, s[-2]), channel * s[-1]), s[-1]) for p, s in zip(pointers, strides)]
