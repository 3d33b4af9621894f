"""Pointwise kernels with operands along another axis than the results, such as transposes.

A square of as many rows and columns as a vector has lanes is read along the rows' axis, transposed
in registers and written along the columns'. Element by element, rows that are a power of two apart
would be evicted from the cache between two of their elements: 1024 x 1024 takes 3.6 instead of 0.35
ms, 64 channels of 128 x 128 to the last axis 1.5 instead of 0.21, 256 of 14 x 14 to the first 0.040
instead of 0.004.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..._core.frozen import dataclass
from ..._core.symbolic import Size
from ..call import GivenNumbers
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..spec import Ints, KernelSpec, Program, Sizes
from .parts.arguments import Arguments
from .parts.cost import is_plain
from .parts.partial import read_vector, write_vector
from .parts.program import evaluate
from .parts.transpose import transposed

_Side: TypeAlias = tuple[list[Value], list[list[Index]]]  # arrays, and the strides of each
# Adjacent squares of a unit of work.
_SQUARES = 8
# Maximum operations, which are unrolled for every row of a square.
_MOST_OPERATIONS = 6


@dataclass(frozen=True)
class TurnedSpec(KernelSpec):
    """A program over ``(count, *dims)``; arguments: operands, results, count, given integers.

    The last two axes are rows and columns, at least a vector of each. An operand with strided
    columns has contiguous rows; results have contiguous columns.
    """

    dims: Sizes
    reads: tuple[Sizes, ...]
    writes: tuple[Sizes, ...]
    program: Program
    kind = "turned"
    needs_passes = False


def axis_of_rows(
    program: Program, sizes: Ints, columns: Sequence[Ints], lanes: int, is_in_place: bool
) -> int | None:
    """The axis along which operands are to be read in squares, or None.

    Squares overlap if an axis is not a multiple of their size. Such an axis, and any symbolic one,
    is excluded if a result overwrites an operand, which is read again in the overlap.
    """
    reads, writes = columns[: program.inputs], columns[program.inputs :]
    fit = [
        size >= lanes and not (is_in_place and (isinstance(size, Size) or size % lanes))
        for size in sizes
    ]
    is_short = is_plain(program) and len(program.instrs) <= _MOST_OPERATIONS
    if not (is_short and {*program.value_types} == {"float32"} and fit[-1]):
        return None
    apart = [each for each in reads if each[-1] not in (0, 1, -1)]
    axes = [a for a in range(len(sizes) - 1) if fit[a] and all(each[a] == 1 for each in apart)]
    return axes[-1] if apart and axes and all(each[-1] == 1 for each in writes) else None


def turned_spec(
    program: Program, sizes: Ints, columns: Sequence[Ints], axis: int
) -> tuple[TurnedSpec, list[int]]:
    """The spec of a program over this space, and the integers of its calls: the count first."""
    outer = [a for a in range(len(sizes) - 1) if a != axis]
    order = [*outer, axis, len(sizes) - 1]
    numbers = GivenNumbers()
    count, *dims = [sizes[a] for a in order] if outer else [1, sizes[axis], sizes[-1]]
    strides = [[each[a] for a in order] if outer else [0, each[axis], each[-1]] for each in columns]
    given = [numbers.each(tuple(each)) for each in strides]
    spec = TurnedSpec(
        dims=tuple(map(numbers.any, dims)),
        reads=tuple(given[: program.inputs]),
        writes=tuple(given[program.inputs :]),
        program=program,
    )
    return spec, [count, *numbers.values]


def emit_turned(b: LoopBuilder, spec: TurnedSpec, args: Arguments) -> None:
    """for (count, *dims[:-2]), rows, columns by squares: results = program(operands)"""
    reads = args.pointers("x", len(spec.reads))
    writes = args.pointers("y", len(spec.writes))
    count = args.integer("count")
    read_strides, write_strides = (
        [args.given(each) for each in side] for side in (spec.reads, spec.writes)
    )
    *outer, rows, columns = args.given(spec.dims)
    width = _SQUARES * b.lanes
    sides = (rows, b.lanes), (columns, width)
    steps = [b.divmod(b.add(size, each - 1), each)[0] for size, each in sides]
    with b.each_unit(b.product([count, *outer, *steps]), args.share, args.shares) as unit:
        *place, down, across = b.split(unit.index, (0, *outer, *steps))
        # The last square of an axis begins where it is full: some elements are written twice.
        place.append(b.min(b.mul(down, b.lanes), b.sub(rows, b.lanes)))
        bases, targets = (
            [b.at(p, b.dot(place, each[:-1])) for p, each in zip(*side)]
            for side in ((reads, read_strides), (writes, write_strides))
        )
        left = b.mul(across, width)
        right = b.min(b.add(left, width), columns)
        with b.loop("square", left, right, b.lanes, most=_SQUARES) as square:
            at = b.min(square.index, b.sub(columns, b.lanes))
            _emit_square(b, spec, (bases, read_strides), (targets, write_strides), at)


def _emit_square(b: LoopBuilder, spec: TurnedSpec, reads: _Side, writes: _Side, at: Index) -> None:
    operands = [_rows(b, pointer, each[-2:], at) for pointer, each in zip(*reads)]
    for row in range(b.lanes):
        results = evaluate(b, spec.program, [rows[row] for rows in operands])
        for value, pointer, each in zip(results, *writes):
            write_vector(b, value, pointer, b.add(b.mul(row, each[-2]), at), 1, b.lanes)


def _rows(b: LoopBuilder, pointer: Value, strides: list[Index], at: Index) -> list[Value]:
    """An operand's rows of a square, which is transposed if its columns are strided."""
    down, across = strides
    lanes = range(b.lanes)
    if isinstance(across, int):
        first = b.mul(at, across)
        return [
            read_vector(b, pointer, b.add(b.mul(row, down), first), across, b.lanes)
            for row in lanes
        ]
    starts = [b.mul(b.add(at, column), across) for column in lanes]
    return transposed(b, [read_vector(b, pointer, start, 1, b.lanes) for start in starts])
