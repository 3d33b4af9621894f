"""Softmax and its logarithm over one axis of contiguous data, of all or of the first elements.

Rows of bytes are dequantized into scratch memory; the result may be quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from enum import auto
from itertools import accumulate

from ..._core.frozen import dataclass
from ..._core.target import Target
from ..._core.types import product
from ...ir.plan import Step
from ...ops.byte_rows import BYTE_SOFTMAX
from ...ops.nn.softmax import LOG_SOFTMAX, SOFTMAX, SOFTMIN
from ...ops.record import OpDef
from ..call import Address, Argument, Call, GivenNumbers, Scratch, Setting, views_of
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.elements import ELEMENTS, converted, with_element
from ..llvm.indices import Index
from ..llvm.types import I32, Value, constant_of
from ..math.numbers import float_numbers_of
from ..spec import KernelSpec, Size, Sizes, Way
from .parts.arguments import Arguments
from .parts.partial import read_vector, write_vector
from .parts.rows_of_bytes import RowsOfBytes, read_row, rows_of_bytes, write_row
from .record import register

_FLOAT = 4


class Form(Way):
    SOFTMAX = auto()
    LOG_SOFTMAX = auto()
    SOFTMIN = auto()


_WAYS: dict[OpDef | None, Form] = {
    SOFTMAX: Form.SOFTMAX,
    BYTE_SOFTMAX: Form.SOFTMAX,
    LOG_SOFTMAX: Form.LOG_SOFTMAX,
    SOFTMIN: Form.SOFTMIN,
}


@dataclass(frozen=True)
class SoftmaxSpec(KernelSpec):
    """Softmax over ``size`` elements, ``inner`` apart; arguments: x, [length,] y, [scratch,] rows.

    A row is ``size`` x ``inner`` elements: with inner 1 vectors are along the axis, else across it.

    length    the element type of the lengths, one for each column, if any
    together  number of rows that are processed together
    bytes_    the quantization of x and of y; rows are in scratch memory between
    """

    how: Form
    size: Size
    inner: Size
    length: str = ""
    dtype: str = "float32"
    together: int = 1
    bytes_: RowsOfBytes = RowsOfBytes()
    kind = "softmax"
    needs_passes = False


def choose_softmax(step: Step, setting: Setting) -> tuple[Call, ...]:
    anchor = step.group.anchor
    axis = anchor.attrs["axis"] % len(anchor.shape)
    inner = product(anchor.shape[axis + 1 :])
    inner = 1 if inner == 1 else inner  # of a symbolic size: a guard, which chooses the code
    views = views_of(step, anchor.inputs)
    length = views[1].dtype.name if len(views) > 1 else ""
    bytes_ = rows_of_bytes(step)
    dtype = "float32" if bytes_.source else views[0].dtype.name
    size = anchor.shape[axis]
    together = _rows_together(size, inner, setting.target)
    numbers = GivenNumbers()
    sizes: Sizes = (size, inner)
    if dtype == "float32":
        sizes = numbers.symbolic((size, inner))
    spec = SoftmaxSpec(_WAYS[anchor.op], sizes[0], sizes[1], length, dtype, together, bytes_)
    rows = product(anchor.shape[:axis])
    arrays = map(Address, (*views, step.writes[0]))
    scratch = [Scratch(_FLOAT * together * size)] if bytes_.has_any else []
    args: tuple[Argument, ...] = (*arrays, *scratch, rows, *numbers.values)
    return (Call(spec, args, 10 * product(anchor.shape)),)


def _rows_together(size: int, inner: int, target: Target) -> int:
    """Number of rows that are processed together: for a single short row, most of the time would be
    the latency of two reductions, a power and a division (128: 16 to 9 cycles a vector).
    """
    if inner > 1 or size > 64 * target.lanes:
        return 1
    return 4 if target.vector_registers >= 32 else 2


LOWEST = float("-inf")


def emit_softmax(b: LoopBuilder, spec: SoftmaxSpec, args: Arguments) -> None:
    """y = exp(x - max x) / sum exp(x - max x), or its logarithm, along the axis.

    With lengths, elements from the row's length on are treated as -inf, with result 0.
    """
    x = args.pointer("x", spec.bytes_.source)
    length = args.pointer("length") if spec.length else None
    y = args.pointer("y", spec.bytes_.target)
    room = args.pointer("scratch") if spec.bytes_.has_any else None
    rows = args.integer("rows")
    size, inner = args.given((spec.size, spec.inner))

    def line(row: Index, number: int = 0) -> _Line:
        at = b.mul(row, b.mul(size, inner))
        if room is None:
            element = ELEMENTS[spec.dtype].stored
            result = _Line(b, spec, (size, inner), b.at(x, at, element), b.at(y, at, element))
        else:
            place = b.mul(b.add(b.mul(args.tid, spec.together), number), size)
            result = _Line(b, spec, (size, inner), b.at(x, at), b.at(y, at), b.at(room, place))
        if length is not None:
            result.length = b.at(length, b.mul(row, inner), ELEMENTS[spec.length].stored)
        return result

    together = spec.together
    with b.each_unit(b.quotient_up(rows, together), args.share, args.shares) as unit:
        first = b.mul(unit.index, together)
        if spec.inner != 1:
            line(first).emit_across()
            return
        stop = b.min(b.add(first, together), rows)
        with b.when(b.equal(b.sub(stop, first), together)):
            _emit_along([line(b.add(first, n), n) for n in range(together)])
        if together == 1:
            return
        with b.when(b.less(b.sub(stop, first), together)):
            _emit_rest(b, first, stop, together, line)


def _emit_rest(
    b: LoopBuilder, first: Index, stop: Index, together: int, line: Callable[[Index], _Line]
) -> None:
    """The last rows, fewer than are processed together."""
    with b.loop("row", first, stop, most=together) as row:
        _emit_along([line(row.index)])


# A pass over the vectors of a line: the initially carried values, and its body, a function of
# index, lanes and the carried values that returns the values to carry on.
Body = Callable[[Index, Index, Sequence[Value]], list[Value]]
Pass = tuple[list[Value], Body]
# The passes of a line, in order; each receives the values carried at the end of the previous one.
Passes = Generator[Pass, list[Value], None]


def _emit_along(lines: Sequence[_Line]) -> None:
    """Several rows: one loop for each pass over all of them."""
    runs = [line.along() for line in lines]
    passes = [next(run) for run in runs]
    while passes:
        carried = lines[0].each(passes)
        passes = [following for run, end in zip(runs, carried) if (following := _send(run, end))]


def _send(run: Passes, carried: list[Value]) -> Pass | None:
    """The next pass, if any."""
    try:
        return run.send(carried)
    except StopIteration:
        return None


class _Line:
    """One row: ``size`` steps along the axis, ``inner`` contiguous elements across it."""

    def __init__(
        self,
        b: LoopBuilder,
        spec: SoftmaxSpec,
        sizes: tuple[Index, Index],
        x: Value,
        y: Value,
        room: Value | None = None,
    ) -> None:
        self.b, self.spec, self.x, self.y = b, spec, x, y
        self.powers = y if room is None else room
        self.size, self.inner = sizes
        self.kind = b.vector_type(element=ELEMENTS[spec.dtype].held)
        self.math = float_numbers_of(b, self._constant(0.0), spec.dtype)
        self.length: Value | None = None
        self.is_read = False  # whether the row was dequantized

    def _constant(self, value: float) -> Value:
        return constant_of(self.kind, value)

    def along(self) -> Passes:
        """Vectors along the axis; their lanes are combined at the end, always in the same order."""
        b, math = self.b, self.math
        limit = None if self.length is None else b.splat(self._limit(self._length_at(0)))

        def mask(index: Index, lanes: Index) -> Value | None:
            """The valid lanes of the vector at ``index``; None for all of them."""
            if limit is None:
                is_whole = isinstance(lanes, int) and lanes == b.lanes
                return None if is_whole else b.mask_first(lanes)
            first = b.splat(b.b.trunc(b.i64(index), I32))
            place = b.b.add(first, ir.Constant(first.type, list(range(b.lanes))))
            return b.b.icmp_signed("<", place, limit)

        top = yield from self._over(
            self._constant(LOWEST),
            lambda acc, v, i, n: self._larger(self._kept(v, mask(i, n), LOWEST), acc),
        )
        if self.spec.bytes_.source:
            self.x, self.is_read = self.powers, True
        top = b.splat(b.reduce_lanes(top, self._larger))

        def added(acc: Value, v: Value, i: Index, n: Index) -> Value:
            power = self._kept(self._exp(v, top), mask(i, n), 0.0)
            if self._keeps_powers:
                write_vector(b, power, self.powers, i, 1, n, self.spec.dtype)
            return math.add(acc, power)

        total = yield from self._over(self._constant(0.0), added)
        total = b.splat(b.reduce_lanes(total, math.add))
        if self._keeps_powers:
            yield [], self._divide_powers(total, mask if limit is not None else None)
            return
        log_total = math.log(total) if self.spec.how is Form.LOG_SOFTMAX else None

        def result(v: Value, i: Index, n: Index) -> Value:
            value = self._result(v, top, total, log_total)
            return value if limit is None else self._kept(value, mask(i, n), 0.0)

        yield [], self._store_each(result)

    @property
    def _keeps_powers(self) -> bool:
        """Whether powers are stored where their quotients will be, which costs less than computing
        them again. Not in half precision, which would round twice.
        """
        return self.spec.how is not Form.LOG_SOFTMAX and self.spec.dtype != "float16"

    def _divide_powers(
        self, total: Value, mask: Callable[[Index, Index], Value | None] | None
    ) -> Body:
        """y = y / total along the axis, by one division; 0 for invalid elements."""
        factor, dtype = self.math.div(self._constant(1.0), total), self.spec.dtype

        def divide(index: Index, lanes: Index, _: Sequence[Value]) -> list[Value]:
            power = read_vector(self.b, self.powers, index, 1, lanes, dtype)
            value = self.math.mul(power, factor)
            if mask is not None:
                value = self._kept(value, mask(index, lanes), 0.0)
            write_row(self.b, self.spec.bytes_, value, self.y, index, lanes, dtype)
            return []

        return divide

    def _length_at(self, column: Index) -> Value:
        """The length for a column, as a 64-bit integer."""
        b, dtype = self.b, self.spec.length
        assert self.length is not None
        value = b.load_scalar(self.length, column, ELEMENTS[dtype].stored)
        return converted(b, value, dtype, "int64")

    def _limit(self, length: Value) -> Value:
        """A length, or a vector of them, as 32-bit integers between 0 and the size."""
        b = self.b
        limits: tuple[tuple[str, Index], ...] = (("<", self.size), (">", 0))
        for sign, limit in limits:
            bound = self._bound(limit, length)
            length = b.b.select(b.b.icmp_signed(sign, length, bound), length, bound)
        return b.b.trunc(length, with_element(length.type, I32))

    def _bound(self, limit: Index, like: Value) -> Value:
        """An integer of the type of lengths."""
        if isinstance(limit, int):
            return self.b.constant(limit, like)
        return limit if like.type == limit.type else self.b.splat(limit)

    def _over(
        self, start: Value, combine: Callable[..., Value]
    ) -> Generator[Pass, list[Value], Value]:
        """for each vector of the row: acc = combine(acc, vector, index, lanes)."""
        carried = yield [start], lambda i, n, acc: [combine(*acc, self._read(i, n), i, n)]
        return carried[0]

    def _store_each(self, result: Callable[[Value, Index, Index], Value]) -> Body:
        """y = result(vector, index, lanes)."""

        def store(index: Index, lanes: Index, _: Sequence[Value]) -> list[Value]:
            value = result(self._read(index, lanes), index, lanes)
            write_vector(self.b, value, self.y, index, 1, lanes, self.spec.dtype)
            return []

        return store

    def each(self, passes: Sequence[Pass]) -> list[list[Value]]:
        """for each vector of a row: all passes' bodies; returns the values carried last."""
        b, size = self.b, self.size
        ends = list(accumulate(len(start) for start, _ in passes))
        carry = [value for start, _ in passes for value in start]

        def parts(values: Sequence[Value]) -> list[list[Value]]:
            return [list(values[end - len(p[0]) : end]) for end, p in zip(ends, passes)]

        def all_bodies(index: Index, lanes: Index, values: Sequence[Value]) -> list[Value]:
            each = zip(passes, parts(values))
            return [value for (_, body), own in each for value in body(index, lanes, own)]

        if not isinstance(size, int):
            stop = b.sub(size, b.b.urem(size, b.i64(b.lanes)))
            with b.loop("i", 0, stop, b.lanes, carry=carry) as i:
                i.yields(all_bodies(i.index, b.lanes, i.carried))
            with b.loop("tail", stop, size, b.lanes, carry=i.results, most=1) as i:
                i.yields(all_bodies(i.index, b.sub(size, i.index), i.carried))
            return parts(i.results)
        whole = size - size % b.lanes
        if whole:
            with b.loop("i", 0, whole, b.lanes, carry=carry) as i:
                i.yields(all_bodies(i.index, b.lanes, i.carried))
            carry = i.results
        if size % b.lanes:
            carry = all_bodies(whole, size % b.lanes, carry)
        return parts(carry)

    def emit_across(self) -> None:
        """Vectors across the axis: each lane has a separate softmax."""
        b, inner = self.b, self.inner
        if not isinstance(inner, int):
            with b.loop("column", 0, inner, b.lanes) as column:
                count = b.min(b.sub(inner, column.index), b.lanes)
                self._emit_columns(column.index, count)
            return
        whole = inner - inner % b.lanes
        if whole:
            with b.loop("column", 0, whole, b.lanes) as column:
                self._emit_columns(column.index, b.lanes)
        if inner % b.lanes:
            self._emit_columns(whole, inner % b.lanes)

    def _emit_columns(self, column: Index, lanes: Index) -> None:
        b, spec, math = self.b, self.spec, self.math
        limit = None
        if self.length is not None:
            raw = read_vector(b, self.length, column, 1, lanes, spec.length)
            limit = self._limit(converted(b, raw, spec.length, "int64"))

        def mask(k: Index) -> Value | None:
            """The columns with an element ``k``; None for all of them."""
            if limit is None:
                return None
            return b.b.icmp_signed("<", b.splat(b.b.trunc(b.i64(k), I32)), limit)

        def over(start: Value, combine: Callable[..., Value]) -> Value:
            with b.loop("k", 0, self.size, carry=[start]) as k:
                at = b.add(b.mul(k.index, self.inner), column)
                k.yields([combine(k.carried[0], self._read(at, lanes), k.index)])
            return k.results[0]

        top = over(
            self._constant(LOWEST),
            lambda acc, v, k: self._larger(self._kept(v, mask(k), LOWEST), acc),
        )

        def added(acc: Value, v: Value, k: Index) -> Value:
            power = self._kept(self._exp(v, top), mask(k), 0.0)
            if self._keeps_powers:
                at = b.add(b.mul(k, self.inner), column)
                write_vector(b, power, self.y, at, 1, lanes, spec.dtype)
            return math.add(acc, power)

        total = over(self._constant(0.0), added)
        factor = math.div(self._constant(1.0), total)
        log_total = math.log(total) if spec.how is Form.LOG_SOFTMAX else None
        with b.loop("k", 0, self.size) as k:
            at = b.add(b.mul(k.index, self.inner), column)
            if self._keeps_powers:
                value = math.mul(read_vector(b, self.y, at, 1, lanes, spec.dtype), factor)
            else:
                value = self._result(self._read(at, lanes), top, total, log_total)
            value = self._kept(value, mask(k.index), 0.0)
            write_vector(b, value, self.y, at, 1, lanes, spec.dtype)

    def _read(self, index: Index, lanes: Index) -> Value:
        if self.spec.bytes_.source and not self.is_read:
            value = read_row(self.b, self.spec.bytes_, self.x, index, lanes)
            write_vector(self.b, value, self.powers, index, 1, lanes)
            return value
        value = read_vector(self.b, self.x, index, 1, lanes, self.spec.dtype)
        return self.math.neg(value) if self.spec.how is Form.SOFTMIN else value

    def _larger(self, value: Value, top: Value) -> Value:
        """The larger value, by one instruction; ``top`` for NaN, which its power shows."""
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
register("byte_softmax", choose_softmax, {SoftmaxSpec: emit_softmax})
