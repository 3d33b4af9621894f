"""Pooling: a window at a time, vectors along channels. Padding is never read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import auto
from typing import Any, Protocol

from ..._core.frozen import dataclass, replace
from ..._core.target import OF_BYTES, SINGLE, ElementTypes
from ..._core.types import product
from ...ir.plan import Step
from ...ir.sized import is_symbolic
from ...ops.attrs import Attrs
from ..call import (
    Address,
    Call,
    Setting,
    about,
    broadcast_strides,
    build_program,
    five,
    rounds_of,
    three,
    views_of,
)
from ..choices import ByCode, Choices
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I8, Value, constant_of, vector_of
from ..math.numbers import float_math
from ..spec import Extents, Ints, KernelSpec, Program, Way
from .parts.arguments import Arguments
from .parts.partial import read_vector
from .parts.program import operand_addresses, store_epilogue
from .parts.window import (
    Windowed,
    first_input,
    input_line,
    inside_of,
    is_always_inside,
    rows_inside,
    valid_taps,
    whole_windows,
)
from .record import register

# Sides of windows up to which LLVM's passes gain nothing for maxima.
_SMALL = 5


class Pooling(Way):
    MAX = auto()
    AVG = auto()
    SUM = auto()
    LP = auto()


@dataclass(frozen=True)
class PoolSpec(KernelSpec):
    """Pooling over windows, vectors along channels; arguments: x, operands, results, batch.

    power  for ``lp``: the root of the sum of these powers
    usual  approximate typical sizes of the result, if some sizes are given
    inside  if sizes are given, for each axis whether all windows are inside the input
    by_rows  if the kernel's width is given, whether each row of taps has a partial sum
    """

    how: Pooling
    inp: Extents
    out: Extents
    kernel: Extents
    stride: Ints
    pad: Ints
    channels: int
    xs: Extents
    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    count_pad: bool = True
    power: int = 1
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    usual: Ints = ()
    inside: tuple[bool, ...] = ()
    by_rows: bool = False
    kind = "pool"
    extents = ("inp", "out", "kernel", "xs", "reads", "writes")

    @property
    def needs_passes(self) -> bool:  # type: ignore[override]
        """Averages over 3x3 gain 9 % with 16 registers, maxima over 13x13 5 %. Maxima over small
        windows and global pooling gain nothing, and compile in a third of the time without.
        """
        is_small = all(isinstance(n, int) and n <= _SMALL for n in self.kernel)
        return self.out != (1, 1, 1) and not (self.how is Pooling.MAX and is_small)

    @property
    def dilate(self) -> Ints:
        return (1, 1, 1)


def choose_pool(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    program, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    attrs, rank = anchor.attrs, len(anchor.shape) - 2
    spec = PoolSpec(
        how=Pooling(attrs["pool_type"]),
        **geometry_of(attrs, x.shape, anchor.shape),
        channels=x.shape[-1],
        xs=five(x.strides, rank),
        reads=tuple(
            five(broadcast_strides(v, anchor.shape), rank) for v in views_of(step, operands)
        ),
        writes=tuple(five(v.strides, rank) for v in step.writes),
        power=attrs["p_value"] if attrs["pool_type"] == "lp" else 1,
        program=program,
        element=setting.target.element,
    )
    extra = [Address(v) for v in (*views_of(step, operands), *step.writes)]
    work = product(anchor.shape) * product(spec.kernel)
    if setting.choices is not None:
        spec = _open(spec, setting.target.lanes, setting.choices)
    return (Call(spec, (Address(x), *extra, x.shape[0]), work),)


def choose_byte_pool(step: Step, setting: Setting) -> tuple[Call, ...]:
    """Max pooling of uint8."""
    return choose_pool(step, replace(setting, target=setting.target.of(OF_BYTES)))


def _open(spec: PoolSpec, lanes: int, choices: Choices) -> PoolSpec:
    """The spec with the further fields that a kernel needs if sizes are symbolic."""
    if not any(is_symbolic(getattr(spec, name)) for name in spec.extents):
        return spec

    numbers = (spec.kernel[2], spec.channels, spec.xs[3])

    def order(numbers: tuple[int, int, int]) -> tuple[bool, bool]:
        how, width = spec.how, numbers[0]
        return _fit_in_vector(how, *numbers, lanes), _is_long(how, width)

    by_code = None
    if not is_symbolic(numbers[1:]):
        by_code = ByCode(numbers[0], lambda width: order((width, *numbers[1:])))
    choices.note_numbers(numbers, order, str(spec), by_code)
    are_beside, are_long = order(choices.settled_numbers(numbers))
    spec = replace(spec, usual=about(spec.out), inside=inside_of(spec))
    if are_beside:
        kernel, xs = spec.kernel, spec.xs
        return replace(spec, kernel=(*kernel[:2], int(kernel[2])), xs=(*xs[:3], int(xs[3]), xs[4]))
    return replace(spec, by_rows=are_long) if is_symbolic(spec.kernel) else spec


def geometry_of(attrs: Attrs, inp: Ints, out: Ints) -> dict[str, Any]:
    """The windows of any pooling of [n, spatial..., c]; a global one covers everything."""
    whole, rank = attrs["global_pool"], len(inp) - 2
    unpadded = whole or attrs["pooling_convention"] == "same"
    return {
        "inp": three(inp[1:-1], 1),
        "out": three(out[1:-1], 1),
        "kernel": three(inp[1:-1] if whole else attrs["kernel"], 1),
        "stride": three((1,) * rank if whole else attrs["stride"] or (1,) * rank, 1),
        "pad": three((0,) * rank if unpadded else attrs["pad"] or (0,) * rank, 0),
        "count_pad": attrs["count_include_pad"] is not False,
    }


# Combines a row of taps (kd, kh) with the result so far.
Row = Callable[[Index, Index, Sequence[Value]], Sequence[Value]]
# Vectors of channels processed together: enough independent chains to hide an addition's latency.
WIDTH = 4
# Taps of a row from which on each row has a partial sum: the error of a sum in f32 grows with the
# number of consecutive additions.
LONG_ROW = 16
# Maximum taps that are unrolled.
UNROLLED = 9
LOWEST = {"float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}


def emit_pool(b: LoopBuilder, spec: PoolSpec, args: Arguments) -> None:
    """y[n,o,c] = program(reduce over the taps inside the input of x[n,o+tap,c])."""
    x = args.pointer("x")
    reads, writes = args.of_program(spec.program)
    batch = args.integer("batch")
    vectors = -(-spec.channels // b.lanes)
    blocks = -(-vectors // WIDTH)
    rest = vectors - (blocks - 1) * WIDTH
    last = spec.channels - (vectors - 1) * b.lanes
    spec = args.sized(spec)
    per_image = b.product((*spec.out[:2], blocks))
    b.balance(product((spec.usual or spec.out)[:2]) * blocks)
    units = b.mul(batch, per_image)
    with b.each_unit(units, args.share, args.shares) as unit:
        image, depth, row, block = b.split(unit.index, (0, spec.out[0], spec.out[1], blocks))
        channel = b.mul(block, WIDTH * b.lanes)
        at = (image, depth, row, 0, channel)
        bases = [b.at(p, b.dot(at, s)) for p, s in zip(reads, spec.reads)]
        targets = [b.at(p, b.dot(at, s)) for p, s in zip(writes, spec.writes)]
        window = _Window(b, spec, (depth, row), b.at(x, b.add(b.mul(image, spec.xs[0]), channel)))
        if (rest, last) == (WIDTH, b.lanes):
            window.emit_row(bases, targets, WIDTH, b.lanes)
        else:
            if blocks > 1:
                with b.when(b.less(block, blocks - 1)):
                    window.emit_row(bases, targets, WIDTH, b.lanes)
            with b.when(b.less(blocks - 2, block)):
                window.emit_row(bases, targets, rest, last)


def are_abreast(spec: PoolSpec, lanes: int) -> bool:
    """Whether a row's taps are contiguous, with all of their channels in one vector.

    LeNet's first pooling, 6 channels, takes 0.1 us that way and 0.5 tap by tap (AMD Zen 5).
    """
    if isinstance(spec.kernel[2], Value) or isinstance(spec.xs[3], Value):
        return False
    return _fit_in_vector(spec.how, spec.kernel[2], spec.channels, spec.xs[3], lanes)


def _fit_in_vector(how: Pooling, width: int, channels: int, step: int, lanes: int) -> bool:
    together = width * channels
    return bool(how is not Pooling.LP and step == channels and together <= lanes)


def has_long_rows(spec: PoolSpec) -> bool:
    """Whether each row of taps has a partial sum."""
    return _is_long(spec.how, spec.kernel[2])


def _is_long(how: Pooling, width: int) -> bool:
    return how is not Pooling.MAX and bool(width >= LONG_ROW)


class _Window:
    """The windows of one output row, for a few vectors of channels."""

    def __init__(
        self, b: LoopBuilder, spec: PoolSpec, place: tuple[Index, Index], x: Value
    ) -> None:
        self.b, self.spec, self.place, self.x = b, spec, place, x

    def emit_row(self, reads: list[Value], writes: list[Value], count: int, last: int) -> None:
        """All columns; those with windows inside the row skip the tests of their taps."""
        spec = self.spec
        inside, end = whole_windows(self.b, spec)
        most = rounds_of(spec.usual[2]) if spec.usual else None
        runs: list[tuple[str, Index, Index]] = [
            ("left", 0, inside), ("col", inside, end), ("right", end, spec.out[2])
        ]  # fmt: skip
        for name, start, stop in runs:
            if not _is_empty(start, stop):
                with self.b.loop(name, start, stop, most=most) as col:
                    values = self._reduce(col.index, name == "col", count, last)
                    self._store(values, reads, writes, col.index, last)

    def _store(
        self, values: list[Value], reads: list[Value], writes: list[Value], column: Index, last: int
    ) -> None:
        b, spec = self.b, self.spec
        for j, value in enumerate(values):
            lanes = last if j == len(values) - 1 else b.lanes
            channel = j * b.lanes
            sources = operand_addresses(b, reads, spec.reads, column, channel)
            targets = operand_addresses(b, writes, spec.writes, column, channel)
            store_epilogue(b, spec.program, value, sources, targets, lanes)

    def _reduce(self, column: Index, is_whole: bool, count: int, last: int) -> list[Value]:
        b, spec = self.b, self.spec
        left = first_input(b, column, spec.stride[2], spec.pad[2])
        taps = spec.kernel[2]
        is_known = isinstance(taps, int)
        low, high = (0, taps) if is_whole else valid_taps(b, spec, 2, column)
        abreast = taps if is_whole and are_abreast(spec, b.lanes) else 1

        def read(at: Index, j: int) -> Value:
            lanes = last if j == count - 1 else b.lanes
            return read_vector(b, self.x, b.add(at, j * b.lanes), 1, lanes * abreast)

        def tap(line: Index, number: Index, accs: Sequence[Value]) -> list[Value]:
            at = b.add(line, b.mul(b.add(left, number), spec.xs[3]))
            return [self._combine(acc, read(at, j)) for j, acc in enumerate(accs)]

        def row(kd: Index, kh: Index, accs: Sequence[Value]) -> Sequence[Value]:
            line = input_line(b, spec, self.place, (kd, kh))
            if is_whole and is_known and (taps <= UNROLLED or abreast > 1):
                for number in range(0, taps, abreast):
                    accs = tap(line, number, accs)
                return accs
            carry = start if by_rows else accs
            most = taps if is_known else None
            with b.loop("kw", low, high, carry=carry, most=most) as kw:
                kw.yields(tap(line, kw.index, kw.carried))
            return [b.b.fadd(*pair) for pair in zip(accs, kw.results)] if by_rows else kw.results

        start = [self._start()] * count
        by_rows = has_long_rows(spec) if is_known else spec.by_rows
        accs = self._over_rows(start, row)
        if abreast > 1:
            accs = [self._folded(accs[0])]
        if spec.how is Pooling.LP:
            return [self._root(acc) for acc in accs]
        if spec.how is not Pooling.AVG:
            return accs
        divisor = b.splat(divisor_of(b, spec, (*self.place, column)))
        return [b.b.fdiv(acc, divisor) for acc in accs]

    def _start(self) -> Value:
        """The value that every element of a maximum or a sum replaces or leaves."""
        b = self.b
        if b.dtype == OF_BYTES.computed:
            return constant_of(vector_of(I8, b.lanes), 0)
        return b.splat(LOWEST[b.dtype] if self.spec.how is Pooling.MAX else 0.0)

    def _over_rows(self, start: list[Value], row: Row) -> list[Value]:
        """``row`` for each row of taps, unrolled if they are few and all inside."""
        spec = self.spec
        few = all(isinstance(n, int) for n in spec.kernel) and product(spec.kernel) <= UNROLLED
        if not (few and is_always_inside(spec, 0) and is_always_inside(spec, 1)):
            return rows_inside(self.b, spec, self.place, start, row)
        accs: Sequence[Value] = start
        for kd in range(spec.kernel[0]):
            for kh in range(spec.kernel[1]):
                accs = row(kd, kh, accs)
        return list(accs)

    def _folded(self, acc: Value) -> Value:
        """One value for each channel, combined over the taps that packed lanes hold."""
        b, spec = self.b, self.spec
        total = acc
        for tap in range(1, spec.kernel[2]):
            lanes = [(tap * spec.channels + lane) % b.lanes for lane in range(b.lanes)]
            total = self._combine(total, b.shuffle(acc, lanes))
        return total

    def _combine(self, acc: Value, value: Value) -> Value:
        """The larger value (NaN never is) or the sum, of powers for ``lp``."""
        b = self.b.b
        if self.b.dtype == OF_BYTES.computed:
            return self.b.intrinsic("umax", acc, value)
        if self.spec.how is Pooling.MAX:
            return b.select(b.fcmp_ordered(">", value, acc), value, acc)
        term = value
        for _ in range(self.spec.power - 1):
            term = b.fmul(term, value)
        return b.fadd(acc, term)

    def _root(self, total: Value) -> Value:
        """The root that inverts the power; the cube root of a negative sum is negative."""
        math = float_math(self.b)
        if self.spec.power == 1:
            return total
        return {2: math.sqrt, 3: math.cbrt}[self.spec.power](total)


def _is_empty(start: Index, stop: Index) -> bool:
    """Whether the range from ``start`` to ``stop`` is certainly empty."""
    if isinstance(start, int) and isinstance(stop, int):
        return start >= stop
    return start is stop


class Averaging(Windowed, Protocol):
    """A spec of windows, with whether their padding counts."""

    @property
    def count_pad(self) -> bool: ...


def divisor_of(b: LoopBuilder, spec: Averaging, window: Sequence[Index]) -> Value:
    """Elements of a window that count: all but the part beyond the padding, or only real ones; a
    scalar.

    An empty window has sum 0 and divisor 1.
    """
    size: Index = 1
    for axis, out in enumerate(window):
        size = b.mul(size, _extent(b, spec, axis, out))
    if isinstance(size, int):
        return b.number(float(size))
    return b.b.sitofp(b.max(size, 1), b.element)


def _extent(b: LoopBuilder, spec: Averaging, axis: int, out: Index) -> Index:
    if is_always_inside(spec, axis):
        taps: Index = spec.kernel[axis]
        return taps
    if not spec.count_pad:
        low, high = valid_taps(b, spec, axis, out)
        return b.max(b.sub(high, low), 0)
    start = first_input(b, out, spec.stride[axis], spec.pad[axis])
    stop = b.min(b.add(start, spec.kernel[axis]), b.add(spec.inp[axis], spec.pad[axis]))
    return b.max(b.sub(stop, start), 0)


register("pool", choose_pool, {PoolSpec: emit_pool}, in_one_type=True)
register("byte_pool", choose_byte_pool, {PoolSpec: emit_pool})
