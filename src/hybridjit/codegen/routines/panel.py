"""In-place LU factorization of panels, the first columns of matrices, with partial pivoting.

A unit of work is a matrix. Each step selects the element of largest magnitude at or below the
diagonal of a column as its pivot, exchanges two rows, and subtracts multiples of the pivot's row
from the rows below; the factors overwrite the column. Rows are processed in vectors.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, Value
from ..spec import KernelSpec

_VECTORS = 4
# Bounds of loops over a panel, which are too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class PanelSpec(KernelSpec):
    """Factorization of panels.

    Arguments: panels (N, m, w) with w <= m, orders (N, m) of int64, whose elements are exchanged
    together with the rows; then N, m, w.
    """

    dtype: str
    kind = "panel"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_panel(b: LoopBuilder, spec: PanelSpec, args: Arguments) -> None:
    """Emit the factorization of all panels."""
    _Panel(b, args).emit()


class _Panel:
    def __init__(self, b: LoopBuilder, args: Arguments) -> None:
        self.b, self.args = b, args
        self.panels, self.orders = args.pointer("panels"), args.pointer("orders", "int64")
        self.batch, self.m, self.w = map(args.integer, ("batch", "m", "w"))

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            line = b.mul(unit.index, self.m)
            self.panel = b.at(self.panels, b.mul(line, self.w))
            self.order = b.at(self.orders, line, I64)
            with b.loop("step", 0, self.w) as step:
                place = self._found_pivot(step.index)
                self._exchange(step.index, place)
                self._divide(step.index)
                self._subtract(step.index)

    def _row(self, row: Index) -> Value:
        return self.b.at(self.panel, self.b.mul(row, self.w))

    def _found_pivot(self, step: Value) -> Value:
        """Find the row of the pivot."""
        b = self.b
        start = [b.number(-1.0), b.i64(step)]
        with b.loop("row", step, self.m, carry=start, **_FEW) as row:
            size = b.intrinsic("fabs", b.load_scalar(self._row(row.index), step))
            best, place = row.carried
            is_better = b.b.fcmp_ordered(">", size, best)
            row.yields([b.b.select(is_better, size, best), b.b.select(is_better, row.index, place)])
        return row.results[1]

    def _exchange(self, step: Value, place: Value) -> None:
        b = self.b
        own, other = self._row(step), self._row(place)
        with b.loop("column", 0, self.w, b.lanes, **_FEW) as column:
            at = column.index, b.mask_first(b.min(b.sub(self.w, column.index), b.lanes))
            x, y = b.load_masked(own, *at), b.load_masked(other, *at)
            b.store_masked(y, own, *at)
            b.store_masked(x, other, *at)
        one, two = (b.at(self.order, row, I64) for row in (step, place))
        first, second = (b.b.load(address, typ=I64, align=8) for address in (one, two))
        b.b.store(second, one, align=8)
        b.b.store(first, two, align=8)

    def _divide(self, step: Value) -> None:
        """Divide the column below the pivot by the pivot; the factors are 0 for a pivot of 0."""
        b, zero = self.b, self.b.number(0.0)
        pivot = b.load_scalar(self._row(step), step)
        share = b.b.fdiv(b.number(1.0), pivot)
        share = b.b.select(b.b.fcmp_ordered("==", pivot, zero), zero, share)
        with b.loop("below", b.add(step, 1), self.m, **_FEW) as row:
            line = self._row(row.index)
            b.store(b.b.fmul(b.load_scalar(line, step), share), line, step)

    def _subtract(self, step: Value) -> None:
        """Subtract multiples of the pivot's row, held in registers, for each block of columns."""
        b = self.b
        after = b.add(step, 1)
        with b.loop("columns", after, self.w, _VECTORS * b.lanes, **_FEW) as columns:
            places = [b.add(columns.index, b.lanes * i) for i in range(_VECTORS)]
            masks = [b.mask_first(b.min(b.sub(self.w, at), b.lanes)) for at in places]
            block = list(zip(places, masks))
            top = [b.load_masked(self._row(step), *at) for at in block]
            with b.loop("other", after, self.m, **_FEW) as row:
                line = self._row(row.index)
                factor = b.splat(b.b.fneg(b.load_scalar(line, step)))
                for x, at in zip(top, block):
                    b.store_masked(b.fma(factor, x, b.load_masked(line, *at)), line, *at)
