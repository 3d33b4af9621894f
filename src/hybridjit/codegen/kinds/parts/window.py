"""Windows over padded spatial axes: taps inside the input, and rows divided into tiles.

A spec here is any object with the spatial triples ``inp out kernel stride dilate pad``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import Protocol

from ...._core.frozen import dataclass
from ...._core.symbolic import is_surely_less, range_of
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Extents
from .addresses import StridedRows

Ints = tuple[int, ...]


def inside_of(spec: Windowed) -> tuple[bool, ...]:
    """For symbolic sizes, the axes along which windows are certainly inside the input."""
    return tuple(
        spec.pad[axis] <= 0
        and is_surely_less(
            (spec.out[axis] - 1) * spec.stride[axis]
            - spec.pad[axis]
            + (spec.kernel[axis] - 1) * spec.dilate[axis],
            spec.inp[axis],
        )
        for axis in range(3)
    )


class Windowed(Protocol):
    """A spec whose windows can be enumerated.

    Sizes may be arguments of the call; then ``inside`` states for each axis whether all windows are
    inside the input.
    """

    @property
    def inp(self) -> Extents: ...
    @property
    def out(self) -> Extents: ...
    @property
    def kernel(self) -> Extents: ...
    @property
    def stride(self) -> Ints: ...
    @property
    def dilate(self) -> Ints: ...
    @property
    def pad(self) -> Ints: ...


class Strided(Windowed, Protocol):
    """A windowed spec with the strides of its input."""

    @property
    def xs(self) -> Extents: ...


def overhangs_of(spec: Windowed) -> Ints:
    """For a symbolic width, the columns by which the last window of a row may exceed the input.

    Fewer than the stride, since otherwise the window would not exist; guards pin other values.
    """
    last = (spec.out[2] - 1) * spec.stride[2] + (spec.kernel[2] - 1) * spec.dilate[2]
    over = last - spec.pad[2] - (spec.inp[2] - 1)
    low, high = range_of(over)
    if high - low >= 4:
        low = high = int(over)
    return tuple(range(max(int(low), 0), max(int(high), 0) + 1))


@dataclass(frozen=True)
class Tile:
    """Output columns [start, start + width), and those that each horizontal tap serves."""

    start: int
    width: int
    reach: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The properties on which the tile's code depends."""
        return self.width, self.reach

    @property
    def is_inside(self) -> bool:
        """Whether all columns read inside the row."""
        return all(columns == (0, self.width) for columns in self.reach)


def tiles_of_row(spec: Windowed, most: int) -> list[Tile]:
    """Divide the output columns into nearly equal tiles of at most ``most``, wide ones first."""
    columns = spec.out[2]
    count = -(-columns // most)
    small, wide = divmod(columns, count)
    tiles, start = [], 0
    for number in range(count):
        width = small + (number < wide)
        tiles.append(Tile(start, width, _reach(spec, start, width)))
        start += width
    return tiles


def _reach(spec: Windowed, start: int, width: int) -> tuple[tuple[int, int], ...]:
    """For each horizontal tap, the range of the tile's columns whose input is inside the row."""
    stride, ranges = spec.stride[2], []
    for tap in range(spec.kernel[2]):
        before = spec.pad[2] - tap * spec.dilate[2]  # inputs by which column 0 precedes the row
        low = max(0, -(-before // stride) - start)
        high = min(width, (spec.inp[2] - 1 + before) // stride + 1 - start)
        ranges.append((low, high) if low < high else (0, 0))
    return tuple(ranges)


def left_tile(spec: Windowed, width: int) -> Tile:
    """The first tile of a row, of which only the left columns exceed the edge."""
    return Tile(0, width, tuple((_first_inside(spec, tap, width), width) for tap in _taps(spec)))


def middle_tile(spec: Windowed, width: int) -> Tile:
    """A tile that exceeds no edge."""
    return Tile(0, width, ((0, width),) * len(_taps(spec)))


def right_tile(spec: Windowed, width: int, over: int) -> Tile:
    """The last tile of a row, whose last window exceeds the input by ``over`` columns."""
    ends = []
    for tap in _taps(spec):
        behind = over - (len(_taps(spec)) - 1 - tap) * spec.dilate[2]
        ends.append(max(0, width - max(0, -(-behind // spec.stride[2]))))
    return Tile(0, width, tuple((0, end) for end in ends))


def _taps(spec: Windowed) -> range:
    return range(int(spec.kernel[2]))


def _first_inside(spec: Windowed, tap: int, width: int) -> int:
    before = spec.pad[2] - tap * spec.dilate[2]
    return min(width, max(0, -(-before // spec.stride[2])))


class GivenRow:
    """The tiles, each of ``width`` columns, of a row whose width is an argument of the call.

    The last tile ends at the end of the row, and stores only columns that the previous tile does
    not store. A row that is too narrow for a tile at each edge is computed column by column, see
    :attr:`COLUMN`.
    """

    COLUMN = Tile(0, 1, ())

    def __init__(self, b: LoopBuilder, spec: Windowed, width: int, over: Ints) -> None:
        self.b, self.spec, self.width, self.over = b, spec, width, over
        self.columns: Index = spec.out[2]
        self.count = b.divided_up(self.columns, width)
        first, self.end = whole_windows(b, spec)
        self.start_of_last = b.sub(self.columns, width)
        tests = [
            b.less(1, self.count),
            b.less(width - 1, self.end),
            b.less(b.sub(first, 1), self.start_of_last),
            b.less(b.sub(self.start_of_last, 1), self.end),
        ]
        # Windows before the last may exceed the input too; the previous tile contains them.
        self.are_many = -(-max(over) // spec.stride[2]) > 1
        if self.are_many:
            tests.append(b.less(b.sub(b.add(first, width), 1), self.end))
        self.is_wide = reduce(b.b.and_, tests)
        self.last = b.sub(self.count, 1)
        stored = b.mul(self.last, width)
        stored = b.min(stored, self.end) if self.are_many else stored
        self.first_of_last = b.sub(stored, self.start_of_last)

    def tile(
        self, number: Index, emit: Callable[[Tile, Index, Index], None], name: str = "col"
    ) -> None:
        """``emit(tile, column, first)`` for tile ``number``, which stores columns from ``first``
        on.
        """
        b, start = self.b, self.b.mul(number, self.width)
        with b.b.if_else(self.is_wide) as (wide, narrow):
            with wide:
                with b.when(b.equal(number, 0)):
                    emit(left_tile(self.spec, self.width), 0, 0)
                inner = b.b.and_(b.less(0, number), b.less(number, self.last))
                with b.when(inner):
                    self._emit_middle(start, emit)
                with b.when(b.equal(number, self.last)):
                    self._emit_last(emit)
            with narrow:
                stop = b.min(b.add(start, self.width), self.columns)
                with b.loop(name, start, stop, most=self.width) as column:
                    emit(self.COLUMN, column.index, 0)

    def _emit_middle(self, start: Index, emit: Callable[[Tile, Index, Index], None]) -> None:
        """Emit a tile with all windows inside; it begins before its column if necessary."""
        b, tile = self.b, middle_tile(self.spec, self.width)
        if not self.are_many:
            emit(tile, start, 0)
            return
        last = b.sub(self.end, self.width)
        with b.when(b.less(start, b.add(last, 1))):
            emit(tile, start, 0)
        with b.when(b.less(last, start)):
            emit(tile, last, b.sub(start, last))

    def _emit_last(self, emit: Callable[[Tile, Index, Index], None]) -> None:
        b, spec, start = self.b, self.spec, self.start_of_last
        if len(self.over) == 1:
            emit(right_tile(spec, self.width, self.over[0]), start, self.first_of_last)
            return
        last = b.mul(b.sub(self.columns, 1), spec.stride[2])
        reach = b.mul(b.sub(spec.kernel[2], 1), spec.dilate[2])
        over = b.sub(b.sub(b.add(last, reach), spec.pad[2]), b.sub(spec.inp[2], 1))
        over = b.max(over, 0)
        for known in self.over:
            with b.when(b.equal(over, known)):
                emit(right_tile(spec, self.width, known), start, self.first_of_last)


@dataclass(frozen=True)
class Position:
    """An input of a line, relative to the tile's first tap, and the pairs (column, tap) that use
    it. ``inside`` is a run-time test that the input exists; None if this is known when compiling.
    """

    offset: int
    pairs: list[tuple[int, int]]
    left: Index = 0
    inside: Value | None = None

    def at(self, b: LoopBuilder, step: Index) -> Index:
        """Offset for inputs at a distance of ``step``; the first input's if it does not exist."""
        if self.inside is None:
            return b.mul(self.offset, step)
        place = b.b.select(self.inside, b.i64(self.offset), b.i64(b.sub(0, self.left)))
        return b.mul(place, step)

    def place(
        self, b: LoopBuilder, x: Value, step: Index, inputs: Sequence[Value]
    ) -> tuple[Value, Index]:
        """An address and the index from it, for inputs from ``x`` on; ``inputs`` are the addresses
        of those that exist if the call gives the step.
        """
        if inputs and self.inside is None:
            return inputs[self.offset], 0
        return x, self.at(b, step)

    def kept(self, b: LoopBuilder, value: Value, other: Value) -> Value:
        """``value`` if the input exists."""
        return value if self.inside is None else b.b.select(self.inside, value, other)


class Positions:
    """The inputs of a line for a tile, from the left: each is loaded once for all its taps."""

    def __init__(self, b: LoopBuilder, spec: Windowed, tile: Tile, left: Index) -> None:
        self.all: list[Position] = []
        if tile.reach:
            pairs: dict[int, list[tuple[int, int]]] = {}
            for kw, (low, high) in enumerate(tile.reach):
                for m in range(low, high):
                    offset = m * spec.stride[2] + kw * spec.dilate[2]
                    pairs.setdefault(offset, []).append((m, kw))
            self.all += [Position(*each) for each in sorted(pairs.items())]
            return
        for kw in _taps(spec):
            offset = kw * spec.dilate[2]
            at = b.i64(b.add(left, offset))
            inside = b.b.icmp_unsigned("<", at, b.i64(spec.inp[2]))
            self.all.append(Position(offset, [(0, kw)], left, inside))

    def inputs(self, b: LoopBuilder, x: Value, step: Index) -> list[Value]:
        """The addresses of the inputs from ``x`` on, if the call gives their distance.

        They are used in a separate block: within a block LLVM moves loads of adjacent vectors
        together, of all inputs at once if their addresses are registers, and then spills sums.
        """
        if isinstance(step, int) or self.all[0].inside is not None:
            return []
        count = self.all[-1].offset + 1
        b.begin_block("inputs")
        return StridedRows.of(b, x, step, count).pointers(b, count)


@contextmanager
def stored_from(b: LoopBuilder, first: Index, m: int) -> Iterator[None]:
    """Code for column ``m`` of a tile, if it is not before ``first``."""
    if isinstance(first, int):
        assert first == 0
        yield
        return
    with b.when(b.less(first, m + 1)):
        yield


def runs_of_taps(tile: Tile) -> list[tuple[tuple[int, int], list[int]]]:
    """Runs of adjacent horizontal taps that serve the same columns, as (columns, taps)."""
    runs = []
    for reach, members in groupby(enumerate(tile.reach), key=lambda tap: tap[1]):
        if reach[0] < reach[1]:
            runs.append((reach, [tap for tap, _ in members]))
    return runs


def first_input(b: LoopBuilder, out: Index, stride: int, pad: int) -> Index:
    """The input coordinate of tap 0 of output ``out``; negative inside the padding."""
    return b.sub(b.mul(out, stride), pad)


def is_always_inside(spec: Windowed, axis: int) -> bool:
    """Whether all windows along this axis are inside the input."""
    known: tuple[bool, ...] = getattr(spec, "inside", ())
    if known:
        return known[axis]
    last = (spec.out[axis] - 1) * spec.stride[axis] - spec.pad[axis]
    reach = (spec.kernel[axis] - 1) * spec.dilate[axis]
    return spec.pad[axis] <= 0 and last + reach < spec.inp[axis]


def valid_taps(b: LoopBuilder, spec: Windowed, axis: int, out: Index) -> tuple[Index, Index]:
    """The range of taps of output ``out`` whose input is inside, along one axis."""
    if is_always_inside(spec, axis):
        return 0, spec.kernel[axis]
    start = first_input(b, out, spec.stride[axis], spec.pad[axis])
    step = spec.dilate[axis]
    low = _divided(b, b.add(b.sub(0, start), step - 1), step)
    high = _divided(b, b.add(b.sub(spec.inp[axis], start), step - 1), step)
    return b.max(low, 0), b.min(high, spec.kernel[axis])


def whole_windows(b: LoopBuilder, spec: Windowed) -> tuple[Index, Index]:
    """The range of output columns whose windows are inside the row."""
    if is_always_inside(spec, 2):
        return 0, spec.out[2]
    stride, reach = spec.stride[2], b.mul(b.sub(spec.kernel[2], 1), spec.dilate[2])
    first = -(-spec.pad[2] // stride)
    last = b.add(b.sub(b.sub(spec.inp[2], 1), reach), spec.pad[2])
    # Truncation rounds negative values up, but then ``first`` exceeds the result anyway.
    end = last // stride if isinstance(last, int) else b.b.sdiv(last, b.i64(stride))
    first_whole = b.min(first, spec.out[2]) if first > 0 else 0
    return first_whole, b.max(first_whole, b.min(b.add(end, 1), spec.out[2]))


def _divided(b: LoopBuilder, value: Index, divisor: int) -> Index:
    """Division towards zero: a negative value only has to stay at or below zero."""
    return value if divisor == 1 else b.b.sdiv(b.i64(value), b.i64(divisor))


def rows_inside(
    b: LoopBuilder,
    spec: Windowed,
    place: tuple[Index, Index],
    carry: Sequence[Value],
    body: Callable[[Index, Index, Sequence[Value]], Sequence[Value]],
) -> list[Value]:
    """for taps kd, kh inside the input of output (depth, row): carry = body(kd, kh, carry)."""

    def over(
        axis: int,
        name: str,
        carry: Sequence[Value],
        inner: Callable[[Index, Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        low, high = valid_taps(b, spec, axis, place[axis])
        if isinstance(low, int) and isinstance(high, int) and high - low == 1:
            return list(inner(low, carry))
        with b.loop(name, low, high, carry=carry, most=_most_taps(spec, axis)) as loop:
            loop.yields(inner(loop.index, loop.carried))
        return loop.results

    return over(0, "kd", carry, lambda kd, c: over(1, "kh", c, lambda kh, c: list(body(kd, kh, c))))


def _most_taps(spec: Windowed, axis: int) -> int | None:
    taps = spec.kernel[axis]
    return taps if isinstance(taps, int) else None


def input_line(
    b: LoopBuilder, spec: Strided, place: tuple[Index, Index], taps: tuple[Index, Index]
) -> Index:
    """The offset in x of the input line (depth, row) for taps (kd, kh)."""
    at = [
        b.add(
            first_input(b, place[axis], spec.stride[axis], spec.pad[axis]),
            b.mul(taps[axis], spec.dilate[axis]),
        )
        for axis in (0, 1)
    ]
    return b.dot(at, spec.xs[1:3])
