"""Borders around data: a constant, the edge's value, or the mirror image. Elements are copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.frozen import dataclass, replace
from ..._core.symbolic import range_of
from ..._core.types import product
from ...ir.plan import Step
from ...ir.sized import is_symbolic
from ...ops.casting import scalar_of
from ..call import Address, Call, Setting, about, rounds_of
from ..llvm.builder import LoopBuilder
from ..llvm.elements import ELEMENTS
from ..llvm.indices import Index
from ..llvm.types import I8, Value, constant_of, vector_of
from ..spec import Extents, Ints, KernelSpec
from .parts.arguments import Arguments
from .parts.partial import each_vector, read_vector, write_vector
from .record import register


@dataclass(frozen=True)
class PadSpec(KernelSpec):
    """A border around every axis but the first; arguments: x, y, count of the first axis.

    inp, out, before  sizes of x and y, and the border before x, of the axes after the first
    x, y   strides of all axes; ``value`` has the bits of the border's value, as ``dtype``
    bare   if sizes are given, for each axis whether it certainly has no border
    usual  approximate typical sizes of y, if some sizes are given
    """

    mode: str
    inp: Extents
    out: Extents
    before: Extents
    x: Extents
    y: Extents
    dtype: str
    value: int = 0
    bare: tuple[bool, ...] = ()
    usual: Ints = ()
    kind = "pad"
    extents = ("inp", "out", "before", "x", "y")
    needs_passes = False


# Pixels whose bytes are interleaved at once, and the numbers of bytes that a pixel may have.
_PIXELS, _CHANNELS = 16, (2, 3, 4)
# Assumed positions of a border whose width the call gives.
_MOST_BORDER = 256


def choose_pad(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call; elements are moved as integers of their size."""
    attrs, (x,), (y,) = step.group.anchor.attrs, step.reads, step.writes
    bits = f"int{8 * x.dtype.itemsize}"
    with np.errstate(over="ignore"):  # becomes infinity in float16
        value = int(scalar_of(attrs["value"], x.dtype).view(bits))
    spec = PadSpec(
        mode=attrs["mode"],
        inp=x.shape[1:],
        out=y.shape[1:],
        before=attrs["before"][1:],
        x=x.strides,
        y=y.strides,
        dtype=bits,
        value=value if attrs["mode"] == "constant" else 0,
    )
    if any(is_symbolic(getattr(spec, name)) for name in spec.extents):
        bare = tuple(range_of(a - b) == (0, 0) for a, b in zip(spec.inp, spec.out))
        spec = replace(spec, bare=bare, usual=about(spec.out))
    return (Call(spec, (Address(x), Address(y), x.shape[0]), product(y.shape)),)


def _is_woven(spec: PadSpec) -> bool:
    """Whether rows of pixels of few bytes are read from planes: the bytes of 16 pixels are then
    interleaved in registers. Pixel by pixel, 3 planes of 224x224 take 0.178 ms, so 0.005 (Zen 4).
    """
    if spec.mode != "constant" or spec.dtype != "int8" or len(spec.out) < 2:
        return False
    (width, channels), full = spec.inp[-2:], spec.out[-1]
    if not isinstance(width, int) or width < _PIXELS or channels != full:
        return False
    return channels in _CHANNELS and spec.x[-2] == 1 and spec.y[-2:] == (channels, 1)


def emit_pad(b: LoopBuilder, spec: PadSpec, args: Arguments) -> None:
    """y[n, place] = x[n, place - before], or the border's value."""
    x, y, count = args.pointer("x"), args.pointer("y"), args.integer("count")
    is_woven = _is_woven(spec)
    spec = args.sized(spec)
    outer = spec.out[: -2 if is_woven else -1]
    units = b.mul(count, b.product(outer))
    element = ELEMENTS[spec.dtype].stored
    with b.each_unit(units, args.share, args.shares) as unit:
        first, *place = b.split(unit.index, (0, *outer))
        target = b.at(y, b.dot([first, *place], spec.y), element)
        row = _WovenRow(b, spec, target) if is_woven else _Row(b, spec, target)
        sources, inside = _sources(b, spec, place)
        source = b.at(x, b.dot([first, *sources], spec.x), element)
        if inside is None:
            row.copy(source)
        else:
            with b.b.if_else(inside) as (within, outside):
                with within:
                    row.copy(source)
                with outside:
                    row.fill(0, row.length)


def _sources(b: LoopBuilder, spec: PadSpec, place: list[Index]) -> tuple[list[Index], Value | None]:
    """Source indices of a position's outer axes, and whether they are inside."""
    sources, inside = [], None
    bare = spec.bare or [size == full for size, full in zip(spec.inp, spec.out)]
    for index, size, before, is_bare in zip(place, spec.inp, spec.before, bare):
        source = b.sub(index, before) if before else index
        if not is_bare and spec.mode == "constant":
            within = b.b.and_(b.less(-1, source), b.less(source, size))
            inside = within if inside is None else b.b.and_(inside, within)
        elif not is_bare:
            source = _mapped(b, spec.mode, source, size)
        sources.append(source)
    return sources, inside


def _mapped(b: LoopBuilder, mode: str, source: Index, size: Index) -> Index:
    """The index inside that an index outside repeats."""
    last = b.sub(size, 1)
    if mode == "edge":
        return b.min(b.max(source, 0), last)
    source = b.max(source, b.sub(0, source))
    return b.min(source, b.sub(b.mul(2, last), source))


class _Row:
    """One run of the last axis."""

    def __init__(self, b: LoopBuilder, spec: PadSpec, target: Value) -> None:
        self.b, self.spec, self.target = b, spec, target
        self.steps = spec.x[-1], spec.y[-1]
        self.length = spec.out[-1]

    def copy(self, source: Value) -> None:
        """Copy the run, with its borders."""
        spec, size = self.spec, self.spec.inp[-1]
        before, full = spec.before[-1], spec.out[-1]
        after = self.b.add(before, size)
        if spec.mode == "constant":
            self.fill(0, before)
            self.fill(after, full)
        else:
            self._show(source, 0, before)
            self._show(source, after, full)
        self._move(source, before, size)

    def fill(self, first: Index, last: Index) -> None:
        """Fill indices [first, last) with the border's value."""
        b = self.b
        value = constant_of(
            b.vector_type(element=ELEMENTS[self.spec.dtype].stored), self.spec.value
        )
        self._each(b.sub(last, first), lambda i, n: self._write(value, b.add(i, first), n))

    def _move(self, source: Value, before: Index, size: Index) -> None:
        b, step = self.b, self.steps[0]

        def one(i: Index, lanes: int) -> None:
            value = read_vector(b, source, b.mul(i, step), step, lanes, self.spec.dtype)
            self._write(value, b.add(i, before), lanes)

        self._each(size, one)

    def _each(self, count: Index, body: Callable[[Index, int], None]) -> None:
        b = self.b
        if not isinstance(count, int):
            each_vector(b, count, body, rounds_of(self.spec.usual[-1] // b.lanes))
            return
        whole = count - count % b.lanes
        if whole:
            with b.loop("i", 0, whole, b.lanes) as i:
                body(i.index, b.lanes)
        if count % b.lanes:
            body(whole, count % b.lanes)

    def _write(self, value: Value, index: Index, lanes: int) -> None:
        b, step = self.b, self.steps[1]
        write_vector(b, value, self.target, b.mul(index, step), step, lanes, self.spec.dtype)

    def _show(self, source: Value, first: Index, last: Index) -> None:
        """Fill indices [first, last) of the border, one by one, from inside."""
        b, spec = self.b, self.spec
        element = ELEMENTS[spec.dtype].stored
        if not isinstance(first, int) or not isinstance(last, int) or last > first:
            with b.loop("border", first, last, most=_MOST_BORDER) as i:
                place = _mapped(b, spec.mode, b.sub(i.index, spec.before[-1]), spec.inp[-1])
                value = b.load_scalar(source, b.mul(place, self.steps[0]), element)
                b.store(value, self.target, b.mul(i.index, self.steps[1]))


class _WovenRow(_Row):
    """The pixels of a row, whose bytes are adjacent; those of a channel are in the data."""

    def __init__(self, b: LoopBuilder, spec: PadSpec, target: Value) -> None:
        super().__init__(b, spec, target)
        self.channels = spec.out[-1]
        self.length = b.mul(self.channels, spec.out[-2])

    def copy(self, source: Value) -> None:
        """Copy the row, with its borders."""
        b, (width, _), before = self.b, self.spec.inp[-2:], self.spec.before[-2]
        assert isinstance(width, int)
        begin = b.mul(self.channels, before)
        self.fill(0, begin)
        self.fill(b.add(begin, b.mul(self.channels, width)), self.length)
        with b.loop("pixel", 0, width - width % _PIXELS, _PIXELS) as pixel:
            self._weave(source, pixel.index, begin)
        if width % _PIXELS:
            self._weave(source, width - _PIXELS, begin)

    def _weave(self, source: Value, pixel: Index, begin: Index) -> None:
        """The bytes of adjacent pixels."""
        b, channels = self.b, self.channels
        assert isinstance(channels, int)
        kind = vector_of(I8, _PIXELS)
        planes = [b.add(b.mul(channel, self.steps[0]), pixel) for channel in range(channels)]
        parts = [b.b.load(b.at(source, place, I8), typ=kind, align=1) for place in planes]
        whole = b.joined(*parts[:2])
        if channels > 2:
            whole = b.joined(whole, b.joined(parts[2], parts[-1]))
        order = [c * _PIXELS + p for p in range(_PIXELS) for c in range(channels)]
        place = b.add(begin, b.mul(channels, pixel))
        b.b.store(b.shuffle(whole, order), b.at(self.target, place, I8), align=1)


register("pad", choose_pad, {PadSpec: emit_pad})
