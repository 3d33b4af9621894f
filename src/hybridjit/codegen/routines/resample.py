"""Resizing of images: every new cell is a weighted sum of a few old ones, axis by axis.

The results are those of ``ops/vision/interpolation.py``, bit for bit. A line of the image is summed
along its columns once and kept until no further row of the result needs it. Products and sums of
floats are rounded one by one, in the order of the taps.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._core.frozen import dataclass
from ..kinds.parts.arguments import Arguments
from ..llvm import ir
from ..llvm.builder import Loop, LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import F32, I8, I32, I64, Type, Value, constant_of, vector_of
from ..spec import KernelSpec

# Lanes of a vector that holds a pixel of 3 or 4 channels.
_PIXEL = 4
# Adding it rounds a float32 below 2**22 to the nearest integer, ties to even.
_MAGIC = 1.5 * 2.0**23
_CUT_BITS, _PRODUCT_BITS, _LAST_BITS = 4, 16, 2
_FIXED_BITS = 22


@dataclass(frozen=True)
class ResampleSpec(KernelSpec):
    """Arguments: x, its last line with room for a pixel more, y, lines, cells and weights of
    columns, cells and weights of rows; then batch, rows, columns, height, width, channels, taps of
    columns, taps of rows, and the number of kept lines, a power of two, minus 1.

    source    the element type of x and y
    how       ``cut``: sums of integers, of which bits are dropped between the axes;
              ``single``: integers along columns, float32 along rows; ``whole``: integers, rounded
              once; ``float``: float32
    across    terms of each sum along columns; 0 if the call gives them
    down      the same along rows
    channels  elements of a pixel; 0 if the call gives them
    """

    source: str
    how: str
    across: int
    down: int
    channels: int
    kind = "resample"


@dataclass(frozen=True)
class NearestSpec(KernelSpec):
    """Arguments: x, y, cells of columns (in bytes), cells of rows; then batch, rows, columns,
    height, width.

    pixel  bytes of a pixel
    """

    pixel: int
    kind = "nearest"


def emit_resample(b: LoopBuilder, spec: ResampleSpec, args: Arguments) -> None:
    """y = x resized."""
    _Resample(b, spec, args).emit()


class _Resample:
    def __init__(self, b: LoopBuilder, spec: ResampleSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        names = ("x", "last", "y", "lines", "column", "column_weights", "row", "row_weights")
        pointers = {name: args.pointer(name, "uint8") for name in names}
        self.x, self.last, self.y, self.lines, *tables = pointers.values()
        self.columns_at, self.column_weights, self.rows_at, self.row_weights = tables
        sizes = ("batch", "rows", "columns", "height", "width", "channels", "across", "down")
        numbers = {name: args.integer(name) for name in sizes}
        self.batch, self.rows, self.columns, self.height, self.width, given, *taps = (
            numbers.values()
        )
        self.mask = args.integer("mask")
        self.channels: Index = spec.channels or given
        self.across, self.down = (
            known or count for known, count in zip((spec.across, spec.down), taps)
        )
        self.source: Type = I8 if spec.source == "uint8" else F32
        self.line: Type = F32 if spec.how == "float" else I32
        self.line_size = b.add(b.mul(self.width, self.channels), _PIXEL)

    def emit(self) -> None:
        b = self.b
        size = b.mul(self.columns, self.channels)
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            image = b.at(self.x, b.mul(unit.index, b.mul(self.rows, size)), self.source)
            is_last = b.equal(unit.index, b.sub(self.batch, 1))
            with b.loop("row", 0, self.height, carry=[b.i64(0)]) as row:
                first = b.mul(row.index, self.down)
                start = b.load_scalar(self.rows_at, first, I64)
                final = b.load_scalar(self.rows_at, b.add(first, b.sub(self.down, 1)), I64)
                stop = b.add(final, 1)
                with b.loop("line", b.max(row.carried[0], start), stop) as line:
                    ends = b.b.and_(is_last, b.equal(line.index, b.sub(self.rows, 1)))
                    source = b.at(image, b.mul(line.index, size), self.source)
                    self._emit_line(b.b.select(ends, self.last, source), line.index)
                number = b.add(b.mul(unit.index, self.height), row.index)
                self._emit_row(first, number)
                row.yields([b.max(row.carried[0], stop)])

    def _line_at(self, number: Index) -> Value:
        b = self.b
        kept = b.b.and_(b.i64(number), self.mask)
        return b.at(self.lines, b.mul(kept, self.line_size), self.line)

    # --- along columns ---

    def _emit_line(self, source: Value, number: Index) -> None:
        b, target = self.b, self._line_at(number)
        with b.loop("column", 0, self.width) as column:
            at = b.mul(column.index, self.channels)
            if self.spec.channels in (3, 4):
                total = self._sum_pixel(source, column, 0, _PIXEL)
                b.store(total, b.at(target, at, self.line))
            else:
                with b.loop("channel", 0, self.channels) as channel:
                    total = self._sum_pixel(source, column, channel.index, 1)
                    b.store(total, b.at(target, b.add(at, channel.index), self.line))

    def _sum_pixel(self, source: Value, column: Loop, channel: Index, lanes: int) -> Value:
        b, first = self.b, self.b.mul(column.index, self.across)
        kind = self.line if lanes == 1 else vector_of(self.line, lanes)

        def term(tap: Index) -> Value:
            place = b.add(first, tap)
            cell = b.b.sext(b.load_scalar(self.columns_at, place, I32), I64)
            weight = b.load_scalar(self.column_weights, place, self.line)
            read = self.source if lanes == 1 else vector_of(self.source, lanes)
            address = b.at(source, b.add(cell, channel), self.source)
            pixel = b.b.load(address, typ=read, align=1 if self.source is I8 else 4)
            return self._product(self._as_line(pixel, kind), b.spread(weight, lanes))

        return self._sum(self.across, term, kind)

    def _as_line(self, pixel: Value, kind: Type) -> Value:
        if self.source is F32:
            return pixel
        convert = self.b.b.uitofp if self.line is F32 else self.b.b.zext
        return convert(pixel, kind)

    def _product(self, x: Value, weight: Value) -> Value:
        return self.b.b.fmul(x, weight) if self.line is F32 else self.b.b.mul(x, weight)

    def _sum(self, taps: Index, term: Callable[[Index], Value], kind: Type) -> Value:
        """The sum of the terms from the first to the last; beginning with 0 for given counts."""
        b = self.b
        plus = b.b.fadd if is_float_type(kind) else b.b.add
        if isinstance(taps, int):
            total = term(0)
            if self.source is F32:  # the sum of products -0.0 is 0.0
                total = plus(constant_of(kind, 0), total)
            for number in range(1, taps):
                total = plus(total, term(number))
            return total
        with b.loop("tap", 0, taps, carry=[constant_of(kind, 0)]) as tap:
            tap.yields([plus(tap.carried[0], term(tap.index))])
        summed: Value = tap.results[0]
        return summed

    # --- along rows ---

    def _emit_row(self, first: Index, number: Index) -> None:
        b = self.b
        size = b.mul(self.width, self.channels)
        target = b.at(self.y, b.mul(number, size), self.source)
        whole = b.sub(size, b.divmod(size, b.lanes)[1])
        for name, start, stop, lanes in (
            ("vector", 0, whole, b.lanes),
            ("single", whole, size, 1),
        ):
            with b.loop(name, start, stop, lanes) as place:
                value = self._value(first, place.index, lanes)
                address = b.at(target, place.index, self.source)
                b.b.store(value, address, align=1 if self.source is I8 else 4)

    def _value(self, first: Index, place: Index, lanes: int) -> Value:
        b, how = self.b, self.spec.how
        wide = self.line if lanes == 1 else vector_of(self.line, lanes)
        summed: Type = F32 if how in ("single", "float") else I32
        kind = summed if lanes == 1 else vector_of(summed, lanes)

        def term(tap: Index) -> Value:
            at = b.add(first, tap)
            line = self._line_at(b.load_scalar(self.rows_at, at, I64))
            address = b.at(line, place, self.line)
            x = b.b.load(address, typ=wide, align=4)
            weight = b.spread(b.load_scalar(self.row_weights, at, summed), lanes)
            return self._row_term(x, weight, kind)

        return self._rounded(self._sum(self.down, term, kind), kind, lanes)

    def _row_term(self, x: Value, weight: Value, kind: Type) -> Value:
        b, how = self.b.b, self.spec.how
        if how == "float":
            return b.fmul(x, weight)
        if how == "single":
            return b.fmul(b.sitofp(x, kind), weight)
        if how == "whole":
            return b.mul(x, weight)
        cut = b.ashr(x, constant_of(kind, _CUT_BITS))
        return b.ashr(b.mul(cut, weight), constant_of(kind, _PRODUCT_BITS))

    def _rounded(self, total: Value, kind: Type, lanes: int) -> Value:
        b, how = self.b.b, self.spec.how
        if self.source is F32:
            return total
        whole = I32 if lanes == 1 else vector_of(I32, lanes)
        if how in ("single", "float"):
            magic = constant_of(kind, _MAGIC)
            total = b.fptosi(b.fsub(b.fadd(total, magic), magic), whole)
        else:
            bits = _FIXED_BITS if how == "whole" else _LAST_BITS
            half = constant_of(kind, 1 << (bits - 1))
            total = b.ashr(b.add(total, half), constant_of(kind, bits))
        zero, most = constant_of(whole, 0), constant_of(whole, 255)
        total = b.select(b.icmp_signed("<", total, zero), zero, total)
        total = b.select(b.icmp_signed(">", total, most), most, total)
        return b.trunc(total, I8 if lanes == 1 else vector_of(I8, lanes))


def is_float_type(kind: Type) -> bool:
    """Whether a scalar or vector type is of float32."""
    return F32 in (kind, getattr(kind, "element", None))


def emit_nearest(b: LoopBuilder, spec: NearestSpec, args: Arguments) -> None:
    """y = for each cell the pixel of x that the tables select."""
    x, y, columns_at, rows_at = (args.pointer(name, "uint8") for name in ("x", "y", "c", "r"))
    batch, rows, columns, height, width = (
        args.integer(name) for name in ("batch", "rows", "columns", "height", "width")
    )
    with b.each_unit(b.mul(batch, height), args.share, args.shares) as unit:
        image, row = b.divmod(unit.index, height)
        line = b.add(b.mul(image, rows), b.load_scalar(rows_at, row, I64))
        source = b.at(x, b.mul(line, b.mul(columns, spec.pixel)), I8)
        target = b.at(y, b.mul(unit.index, b.mul(width, spec.pixel)), I8)
        with b.loop("column", 0, width) as column:
            cell = b.b.sext(b.load_scalar(columns_at, column.index, I32), I64)
            out = b.at(target, b.mul(column.index, spec.pixel), I8)
            _move(b, b.at(source, cell, I8), out, spec.pixel)


def _move(b: LoopBuilder, source: Value, target: Value, nbytes: int) -> None:
    """Copy ``nbytes`` bytes, in powers of two."""
    done = 0
    while done < nbytes:
        size = 1 << ((nbytes - done).bit_length() - 1)
        kind: Type = ir.IntType(8 * min(size, 8))
        value = b.b.load(b.at(source, done, I8), typ=kind, align=1)
        b.b.store(value, b.at(target, done, I8), align=1)
        done += min(size, 8)
