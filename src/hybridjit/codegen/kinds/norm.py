"""Normalization by statistics of runs of the data: mean and variance, or length.

The data are [rows, size, inner], and each run goes along ``size``. With inner 1 vectors are along
the run; else across it, and each lane has separate statistics. The variance is summed in a second
pass around the mean. Rows of bytes are dequantized into scratch memory, and results may be
quantized.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import auto
from functools import partial

from ..._core.frozen import dataclass
from ..._core.target import SINGLE, ElementTypes
from ..._core.types import product
from ...ir import graph
from ...ir.plan import Step
from ...ops.byte_rows import BYTE_LAYER_NORM
from ...ops.nn.length_norm import L2_NORMALIZATION
from ...ops.nn.normalization import GROUP_NORM, INSTANCE_NORM_LAST, LAYER_NORM
from ..call import Address, Argument, Call, Scratch, Setting, views_of
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..math.numbers import float_math
from ..spec import CHAINS, Extent, KernelSpec, Way
from .parts.arguments import Arguments
from .parts.partial import read_vector, whole_and_last, write_vector
from .parts.rows_of_bytes import RowsOfBytes, read_row, rows_of_bytes, write_row
from .record import register
from .reduction.emit import reduce_line

_FLOAT = 4


class Measure(Way):
    """By mean and variance, or by the root of the sum of squares."""

    MOMENTS = auto()
    LENGTH = auto()


@dataclass(frozen=True)
class NormSpec(KernelSpec):
    """Normalize runs of [rows, size, inner] along ``size``; arguments: x, [gamma, beta,] y,
    [scratch,] rows.

    scale   index of the elements of gamma and beta: the position ``along`` the run, ``inner``, the
            ``row`` (modulo ``period``), or "" without them
    bytes_  the quantization of x and of y; rows of bytes are dequantized into scratch memory
    """

    how: Measure
    size: Extent
    inner: Extent
    eps: float
    scale: str = ""
    period: int = 1
    element: ElementTypes = SINGLE
    bytes_: RowsOfBytes = RowsOfBytes()
    kind = "norm"
    extents = ("size", "inner")
    needs_passes = False


def choose_norm(step: Step, setting: Setting) -> tuple[Call, ...]:
    """A single call; all of its operands are contiguous."""
    anchor = step.group.anchor
    views = views_of(step, anchor.inputs)
    rows, spec = _runs(anchor)
    bytes_ = rows_of_bytes(step)
    scratch = [Scratch(_FLOAT * spec.size)] if bytes_.source else []
    args: tuple[Argument, ...] = (*map(Address, views), Address(step.writes[0]), *scratch, rows)
    is_along = spec.inner == 1  # of a symbolic size: a guard, which chooses the code
    spec = replace(spec, inner=1 if is_along else spec.inner, element=setting.target.element)
    spec = replace(spec, bytes_=bytes_)
    return (Call(spec, args, 8 * product(anchor.shape)),)


def _runs(value: graph.Value) -> tuple[int, NormSpec]:
    """The number of rows of runs, and the kernel for them."""
    shape, eps = value.shape, value.attrs["eps"]
    if value.op in (LAYER_NORM, BYTE_LAYER_NORM):
        axis = value.attrs["axis"] % len(shape)
        inner = product(shape[axis + 1 :])
        return product(shape[:axis]), NormSpec(Measure.MOMENTS, shape[axis], inner, eps, "along")
    if value.op is L2_NORMALIZATION:
        return _lengths(shape, value.attrs["mode"], eps)
    if value.op is INSTANCE_NORM_LAST:
        places = product(shape[1:-1])
        return shape[0], NormSpec(Measure.MOMENTS, places, shape[-1], eps, "inner")
    groups = value.attrs["num_groups"] if value.op is GROUP_NORM else shape[1]
    size = product(shape[1:]) // groups
    return shape[0] * groups, NormSpec(Measure.MOMENTS, size, 1, eps, "row", groups)


def _lengths(shape: tuple[int, ...], mode: str, eps: float) -> tuple[int, NormSpec]:
    places = product(shape[2:])
    if mode == "channel":
        return shape[0], NormSpec(Measure.LENGTH, shape[1], places, eps)
    if mode == "spatial":
        return shape[0] * shape[1], NormSpec(Measure.LENGTH, places, 1, eps)
    return shape[0], NormSpec(Measure.LENGTH, product(shape[1:]), 1, eps)


# Elements of a partial sum: the error of a sum in f32 grows with the number of consecutive
# additions.
_CHUNK = 64


def emit_norm(b: LoopBuilder, spec: NormSpec, args: Arguments) -> None:
    """y = (x - mean x) / sqrt(var x + eps) * gamma + beta, or x / sqrt(sum of x^2 + eps)."""
    _Norm(b, spec, args).emit()


class _Norm:
    def __init__(self, b: LoopBuilder, spec: NormSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.x = args.pointer("x", spec.bytes_.source)
        names = ("gamma", "beta") if spec.scale else ()
        self.scales = [args.pointer(name) for name in names]
        self.y = args.pointer("y", spec.bytes_.target)
        self.room = args.pointer("scratch") if spec.bytes_.source else None
        self.rows = args.integer("rows")
        self.spec = args.sized(spec)
        self.math = float_math(b)

    def emit(self) -> None:
        b, spec = self.b, self.spec
        blocks = b.divided_up(spec.inner, b.lanes)
        with b.each_unit(b.mul(self.rows, blocks), self.args.share, self.args.shares) as unit:
            row, block = b.split(unit.index, (0, blocks))
            if spec.inner == 1:
                self._emit_along(row)
            else:
                last = b.sub(spec.inner, b.mul(b.sub(blocks, 1), b.lanes))
                across = partial(self._emit_across, row, b.mul(block, b.lanes))
                whole_and_last(b, block, blocks, last, across)

    # --- along ---

    def _emit_along(self, row: Index) -> None:
        b, spec = self.b, self.spec
        at = b.mul(row, spec.size)
        x, y = b.at(self.x, at), b.at(self.y, at)
        if self.room is not None:
            room = b.at(self.room, b.mul(self.args.tid, spec.size))
            self._dequantize(x, room)
            x = room

        def total(each: Callable[[Value], Value]) -> Value:
            return b.splat(reduce_line(b, x, spec.size, 0.0, self.math.add, each))

        shift, factor = self._statistics(total)
        rest = b.divmod(spec.size, b.lanes)[1]
        whole = b.sub(spec.size, rest)
        if not isinstance(whole, int) or whole:
            with b.loop("i", 0, whole, b.lanes) as i:
                self._store(x, y, i.index, (row, i.index, 0), b.lanes, shift, factor)
        if not isinstance(rest, int):
            with b.when(b.less(0, rest)):
                self._store(x, y, whole, (row, whole, 0), rest, shift, factor)
        elif rest:
            self._store(x, y, whole, (row, whole, 0), rest, shift, factor)

    def _dequantize(self, x: Value, room: Value) -> None:
        b, size = self.b, self.spec.size
        rest = b.divmod(size, b.lanes)[1]
        whole = b.sub(size, rest)

        def copy(at: Index, lanes: Index) -> None:
            write_vector(b, read_row(b, self.spec.bytes_, x, at, lanes), room, at, 1, lanes)

        with b.loop("i", 0, whole, b.lanes) as i:
            copy(i.index, b.lanes)
        if isinstance(rest, int):
            if rest:
                copy(whole, rest)
            return
        with b.loop("rest", whole, size, most=b.lanes) as i:
            copy(i.index, 1)

    # --- across ---

    def _emit_across(self, row: Index, column: Index, lanes: Index) -> None:
        b, spec = self.b, self.spec
        at = b.add(b.mul(row, b.mul(spec.size, spec.inner)), column)
        x, y = b.at(self.x, at), b.at(self.y, at)
        shift, factor = self._statistics(lambda each: self._sum_across(x, lanes, each))
        with b.loop("k", 0, spec.size) as k:
            index = b.mul(k.index, spec.inner)
            self._store(x, y, index, (row, k.index, column), lanes, shift, factor)

    def _sum_across(self, x: Value, lanes: Index, each: Callable[[Value], Value]) -> Value:
        """The sum of ``each`` element of the runs, by chunks, each in independent chains."""
        b, spec, add = self.b, self.spec, self.math.add

        def term(k: Index) -> Value:
            return each(read_vector(b, x, b.mul(k, spec.inner), 1, lanes))

        def chunk(start: Index, stop: Index) -> Value:
            zeros = [b.splat(0.0)] * CHAINS
            with b.loop("k", start, stop, CHAINS, carry=zeros, most=_CHUNK // CHAINS) as k:
                terms = [term(b.add(k.index, j)) for j in range(CHAINS)]
                k.yields([add(acc, value) for acc, value in zip(k.carried, terms)])
            first, second, third, fourth = k.results
            return add(add(first, second), add(third, fourth))

        whole = b.sub(spec.size, b.divmod(spec.size, CHAINS)[1])
        total = b.splat(0.0)
        if not isinstance(whole, int) or whole:
            with b.loop("chunk", 0, whole, _CHUNK, carry=[total]) as part:
                stop = b.min(b.add(part.index, _CHUNK), whole)
                part.yields([add(part.carried[0], chunk(part.index, stop))])
            total = part.results[0]
        if not isinstance(whole, int):
            with b.loop("last", whole, spec.size, carry=[total], most=CHAINS) as last:
                last.yields([add(last.carried[0], term(last.index))])
            return last.results[0]
        for k in range(whole, spec.size):
            total = add(total, term(k))
        return total

    # --- both ---

    def _statistics(
        self, total: Callable[[Callable[[Value], Value]], Value]
    ) -> tuple[Value | None, Value]:
        """The value to subtract (None for nothing), and the factor of the difference."""
        b, spec, math = self.b, self.spec, self.math
        mean: Value | None = None
        if spec.how is Measure.LENGTH:
            square = total(lambda v: math.mul(v, v))
        else:
            size = self._number(spec.size)
            mean = centre = math.div(total(lambda v: v), size)

            def squared(value: Value) -> Value:
                apart = math.sub(value, centre)
                return math.mul(apart, apart)

            square = math.div(total(squared), size)
        length = math.sqrt(math.add(square, math.const(spec.eps)))
        return mean, math.div(b.splat(1.0), length)

    def _number(self, size: Index) -> Value:
        """A size as lanes hold it."""
        if isinstance(size, int):
            return self.math.const(float(size))
        return self.b.splat(self.b.b.sitofp(size, self.b.element))

    def _store(
        self,
        x: Value,
        y: Value,
        index: Index,
        place: tuple[Index, Index, Index],
        lanes: Index,
        shift: Value | None,
        factor: Value,
    ) -> None:
        b, math = self.b, self.math
        value = read_vector(b, x, index, 1, lanes)
        value = math.mul(value if shift is None else math.sub(value, shift), factor)
        if self.scales:
            gamma, beta = (self._scale(pointer, place, lanes) for pointer in self.scales)
            value = b.fma(value, gamma, beta)
        write_row(b, self.spec.bytes_, value, y, index, lanes)

    def _scale(self, pointer: Value, place: tuple[Index, Index, Index], lanes: Index) -> Value:
        """gamma or beta at (row, position in the run, column)."""
        b, spec = self.b, self.spec
        row, along, column = place
        if spec.scale == "row":
            return read_vector(b, pointer, b.divmod(row, spec.period)[1], 0, lanes)
        if spec.scale == "inner":
            return read_vector(b, pointer, column, 0 if spec.inner == 1 else 1, lanes)
        return read_vector(b, pointer, along, 1 if spec.inner == 1 else 0, lanes)


register("norm", choose_norm, {NormSpec: emit_norm}, in_one_type=True)
register("byte_norm", choose_norm, {NormSpec: emit_norm})
