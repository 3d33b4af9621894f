"""LQ factorization by Householder reflections, unblocked, in place.

A unit of work is a matrix. Signs are those of LAPACK: each reflection moves a row to its norm times
minus the sign of its element on the diagonal. Vectors contain adjacent columns, and several rows
are reflected together, because their sums are independent. All numbers are float64.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import Value
from ..spec import KernelSpec

# Bounds of loops over a matrix, which are too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class ReflectSpec(KernelSpec):
    """Factors of matrices of m rows, at most as many as their columns.

    Arguments: matrices (N, H, W), replaced by Q; zeros (N, H, m), replaced by L; scratch (m); then
    N, m, H, W. W is the number of columns rounded up to whole vectors; H is m + ``rows`` - 1. The
    rows and columns beyond those of the matrix are zeros.

    rows  the number of rows that are reflected together
    """

    rows: int
    element: ElementTypes = TYPES_OF["float64"]
    kind = "reflect"


def emit_reflect(b: LoopBuilder, spec: ReflectSpec, args: Arguments) -> None:
    """Emit the factorization of all matrices."""
    _Reflect(b, spec, args).emit()


class _Reflect:
    def __init__(self, b: LoopBuilder, spec: ReflectSpec, args: Arguments) -> None:
        self.b, self.spec, self.args = b, spec, args
        names = ("matrices", "factors", "taus")
        self.matrices, self.factors, self.taus = map(args.pointer, names)
        self.batch, self.m, self.height, self.width = map(args.integer, ("N", "m", "H", "W"))

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            first = b.mul(unit.index, self.height)
            self.matrix = b.at(self.matrices, b.mul(first, self.width))
            self.factor = b.at(self.factors, b.mul(first, self.m))
            with b.loop("block", 0, self.m, self.spec.rows) as block:
                self._factorize(block.index)
            count = b.quotient_up(self.m, self.spec.rows)
            with b.loop("back", 1, b.add(count, 1)) as back:
                self._multiply(b.mul(b.sub(count, back.index), b.i64(self.spec.rows)))

    def _factorize(self, begin: Value) -> None:
        """Reflect a block of rows by those above, which stay in the cache, then by its own."""
        b, end = self.b, self._end(begin)
        with b.loop("above", 0, begin) as above:
            self._apply(above.index, self._rows(begin), is_kept=True)
        with b.loop("step", begin, end, most=self.spec.rows) as step:
            self._find(step.index)
            with b.loop("rest", b.add(step.index, 1), end, most=self.spec.rows) as rest:
                self._apply(step.index, [rest.index], is_kept=True)

    def _multiply(self, begin: Value) -> None:
        """Replace a block of rows, whose vectors no row above needs, by those of Q."""
        b, end = self.b, self._end(begin)
        with b.loop("own", 1, b.add(b.sub(end, begin), 1), most=self.spec.rows) as own:
            step = b.sub(end, own.index)
            with b.loop("rest", b.add(step, 1), end, most=self.spec.rows) as rest:
                self._apply(step, [rest.index], is_kept=False)
            self._start(step)
        with b.loop("above", 1, b.add(begin, 1)) as above:
            self._apply(b.sub(begin, above.index), self._rows(begin), is_kept=False)

    def _end(self, begin: Value) -> Value:
        return self.b.min(self.b.add(begin, self.spec.rows), self.m)

    def _rows(self, begin: Value) -> list[Value]:
        return [self.b.add(begin, i) for i in range(self.spec.rows)]

    def _row(self, row: Index) -> Value:
        return self.b.at(self.matrix, self.b.mul(row, self.width))

    def _factor(self, row: Index, column: Value) -> Value:
        return self.b.at(self.factor, self.b.add(self.b.mul(row, self.m), column))

    def _first(self, step: Value) -> Value:
        """The first column of the vector that contains this one."""
        return self.b.b.and_(step, self.b.i64(-self.b.lanes))

    def _find(self, step: Value) -> None:
        """Replace a row by its reflection's vector, 0 before the diagonal and 1 on it."""
        b, line = self.b, self._row(step)
        alpha = b.load_scalar(line, step)
        with b.loop("known", 0, b.add(step, 1), **_FEW) as known:
            b.store(b.number(0.0), line, known.index)
        (square,) = self._dots(step, [line])
        size = b.intrinsic("sqrt", b.b.fadd(b.b.fmul(alpha, alpha), square))
        beta = b.b.fneg(b.intrinsic("copysign", size, alpha))
        is_done, zero = b.b.fcmp_ordered("==", square, b.number(0.0)), b.number(0.0)
        tau = b.b.fdiv(b.b.fsub(beta, alpha), beta)
        scale = b.b.fdiv(b.number(1.0), b.b.fsub(alpha, beta))
        b.store(b.b.select(is_done, zero, tau), self.taus, step)
        b.store(b.b.select(is_done, alpha, beta), self._factor(step, step))
        self._scale(step, b.b.select(is_done, zero, scale))
        b.store(b.number(1.0), line, step)

    def _dots(self, step: Value, lines: list[Value]) -> list[Value]:
        """Products of rows with the row ``step``, from its diagonal on."""
        b, own = self.b, self._row(step)
        start = [b.splat(0.0) for _ in lines]
        first = self._first(step)
        with b.loop("dot", first, self.width, b.lanes, carry=start, **_FEW) as column:
            x = b.load(own, column.index)
            rows = [b.load(line, column.index) for line in lines]
            column.yields([b.fma(row, x, total) for row, total in zip(rows, column.carried)])
        return [b.reduce_lanes(total, b.b.fadd) for total in column.results]

    def _scale(self, step: Value, by: Value) -> None:
        b, line, factor = self.b, self._row(step), self.b.splat(by)
        with b.loop("scaled", self._first(step), self.width, b.lanes, **_FEW) as column:
            b.store(b.b.fmul(b.load(line, column.index), factor), line, column.index)

    def _apply(self, step: Value, rows: list[Value], is_kept: bool) -> None:
        """Reflect rows; ``is_kept`` stores their elements of the column in L."""
        b, own = self.b, self._row(step)
        tau, lines = b.b.fneg(b.load_scalar(self.taus, step)), [self._row(row) for row in rows]
        shares = [b.splat(b.b.fmul(tau, dot)) for dot in self._dots(step, lines)]
        with b.loop("column", self._first(step), self.width, b.lanes, **_FEW) as column:
            x = b.load(own, column.index)
            for line, share in zip(lines, shares):
                reflected = b.fma(share, x, b.load(line, column.index))
                b.store(reflected, line, column.index)
        for row, line in zip(rows, lines):
            if is_kept:
                b.store(b.load_scalar(line, step), self._factor(row, step))

    def _start(self, step: Value) -> None:
        """Replace the vector of a reflection by the row of the reflected identity."""
        b, line = self.b, self._row(step)
        self._scale(step, b.b.fneg(b.load_scalar(self.taus, step)))
        b.store(b.b.fadd(b.load_scalar(line, step), b.number(1.0)), line, step)
