"""Gradient of bilinear resizing: every cell of an image sums the cells that were read from it.

A unit of work is a plane. Along each axis, the cells that read a cell as their lower neighbour are
adjacent, and so are those that read it as their upper neighbour: the two sums are computed apart,
each in order, and added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64, Value
from ..spec import KernelSpec

# Of the loops over a cell's readers: they are too short to poll inside.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}
Term = Callable[[Value], tuple[Value, Value]]


@dataclass(frozen=True)
class ResizeBackSpec(KernelSpec):
    """Arguments: heads (planes, new rows, new columns), result (planes, rows, columns), a line of
    new columns; for rows, then for columns: the first reader of each cell as lower and as upper
    neighbour, int64 (2, cells + 1), and the share of the upper neighbour of each reader; then
    planes, rows, columns, new rows, new columns.
    """

    dtype: str
    kind = "resize_back"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_resize_back(b: LoopBuilder, spec: ResizeBackSpec, args: Arguments) -> None:
    """All planes."""
    _ResizeBack(b, args).emit()


class _ResizeBack:
    def __init__(self, b: LoopBuilder, args: Arguments) -> None:
        self.b, self.args = b, args
        self.heads, self.result, self.line = map(args.pointer, ("heads", "result", "line"))
        self.row_readers = args.pointer("row_readers", "int64")
        self.row_shares = args.pointer("row_shares")
        self.column_readers = args.pointer("column_readers", "int64")
        self.column_shares = args.pointer("column_shares")
        names = ("planes", "rows", "columns", "new_rows", "new_columns")
        self.planes, self.rows, self.columns, self.new_rows, self.new_columns = map(
            args.integer, names
        )

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.planes, self.args.share, self.args.shares) as plane:
            size = b.mul(self.new_rows, self.new_columns)
            heads = b.at(self.heads, b.mul(plane.index, size))
            with b.loop("row", 0, self.rows) as row:
                self._emit_line(heads, row.index)
                number = b.add(b.mul(plane.index, self.rows), row.index)
                target = b.at(self.result, b.mul(number, self.columns))
                with b.loop("column", 0, self.columns) as column:
                    total = self._sum_cell(column.index)
                    b.store(total, target, column.index)

    def _emit_line(self, heads: Value, row: Value) -> None:
        """The sums of a row along the first axis, for all new columns."""
        b = self.b
        with b.loop("place", 0, self.new_columns, b.lanes) as place:
            mask = b.mask_first(b.sub(self.new_columns, place.index))

            def term(reader: Value) -> tuple[Value, Value]:
                line = b.at(heads, b.mul(reader, self.new_columns))
                share = b.load_scalar(self.row_shares, reader)
                return b.load_masked(line, place.index, mask), b.splat(share)

            tables = (self.row_readers, self.rows)
            total = self._both(*tables, row, term, b.splat(b.number(0)), b.splat(b.number(1)))
            b.store_masked(total, self.line, place.index, mask)

    def _sum_cell(self, column: Value) -> Value:
        b = self.b

        def term(reader: Value) -> tuple[Value, Value]:
            return b.load_scalar(self.line, reader), b.load_scalar(self.column_shares, reader)

        tables = (self.column_readers, self.columns)
        return self._both(*tables, column, term, b.number(0), b.number(1))

    def _both(
        self, readers: Value, cells: Value, cell: Value, term: Term, zero: Value, one: Value
    ) -> Value:
        """The sums of both kinds of readers of a cell, added."""
        b = self.b
        sums = []
        for is_upper in (False, True):
            place = b.add(cell, b.add(cells, 1)) if is_upper else cell
            first = b.load_scalar(readers, place, I64)
            stop = b.load_scalar(readers, b.add(place, 1), I64)
            with b.loop("reader", first, stop, carry=[zero], **_FEW) as reader:
                x, share = term(reader.index)
                weight = share if is_upper else b.b.fsub(one, share)
                reader.yields([b.b.fadd(reader.carried[0], b.b.fmul(x, weight))])
            sums.append(reader.results[0])
        total: Value = b.b.fadd(*sums)
        return total
