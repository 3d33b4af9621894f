"""Gradient of pooling with respect to its input: window by window, vectors along channels.

A unit of work is an image, for a few vectors of channels. Its windows add to their cells one after
the other, and cells are cleared just before the first window that covers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import auto
from functools import partial

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes
from ..._core.types import product
from ...ir.graph import Value as GraphValue
from ...ir.plan import Step
from ...ir.sized import is_symbolic
from ...ops.nn.pooling_back import BACK_FROM_MAX
from ..call import Address, Call, Setting, about, five, rounds_of, views_of
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..spec import Extents, Ints, KernelSpec, Way
from .parts.arguments import Arguments
from .parts.partial import read_vector, write_vector
from .parts.window import first_input, input_line, inside_of, rows_inside, valid_taps
from .pool import WIDTH, divisor_of, geometry_of
from .record import register


class Receivers(Way):
    """The first largest cell of each window, all largest cells, or all cells."""

    MAX = auto()
    MAX_ALL = auto()
    SUM = auto()
    AVG = auto()


@dataclass(frozen=True)
class UnpoolSpec(KernelSpec):
    """The gradient of pooling; arguments: [x, y,] d, dx, batch.

    xs, ys, ds  strides of the data, the result and its gradient; ``ts`` of the data's gradient
    usual, inside  as for PoolSpec
    apart  if sizes are given, whether windows do not overlap
    """

    how: Receivers
    inp: Extents
    out: Extents
    kernel: Extents
    stride: Ints
    pad: Ints
    channels: int
    xs: Extents
    ys: Extents
    ds: Extents
    ts: Extents
    count_pad: bool = True
    element: ElementTypes = SINGLE
    usual: Ints = ()
    inside: tuple[bool, ...] = ()
    apart: bool = False
    kind = "unpool"
    extents = ("inp", "out", "kernel", "xs", "ys", "ds", "ts")

    @property
    def dilate(self) -> Ints:
        return (1, 1, 1)

    @property
    def is_apart(self) -> bool:
        """Whether windows do not overlap."""
        if self.usual:
            return self.apart
        return all(s >= k for s, k in zip(self.stride, self.kernel))

    @property
    def covers_all(self) -> bool:
        """Whether each cell is certainly in exactly one window."""
        if self.usual:
            return False
        covered = tuple(s * n for s, n in zip(self.stride, self.out))
        return self.stride == self.kernel and not any(self.pad) and covered == self.inp

    @property
    def compares(self) -> bool:
        """Whether a comparison of data and result selects the cells."""
        return self.how in (Receivers.MAX, Receivers.MAX_ALL)


def choose_unpool(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    views, (target,), rank = views_of(step, anchor.inputs), step.writes, len(anchor.shape) - 2
    *compared, d = views
    strides = [five(v.strides, rank) for v in compared] or [(), ()]
    spec = UnpoolSpec(
        _how(anchor), **geometry_of(anchor.attrs, target.shape, d.shape),
        channels=target.shape[-1], xs=strides[0], ys=strides[1], ds=five(d.strides, rank),
        ts=five(target.strides, rank), element=setting.target.element,
    )  # fmt: skip
    if any(is_symbolic(getattr(spec, name)) for name in spec.extents):
        apart, inside = spec.is_apart, inside_of(spec)
        spec = replace(spec, usual=about(spec.out), inside=inside, apart=apart)
    args = tuple(Address(view) for view in (*views, target))
    return (Call(spec, (*args, target.shape[0]), product(d.shape) * product(spec.kernel)),)


def _how(anchor: GraphValue) -> Receivers:
    if anchor.op is BACK_FROM_MAX:
        return Receivers.MAX_ALL if anchor.attrs["to_all"] else Receivers.MAX
    return Receivers.AVG if anchor.attrs["pool_type"] == "avg" else Receivers.SUM


def emit_unpool(b: LoopBuilder, spec: UnpoolSpec, args: Arguments) -> None:
    """dx[n,i,c] = sum over windows o that have chosen cell i of d[n,o,c], divided for ``avg``."""
    compared = [args.pointer(name) for name in ("x", "y")] if spec.compares else []
    d, target, batch = args.pointer("d"), args.pointer("dx"), args.integer("batch")
    vectors = -(-spec.channels // b.lanes)
    blocks = -(-vectors // WIDTH)
    rest = vectors - (blocks - 1) * WIDTH
    last = spec.channels - (vectors - 1) * b.lanes
    spec = args.sized(spec)
    with b.each_unit(b.mul(batch, blocks), args.share, args.shares) as unit:
        image, block = b.split(unit.index, (0, blocks))
        pointers = zip((*compared, d, target), _strides(spec))
        at = [_moved(b, p, s[0], image, b.mul(block, WIDTH * b.lanes)) for p, s in pointers]
        if blocks > 1:
            with b.when(b.less(block, blocks - 1)):
                _Image(b, spec, at, WIDTH, b.lanes).emit()
        with b.when(b.less(blocks - 2, block)):
            _Image(b, spec, at, rest, last).emit()


def _strides(spec: UnpoolSpec) -> tuple[Extents, ...]:
    compared = (spec.xs, spec.ys) if spec.compares else ()
    return (*compared, spec.ds, spec.ts)


def _moved(b: LoopBuilder, pointer: Value, step: Index, image: Index, channel: Index) -> Value:
    return b.at(pointer, b.add(b.mul(image, step), channel))


class _Image:
    """One image, for ``count`` vectors of channels, the last with ``last`` lanes."""

    def __init__(
        self, b: LoopBuilder, spec: UnpoolSpec, pointers: Sequence[Value], count: int, last: int
    ) -> None:
        self.b, self.spec, self.count, self.last = b, spec, count, last
        *self.compared, self.d, self.target = pointers

    def emit(self) -> None:
        b, spec = self.b, self.spec
        flat = isinstance(spec.inp[0], int) and spec.inp[0] == 1
        if not flat:
            with b.loop("slices", 0, spec.inp[0], most=self._most(0)) as slice_:
                self._clear(slice_.index, 0, spec.inp[1])
        with b.loop("depth", 0, spec.out[0], most=self._most(0)) as depth:
            with b.loop("row", 0, spec.out[1], most=self._most(1)) as row:
                if flat:
                    self._clear(0, self._end(b.sub(row.index, 1)), self._end(row.index))
                self._emit_row(depth.index, row.index)
            if flat:
                self._clear(0, self._end(b.sub(spec.out[1], 1)), spec.inp[1])

    def _most(self, axis: int) -> int:
        """Rounds of a loop over an axis: if the call gives its size, an estimate."""
        size, usual = self.spec.inp[axis], self.spec.usual
        return rounds_of(usual[axis]) if usual else size

    def _end(self, row: Index) -> Index:
        """The input line after those that windows cover, up to a row of windows."""
        b, spec = self.b, self.spec
        reached = b.add(first_input(b, row, spec.stride[1], spec.pad[1]), spec.kernel[1])
        is_before = b.less(row, 0)
        return b.b.select(is_before, b.i64(0), b.i64(b.min(b.max(reached, 0), spec.inp[1])))

    def _clear(self, slice_: Index, first: Index, end: Index) -> None:
        """Clear the lines from ``first`` up to ``end``."""
        b, spec = self.b, self.spec
        if spec.covers_all:
            return
        with (
            b.loop("line", first, end, most=self._most(1)) as line,
            b.loop("col", 0, spec.inp[2], most=self._most(2)) as col,
        ):
            at = b.dot((slice_, line.index, col.index), spec.ts[1:4])
            for j in range(self.count):
                self._write(b.splat(0.0), at, j)

    def _emit_row(self, depth: Index, row: Index) -> None:
        b, spec = self.b, self.spec
        with b.loop("window", 0, spec.out[2], most=self._most(2)) as window:
            place = (depth, row, window.index)
            heads = [self._read(self.d, b.dot(place, spec.ds[1:4]), j) for j in range(self.count)]
            if spec.how is Receivers.AVG:
                divisor = b.splat(divisor_of(b, spec, place))
                heads = [b.b.fdiv(head, divisor) for head in heads]
            largest: list[Value] = []
            if spec.compares:
                at = b.dot(place, spec.ys[1:4])
                largest = [self._read(self.compared[1], at, j) for j in range(self.count)]
            rows_inside(b, spec, place[:2], heads, partial(self._add_row, place, largest))

    def _add_row(
        self,
        place: tuple[Index, Index, Index],
        largest: Sequence[Value],
        kd: Index,
        kh: Index,
        heads: Sequence[Value],
    ) -> list[Value]:
        """The taps of a line of a window; returns the gradients left for the following lines."""
        b, spec = self.b, self.spec
        left = first_input(b, place[2], spec.stride[2], spec.pad[2])
        low, high = valid_taps(b, spec, 2, place[2])
        # The begin of a line in the gradient and in the data.
        to, of = (
            input_line(b, replace(spec, xs=s), place[:2], (kd, kh))
            for s in (spec.ts, spec.xs or spec.ts)
        )
        most = self._most(2) if spec.usual else spec.kernel[2]
        with b.loop("tap", low, high, carry=heads, most=most) as tap:
            cell = b.add(left, tap.index)
            target, source = (
                b.add(to, b.mul(cell, spec.ts[3])),
                b.mul(cell, (spec.xs or spec.ts)[3]),
            )
            tap.yields(self._add_cell(target, b.add(of, source), largest, tap.carried))
        return list(tap.results)

    def _add_cell(
        self, target: Index, source: Index, largest: Sequence[Value], heads: Sequence[Value]
    ) -> list[Value]:
        """dx[cell] += the heads if the cell is a largest one; returns the remaining heads."""
        b, spec, zero = self.b, self.spec, self.b.splat(0.0)
        kept = list(heads)
        for j, head in enumerate(heads):
            given = head
            if spec.compares:
                value = self._read(self.compared[0], source, j)
                is_chosen = b.b.fcmp_ordered("==", value, largest[j])
                given = b.b.select(is_chosen, head, zero)
                kept[j] = (
                    head if spec.how is Receivers.MAX_ALL else b.b.select(is_chosen, zero, head)
                )
            if not spec.is_apart:
                given = b.b.fadd(self._read(self.target, target, j), given)
            self._write(given, target, j)
        return kept

    def _lanes(self, j: int) -> int:
        return self.last if j == self.count - 1 else self.b.lanes

    def _read(self, pointer: Value, at: Index, j: int) -> Value:
        return read_vector(self.b, pointer, self.b.add(at, j * self.b.lanes), 1, self._lanes(j))

    def _write(self, value: Value, at: Index, j: int) -> None:
        at = self.b.add(at, j * self.b.lanes)
        write_vector(self.b, value, self.target, at, 1, self._lanes(j))


register("unpool", choose_unpool, {UnpoolSpec: emit_unpool}, in_one_type=True)
