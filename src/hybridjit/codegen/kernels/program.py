"""Evaluate a Program on vectors in registers, and store its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.registry import lookup
from ..builder import LoopBuilder
from ..spec import Program
from ..vmath import VectorMath


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
