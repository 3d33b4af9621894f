"""LRN: every element divided by a power of the energy of adjacent channels.

The data are [rows, channels, inner]. With inner 1, a row's squares are first written into the
thread's scratch between zeros, so that windows at the edges need no special case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes
from ..._core.types import product
from ...ir.plan import Step
from ...ops.nn.length_norm import LRN_LAST
from ..call import Address, Call, Scratch, Setting
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..math.numbers import float_math
from ..spec import Extent, KernelSpec
from .parts.arguments import Arguments
from .parts.partial import read_vector, whole_and_last, write_vector
from .record import register


@dataclass(frozen=True)
class LrnSpec(KernelSpec):
    """LRN over the channels of [rows, channels, inner]; arguments: x, y, scratch, rows.

    half   channels on either side that are included
    alpha  factor of a square
    """

    channels: int
    inner: Extent
    half: int
    alpha: float
    beta: float
    knorm: float
    element: ElementTypes = SINGLE
    kind = "lrn"
    extents = ("inner",)

    def scratch_floats(self, lanes: int) -> int:
        """One row of squares with zeros on both sides, in full vectors."""
        padded = -(-self.half // lanes) * lanes
        return self.channels + self.half + padded + lanes


def choose_lrn(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call, on channels first or, in channels-last regions, last."""
    anchor = step.group.anchor
    shape, attrs = anchor.shape, anchor.attrs
    is_last = anchor.op is LRN_LAST
    channels = shape[-1] if is_last else shape[1]
    inner = 1 if is_last else product(shape[2:])
    spec = LrnSpec(
        channels=channels,
        inner=1 if inner == 1 else inner,  # of a symbolic size: a guard, which chooses the code
        half=min((attrs["nsize"] - 1) // 2, channels - 1),
        alpha=attrs["alpha"] / attrs["nsize"],
        beta=attrs["beta"],
        knorm=attrs["knorm"],
        element=setting.target.element,
    )
    rows = product(shape[:-1]) if is_last else shape[0]
    target = setting.target
    scratch = Scratch(target.element_bytes * spec.scratch_floats(target.lanes))
    args = (Address(step.reads[0]), Address(step.writes[0]), scratch, rows)
    return (Call(spec, args, (10 + 2 * spec.half) * product(shape)),)


def emit_lrn(b: LoopBuilder, spec: LrnSpec, args: Arguments) -> None:
    """y[c] = x[c] * (knorm + alpha * sum of x[c']^2 for |c' - c| <= half)^-beta."""
    x, y = args.pointer("x"), args.pointer("y")
    scratch, rows = args.working("scratch"), args.integer("rows")
    spec = args.sized(spec)
    scratch = b.at(scratch, b.mul(args.tid, spec.scratch_floats(b.lanes)))
    lrn = _Lrn(b, spec, scratch)
    blocks = b.divided_up(spec.inner, b.lanes)
    with b.each_unit(b.mul(rows, blocks), args.share, args.shares) as unit:
        row, block = b.split(unit.index, (0, blocks))
        at = b.mul(row, b.mul(spec.channels, spec.inner))
        if spec.inner == 1:
            lrn.emit_along(b.at(x, at), b.at(y, at))
        else:
            at = b.add(at, b.mul(block, b.lanes))
            last = b.sub(spec.inner, b.mul(b.sub(blocks, 1), b.lanes))
            across = partial(lrn.emit_across, b.at(x, at), b.at(y, at))
            whole_and_last(b, block, blocks, last, across)


class _Lrn:
    def __init__(self, b: LoopBuilder, spec: LrnSpec, scratch: Value) -> None:
        self.b, self.spec, self.scratch = b, spec, scratch
        self.math = float_math(b)

    def emit_across(self, x: Value, y: Value, lanes: Index) -> None:
        """Vectors across the channels, one channel after the other."""
        b, spec = self.b, self.spec
        with b.loop("c", 0, spec.channels) as c:
            low = b.max(b.sub(c.index, spec.half), 0)
            high = b.min(b.add(c.index, spec.half + 1), spec.channels)
            most = min(2 * spec.half + 1, spec.channels)
            with b.loop("near", low, high, carry=[b.splat(0.0)], most=most) as near:
                value = read_vector(b, x, b.mul(near.index, spec.inner), 1, lanes)
                near.yields([self.math.add(near.carried[0], self.math.mul(value, value))])
            at = b.mul(c.index, spec.inner)
            self._store(x, y, at, lanes, near.results[0])

    def emit_along(self, x: Value, y: Value) -> None:
        """Vectors along the channels."""
        b, spec, lanes = self.b, self.spec, self.b.lanes
        whole = spec.channels - spec.channels % lanes
        square = b.at(self.scratch, spec.half)
        self._clear(self.scratch)
        self._clear(b.at(square, spec.channels))
        self._each(whole, lambda c, n: self._square(x, square, c, n))
        self._each(whole, lambda c, n: self._store(x, y, c, n, self._around(square, c)))

    def _clear(self, pointer: Value) -> None:
        """Write zeros beside a row, full vectors at a time, into scratch with room for them."""
        for start in range(0, self.spec.half, self.b.lanes):
            self.b.store(self.b.splat(0.0), pointer, start)

    def _each(self, whole: int, body: Callable[[Index, int], None]) -> None:
        b, rest = self.b, self.spec.channels - whole
        if whole:
            with b.loop("c", 0, whole, b.lanes) as c:
                body(c.index, b.lanes)
        if rest:
            body(whole, rest)

    def _square(self, x: Value, square: Value, c: Index, lanes: int) -> None:
        value = read_vector(self.b, x, c, 1, lanes)
        write_vector(self.b, self.math.mul(value, value), square, c, 1, lanes)

    def _around(self, square: Value, c: Index) -> Value:
        """The energy of the channels around each channel of a vector."""
        b, spec = self.b, self.spec
        start = b.add(c, -spec.half)
        total = b.load(square, start)
        for offset in range(1, 2 * spec.half + 1):
            total = self.math.add(total, b.load(square, b.add(start, offset)))
        return total

    def _store(self, x: Value, y: Value, at: Index, lanes: Index, energy: Value) -> None:
        b, spec = self.b, self.spec
        value = read_vector(b, x, at, 1, lanes)
        scale = b.fma(energy, b.splat(spec.alpha), b.splat(spec.knorm))
        write_vector(b, self._divided(value, scale), y, at, 1, lanes)

    def _divided(self, value: Value, scale: Value) -> Value:
        """value * scale^-beta; by square roots for 0.75, the exponent of usual networks."""
        math, beta = self.math, self.spec.beta
        if beta == 0.75:
            root = math.sqrt(scale)
            return math.div(value, math.mul(root, math.sqrt(root)))
        return math.mul(value, math.power(scale, math.const(-beta)))


register("lrn", choose_lrn, {LrnSpec: emit_lrn}, in_one_type=True)
