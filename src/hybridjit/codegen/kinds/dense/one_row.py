"""A row of data times a matrix with contiguous columns, each element of which is read once.

Squares of the matrix are transposed in registers, not packed in memory first. Products are added in
the order of ``parts.gemm.multiply``, so that bits do not depend on the choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.gemm import LONGEST, MOST_GIVEN
from ..parts.partial import read_scalar, read_vector
from ..parts.transpose import transposed
from .spec import MatmulSpec


def sum_in_place(
    b: LoopBuilder, spec: MatmulSpec, x: Value, source: Value, accs: Sequence[Value], last: int
) -> list[Value]:
    """acc[v] += sum over k of x[k] * source[k, v]; the last vector has ``last`` columns."""
    return _RowSum(b, spec, last).of_parts(x, source, accs)


class _RowSum:
    def __init__(self, b: LoopBuilder, spec: MatmulSpec, last: int) -> None:
        self.b, self.size, self.last = b, spec.k, last
        self.x_step, self.column_step = spec.a[2], spec.b[2]

    def of_parts(self, x: Value, source: Value, accs: Sequence[Value]) -> list[Value]:
        """A sum of partial sums if it is long."""
        b, size = self.b, self.size
        if size <= MOST_GIVEN:
            return self.of(x, source, size, accs)
        whole = size - size % LONGEST
        with b.loop("part", 0, whole, LONGEST, carry=accs) as part:
            part.yields(self._with_part(x, source, part.index, LONGEST, part.carried))
        if size == whole:
            return part.results
        return self._with_part(x, source, whole, size - whole, part.results)

    def _with_part(
        self, x: Value, source: Value, at: Index, count: int, totals: Sequence[Value]
    ) -> list[Value]:
        b = self.b
        zeros = [b.constant(0.0, like=total) for total in totals]
        place = (b.at(x, b.mul(at, self.x_step)), b.at(source, at))
        return [b.b.fadd(*pair) for pair in zip(totals, self.of(*place, count, zeros))]

    def of(self, x: Value, source: Value, count: int, accs: Sequence[Value]) -> list[Value]:
        """Squares first, then the remaining elements of columns one by one."""
        b = self.b
        whole = count - count % b.lanes
        with b.loop("square", 0, whole, b.lanes, carry=accs) as square:
            place = (b.at(x, b.mul(square.index, self.x_step)), b.at(source, square.index))
            square.yields(self._with_square(*place, square.carried))
        sums = square.results
        for k in range(whole, count):
            value = self._splat(x, k)
            for v, lanes in enumerate(self._widths(sums)):
                first = b.add(v * b.lanes * self.column_step, k)
                vector = read_vector(b, source, first, self.column_step, lanes)
                sums[v] = b.fma(value, vector, sums[v])
        return sums

    def _with_square(self, x: Value, source: Value, accs: Sequence[Value]) -> list[Value]:
        b, sums = self.b, list(accs)
        values = [self._splat(x, k) for k in range(b.lanes)]
        for v, lanes in enumerate(self._widths(accs)):
            columns = [v * b.lanes + min(i, lanes - 1) for i in range(b.lanes)]
            rows = [read_vector(b, source, c * self.column_step, 1, b.lanes) for c in columns]
            for value, vector in zip(values, transposed(b, rows)):
                sums[v] = b.fma(value, vector, sums[v])
        return sums

    def _splat(self, x: Value, k: int) -> Value:
        return self.b.splat(read_scalar(self.b, x, k * self.x_step))

    def _widths(self, vectors: Sequence[Value]) -> list[int]:
        """Columns of each vector; absent ones repeat the last and are not stored."""
        return [self.b.lanes] * (len(vectors) - 1) + [self.last]
