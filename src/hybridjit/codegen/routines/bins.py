"""Bins of regions on whole pixels: means and maxima, and their gradients.

A unit of work is a region. Tables computed by the reference contain the cells of each bin.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64, Value
from ..spec import KernelSpec

# Bounds of the loops over the cells of a bin, which are too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class BinsSpec(KernelSpec):
    """Pooling of regions into bins.

    Arguments: data (N, C * groups^2, H, W), bins (R, C, ph, pw), gradients like the data, images of
    regions (R), rows of bins (R, ph, 2), columns (R, pw, 2); then R, C, H, W, ph, pw, groups.

    how  ``mean`` and ``max`` write the bins; ``mean_back`` and ``max_back`` read them and add to
         the gradients: a mean's to all cells, a maximum's to the first of the largest
    Bins without cells and regions without an image are skipped.
    """

    how: str
    dtype: str
    kind = "bins"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_bins(b: LoopBuilder, spec: BinsSpec, args: Arguments) -> None:
    """Emit all bins of all regions."""
    _Bins(b, spec, args).emit()


class _Bins:
    def __init__(self, b: LoopBuilder, spec: BinsSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        self.data, self.bins, self.back = map(args.pointer, ("data", "bins", "back"))
        self.images, self.rows_at, self.columns_at = (
            args.pointer(name, "int64") for name in ("images", "rows", "columns")
        )
        names = ("regions", "channels", "height", "width", "ph", "pw", "groups")
        self.regions, self.channels, self.height, self.width, *rest = map(args.integer, names)
        self.ph, self.pw, self.groups = rest

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.regions, self.args.share, self.args.shares) as region:
            image = b.load_scalar(self.images, region.index, I64)
            there = b.b.icmp_signed(">=", image, b.i64(0))
            with b.when(there), b.loop("i", 0, self.ph) as i, b.loop("j", 0, self.pw) as j:
                rows = self._span(self.rows_at, b.add(b.mul(region.index, self.ph), i.index))
                columns = self._span(self.columns_at, b.add(b.mul(region.index, self.pw), j.index))
                has_cells = b.b.and_(b.less(*rows), b.less(*columns))
                with b.when(has_cells), b.loop("channel", 0, self.channels) as channel:
                    plane = self._plane(image, channel.index, i.index, j.index)
                    number = b.add(b.mul(region.index, self.channels), channel.index)
                    row = b.add(b.mul(number, self.ph), i.index)
                    place = b.add(b.mul(row, self.pw), j.index)
                    self._bin(plane, place, rows, columns)

    def _span(self, table: Value, place: Value) -> tuple[Value, Value]:
        b = self.b
        first = b.mul(place, 2)
        return b.load_scalar(table, first, I64), b.load_scalar(table, b.add(first, 1), I64)

    def _plane(self, image: Value, channel: Value, i: Value, j: Value) -> Value:
        """Index of the first cell of the plane that the bin's group reads."""
        b = self.b
        own = b.add(b.mul(image, self.channels), channel)
        for place, count in ((i, self.ph), (j, self.pw)):
            group = b.b.udiv(b.mul(place, self.groups), count)
            own = b.add(b.mul(own, self.groups), group)
        return b.mul(own, b.mul(self.height, self.width))

    def _bin(
        self, plane: Value, place: Value, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> None:
        b, how = self.b, self.spec.how
        if how.startswith("max"):
            value, cell = self._largest(plane, rows, columns)
            if how == "max":
                b.store(value, self.bins, place)
            else:
                self._add(cell, b.load_scalar(self.bins, place))
            return
        count = b.mul(b.sub(rows[1], rows[0]), b.sub(columns[1], columns[0]))
        size = b.b.sitofp(count, b.element)
        if how == "mean":
            b.store(b.b.fdiv(self._sum(plane, rows, columns), size), self.bins, place)
            return
        share = b.b.fdiv(b.load_scalar(self.bins, place), size)
        with b.loop("row", *rows, **_FEW) as row, b.loop("column", *columns, **_FEW) as column:
            self._add(self._cell(plane, row.index, column.index), share)

    def _cell(self, plane: Value, row: Value, column: Value) -> Value:
        b = self.b
        return b.add(plane, b.add(b.mul(row, self.width), column))

    def _add(self, cell: Value, value: Value) -> None:
        b = self.b
        b.store(b.b.fadd(b.load_scalar(self.back, cell), value), self.back, cell)

    def _sum(self, plane: Value, rows: tuple[Value, Value], columns: tuple[Value, Value]) -> Value:
        b = self.b
        with b.loop("row", *rows, carry=[b.number(0)], **_FEW) as row:
            with b.loop("column", *columns, carry=row.carried, **_FEW) as column:
                x = b.load_scalar(self.data, self._cell(plane, row.index, column.index))
                column.yields([b.b.fadd(column.carried[0], x)])
            row.yields(column.results)
        total: Value = row.results[0]
        return total

    def _largest(
        self, plane: Value, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> tuple[Value, Value]:
        """The first maximum and its cell; NaN counts as the maximum."""
        b = self.b
        start = self._cell(plane, rows[0], columns[0])
        first = [b.load_scalar(self.data, start), start]
        with b.loop("row", *rows, carry=first, **_FEW) as row:
            with b.loop("column", *columns, carry=row.carried, **_FEW) as column:
                best, where = column.carried
                cell = self._cell(plane, row.index, column.index)
                x = b.load_scalar(self.data, cell)
                is_nan = b.b.fcmp_unordered("uno", x, x)
                is_number = b.b.fcmp_ordered("ord", best, best)
                larger = b.b.or_(b.b.fcmp_ordered(">", x, best), b.b.and_(is_nan, is_number))
                column.yields([b.b.select(larger, x, best), b.b.select(larger, cell, where)])
            row.yields(column.results)
        value, cell = row.results
        return value, cell
