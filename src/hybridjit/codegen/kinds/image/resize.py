"""Resizing with channels last: nearest, bilinear, and averages of bins.

The source positions of an output cell are computed from its row and column with the arithmetic of
the reference; vectors are along channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...._core.frozen import dataclass, replace
from ...._core.target import SINGLE, ElementTypes
from ...._core.types import product
from ....ir.plan import Step
from ....ir.sized import is_symbolic
from ...call import (
    Address,
    Call,
    Setting,
    about,
    broadcast_strides,
    build_program,
    five,
    rounds_of,
    views_of,
)
from ...llvm import ir
from ...llvm.builder import Loop, LoopBuilder
from ...llvm.elements import converted
from ...llvm.indices import Index
from ...llvm.types import F32, F64, I64, Value
from ...spec import Extents, Ints, KernelSpec, Program
from ..parts.arguments import Arguments
from ..parts.partial import read_vector, whole_and_last
from ..parts.program import operand_addresses, store_epilogue
from ..record import register


@dataclass(frozen=True)
class ResizeSpec(KernelSpec):
    """Another resolution; arguments: x, operands, results, batch.

    how    ``nearest``: integer repetitions; ``bilinear``, with corners aligned or not; ``average``:
           of the bins [floor(i h / H), ceil((i + 1) h / H))
    usual  approximate typical sizes of the result, if some sizes are given
    times  if sizes are given, the repetitions along each axis
    """

    how: str
    inp: Extents
    out: Extents
    channels: int
    xs: Extents
    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    align: bool = False
    program: Program = Program(1)
    element: ElementTypes = SINGLE
    usual: Ints = ()
    times: Ints = ()
    kind = "resize"
    extents = ("inp", "out", "xs", "reads", "writes")


def choose_resize(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call of ``_resize_last``."""
    anchor = step.group.anchor
    program, operands = build_program(step, anchored=True)
    x, others = views_of(step, anchor.inputs[:1])[0], views_of(step, operands)
    spec = ResizeSpec(
        how=anchor.attrs["how"],
        inp=x.shape[1:3],
        out=anchor.shape[1:3],
        channels=x.shape[3],
        xs=x.strides[:3],
        reads=tuple(five(broadcast_strides(v, anchor.shape), 2) for v in others),
        writes=tuple(five(v.strides, 2) for v in step.writes),
        align=anchor.attrs["align"],
        program=program,
        element=setting.target.element,
    )
    if any(is_symbolic(getattr(spec, name)) for name in spec.extents):
        spec = _open(spec)
    args = tuple(Address(v) for v in (x, *others, *step.writes))
    return (Call(spec, (*args, x.shape[0]), 4 * product(anchor.shape)),)


def _open(spec: ResizeSpec) -> ResizeSpec:
    """The spec with the further fields that a kernel needs if sizes are symbolic."""
    times: Ints = ()
    if spec.how == "nearest":
        times = tuple(int(full // size) for size, full in zip(spec.inp, spec.out))
    out = tuple(size if size > 1 else int(size) for size in spec.out)
    return replace(spec, out=out, usual=about(spec.out), times=times)


class Between(NamedTuple):
    """Two adjacent cells of an axis, and the weights of the lower and the upper one."""

    low: Index
    high: Index
    below: Value
    above: Value


# The source cells of an output cell: one, two with weights, or a range.
Cells = Value | Between | tuple[Index, Index]


def emit_resize(b: LoopBuilder, spec: ResizeSpec, args: Arguments) -> None:
    """y[n,h,w,c] = program(the source cells of (h, w) in x[n,:,:,c])."""
    x = args.pointer("x")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    blocks = -(-spec.channels // b.lanes)
    last = spec.channels - (blocks - 1) * b.lanes
    spec = args.sized(spec)
    height, width = spec.out
    most = rounds_of(spec.usual[1]) if spec.usual else None
    with b.each_unit(b.mul(batch, height), args.share, args.shares) as unit:
        image, row = b.split(unit.index, (0, height))
        source = b.at(x, b.mul(image, spec.xs[0]))
        bases = [b.at(p, b.dot((image, 0, row), s)) for p, s in zip(reads, spec.reads)]
        targets = [b.at(p, b.dot((image, 0, row), s)) for p, s in zip(writes, spec.writes)]
        across = _along_axis(b, spec, 0, row)
        with b.loop("col", 0, width, most=most) as col:
            value = _VALUES[spec.how](b, spec, source, across, _along_axis(b, spec, 1, col.index))
            with b.loop("block", 0, blocks) as block:

                def one(
                    lanes: int, block: Loop = block, col: Loop = col, value: Sampler = value
                ) -> None:
                    channel = b.mul(block.index, b.lanes)
                    sources, results = (
                        [
                            _moved(b, p, channel)
                            for p in operand_addresses(b, base, strides, col.index, 0)
                        ]
                        for base, strides in ((bases, spec.reads), (targets, spec.writes))
                    )
                    store_epilogue(b, spec.program, value(channel, lanes), sources, results, lanes)

                whole_and_last(b, block.index, blocks, last, one)


def _moved(
    b: LoopBuilder, place: tuple[Value, Index, Index], channel: Index
) -> tuple[Value, Index, Index]:
    pointer, at, stride = place
    return pointer, b.add(at, b.mul(channel, stride)), stride


# --- along one axis ---


def _along_axis(b: LoopBuilder, spec: ResizeSpec, axis: int, cell: Index) -> Cells:
    """The source cells of an output cell: one, two with weights, or a range."""
    size, out = spec.inp[axis], spec.out[axis]
    cell = b.i64(cell)
    if spec.how == "nearest":
        return b.b.udiv(cell, b.i64(spec.times[axis] if spec.times else out // size))
    if spec.how == "average":
        start = b.b.udiv(b.i64(b.mul(cell, size)), b.i64(out))
        ahead = b.add(b.mul(b.add(cell, 1), size), b.sub(out, 1))
        return start, b.b.udiv(b.i64(ahead), b.i64(out))
    return _between(b, spec, cell, size, out)


def _quotient(b: LoopBuilder, size: Index, other: Index) -> Value:
    """The quotient of two sizes in float32, rounded from double precision."""
    if isinstance(size, int) and isinstance(other, int):
        return ir.Constant(F32, size / other)
    wide = [b.b.sitofp(b.i64(each), F64) for each in (size, other)]
    return b.b.fptrunc(b.b.fdiv(*wide), F32)


def _between(b: LoopBuilder, spec: ResizeSpec, cell: Index, size: Index, out: Index) -> Between:
    """Positions and weights are computed in float32 for any element type, as in the reference."""
    at = b.b.sitofp(b.i64(cell), F32)
    is_single = isinstance(out, int) and out <= 1
    if not is_single and spec.align:
        at = b.b.fmul(at, _quotient(b, b.sub(size, 1), b.sub(out, 1)))
    elif not is_single:
        half, zero = ir.Constant(F32, 0.5), ir.Constant(F32, 0.0)
        at = b.b.fsub(b.b.fmul(b.b.fadd(at, half), _quotient(b, size, out)), half)
        at = b.b.select(b.b.fcmp_ordered("<", at, zero), zero, at)
    last = b.sub(size, 1)
    low = b.min(b.b.fptosi(at, I64), last)
    high = b.min(b.add(low, 1), last)
    above = converted(b, b.b.fsub(at, b.b.sitofp(low, F32)), "float32", b.dtype)
    return Between(low, high, b.splat(b.b.fsub(b.number(1.0), above)), b.splat(above))


# --- both axes: functions that return the vector of some channels ---

Sampler = Callable[[Index, int], Value]


def _cell(b: LoopBuilder, spec: ResizeSpec, x: Value, row: Index, column: Index) -> Value:
    return b.at(x, b.dot((row, column), spec.xs[1:3]))


def _nearest(b: LoopBuilder, spec: ResizeSpec, x: Value, row: Index, column: Index) -> Sampler:
    cell = _cell(b, spec, x, row, column)
    return lambda channel, lanes: read_vector(b, cell, channel, 1, lanes)


def _bilinear(
    b: LoopBuilder, spec: ResizeSpec, x: Value, rows: Between, columns: Between
) -> Sampler:
    cells = [
        [_cell(b, spec, x, row, column) for column in (columns.low, columns.high)]
        for row in (rows.low, rows.high)
    ]

    def value(channel: Index, lanes: int) -> Value:
        (a, c), (d, e) = (
            [read_vector(b, cell, channel, 1, lanes) for cell in line] for line in cells
        )
        left = _mixed(b, a, d, rows)
        right = _mixed(b, c, e, rows)
        return _mixed(b, left, right, columns)

    return value


def _mixed(b: LoopBuilder, low: Value, high: Value, weights: Between) -> Value:
    return b.b.fadd(b.b.fmul(low, weights.below), b.b.fmul(high, weights.above))


def _average(
    b: LoopBuilder,
    spec: ResizeSpec,
    x: Value,
    rows: tuple[Index, Index],
    columns: tuple[Index, Index],
) -> Sampler:
    height, width = (b.sub(stop, start) for start, stop in (rows, columns))
    count = b.splat(b.b.sitofp(b.i64(b.mul(height, width)), b.element))

    def value(channel: Index, lanes: int) -> Value:
        most = [
            size // out + 2 if isinstance(size, int) and isinstance(out, int) else None
            for size, out in zip(spec.inp, spec.out)
        ]
        with b.loop("row", *rows, carry=[b.splat(0.0)], most=most[0]) as row:
            line = _cell(b, spec, x, row.index, 0)
            with b.loop("column", *columns, carry=row.carried, most=most[1]) as column:
                at = b.add(b.mul(column.index, spec.xs[2]), channel)
                cell = read_vector(b, line, at, 1, lanes)
                column.yields([b.b.fadd(column.carried[0], cell)])
            row.yields(column.results)
        return b.b.fdiv(row.results[0], count)

    return value


_VALUES: dict[str, Callable[..., Sampler]] = {
    "nearest": _nearest,
    "bilinear": _bilinear,
    "average": _average,
}


register("resize", choose_resize, {ResizeSpec: emit_resize}, in_one_type=True)
