"""Selection by index: runs of elements copied from or to indexed positions.

An index is brought into its range before an address is computed, so that memory outside the data is
never accessed. Where the reference raises an error, the kernel raises a flag instead.
"""

from __future__ import annotations

from collections.abc import Callable

from ...llvm import ir
from ...llvm.builder import LoopBuilder
from ...llvm.elements import ELEMENTS, converted, held
from ...llvm.indices import Index
from ...llvm.types import Type, Value, constant_of
from ..parts.arguments import Arguments
from ..parts.partial import each_vector
from .spec import GatherSpec, OneHotSpec, Outside, ScatterSpec, Selection


def emit_gather(b: LoopBuilder, spec: GatherSpec, args: Arguments) -> None:
    """y[run] = data[source of the run], or the fill value of ``mask``."""
    _Gather(b, spec, args).emit()


class _Gather:
    def __init__(self, b: LoopBuilder, spec: GatherSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        names = ("data", "index", "y", "flag")
        self.data, self.index, self.y, self.flag = (args.pointer(n) for n in names)
        self.runs, self.samples = args.integer("runs"), args.integer("samples")
        self.spec = args.sized(spec)
        self.element = ELEMENTS[spec.moved].stored

    def emit(self) -> None:
        b, spec = self.b, self.spec
        with b.each_unit(self.runs, self.args.share, self.args.shares) as row:
            target = b.at(self.y, b.mul(row.index, spec.run), self.element)
            if spec.how is Selection.MASK:
                self._emit_masked(row.index, target)
            else:
                source = getattr(self, f"_{spec.how}")(row.index)
                copy_run(b, b.at(self.data, source, self.element), target, spec.run, self.element)

    def _number(self, at: Index) -> Value:
        return load_index(self.b, self.index, at, self.spec.index)

    def _within(self, index: Value, size: Index, mode: Outside = Outside.CLIP) -> Value:
        return bring_within(self.b, index, size, mode, self.flag)

    def _take(self, row: Value) -> Index:
        """(outer, index) of a run; its source is that index along the axis."""
        b, spec = self.b, self.spec
        outer, at = b.divmod(row, spec.count) if spec.count != 0 else (0, row)
        chosen = self._within(self._number(at), spec.size, spec.mode)
        return b.mul(b.add(b.mul(outer, spec.size), chosen), spec.run)

    def _pick(self, row: Value) -> Index:
        b, spec = self.b, self.spec
        outer, place = b.divmod(row, spec.inner)
        number = load_index(b, self.index, row, spec.index, "int32")  # MXNet's pick takes a C int
        chosen = self._within(number, spec.size, spec.mode)
        return b.add(b.mul(b.add(b.mul(outer, spec.size), chosen), spec.inner), place)

    def _nd(self, row: Value) -> Index:
        b, spec = self.b, self.spec
        at: Index = 0
        for axis, size in enumerate(spec.sizes):
            number = self._number(b.add(b.mul(self.runs, axis), row))
            at = b.add(b.mul(at, size), self._within(number, size, Outside.NEGATIVE))
        return b.mul(at, spec.run)

    # --- sequences: steps and samples in either order ---

    def _at(self, step: Index, sample: Index) -> Index:
        b, spec = self.b, self.spec
        if spec.batch_first:
            return b.mul(b.add(b.mul(sample, spec.size), step), spec.run)
        return b.mul(b.add(b.mul(step, self.samples), sample), spec.run)

    def _place(self, row: Value) -> tuple[Index, Index]:
        """Step and sample of a run."""
        b = self.b
        if self.spec.batch_first:
            sample, step = b.divmod(row, self.spec.size)
            return step, sample
        step = b.b.udiv(row, self.samples)
        return step, b.sub(row, b.mul(step, self.samples))

    def _last(self, row: Value) -> Index:
        length = self.b.max(self.b.min(self._number(row), self.spec.size), 1)
        return self._at(self.b.sub(length, 1), row)

    def _reverse(self, row: Value) -> Index:
        b = self.b
        step, sample = self._place(row)
        length = b.max(b.min(self._number(sample), self.spec.size), 0)
        mirrored = b.sub(b.sub(length, 1), step)
        return self._at(b.b.select(b.less(step, length), mirrored, b.i64(step)), sample)

    def _emit_masked(self, row: Value, target: Value) -> None:
        b, spec = self.b, self.spec
        step, sample = self._place(row)
        is_inside = b.less(step, self._number(sample))
        with b.b.if_else(is_inside) as (inside, beyond):
            with inside:
                source = b.at(self.data, b.mul(row, spec.run), self.element)
                copy_run(b, source, target, spec.run, self.element)
            with beyond:
                fill_run(b, target, spec.run, self.element, spec.fill)


def emit_scatter(b: LoopBuilder, spec: ScatterSpec, args: Arguments) -> None:
    """y = base, then y[index[i]] = data[i] in order, or y[index[i]] += data[i].

    Each thread has a separate part of y.
    """
    data, index = args.pointer("data"), args.pointer("index")
    base = args.pointer("base") if spec.has_base else None
    y, flag, count = args.pointer("y"), args.pointer("flag"), args.integer("count")
    spec = args.sized(spec)
    element = ELEMENTS[spec.moved].stored
    total = b.product(spec.sizes)
    begin, end = b.share(total, args.share, args.shares)
    with b.loop("row", begin, end) as row:
        target = b.at(y, b.mul(row.index, spec.run), element)
        if base is None:
            fill_run(b, target, spec.run, element, 0)
        else:
            copy_run(b, b.at(base, b.mul(row.index, spec.run), element), target, spec.run, element)
    with b.loop("i", 0, count) as i:
        at: Index = 0
        for axis, size in enumerate(spec.sizes):
            number = load_index(b, index, b.add(b.mul(count, axis), i.index), spec.index)
            at = b.add(b.mul(at, size), bring_within(b, number, size, Outside.NEGATIVE, flag))
        is_mine = b.b.and_(b.b.icmp_signed(">=", b.i64(at), begin), b.less(at, end))
        with b.when(is_mine):
            source = b.at(data, b.mul(i.index, spec.run), element)
            move = add_run if spec.adds else copy_run
            move(b, source, b.at(y, b.mul(at, spec.run), element), spec.run, element)


def emit_one_hot(b: LoopBuilder, spec: OneHotSpec, args: Arguments) -> None:
    """y[row] = off, except on at index[row] if that is in range."""
    index, y, rows = args.pointer("index"), args.pointer("y"), args.integer("rows")
    spec = args.sized(spec)
    element = ELEMENTS[spec.dtype].stored
    with b.each_unit(rows, args.share, args.shares) as row:
        target = b.at(y, b.mul(row.index, spec.depth), element)
        fill_run(b, target, spec.depth, element, spec.off)
        place = load_index(b, index, row.index, spec.index)
        with b.when(b.b.icmp_unsigned("<", place, b.i64(spec.depth))):
            b.store(ir.Constant(element, spec.on), target, place)


def load_index(b: LoopBuilder, pointer: Value, at: Index, dtype: str, kind: str = "int64") -> Value:
    """Element ``at`` as a 64-bit integer; the smallest one of ``kind`` for NaN and out of range."""
    raw = held(b, b.load_scalar(pointer, at, ELEMENTS[dtype].stored), dtype)
    return converted(b, converted(b, raw, dtype, kind), kind, "int64")


def bring_within(b: LoopBuilder, index: Value, size: Index, mode: Outside, flag: Value) -> Value:
    """An index in [0, size): clipped, wrapped around, or 0 with the flag raised."""
    if mode is Outside.CLIP:
        return b.max(b.min(index, b.sub(size, 1)), 0)
    if mode is Outside.WRAP:
        rest = b.b.srem(index, b.i64(size))
        return b.b.select(b.less(rest, 0), b.add(rest, size), rest)
    if mode is Outside.NEGATIVE:
        index = b.b.select(b.less(index, 0), b.b.add(index, b.i64(size)), index)
    is_inside = b.b.icmp_unsigned("<", index, b.i64(size))
    with b.when(b.b.not_(is_inside)):
        b.b.store(b.i64(1), flag, align=8)
    return b.b.select(is_inside, index, b.i64(0))


def copy_run(b: LoopBuilder, source: Value, target: Value, run: Index, element: Type) -> None:
    """target[0:run] = source[0:run], full vectors and a partial one."""

    def one(at: Index, lanes: int) -> None:
        if run == 1:
            b.store(b.load_scalar(source, at, element), target, at)
        else:
            b.store_first(b.load_first(source, at, lanes, element), target, at, lanes)

    _each_vector(b, run, one)


def add_run(b: LoopBuilder, source: Value, target: Value, run: Index, element: Type) -> None:
    """target[0:run] += source[0:run], for elements whose stored and held types are equal."""
    add = b.b.add if isinstance(element, ir.IntType) else b.b.fadd

    def one(at: Index, lanes: int) -> None:
        if run == 1:
            b.store(add(*(b.load_scalar(p, at, element) for p in (target, source))), target, at)
            return
        old, more = (b.load_first(p, at, lanes, element) for p in (target, source))
        b.store_first(add(old, more), target, at, lanes)

    _each_vector(b, run, one)


def fill_run(b: LoopBuilder, target: Value, run: Index, element: Type, value: float) -> None:
    """target[0:run] = value."""
    vector = constant_of(b.vector_type(element=element), value)

    def one(at: Index, lanes: int) -> None:
        b.store_first(vector, target, at, lanes)

    _each_vector(b, run, one)


def _each_vector(b: LoopBuilder, run: Index, body: Callable[[Index, int], None]) -> None:
    if not isinstance(run, int):
        each_vector(b, run, body)
        return
    whole = run - run % b.lanes
    if whole == b.lanes:
        body(0, b.lanes)
    elif whole:
        with b.loop("i", 0, whole, b.lanes) as i:
            body(i.index, b.lanes)
    if run > whole:
        body(whole, run - whole)
