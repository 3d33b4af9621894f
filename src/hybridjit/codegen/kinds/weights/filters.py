"""Filters transformed for Winograd at every call, in the layout of ``packing.WinogradPacking``.

A unit of work is a run of channels of a block of filters: their elements are transposed into
scratch, where filters are adjacent, and from there each vector of filters is transformed. In single
precision: rounding each step adds less error than the transforms of the data, and takes a third of
the instructions of double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...._core.frozen import dataclass
from ...interpolation import filter_matrix
from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import with_element
from ...llvm.indices import Index
from ...llvm.types import F32, F64, I32, Value
from ..parts.arguments import Arguments
from ..parts.partial import dtype_at, read_scalar, read_vector
from ..parts.transpose import Digits, transpose_rows, transposed
from .spec import PLANE, RUN, FiltersSpec


def emit_filters(b: LoopBuilder, spec: FiltersSpec, args: Arguments) -> None:
    """result[block][point][c][f] = (g w gT)[point] of filter f; zeros beyond the last filter."""
    w, result, scratch = args.pointer("w"), args.working("result"), args.working("scratch")
    filters, channels = args.given((spec.filters, spec.channels))
    layout = Layout(filters, spec.width, _is_whole(spec), args.given(spec.strides), spec.side)
    # Runs of channels that are transformed together: a vector, the last up to two vectors.
    chunks = b.divmod(channels, b.lanes)[0] if layout.is_whole else 1
    blocks = b.divmod(b.add(filters, spec.width - 1), spec.width)[0]
    transposed = b.at(scratch, b.mul(args.tid, spec.scratch_floats))
    with b.each_unit(b.mul(blocks, chunks), args.share, args.shares) as unit:
        block, chunk = b.split(unit.index, (0, chunks))
        first = b.mul(chunk, b.lanes)
        is_last = b.equal(chunk, b.sub(chunks, 1))
        count = b.b.select(is_last, b.i64(b.sub(channels, first)), b.i64(b.lanes))
        turn_filters(b, layout, w, b.mul(block, spec.nv), first, count, transposed)
        start = b.mul(block, b.mul(channels, spec.points * spec.width))
        target = b.at(result, b.add(start, b.mul(first, spec.width)))
        tile = b.at(transposed, spec.transposed_floats)
        transform_filters(
            b, spec.m, transposed, tile, target, count, spec.width, channels,
            lambda taps, width, at: transform_vector(b, spec.m, taps, width, at, PLANE, spec.side),
            spec.side,
        )  # fmt: skip


def _is_whole(spec: FiltersSpec) -> bool:
    """Whether there is at least a vector of channels, as for any given number."""
    return not isinstance(spec.channels, int) or spec.channels >= spec.lanes


@dataclass(frozen=True)
class Layout:
    """The layout of filters that are read, and the width of a block of them.

    is_whole  whether there is at least a vector of channels
    strides   per (filter, row, column, channel)
    side      taps of a row and of a column
    """

    filters: Index
    width: int
    is_whole: bool
    strides: list[Index]
    side: int = 3

    @property
    def taps(self) -> int:
        """Taps of a filter at one channel."""
        return self.side**2


def turn_filters(
    b: LoopBuilder,
    layout: Layout,
    w: Value,
    vector: Index,
    channel: Index,
    count: Index,
    target: Value,
) -> None:
    """target[c][tap][f] = w of a block of filters, whose first vector is number ``vector``, at
    ``count`` channels from ``channel`` on.
    """
    source = b.at(w, b.mul(channel, layout.strides[3]))
    with b.loop("vector", 0, layout.width // b.lanes) as number:
        place = b.mul(b.add(vector, number.index), b.lanes)
        _Turn(b, layout, source, place, b.at(target, b.mul(number.index, b.lanes))).emit(count)


class _Turn:
    """A vector of filters, from number ``place`` on: transposed[c][tap][lane] = w[filter, tap, c].

    Absent filters are zeros: an existing one is read instead.
    """

    def __init__(
        self, b: LoopBuilder, layout: Layout, w: Value, place: Index, target: Value
    ) -> None:
        self.b, self.layout, self.target = b, layout, target
        places = [b.add(place, lane) for lane in range(b.lanes)]
        self.known = [b.less(p, layout.filters) for p in places]
        step, last = layout.strides[0], b.sub(layout.filters, 1)
        self.rows = [b.at(w, b.mul(b.min(p, last), step)) for p in places]
        self.start = b.at(w, b.mul(place, step))
        self.mask = b.mask_first(b.max(b.min(b.sub(layout.filters, place), b.lanes), 0))

    def emit(self, count: Index) -> None:
        """Transpose according to the layout of the filters: adjacent filters, channels or taps."""
        b, (filters, down, across, channels) = self.b, self.layout.strides
        whole, taps, side = self.layout.is_whole, self.layout.taps, self.layout.side
        if filters != 1 and whole and (down, across, channels) == (side, 1, taps):
            size, most = b.mul(count, taps), 2 * taps
            transpose_rows(b, self.rows, self.known, size, Digits(1), self._store, most)
        elif filters != 1 and whole and channels == 1:
            with b.loop("tap", 0, taps) as tap:
                rows = [b.at(row, self._offset(tap.index)) for row in self.rows]
                store = partial(self._store, first=tap.index)
                transpose_rows(b, rows, self.known, count, Digits(taps), store, most=2)
        elif (down, across) in ((side, 1), (-side, -1)):
            with b.loop("c", 0, count, most=2 * b.lanes) as c:
                self._turn_taps(c.index, b.mul(c.index, channels), across == -1)
        else:
            each = b.loop("c", 0, count, most=2 * b.lanes)
            with each as c, b.loop("tap", 0, taps) as tap:
                at = b.add(b.mul(c.index, channels), self._offset(tap.index))
                self._store(self._across(at), b.mul(c.index, taps), tap.index)

    def _turn_taps(self, c: Index, at: Index, is_backwards: bool) -> None:
        """The taps of a channel, which are adjacent, in forward or reverse order."""
        b, taps = self.b, self.layout.taps
        last = taps - 1
        rows = [b.at(row, b.sub(at, last) if is_backwards else at) for row in self.rows]

        def store(value: Value, tap: Index) -> None:
            self._store(value, b.mul(c, taps), b.sub(last, tap) if is_backwards else tap)

        if b.lanes <= taps:
            transpose_rows(b, rows, self.known, taps, Digits(1), store)
            return
        zeros = b.splat(0.0)
        square = [
            b.b.select(is_one, read_vector(b, row, 0, 1, taps), zeros)
            for row, is_one in zip(rows, self.known)
        ]
        for tap, value in enumerate(transposed(b, square)[:taps]):
            store(value, tap)

    def _offset(self, tap: Index) -> Index:
        row, column = self.b.split(tap, (0, self.layout.side))
        return self.b.dot((row, column), self.layout.strides[1:3])

    def _store(self, value: Value, row: Index, first: Index = 0) -> None:
        b = self.b
        b.store(value, self.target, b.mul(b.add(row, first), self.layout.width))

    def _across(self, at: Index) -> Value:
        """One element of each filter."""
        b = self.b
        if self.layout.strides[0] == 1 and dtype_at(b, self.start) == b.dtype:
            return b.load_masked(self.start, at, self.mask)
        value = b.splat(0.0)
        for lane, (row, known) in enumerate(zip(self.rows, self.known)):
            number = b.b.select(known, read_scalar(b, row, at), b.number(0.0))
            value = b.b.insert_element(value, number, ir.Constant(I32, lane))
        return value


def transform_filters(
    b: LoopBuilder,
    m: int,
    source: Value,
    tile: Value,
    result: Value,
    count: Index,
    width: Index,
    channels: Index,
    transform: Callable[[Value, Index, Value], None] | None = None,
    side: int = 3,
) -> None:
    """result[point][c][f] = (g w gT)[point] for w = source[c][tap][f], ``count`` channels.

    The result has planes of ``channels``; ``tile`` is memory for ``tile_floats(m, side)``.
    ``transform`` writes all points of a vector of filters at one channel; by default those of 3x3
    in double precision, rounded once, with the operations of ``packing``.
    """
    if transform is None:
        with b.b.goto_entry_block():
            half = b.b.alloca(F64, 3 * (m + 2) * b.lanes)
        transform = partial(_transform_exactly, b, m, half)
    points, plane = (m + side - 1) ** 2, b.mul(channels, width)
    rows = b.b.udiv(b.i64(RUN), b.i64(width))
    most = RUN // b.lanes
    with b.loop("first", 0, count, rows, most=b.lanes) as first:
        some = b.min(b.sub(count, first.index), rows)
        size = b.mul(some, width)
        with b.loop("i", 0, size, b.lanes, most=most) as i:
            c, f = b.divmod(i.index, width)
            row = b.mul(b.add(first.index, c), side**2)
            taps = b.at(source, b.add(b.mul(row, width), f))
            transform(taps, width, b.at(tile, i.index))
        start = b.at(result, b.mul(first.index, width))
        with b.loop("point", 0, points) as point:
            made = b.at(tile, b.mul(point.index, PLANE))
            target = b.at(start, b.mul(point.index, plane))
            with b.loop("i", 0, size, b.lanes, most=most) as i:
                b.store(b.load(made, i.index), target, i.index)


def transform_vector(
    b: LoopBuilder, m: int, taps: Value, width: Index, target: Value, plane: Index, side: int = 3
) -> None:
    """All points of a vector of filters at one channel, ``plane`` apart."""
    g = filter_matrix(m, side).tolist()
    w = [b.load(taps, b.mul(tap, width)) for tap in range(side**2)]
    columns = [_fused(b, g, w[j::side]) for j in range(side)]
    values = (value for row in zip(*columns) for value in _fused(b, g, row))
    for point, value in enumerate(values):
        b.store(value, target, b.mul(plane, point))


def _fused(b: LoopBuilder, g: Sequence[Sequence[float]], w: Sequence[Value]) -> list[Value]:
    """g w by multiply-adds, sharing terms of points p and -p: see ``interpolated``."""

    def added(value: Value, row: Sequence[float], sign: float, first: int) -> Value:
        for tap in range(first, len(w), 2):
            value = b.fma(w[tap], b.splat(sign * row[tap]), value)
        return value

    zero = 1 - len(g) % 2
    result = [b.b.fmul(w[0], b.splat(g[0][0]))] if zero else []
    for row in g[zero:-1:2]:
        even = added(b.b.fmul(w[0], b.splat(row[0])), row, 1.0, 2)
        result.append(added(even, row, 1.0, 1))
        mirrored = (even, -1.0) if zero else (b.b.fneg(even), 1.0)
        result.append(added(mirrored[0], row, mirrored[1], 1))
    return [*result, w[-1]]


def _transform_exactly(
    b: LoopBuilder, m: int, half: Value, taps: Value, width: Index, target: Value
) -> None:
    """All points in double precision, ``PLANE`` apart; ``half`` holds ``3 (m + 2)`` vectors.

    In loops over the three columns and over the rows of points: LLVM takes 0.6 of the time for the
    packers that it takes for all points at once.
    """
    g, points = filter_matrix(m).tolist(), m + 2
    wide, narrow = (with_element(b.vector_type(), kind) for kind in (F64, F32))
    with b.loop("column", 0, 3) as column:
        places = [b.mul(b.add(column.index, 3 * i), width) for i in range(3)]
        w = [b.b.fpext(b.load(taps, place), wide) for place in places]
        for i, value in enumerate(interpolated(b, g, w)):
            b.store(value, half, b.mul(b.add(column.index, 3 * i), b.lanes))
    with b.loop("row", 0, points) as row:
        w = [b.load(half, b.mul(b.add(b.mul(row.index, 3), j), b.lanes), F64) for j in range(3)]
        first = b.mul(row.index, points * PLANE)
        for j, value in enumerate(interpolated(b, g, w)):
            b.store(b.b.fptrunc(value, narrow), target, b.add(first, j * PLANE))


def interpolated(b: LoopBuilder, g: Sequence[Sequence[float]], w: Sequence[Value]) -> list[Value]:
    """g w, sharing terms of points p and -p.

    Without the point 0, the product of the other points' distances is odd, so that -p has the even
    part with the opposite sign.
    """

    def times(value: Value, factor: float) -> Value:
        return b.b.fmul(value, b.constant(factor, value))

    zero = 1 - len(g) % 2
    result = [times(w[0], g[0][0])] if zero else []
    for row in g[zero:-1:2]:
        even = b.b.fadd(times(w[0], row[0]), times(w[2], row[2]))
        odd = times(w[1], row[1])
        result += [b.b.fadd(even, odd), b.b.fsub(even, odd) if zero else b.b.fsub(odd, even)]
    return [*result, w[2]]
