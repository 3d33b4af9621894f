"""Windows over padded spatial axes: which taps fall inside the input, and rows cut into tiles.

A spec here is anything with the spatial triples ``inp out kernel stride dilate pad``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol

from ....records import dataclass
from ....symbolic import is_surely_less
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ...spec import Extents

Ints = tuple[int, ...]


def inside_of(spec: Windowed) -> tuple[bool, ...]:
    """For symbolic sizes, the axes along which no window reaches beyond the input for sure."""
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
    """What a spec must have to be walked window by window.

    Sizes may be values that the call gives; then ``inside`` tells of each axis whether no window
    reaches beyond the input.
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
    """The same, with the strides of its input."""

    @property
    def xs(self) -> Extents: ...


@dataclass(frozen=True)
class Tile:
    """Output columns [start, start + width) and, per width tap, the columns that it reaches."""

    start: int
    width: int
    reach: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """What the tile's code depends on."""
        return self.width, self.reach


def tiles_of_row(spec: Windowed, most: int) -> list[Tile]:
    """The output columns cut into nearly equal tiles of at most ``most``; the wide ones first."""
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
    """Per width tap, the range of the tile's columns whose input lies inside the row."""
    ranges = []
    for tap in range(spec.kernel[2]):
        inside = [
            m
            for m in range(width)
            if 0 <= (start + m) * spec.stride[2] - spec.pad[2] + tap * spec.dilate[2] < spec.inp[2]
        ]
        ranges.append((inside[0], inside[-1] + 1) if inside else (0, 0))
    return tuple(ranges)


def runs_of_taps(tile: Tile) -> list[tuple[tuple[int, int], list[int]]]:
    """Neighbouring width taps that reach the same columns, as (columns, taps)."""
    runs = []
    for reach, members in groupby(enumerate(tile.reach), key=lambda tap: tap[1]):
        if reach[0] < reach[1]:
            runs.append((reach, [tap for tap, _ in members]))
    return runs


def first_input(b: LoopBuilder, out: Index, stride: int, pad: int) -> Index:
    """The input coordinate under tap 0 of output ``out``; negative inside the padding."""
    return b.sub(b.mul(out, stride), pad)


def is_always_inside(spec: Windowed, axis: int) -> bool:
    """Whether no window of this axis reaches into the padding or beyond the input."""
    known: tuple[bool, ...] = getattr(spec, "inside", ())
    if known:
        return known[axis]
    last = (spec.out[axis] - 1) * spec.stride[axis] - spec.pad[axis]
    reach = (spec.kernel[axis] - 1) * spec.dilate[axis]
    return spec.pad[axis] <= 0 and last + reach < spec.inp[axis]


def valid_taps(b: LoopBuilder, spec: Windowed, axis: int, out: Index) -> tuple[Index, Index]:
    """The range of taps of output ``out`` whose input lies inside, along one axis."""
    if is_always_inside(spec, axis):
        return 0, spec.kernel[axis]
    start = first_input(b, out, spec.stride[axis], spec.pad[axis])
    step = spec.dilate[axis]
    low = _divided(b, b.add(b.sub(0, start), step - 1), step)
    high = _divided(b, b.add(b.sub(spec.inp[axis], start), step - 1), step)
    return b.max(low, 0), b.min(high, spec.kernel[axis])


def whole_windows(b: LoopBuilder, spec: Windowed) -> tuple[Index, Index]:
    """The range of output columns whose windows lie inside the row."""
    if is_always_inside(spec, 2):
        return 0, spec.out[2]
    stride, reach = spec.stride[2], b.mul(b.sub(spec.kernel[2], 1), spec.dilate[2])
    first = -(-spec.pad[2] // stride)
    last = b.add(b.sub(b.sub(spec.inp[2], 1), reach), spec.pad[2])
    # Towards zero, from below it too: no window is whole then, and ``first`` is above it.
    end = last // stride if isinstance(last, int) else b.b.sdiv(last, b.i64(stride))
    first_whole = b.min(first, spec.out[2]) if first > 0 else 0
    return first_whole, b.max(first_whole, b.min(b.add(end, 1), spec.out[2]))


def _divided(b: LoopBuilder, value: Index, divisor: int) -> Index:
    """Division towards zero: below zero it only has to stay at or below zero."""
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
    """The offset in x of the input line (depth, row) under taps (kd, kh)."""
    at = [
        b.add(
            first_input(b, place[axis], spec.stride[axis], spec.pad[axis]),
            b.mul(taps[axis], spec.dilate[axis]),
        )
        for axis in (0, 1)
    ]
    return b.dot(at, spec.xs[1:3])
