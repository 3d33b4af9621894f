"""Pointwise kernels: a program over every element of a strided index space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..._core.frozen import dataclass
from ..._core.symbolic import Size
from ..._core.types import product
from ...ir.plan import Step, View
from ...ir.sized import is_symbolic
from ...ops.bfloat16 import FROM_BFLOAT16
from ..call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Setting,
    broadcast_strides,
    build_program,
    dtype_name,
    off_default,
    views_of,
)
from ..llvm.builder import LoopBuilder
from ..llvm.elements import ELEMENTS, MOVED_AS
from ..llvm.indices import Index
from ..llvm.types import Value
from ..spec import Instr, Ints, KernelSpec, Program, Sizes
from .interleaved import InterleavedSpec, emit_interleaved, interleaved_spec, is_interleaved
from .parts.arguments import Arguments
from .parts.cost import is_plain
from .parts.factors import without_factors
from .parts.partial import read_vector, write_vector
from .parts.program import evaluate
from .record import Emitter, register
from .turned import TurnedSpec, axis_of_rows, emit_turned, turned_spec

# Elements of a one-axis space per unit of work: enough to hide the cost of a unit, few enough to
# balance threads.
_BLOCK = 2048
# Assumed number of vectors of a row whose length is given, of up to 2 * _BLOCK elements.
_VECTORS = 64


_Side: TypeAlias = tuple[list[Value], list[Index]]  # operands or results, and a stride of each


@dataclass(frozen=True)
class PointwiseSpec(KernelSpec):
    """A program over the elements of an index space; arguments: operands, results, count.

    The space is ``(count, *dims)``: the outermost size is an argument. Strides are one per axis.
    ``block`` divides a one-axis space into units of work. The last ``factors`` operands are not
    arrays: their arguments are numbers. ``has_tail`` states that rows of a given length may end in
    a partial vector.
    """

    dims: Sizes
    reads: tuple[Sizes, ...]
    writes: tuple[Sizes, ...]
    program: Program
    block: int = 0
    factors: int = 0
    has_tail: bool = False
    kind = "pointwise"

    @property
    def needs_passes(self) -> bool:  # type: ignore[override]
        """Long formulas gain up to 7 %; plain ones nothing, for half of the compile time."""
        return not is_plain(self.program)


def choose_pointwise(step: Step, setting: Setting) -> tuple[Call, ...]:
    program, operands = build_program(step, anchored=False)
    return (_pointwise_call(program, views_of(step, operands), list(step.writes), setting),)


def choose_copy(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A copy moves bits, or widens stored bfloat16."""
    source, target = step.reads[0].dtype, step.writes[0].dtype
    if source != target:
        instr = Instr(FROM_BFLOAT16.name, (0,), (), dtype_name(target))
        program = Program(1, (instr,), (1,), (dtype_name(source),))
    else:
        program = Program(1, types=off_default((MOVED_AS[source.itemsize],)))
    return (_pointwise_call(program, list(step.reads), list(step.writes), setting),)


def _pointwise_call(
    program: Program, reads: list[View], writes: list[View], setting: Setting
) -> Call:
    shape = writes[0].shape
    strides = [broadcast_strides(v, shape) for v in (*reads, *writes)]
    sizes, columns = collapse(shape, strides)
    is_in_place = not {v.buffer for v in reads}.isdisjoint(v.buffer for v in writes)
    axis = axis_of_rows(program, sizes, columns, setting.target.lanes, is_in_place)
    if axis is not None:
        turned, numbers = turned_spec(program, sizes, columns, axis)
        arrays = (*map(Address, reads), *map(Address, writes))
        return Call(turned, (*arrays, *numbers), product(shape))
    if is_interleaved(program, sizes, columns, setting.target.lanes, is_in_place):
        interleaved, numbers = interleaved_spec(program, sizes, columns)
        arrays = (*map(Address, reads), *map(Address, writes))
        return Call(interleaved, (*arrays, *numbers), product(shape))
    if len(sizes) > 1 and sizes[-1] > 2 * _BLOCK:
        sizes, columns = _split_inner(sizes, columns)
    factors: list[int] = []
    if setting.is_training and len(sizes) == 1:
        program, factors = without_factors(program)
        columns[len(reads) : len(reads)] = [(0,)] * len(factors)
    spec, given = _spec(program, sizes, columns, len(factors), setting.target.lanes)
    operands: list[Argument] = [*map(Address, reads), *factors]
    return Call(spec, (*operands, *map(Address, writes), sizes[0], *given), product(shape))


def _spec(
    program: Program, sizes: Ints, columns: list[Ints], factors: int, lanes: int
) -> tuple[PointwiseSpec, list[int]]:
    """The spec of a program over this space, and the integers of its calls."""
    numbers = GivenNumbers()
    dims: Sizes = sizes[1:]
    strides = list[Sizes](columns)
    has_tail = len(sizes) > 1 and isinstance(sizes[-1], Size)
    if any(map(is_symbolic, (sizes[1:], *columns))):
        give = numbers.symbolic
    elif _takes_sizes(sizes, columns, lanes):
        give = numbers.each
    else:
        give = None
    if give is not None:
        dims, strides = give(sizes[1:]), [give(column) for column in columns]
    spec = PointwiseSpec(
        dims=dims,
        reads=tuple(strides[: program.inputs]),
        writes=tuple(strides[program.inputs :]),
        program=program,
        block=_BLOCK if len(sizes) == 1 else 0,
        factors=factors,
        has_tail=has_tail,
    )
    return spec, numbers.values


def _takes_sizes(sizes: Ints, columns: list[Ints], lanes: int) -> bool:
    """Whether sizes and strides are given: if rows are full vectors, and the cost is small.

    Given strides between the elements of a row cost 1.1 to 1.6 times its time, given lengths of
    rows of up to four vectors 1.05 times.
    """
    *_, row = sizes[1:] or (0,)
    are_plain = all(column[-1] in (0, 1, -1) for column in columns)
    return are_plain and row % lanes == 0 and 8 * lanes <= row <= 2 * _BLOCK


def collapse(shape: Ints, strides: list[Ints]) -> tuple[Ints, list[Ints]]:
    """The index space without axes of size 1, and with contiguous axes merged."""
    axes = [i for i, size in enumerate(shape) if size != 1] or [len(shape) - 1]
    sizes = [shape[i] if shape else 1 for i in axes] if shape else [1]
    columns = [[s[i] for i in axes] if shape else [1] for s in strides]
    at = len(sizes) - 2
    while at >= 0:
        if all(c[at] == c[at + 1] * sizes[at + 1] for c in columns):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            for c in columns:
                del c[at]
        at -= 1
    return tuple(sizes), [tuple(c) for c in columns]


def _split_inner(sizes: Ints, columns: list[Ints]) -> tuple[Ints, list[Ints]]:
    """Split a long innermost axis in two, so that there is work to divide."""
    inner = sizes[-1]
    if isinstance(inner, Size):
        return sizes, columns
    piece = next((p for p in range(_BLOCK, 255, -1) if inner % p == 0), None)
    if piece is None:
        return sizes, columns
    return (*sizes[:-1], inner // piece, piece), [(*c[:-1], c[-1] * piece, c[-1]) for c in columns]


def emit_pointwise(b: LoopBuilder, spec: PointwiseSpec, args: Arguments) -> None:
    """for (count, *dims): results = program(operands), vectors along the last axis."""
    arrays = len(spec.reads) - spec.factors
    reads = args.pointers("x", arrays)
    reads += [args.number(f"x{arrays + i}", t) for i, t in enumerate(_types(spec)[0][arrays:])]
    writes = args.pointers("y", len(spec.writes))
    count = args.integer("count")
    strides = [[args.given(each) for each in side] for side in (spec.reads, spec.writes)]
    inner = [[each[-1] for each in side] for side in strides]
    if not spec.dims:
        _emit_line(b, spec, (reads, inner[0]), (writes, inner[1]), count, args)
        return
    *outer, row = args.given(spec.dims)
    with b.each_unit(b.product([count, *outer]), args.share, args.shares) as unit:
        place = b.split(unit.index, (0, *outer))
        bases, targets = (
            [b.at(p, b.dot(place, s), ELEMENTS[t].stored) for p, s, t in zip(*side)]
            for side in zip((reads, writes), strides, _types(spec))
        )
        _emit_row(b, spec, (bases, inner[0]), (targets, inner[1]), row)


def _emit_line(
    b: LoopBuilder,
    spec: PointwiseSpec,
    reads: _Side,
    writes: _Side,
    count: Value,
    args: Arguments,
) -> None:
    """One axis of a length known only at run time, in blocks of ``spec.block``."""
    blocks = b.b.udiv(b.add(count, spec.block - 1), b.i64(spec.block))
    vectors = spec.block // b.lanes
    begin, end = b.share_of(blocks, args.share, args.shares, each=vectors)
    start, stop = b.mul(begin, spec.block), b.min(b.mul(end, spec.block), count)
    whole = b.sub(stop, b.b.urem(b.sub(stop, start), b.i64(b.lanes)))
    with b.loop("i", start, whole, b.lanes, most=1) as i:
        _emit_vector(b, spec, reads, writes, i.index, b.lanes)
    with b.loop("tail", whole, stop, most=1) as i:
        _emit_vector(b, spec, reads, writes, i.index, 1)


def _emit_row(
    b: LoopBuilder, spec: PointwiseSpec, reads: _Side, writes: _Side, size: Index
) -> None:
    if not isinstance(size, int):
        _emit_given_row(b, spec, reads, writes, size)
        return
    whole = size - size % b.lanes
    if whole == b.lanes:
        _emit_vector(b, spec, reads, writes, 0, b.lanes)
    elif whole:
        with b.loop("i", 0, whole, b.lanes) as i:
            _emit_vector(b, spec, reads, writes, i.index, b.lanes)
    if size % b.lanes:
        _emit_vector(b, spec, reads, writes, whole, size % b.lanes)


def _emit_given_row(
    b: LoopBuilder, spec: PointwiseSpec, reads: _Side, writes: _Side, size: Value
) -> None:
    """A row whose length the call gives, of full vectors or with a tail."""
    if not spec.has_tail:
        with b.loop("i", 0, size, b.lanes, most=_VECTORS) as i:
            _emit_vector(b, spec, reads, writes, i.index, b.lanes)
        return
    whole = b.sub(size, b.b.urem(size, b.i64(b.lanes)))
    with b.loop("i", 0, whole, b.lanes) as i:
        _emit_vector(b, spec, reads, writes, i.index, b.lanes)
    is_masked = _takes_masks(b, spec, (*reads[1], *writes[1]))
    with b.loop("tail", whole, size, b.lanes if is_masked else 1, most=b.lanes) as i:
        count = b.sub(size, i.index) if is_masked else 1
        _emit_vector(b, spec, reads, writes, i.index, count)


def _takes_masks(b: LoopBuilder, spec: PointwiseSpec, strides: Sequence[Index]) -> bool:
    """Whether all operands and results are contiguous and of the lanes' type."""
    types = {t for side in _types(spec) for t in side}
    plain = all(isinstance(s, int) and s in (0, 1) for s in strides)
    writes = strides[len(spec.reads) :]
    return plain and 0 not in writes and {ELEMENTS[t].stored for t in types} == {b.element}


def _emit_vector(
    b: LoopBuilder, spec: PointwiseSpec, reads: _Side, writes: _Side, i: Index, n: Index
) -> None:
    types = _types(spec)
    values = [read_vector(b, p, b.mul(i, s), s, n, t) for p, s, t in zip(*reads, types[0])]
    results = evaluate(b, spec.program, values)
    for value, p, s, t in zip(results, *writes, types[1]):
        write_vector(b, value, p, b.mul(i, s), s, n, t)


def _types(spec: PointwiseSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The element types of operands and results."""
    program = spec.program
    return program.value_types[: program.inputs], program.output_types


_EMITTERS: dict[type[KernelSpec], Emitter] = {
    PointwiseSpec: emit_pointwise,
    TurnedSpec: emit_turned,
    InterleavedSpec: emit_interleaved,
}
register("pointwise", choose_pointwise, _EMITTERS)
register("copy", choose_copy, _EMITTERS)
