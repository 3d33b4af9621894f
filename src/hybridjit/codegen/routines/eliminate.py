"""Gauss-Jordan elimination with partial pivoting: in-place inverses, or the pivots only.

A unit of work is a square matrix. Each step selects the element of largest magnitude at or below
the diagonal of a column as its pivot, exchanges two rows, and subtracts multiples of the pivot's
row from the other rows. Rows are processed in vectors.
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

_VECTORS = 2
# Bounds of loops over a matrix, which are too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class EliminateSpec(KernelSpec):
    """Elimination of matrices.

    Arguments: matrices (N, n, n), pivots (N, n), negated where rows were exchanged, scratch memory
    (N, n), the pivots' rows (N, n) of int64; then N, n.

    how  ``inverse``: the matrices are replaced by their inverses; ``pivots``: their contents are
         undefined afterwards
    """

    how: str
    element: ElementTypes = TYPES_OF["float64"]
    kind = "eliminate"


def emit_eliminate(b: LoopBuilder, spec: EliminateSpec, args: Arguments) -> None:
    """Emit the elimination of all matrices."""
    _Elimination(b, spec, args).emit()


class _Elimination:
    def __init__(self, b: LoopBuilder, spec: EliminateSpec, args: Arguments) -> None:
        self.b, self.args, self.is_inverse = b, args, spec.how == "inverse"
        self.matrices, self.pivots, self.factors = map(
            args.pointer, ("matrices", "pivots", "factors")
        )
        self.places = args.pointer("places", "int64")
        self.batch, self.n = args.integer("batch"), args.integer("n")

    def emit(self) -> None:
        b, n = self.b, self.n
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            line = b.mul(unit.index, n)
            self.matrix = b.at(self.matrices, b.mul(line, n))
            self.own_pivots, self.own_factors = (
                b.at(base, line) for base in (self.pivots, self.factors)
            )
            self.own_places = b.at(self.places, line, I64)
            with b.loop("step", 0, n) as step:
                place = self._found_pivot(step.index)
                self._eliminate(step.index, place, self._taken(step.index, place))
            if self.is_inverse:
                with b.loop("back", 0, n) as back:
                    self._exchange_columns(b.sub(b.sub(n, 1), back.index))

    def _cell(self, row: Index, column: Index) -> Index:
        return self.b.add(self.b.mul(row, self.n), column)

    def _found_pivot(self, step: Value) -> Value:
        """Find the row of the pivot; move the column to the factors, zeros remain in an inverse."""
        b = self.b
        first = 0 if self.is_inverse else step
        start = [b.number(-1.0), b.i64(step)]
        with b.loop("row", first, self.n, carry=start, **_FEW) as row:
            best, place = row.carried
            value = b.load_scalar(self.matrix, self._cell(row.index, step))
            b.store(value, self.own_factors, row.index)
            size = b.intrinsic("fabs", value)
            is_better = b.b.fcmp_ordered(">", size, best)
            if self.is_inverse:
                b.store(b.number(0.0), self.matrix, self._cell(row.index, step))
                is_better = b.b.and_(is_better, b.b.icmp_signed(">=", row.index, step))
            row.yields([b.b.select(is_better, size, best), b.b.select(is_better, row.index, place)])
        return row.results[1]

    def _taken(self, step: Value, place: Value) -> Value:
        """Store the pivot and its row, exchange two factors; return 1 / pivot, or 0 for 0."""
        b, zero = self.b, self.b.number(0.0)
        pivot = b.load_scalar(self.own_factors, place)
        b.store(b.load_scalar(self.own_factors, step), self.own_factors, place)
        b.store(zero, self.own_factors, step)
        is_exchanged = b.b.icmp_signed("!=", place, step)
        b.store(b.b.select(is_exchanged, b.b.fneg(pivot), pivot), self.own_pivots, step)
        b.store(place, self.own_places, step)
        if self.is_inverse:
            b.store(b.number(1.0), self.matrix, self._cell(place, step))
        share = b.b.fdiv(b.number(1.0), pivot)
        return b.b.select(b.b.fcmp_ordered("==", pivot, zero), zero, share)

    def _eliminate(self, step: Value, place: Value, share: Value) -> None:
        """Exchange the two rows and subtract, for each block of columns."""
        b, n = self.b, self.n
        first = 0 if self.is_inverse else b.add(step, 1)
        with b.loop("columns", first, n, _VECTORS * b.lanes, **_FEW) as columns:
            places = [b.add(columns.index, b.lanes * i) for i in range(_VECTORS)]
            masks = [b.mask_first(b.min(b.sub(n, at), b.lanes)) for at in places]
            block = list(zip(places, masks))
            own, other = (b.at(self.matrix, b.mul(row, n)) for row in (step, place))
            top, lower = ([b.load_masked(p, *at) for at in block] for p in (other, own))
            if self.is_inverse:
                top = [b.b.fmul(x, b.splat(share)) for x in top]
            for x, y, at in zip(lower, top, block):
                b.store_masked(x, other, *at)
                b.store_masked(y, own, *at)
            with b.loop("other", 0 if self.is_inverse else b.add(step, 1), n, **_FEW) as row:
                self._subtract(row.index, top, block, share)

    def _subtract(
        self, row: Value, top: list[Value], block: list[tuple[Value, Value]], share: Value
    ) -> None:
        """Subtract a multiple of the pivot's row, held in registers, from another row."""
        b = self.b
        line = b.at(self.matrix, b.mul(row, self.n))
        factor = b.b.fneg(b.load_scalar(self.own_factors, row))
        if not self.is_inverse:
            factor = b.b.fmul(factor, share)
        for x, at in zip(top, block):
            b.store_masked(b.fma(b.splat(factor), x, b.load_masked(line, *at)), line, *at)

    def _exchange_columns(self, step: Value) -> None:
        """Exchange the columns whose rows were exchanged in a step."""
        b = self.b
        place = b.load_scalar(self.own_places, step, I64)
        with b.loop("line", 0, self.n, **_FEW) as row:
            own, other = self._cell(row.index, step), self._cell(row.index, place)
            x, y = b.load_scalar(self.matrix, own), b.load_scalar(self.matrix, other)
            b.store(y, self.matrix, own)
            b.store(x, self.matrix, other)
