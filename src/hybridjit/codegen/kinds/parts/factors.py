"""Constant factors of a program as operands of its calls.

Statistics of a training step are divided by the number of their elements, which differs from layer
to layer: without these constants their programs are equal, and so is the code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._core.errstate import quiet
from ...._core.frozen import replace
from ....ops.casting import scalar_of
from ....ops.elementwise.binary import MULTIPLY
from ...call import off_default
from ...spec import Instr, Ints, Program

_TYPES = ("float32", "float64")


def without_factors(program: Program) -> tuple[Program, list[int]]:
    """The program with its factors as its last operands, and their bits as integers."""
    scaled = [instr for instr in program.instrs if _has_factor(instr)]
    first, more = program.inputs, len(scaled)
    operands = iter(range(first, first + more))

    def moved(numbers: Ints) -> Ints:
        return tuple(n if n < first else n + more for n in numbers)

    def with_operand(instr: Instr) -> Instr:
        args = moved(instr.args)
        if not _has_factor(instr):
            return replace(instr, args=args)
        return Instr(MULTIPLY.broadcasting.name, (*args, next(operands)), (), instr.dtype)

    types = (*program.value_types[:first], *(instr.dtype for instr in scaled))
    instrs = tuple(map(with_operand, program.instrs))
    made = Program(first + more, instrs, moved(program.outputs), off_default(types))
    return made, list(map(_bits_of_factor, scaled))


def _has_factor(instr: Instr) -> bool:
    is_scaled = instr.op == MULTIPLY.scalar.name and instr.dtype in _TYPES
    return is_scaled and "scalar" in dict(instr.attrs)


@quiet  # values beyond float32 are infinite, as in the operator
def _bits_of_factor(instr: Instr) -> int:
    """The factor in the element type, in the lower bytes of 64 bits."""
    attrs: dict[str, Any] = dict(instr.attrs)
    factor = scalar_of(attrs["scalar"], np.dtype(instr.dtype))
    return int.from_bytes(factor.tobytes().ljust(8, b"\0"), "little", signed=True)
