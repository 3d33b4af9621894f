"""Softmax and its logarithm over one axis of contiguous data, of all or of the first elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.plan import Step
from ...records import dataclass
from ...types import product
from ..call import Address, Argument, Call, Setting, views_of
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.elements import ELEMENTS, converted, with_element
from ..llvm.indices import Index
from ..llvm.types import I32, Value, constant_of
from ..math.numbers import float_numbers_of
from ..spec import KernelSpec
from .parts.arguments import Arguments
from .parts.partial import read_vector, write_vector
from .record import register


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """Softmax over ``size`` elements, ``inner`` apart; arguments: x, [length,] y, rows.

    A row is ``size`` x ``inner`` elements: inner 1 has the vectors along the axis, else across it.
    length  the element type of the lengths, one for each column, if there are any
    """

    how: str
    size: int
    inner: int
    length: str = ""
    dtype: str = "float32"
    kind = "softmax"


def choose_softmax(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    axis = anchor.attrs["axis"] % len(anchor.shape)
    inner = product(anchor.shape[axis + 1 :])
    assert anchor.op is not None
    views = views_of(step, anchor.inputs)
    length = views[1].dtype.name if len(views) > 1 else ""
    dtype = views[0].dtype.name
    spec = SoftmaxSpec(anchor.op.name, anchor.shape[axis], inner, length, dtype)
    rows = product(anchor.shape[:axis])
    args: tuple[Argument, ...] = (*map(Address, (*views, step.writes[0])), rows)
    return (Call(spec, args, 10 * product(anchor.shape)),)


LOWEST = float("-inf")


def emit_softmax(b: LoopBuilder, spec: SoftmaxSpec, args: Arguments) -> None:
    """y = exp(x - max x) / sum exp(x - max x), or its logarithm, along the axis.

    With lengths, elements from the row's length on count as -inf, and their result is 0.
    """
    x = args.pointer("x")
    length = args.pointer("length") if spec.length else None
    y, rows = args.pointer("y"), args.integer("rows")
    with b.each_unit(rows, args.tid, args.threads) as row:
        at = b.mul(row.index, spec.size * spec.inner)
        element = ELEMENTS[spec.dtype].stored
        line = _Line(b, spec, b.at(x, at, element), b.at(y, at, element))
        if length is not None:
            line.length = b.at(length, b.mul(row.index, spec.inner), ELEMENTS[spec.length].stored)
        if spec.inner == 1:
            line.emit_along()
        else:
            line.emit_across()


class _Line:
    """One row: ``size`` steps along the axis, ``inner`` contiguous elements across it."""

    def __init__(self, b: LoopBuilder, spec: SoftmaxSpec, x: Value, y: Value) -> None:
        self.b, self.spec, self.x, self.y = b, spec, x, y
        self.kind = b.vector_type(element=ELEMENTS[spec.dtype].held)
        self.math = float_numbers_of(b, self._constant(0.0), spec.dtype)
        self.length: Value | None = None

    def _constant(self, value: float) -> Value:
        return constant_of(self.kind, value)

    def emit_along(self) -> None:
        """Vectors along the axis; their lanes are combined at the end, always in one order."""
        b, math = self.b, self.math
        limit = None if self.length is None else b.splat(self._limit(self._length_at(0)))

        def mask(index: Index, lanes: int) -> Value | None:
            """Which lanes of the vector at ``index`` count; None for all of them."""
            if limit is None:
                return None if lanes == b.lanes else b.mask_first(lanes)
            first = b.splat(b.b.trunc(b.i64(index), I32))
            place = b.b.add(first, ir.Constant(first.type, list(range(b.lanes))))
            return b.b.icmp_signed("<", place, limit)

        top = self._over(
            self._constant(LOWEST),
            lambda acc, v, i, n: self._larger(self._kept(v, mask(i, n), LOWEST), acc),
        )
        top = b.splat(b.reduce_lanes(top, self._larger))

        def added(acc: Value, v: Value, i: Index, n: int) -> Value:
            power = self._kept(self._exp(v, top), mask(i, n), 0.0)
            if self._keeps_powers:
                write_vector(b, power, self.y, i, 1, n, self.spec.dtype)
            return math.add(acc, power)

        total = self._over(self._constant(0.0), added)
        total = b.splat(b.reduce_lanes(total, math.add))
        if self._keeps_powers:
            self._divide_powers(total, mask if limit is not None else None)
            return
        log_total = math.log(total) if self.spec.how == "log_softmax" else None

        def result(v: Value, i: Index, n: int) -> Value:
            value = self._result(v, top, total, log_total)
            return value if limit is None else self._kept(value, mask(i, n), 0.0)

        self._store_each(result)

    @property
    def _keeps_powers(self) -> bool:
        """Whether powers are stored where their quotients will be, which costs less than to compute
        them again. Not in half precision, which would round twice.
        """
        return self.spec.how != "log_softmax" and self.spec.dtype != "float16"

    def _divide_powers(
        self, total: Value, mask: Callable[[Index, int], Value | None] | None
    ) -> None:
        """y = y / total along the axis, by one division; 0 where no element counts."""
        factor, dtype = self.math.div(self._constant(1.0), total), self.spec.dtype

        def divide(index: Index, lanes: int, _: Sequence[Value]) -> list[Value]:
            power = read_vector(self.b, self.y, index, 1, lanes, dtype)
            value = self.math.mul(power, factor)
            if mask is not None:
                value = self._kept(value, mask(index, lanes), 0.0)
            write_vector(self.b, value, self.y, index, 1, lanes, dtype)
            return []

        self._each([], divide)

    def _length_at(self, column: Index) -> Value:
        """The length that holds for a column, as a 64-bit integer."""
        b, dtype = self.b, self.spec.length
        assert self.length is not None
        value = b.load_scalar(self.length, column, ELEMENTS[dtype].stored)
        return converted(b, value, dtype, "int64")

    def _limit(self, length: Value) -> Value:
        """A length, or a vector of them, as 32-bit integers between 0 and the size."""
        b = self.b
        for sign, limit in (("<", self.spec.size), (">", 0)):
            bound = b.constant(limit, length)
            length = b.b.select(b.b.icmp_signed(sign, length, bound), length, bound)
        return b.b.trunc(length, with_element(length.type, I32))

    def _over(self, start: Value, combine: Callable[..., Value]) -> Value:
        """for each vector of the row: acc = combine(acc, vector, index, lanes)."""
        return self._each([start], lambda i, n, acc: [combine(*acc, self._read(i, n), i, n)])[0]

    def _store_each(self, result: Callable[[Value, Index, int], Value]) -> None:
        """for each vector of the row: y = result(vector, index, lanes)."""

        def store(index: Index, lanes: int, _: Sequence[Value]) -> list[Value]:
            value = result(self._read(index, lanes), index, lanes)
            write_vector(self.b, value, self.y, index, 1, lanes, self.spec.dtype)
            return []

        self._each([], store)

    def _each(
        self, carry: list[Value], one: Callable[[Index, int, Sequence[Value]], list[Value]]
    ) -> list[Value]:
        """for each vector of the row: carry = one(index, lanes, carry)."""
        b, size = self.b, self.spec.size
        whole = size - size % b.lanes
        if whole:
            with b.loop("i", 0, whole, b.lanes, carry=carry) as i:
                i.yields(one(i.index, b.lanes, i.carried))
            carry = i.results
        if size % b.lanes:
            carry = one(whole, size % b.lanes, carry)
        return carry

    def emit_across(self) -> None:
        """Vectors across the axis: each lane has a softmax of its own."""
        b, inner = self.b, self.spec.inner
        whole = inner - inner % b.lanes
        if whole:
            with b.loop("column", 0, whole, b.lanes) as column:
                self._emit_columns(column.index, b.lanes)
        if inner % b.lanes:
            self._emit_columns(whole, inner % b.lanes)

    def _emit_columns(self, column: Index, lanes: int) -> None:
        b, spec, math = self.b, self.spec, self.math
        limit = None
        if self.length is not None:
            raw = read_vector(b, self.length, column, 1, lanes, spec.length)
            limit = self._limit(converted(b, raw, spec.length, "int64"))

        def mask(k: Index) -> Value | None:
            """Which columns have an element ``k``; None for all of them."""
            if limit is None:
                return None
            return b.b.icmp_signed("<", b.splat(b.b.trunc(b.i64(k), I32)), limit)

        def over(start: Value, combine: Callable[..., Value]) -> Value:
            with b.loop("k", 0, spec.size, carry=[start]) as k:
                at = b.add(b.mul(k.index, spec.inner), column)
                k.yields([combine(k.carried[0], self._read(at, lanes), k.index)])
            return k.results[0]

        top = over(
            self._constant(LOWEST),
            lambda acc, v, k: self._larger(self._kept(v, mask(k), LOWEST), acc),
        )

        def added(acc: Value, v: Value, k: Index) -> Value:
            power = self._kept(self._exp(v, top), mask(k), 0.0)
            if self._keeps_powers:
                at = b.add(b.mul(k, spec.inner), column)
                write_vector(b, power, self.y, at, 1, lanes, spec.dtype)
            return math.add(acc, power)

        total = over(self._constant(0.0), added)
        factor = math.div(self._constant(1.0), total)
        log_total = math.log(total) if spec.how == "log_softmax" else None
        with b.loop("k", 0, spec.size) as k:
            at = b.add(b.mul(k.index, spec.inner), column)
            if self._keeps_powers:
                value = math.mul(read_vector(b, self.y, at, 1, lanes, spec.dtype), factor)
            else:
                value = self._result(self._read(at, lanes), top, total, log_total)
            value = self._kept(value, mask(k.index), 0.0)
            write_vector(b, value, self.y, at, 1, lanes, spec.dtype)

    def _read(self, index: Index, lanes: int) -> Value:
        value = read_vector(self.b, self.x, index, 1, lanes, self.spec.dtype)
        return self.math.neg(value) if self.spec.how == "softmin" else value

    def _larger(self, value: Value, top: Value) -> Value:
        """The larger, by one instruction: ``top`` where the value is NaN, which its power shows."""
        return self.math.select(self.math.gt(value, top), value, top)

    def _exp(self, value: Value, top: Value) -> Value:
        return self.math.exp(self.math.sub(value, top))

    def _kept(self, value: Value, mask: Value | None, other: float) -> Value:
        """``value`` in the lanes of ``mask`` (None: in all of them), ``other`` in the rest."""
        return value if mask is None else self.b.b.select(mask, value, self._constant(other))

    def _result(self, value: Value, top: Value, total: Value, log_total: Value | None) -> Value:
        if log_total is not None:
            return self.math.sub(self.math.sub(value, top), log_total)
        return self.math.div(self._exp(value, top), total)


register("softmax", choose_softmax, {SoftmaxSpec: emit_softmax})
