"""A kernel's epilogue: a Program on a vector in registers, and the stores of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.casting import is_in_floating
from ....ops.quantized import TO_BYTES
from ....ops.record import OpDef
from ....ops.registry import lookup
from ...llvm.builder import LoopBuilder
from ...llvm.elements import converted, rounded_to_half
from ...llvm.indices import Index
from ...llvm.types import Value
from ...math.double import DoubleMath
from ...math.integer import IntegerMath
from ...math.single import VectorMath
from ...spec import Instr, Program
from .partial import read_vector, write_vector
from .quantize import to_bytes

# A tensor's address, the index of an element, and the stride of channels.
Address = tuple[Value, Index, Index]


def evaluate(b: LoopBuilder, program: Program, inputs: Sequence[Value]) -> list[Value]:
    """The values that the program stores, given its inputs as vectors."""
    values, types = list(inputs), program.value_types
    for instr in program.instrs:
        if instr.op == TO_BYTES.name:
            (number,) = instr.args
            value = converted(b, values[number], types[number], "float32")
            attrs: dict[str, Any] = TO_BYTES.with_defaults(dict(instr.attrs))
            values.append(to_bytes(b, value, **attrs))
            continue
        args = [converted(b, values[i], types[i], instr.dtype) for i in instr.args]
        values.append(_computed(b, instr, args))
    return [values[i] for i in program.outputs]


def _computed(b: LoopBuilder, instr: Instr, args: Sequence[Value]) -> Value:
    """One operation on operands of its element type: in that type, or in f64 as its reference."""
    op = lookup(instr.op)
    assert op.scalar is not None, f"{instr.op} has no scalar formula"
    attrs = {a.name: a.default for a in op.attrs} | dict(instr.attrs)
    result: Value
    if instr.dtype in ("float32", "bfloat16"):
        result = op.scalar(VectorMath(b, args[0]), *args, **attrs)
        return result
    dtype = np.dtype(instr.dtype)
    if dtype.kind == "f" or not is_in_floating(op.ref):
        return _in_own_type(b, op, dtype, args, attrs)
    wide = [converted(b, value, instr.dtype, "float64") for value in args]
    result = op.scalar(DoubleMath(b, wide[0], dtype), *wide, **attrs)
    return converted(b, result, "float64", instr.dtype)


def _in_own_type(
    b: LoopBuilder, op: OpDef, dtype: np.dtype, args: Sequence[Value], attrs: dict[str, Value]
) -> Value:
    """The formula in the operands' type; float16 in single precision and rounded."""
    assert op.scalar is not None
    math: type[VectorMath | DoubleMath | IntegerMath] = IntegerMath
    if dtype.kind == "f":
        math = VectorMath if dtype == np.float16 else DoubleMath
    result: Value = op.scalar(math(b, args[0], dtype), *args, **attrs)
    return rounded_to_half(b, result) if dtype == np.float16 else result


def store_epilogue(
    b: LoopBuilder,
    program: Program,
    value: Value,
    reads: Sequence[Address],
    writes: Sequence[Address],
    lanes: Index,
) -> None:
    """Apply the program to the anchor's ``value`` and its operands, and store, ``lanes`` wide."""
    operands = [read_vector(b, *place, lanes) for place in reads]
    for result, place in zip(evaluate(b, program, [value, *operands]), writes):
        write_vector(b, result, *place, lanes)


def at_column(
    b: LoopBuilder,
    pointers: Sequence[Value],
    strides: Sequence[Sequence[Index]],
    column: Index,
) -> list[Value]:
    """The tensors from a column on, so that positions in a tile are constants: LLVM takes a tenth
    less time for a convolution than with an addition and a product for each.
    """
    return [b.at(p, b.mul(column, s[-2])) for p, s in zip(pointers, strides)]


def operand_addresses(
    b: LoopBuilder,
    pointers: Sequence[Value],
    strides: Sequence[Sequence[Index]],
    at: Index,
    channel: int,
) -> list[Address]:
    """Addresses of column ``at`` and ``channel``; the last two strides are theirs."""
    return [
        (p, b.add(b.mul(at, s[-2]), b.mul(channel, s[-1])), s[-1])
        for p, s in zip(pointers, strides)
    ]
