"""Packing of weights that are no parameters, as ``packing`` packs those that are, bit for bit.

Filters that lie next to each other are read as vectors; filters whose numbers do are transposed, a
square at a time; all others are read one number after the other.
"""

from __future__ import annotations

from functools import partial

from ....ir.plan import contiguous_strides
from ....records import dataclass
from ....types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Ints
from ..parts.arguments import Arguments
from ..parts.partial import read_vector, whole_and_last
from ..parts.transpose import Digits, transpose_square
from .spec import PackSpec


def emit_pack(b: LoopBuilder, spec: PackSpec, args: Arguments) -> None:
    """result[group][block][k][column] = w[group, filter, k], zeros beyond the last filter."""
    w, result = args.pointer("w"), args.working("result")
    run = run_of(spec)
    rounds = run.squares if run else product(spec.sizes)
    with b.each_unit(_blocks(spec) * spec.parts, args.tid, args.threads) as unit:
        block, part = b.split(unit.index, (0, spec.parts))
        place = _place(b, spec, w, result, block)
        first, _ = b.divmod(b.mul(part, rounds), spec.parts)
        after, _ = b.divmod(b.mul(b.add(part, 1), rounds), spec.parts)
        with b.loop("round", first, after, most=-(-rounds // spec.parts)) as round_:
            if run is None:
                _emit_row(b, spec, place, round_.index)
            else:
                _emit_squares(b, spec, place, run, round_.index)


# --- runs of numbers that follow each other ---


@dataclass(frozen=True)
class Run:
    """A filter's numbers as runs: ``size`` that follow each other in memory, of at most two axes.

    outer  (size, stride in w, stride in k) of the axes that are left, the last the fastest
    """

    size: int
    digits: Digits
    outer: tuple[Ints, ...]
    lanes: int

    @property
    def whole(self) -> int:
        """Squares of a run that are full; the numbers that are left go with the last of them."""
        return self.size // self.lanes

    @property
    def squares(self) -> int:
        """Of all runs of a filter."""
        return self.whole * product(tuple(size for size, _, _ in self.outer))


def run_of(spec: PackSpec) -> Run | None:
    """The runs of a filter; None where filters lie next to each other, or runs fill no vector."""
    if spec.strides[1] == 1 or spec.filters == 1:
        return None
    axes = [*zip(spec.sizes, spec.strides[2:], contiguous_strides(spec.sizes))]
    axes = sorted((axis for axis in axes if axis[0] > 1), key=lambda axis: -axis[1])
    inner: list[Ints] = []
    while axes and axes[-1][1] == product(tuple(size for size, _, _ in inner)):
        joined = _joined(axes[-1], inner)
        if len(joined) > 2:
            break
        axes, inner = axes[:-1], joined
    size = product(tuple(size for size, _, _ in inner))
    if size < spec.lanes:
        return None
    (minor, _, k_minor), *major = reversed(inner)
    digits = Digits(k_minor, minor, major[0][2]) if major else Digits(k_minor)
    return Run(size, digits, tuple(axes), spec.lanes)


def _joined(axis: Ints, inner: list[Ints]) -> list[Ints]:
    """The axis before those of a run; one with the next where they follow each other in k too."""
    if inner and axis[2] == inner[0][0] * inner[0][2]:
        size, _, k_step = inner[0]
        return [(axis[0] * size, inner[0][1], k_step), *inner[1:]]
    return [axis, *inner]


# --- code ---


@dataclass(frozen=True)
class _Place:
    """A block: its group, its first vector, how many there are, and where its rows go."""

    w: Value
    result: Value
    group: Index
    vector: Index
    width: Index


def _blocks(spec: PackSpec) -> int:
    if spec.is_interleaved:
        return spec.vectors
    return spec.groups * -(-spec.vectors // spec.nv)


def _most_columns(spec: PackSpec) -> int:
    """Vectors of a block."""
    return spec.groups if spec.is_interleaved else spec.nv


def _place(b: LoopBuilder, spec: PackSpec, w: Value, result: Value, number: Index) -> _Place:
    size = product(spec.sizes) * b.lanes
    if spec.is_interleaved:
        start = b.at(result, b.mul(number, spec.groups * size))
        return _Place(w, start, 0, number, spec.groups)
    group, block = b.split(number, (0, -(-spec.vectors // spec.nv)))
    vector = b.mul(block, spec.nv)
    start = b.at(result, b.mul(b.add(b.mul(group, spec.vectors), vector), size))
    # The last block has only the vectors that it needs.
    width = spec.nv if spec.vectors % spec.nv == 0 else b.min(b.sub(spec.vectors, vector), spec.nv)
    return _Place(w, start, group, vector, width)


def _column(
    b: LoopBuilder, spec: PackSpec, place: _Place, column: Index, offset: Index
) -> tuple[Index, Value]:
    """The number of a block's vector in its group, and where its first filter begins."""
    group, vector = place.group, b.add(place.vector, column)
    if spec.is_interleaved:
        group, vector = column, place.vector
    at = b.dot((group, b.mul(vector, b.lanes)), spec.strides[:2])
    return vector, b.at(place.w, b.add(at, offset))


def _last(spec: PackSpec) -> int:
    """Filters in the last vector."""
    return spec.filters - (spec.vectors - 1) * spec.lanes


def _emit_row(b: LoopBuilder, spec: PackSpec, place: _Place, k: Index) -> None:
    """All filters of a block at one k."""
    offset = b.dot(b.split(k, (0, *spec.sizes[1:])), spec.strides[2:])
    with b.loop("column", 0, place.width, most=_most_columns(spec)) as column:
        vector, source = _column(b, spec, place, column.index, offset)
        at = b.mul(b.add(b.mul(k, place.width), column.index), b.lanes)

        def copy(lanes: int) -> None:
            value = read_vector(b, source, 0, spec.strides[1], lanes)
            b.store(value, place.result, at)

        whole_and_last(b, vector, spec.vectors, _last(spec), copy)


def _emit_squares(b: LoopBuilder, spec: PackSpec, place: _Place, run: Run, number: Index) -> None:
    """The squares of a block's vectors for as many numbers as a vector has lanes.

    The last ones of a run take with them what is left of it: they end where it ends.
    """
    outer, square = b.divmod(number, run.whole)
    digits = b.split(outer, (0, *(size for size, _, _ in run.outer[1:]))) if run.outer else []
    offset = b.dot(digits, [stride for _, stride, _ in run.outer])
    k = b.dot(digits, [step for _, _, step in run.outer])
    again: Index = 1
    if run.size % b.lanes:
        is_last = b.b.icmp_signed("==", b.i64(square), b.i64(run.whole - 1))
        again = b.b.select(is_last, b.i64(2), b.i64(1))
    columns = b.loop("column", 0, place.width, most=_most_columns(spec))
    with b.loop("again", 0, again, most=2) as more, columns as column:
        at = b.min(b.mul(b.add(square, more.index), b.lanes), run.size - b.lanes)
        vector, source = _column(b, spec, place, column.index, offset)
        row = b.add(b.mul(k, place.width), column.index)
        target = b.at(place.result, b.mul(row, b.lanes))
        body = partial(_emit_square, b, spec, source, target, run.digits, at, place.width)
        whole_and_last(b, vector, spec.vectors, _last(spec), body)


def _emit_square(
    b: LoopBuilder,
    spec: PackSpec,
    source: Value,
    target: Value,
    digits: Digits,
    at: Index,
    width: Index,
    lanes: int,
) -> None:
    places = [b.add(at, lane * spec.strides[1]) for lane in range(lanes)]
    rows = [read_vector(b, source, place, 1, b.lanes) for place in places]
    rows += [b.splat(0.0)] * (b.lanes - lanes)
    step = b.mul(width, b.lanes)
    transpose_square(b, rows, at, digits, lambda v, k: b.store(v, target, b.mul(k, step)))
