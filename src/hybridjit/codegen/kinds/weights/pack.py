"""Packing of weights that are not parameters, with the bits of ``packing``.

Filters that are adjacent in memory are read as vectors; filters with contiguous elements are
transposed, a square at a time; all others are read element by element.
"""

from __future__ import annotations

from functools import partial

from ...._core.frozen import dataclass
from ...._core.types import product
from ....ir.plan import contiguous_strides
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Ints
from ..parts.arguments import Arguments
from ..parts.partial import read_vector, whole_and_last
from ..parts.transpose import Digits, transpose_square
from .spec import PackSpec

# Approximate rounds of a unit of work, and vectors of a block, if their numbers are given.
_ROUNDS = 64
_COLUMNS = 4


def emit_pack(b: LoopBuilder, spec: PackSpec, args: Arguments) -> None:
    """result[group][block][k][column] = w[group, filter, k], zeros beyond the last filter."""
    w, result = args.pointer("w"), args.working("result")
    layout = _layout_of(b, spec, args)
    run = run_of(b, spec, layout)
    rounds = run.squares(b) if run else b.product(layout.sizes)
    (parts,) = args.given((spec.parts,))
    most = -(-rounds // parts) if isinstance(rounds, int) and isinstance(parts, int) else _ROUNDS
    with b.each_unit(b.mul(_blocks(b, spec, layout), parts), args.share, args.shares) as unit:
        block, part = b.split(unit.index, (0, parts))
        place = _place(b, spec, layout, w, result, block)
        first, _ = b.divmod(b.mul(part, rounds), parts)
        after, _ = b.divmod(b.mul(b.add(part, 1), rounds), parts)
        with b.loop("rounds", first, after, most=most) as round_:
            if run is None:
                _emit_row(b, layout, place, round_.index)
            else:
                _emit_squares(b, layout, place, run, round_.index)


@dataclass(frozen=True)
class _Layout:
    """The layout of filters in memory, and the number of vectors per group.

    nv    vectors of a block, all of which are full if their number is given
    last  filters in the last vector: as many as lanes if their number is given
    """

    spec: PackSpec
    sizes: list[Index]
    strides: list[Index]
    vectors: Index
    nv: Index
    last: int


def _layout_of(b: LoopBuilder, spec: PackSpec, args: Arguments) -> _Layout:
    (filters,), strides = args.given((spec.filters,)), args.given(spec.strides)
    vectors, _ = b.divmod(b.add(filters, b.lanes - 1), b.lanes)
    last = b.lanes
    if isinstance(filters, int):
        last = filters - (-(-filters // b.lanes) - 1) * b.lanes
    (nv,) = args.given((spec.nv,))
    return _Layout(spec, args.given(spec.sizes), strides, vectors, nv, last)


# --- runs of contiguous elements ---


@dataclass(frozen=True)
class Run:
    """A filter's elements as runs: ``size`` contiguous elements, along at most two axes.

    outer  (size, stride in w, stride in k) of the remaining axes, the last the fastest
    """

    size: Index
    digits: Digits
    outer: tuple[Ints, ...]

    def whole(self, b: LoopBuilder) -> Index:
        """Full squares of a run; the remaining elements are processed with the last of them."""
        return b.divmod(self.size, b.lanes)[0]

    def squares(self, b: LoopBuilder) -> Index:
        """Squares of all runs of a filter."""
        return b.mul(self.whole(b), product(tuple(size for size, _, _ in self.outer)))


def run_of(b: LoopBuilder, spec: PackSpec, layout: _Layout) -> Run | None:
    """The runs of a filter; None if filters are adjacent, or runs fill no vector."""
    if spec.strides[1] == 1 or spec.filters == 1:
        return None
    sizes, strides = (
        tuple(n for n in each if isinstance(n, int)) for each in (layout.sizes, layout.strides[2:])
    )
    if len(sizes) < len(layout.sizes):
        return _given_run(b, layout)
    axes = [*zip(sizes, strides, contiguous_strides(sizes))]
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
    return Run(size, digits, tuple(axes))


def _given_run(b: LoopBuilder, layout: _Layout) -> Run | None:
    """The only run of a filter whose channels are given, with taps after them, if any."""
    if 1 not in layout.strides[2:]:
        return None
    *taps, channels = layout.sizes
    if not taps:
        return Run(channels, Digits(1), ())
    return Run(b.mul(taps[0], channels), Digits(channels, taps[0], 1), ())


def _joined(axis: Ints, inner: list[Ints]) -> list[Ints]:
    """Add an axis to the axes of a run; merged with the next if they are contiguous in k too."""
    if inner and axis[2] == inner[0][0] * inner[0][2]:
        size, _, k_step = inner[0]
        return [(axis[0] * size, inner[0][1], k_step), *inner[1:]]
    return [axis, *inner]


# --- code ---


@dataclass(frozen=True)
class _Place:
    """A block: its group, its first vector, its number of vectors, and the address of its rows."""

    w: Value
    result: Value
    group: Index
    vector: Index
    width: Index


def _blocks(b: LoopBuilder, spec: PackSpec, layout: _Layout) -> Index:
    if spec.is_interleaved:
        return layout.vectors
    return b.mul(_blocks_of_group(b, layout), spec.groups)


def _blocks_of_group(b: LoopBuilder, layout: _Layout) -> Index:
    return b.divmod(b.add(layout.vectors, b.sub(layout.nv, 1)), layout.nv)[0]


def _most_columns(spec: PackSpec) -> int:
    """Vectors of a block."""
    if spec.is_interleaved:
        return spec.groups
    return spec.nv if isinstance(spec.nv, int) else _COLUMNS


def _place(
    b: LoopBuilder, spec: PackSpec, layout: _Layout, w: Value, result: Value, number: Index
) -> _Place:
    size, vectors = b.mul(b.product(layout.sizes), b.lanes), layout.vectors
    if spec.is_interleaved:
        start = b.at(result, b.mul(number, b.mul(size, spec.groups)))
        return _Place(w, start, 0, number, spec.groups)
    group, block = b.split(number, (0, _blocks_of_group(b, layout)))
    nv = layout.nv
    vector = b.mul(block, nv)
    start = b.at(result, b.mul(b.add(b.mul(group, vectors), vector), size))
    # The last block has only the necessary vectors.
    if isinstance(vectors, int) and isinstance(nv, int) and vectors % nv:
        return _Place(w, start, group, vector, b.min(b.sub(vectors, vector), nv))
    return _Place(w, start, group, vector, nv)


def _column(
    b: LoopBuilder, layout: _Layout, place: _Place, column: Index, offset: Index
) -> tuple[Index, Value]:
    """The number of a block's vector in its group, and the address of its first filter."""
    group, vector = place.group, b.add(place.vector, column)
    if layout.spec.is_interleaved:
        group, vector = column, place.vector
    at = b.dot((group, b.mul(vector, b.lanes)), layout.strides[:2])
    return vector, b.at(place.w, b.add(at, offset))


def _emit_row(b: LoopBuilder, layout: _Layout, place: _Place, k: Index) -> None:
    """All filters of a block at one k."""
    offset = b.dot(b.split(k, (0, *layout.sizes[1:])), layout.strides[2:])
    with b.loop("column", 0, place.width, most=_most_columns(layout.spec)) as column:
        vector, source = _column(b, layout, place, column.index, offset)
        at = b.mul(b.add(b.mul(k, place.width), column.index), b.lanes)

        def copy(lanes: int) -> None:
            value = read_vector(b, source, 0, layout.strides[1], lanes)
            b.store(value, place.result, at)

        whole_and_last(b, vector, layout.vectors, layout.last, copy)


def _emit_squares(b: LoopBuilder, layout: _Layout, place: _Place, run: Run, number: Index) -> None:
    """The squares of a block's vectors for as many elements as a vector has lanes.

    The last ones of a run process its remainder as well: they end where it ends.
    """
    whole = run.whole(b)
    outer, square = b.divmod(number, whole)
    digits = b.split(outer, (0, *(size for size, _, _ in run.outer[1:]))) if run.outer else []
    offset = b.dot(digits, [stride for _, stride, _ in run.outer])
    k = b.dot(digits, [step for _, _, step in run.outer])
    again: Index = 1
    if isinstance(run.size, int) and run.size % b.lanes:
        is_last = b.equal(square, b.sub(whole, 1))
        again = b.b.select(is_last, b.i64(2), b.i64(1))
    columns = b.loop("column", 0, place.width, most=_most_columns(layout.spec))
    with b.loop("again", 0, again, most=2) as more, columns as column:
        at = b.min(b.mul(b.add(square, more.index), b.lanes), b.sub(run.size, b.lanes))
        vector, source = _column(b, layout, place, column.index, offset)
        row = b.add(b.mul(k, place.width), column.index)
        target = b.at(place.result, b.mul(row, b.lanes))
        body = partial(_emit_square, b, layout, source, target, run.digits, at, place.width)
        whole_and_last(b, vector, layout.vectors, layout.last, body)


def _emit_square(
    b: LoopBuilder,
    layout: _Layout,
    source: Value,
    target: Value,
    digits: Digits,
    at: Index,
    width: Index,
    lanes: int,
) -> None:
    places = [b.add(at, b.mul(layout.strides[1], lane)) for lane in range(lanes)]
    rows = [read_vector(b, source, place, 1, b.lanes) for place in places]
    rows += [b.splat(0.0)] * (b.lanes - lanes)
    step = b.mul(width, b.lanes)
    transpose_square(b, rows, at, digits, lambda v, k: b.store(v, target, b.mul(k, step)))
