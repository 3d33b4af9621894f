"""A kernel's epilogue: a Program on a vector in registers, and the stores of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._core.frozen import dataclass
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
from ...spec import Instr, Ints, Program
from .partial import read_vector, write_vector
from .quantize import TOGETHER, has_packing, packed, to_bytes, to_levels

# A tensor's address, the index of an element, and the stride of channels.
Address = tuple[Value, Index, Index]
# An operand in memory or in a register.
Operand = Address | Value


def evaluate(
    b: LoopBuilder, program: Program, inputs: Sequence[Value], wide: Sequence[int] = ()
) -> list[Value]:
    """The values that the program stores, given its inputs as vectors.

    The values ``wide``, which are bytes, remain int32 and are not limited below.
    """
    values, types = list(inputs), program.value_types
    for instr in program.instrs:
        if instr.op == TO_BYTES.name:
            (number,) = instr.args
            value = converted(b, values[number], types[number], "float32")
            attrs: dict[str, Any] = TO_BYTES.with_defaults(dict(instr.attrs))
            make = to_levels if len(values) in wide else to_bytes
            values.append(make(b, value, **attrs))
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
    reads: Sequence[Operand],
    writes: Sequence[Address],
    lanes: Index,
) -> None:
    """Apply the program to the anchor's ``value`` and its operands, and store, ``lanes`` wide."""
    operands = _operands(b, reads, lanes)
    for result, place in zip(evaluate(b, program, [value, *operands]), writes):
        write_vector(b, result, *place, lanes)


def _operands(b: LoopBuilder, reads: Sequence[Operand], lanes: Index) -> list[Value]:
    return [read_vector(b, *x, lanes) if isinstance(x, tuple) else x for x in reads]


@dataclass(frozen=True)
class Part:
    """A vector of an anchor's results, its operands, and the addresses of its stores."""

    value: Value
    reads: Sequence[Operand]
    writes: Sequence[Address]
    lanes: int


def store_parts(
    b: LoopBuilder, program: Program, parts: Sequence[Part], in_order: bool = True
) -> None:
    """As :func:`store_epilogue` for each part; bytes of four parts are stored as one vector.

    Bytes of four parts take eight instructions and four stores if stored separately, four and one
    if stored together. Without ``in_order``, words of four adjacent parts are in the order of
    ``packed``.
    """
    are_full = all(part.lanes == b.lanes for part in parts)
    are_adjacent = all(place[2] == 1 for part in parts for place in part.writes)
    wide = packed_values(b, program) if are_full and are_adjacent else ()
    if not wide:
        for part in parts:
            store_epilogue(b, program, part.value, part.reads, part.writes, part.lanes)
        return
    for first in range(0, len(parts), TOGETHER):
        _store_together(b, program, parts[first : first + TOGETHER], wide, in_order)


def packed_values(b: LoopBuilder, program: Program) -> tuple[int, ...]:
    """The stored values, if all of them are bytes of floats that no instruction reads; else ()."""
    read = {arg for instr in program.instrs for arg in instr.args}
    made = {
        program.inputs + at
        for at, instr in enumerate(program.instrs)
        if instr.op == TO_BYTES.name and program.inputs + at not in read
    }
    is_packed = has_packing(b) and made.issuperset(program.outputs)
    return program.outputs if is_packed else ()


def _store_together(
    b: LoopBuilder, program: Program, parts: Sequence[Part], wide: Ints, in_order: bool
) -> None:
    found = []
    for part in parts:
        operands = _operands(b, part.reads, b.lanes)
        found.append(evaluate(b, program, [part.value, *operands], wide))
    for at, number in enumerate(wide):
        attrs = dict(program.instrs[number - program.inputs].attrs)
        words = [values[at] for values in found]
        words += words[-1:] * (TOGETHER - len(words))
        made = packed(b, words, np.dtype(attrs["dtype"]), in_order)  # type: ignore[call-overload]
        _store_runs(b, made, [part.writes[at] for part in parts])


def _store_runs(b: LoopBuilder, made: Value, places: Sequence[Address]) -> None:
    """Store the quarters of a vector; adjacent quarters are stored together."""
    first = 0
    while first < len(places):
        count = TOGETHER // 2 if first % TOGETHER else TOGETHER
        while first + count > len(places) or not _is_run(b, places[first : first + count]):
            count //= 2
        pointer, index, _ = places[first]
        span = range(first * b.lanes, (first + count) * b.lanes)
        piece = made if count == TOGETHER else b.shuffle(made, span)
        b.store(piece, pointer, index)
        first += count


def _is_run(b: LoopBuilder, places: Sequence[Address]) -> bool:
    """Whether vectors are adjacent: constant indices of one tensor."""
    pointer, start, _ = places[0]
    return len(places) == 1 or all(
        place[0] is pointer
        and isinstance(place[1], int)
        and isinstance(start, int)
        and place[1] == start + n * b.lanes
        for n, place in enumerate(places)
    )


def at_column(
    b: LoopBuilder,
    pointers: Sequence[Value],
    strides: Sequence[Sequence[Index]],
    column: Index,
) -> list[Value]:
    """Addresses of the tensors at a column, relative to which positions in a tile are constants.

    LLVM then compiles a convolution in a tenth less time than with an addition and a product per
    position.
    """
    return [b.at(p, b.mul(column, s[-2])) for p, s in zip(pointers, strides)]


def operand_addresses(
    b: LoopBuilder,
    pointers: Sequence[Value],
    strides: Sequence[Sequence[Index]],
    at: Index,
    channel: int,
) -> list[Address]:
    """Addresses at column ``at`` and ``channel``, whose strides are the last two."""
    return [
        (p, b.add(b.mul(at, s[-2]), b.mul(channel, s[-1])), s[-1])
        for p, s in zip(pointers, strides)
    ]
