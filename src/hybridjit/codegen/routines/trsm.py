"""Lower triangular systems of equations, solved in place by forward substitution.

A unit of work is a matrix. Vectors contain adjacent columns of the right-hand side. Several vectors
are computed together where there are enough columns, because their sums are independent.
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

# Bounds of the loop over the columns of a triangle, which is too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class TrsmSpec(KernelSpec):
    """Solution X of T X = B. Arguments: triangles (N, n, n), B (N, n, m), replaced by X; N, n, m.

    vectors  number of vectors that are computed together; one holds at least two columns
    """

    dtype: str
    vectors: int
    kind = "trsm"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_trsm(b: LoopBuilder, spec: TrsmSpec, args: Arguments) -> None:
    """Emit the replacement of B by X."""
    triangles, sides = args.pointer("triangles"), args.pointer("sides")
    batch, n, m = (args.integer(name) for name in ("batch", "n", "m"))
    with b.each_unit(batch, args.share, args.shares) as unit:
        triangle = b.at(triangles, b.mul(unit.index, b.mul(n, n)))
        side = b.at(sides, b.mul(unit.index, b.mul(n, m)))
        with b.loop("columns", 0, m, spec.vectors * b.lanes) as columns:
            places = [b.add(columns.index, b.lanes * i) for i in range(spec.vectors)]
            masks = [b.mask_first(b.min(b.sub(m, place), b.lanes)) for place in places]
            block = list(zip(places, masks))
            with b.loop("row", 0, n) as row:
                line = b.at(triangle, b.mul(row.index, n))
                _solve_row(b, side, m, row.index, line, block)


def _solve_row(
    b: LoopBuilder,
    side: Value,
    m: Index,
    row: Value,
    line: Value,
    block: list[tuple[Value, Value]],
) -> None:
    """x[row] = (b[row] - sum of line[k] x[k] for k < row) / line[row]."""
    target = b.at(side, b.mul(row, m))
    start = [b.load_masked(target, place, mask) for place, mask in block]
    with b.loop("k", 0, row, carry=start, **_FEW) as k:
        known = b.at(side, b.mul(k.index, m))
        factor = b.splat(b.b.fneg(b.load_scalar(line, k.index)))
        rows = [b.load_masked(known, place, mask) for place, mask in block]
        k.yields([b.fma(factor, x, total) for x, total in zip(rows, k.carried)])
    divisor = b.splat(b.load_scalar(line, row))
    for (place, mask), total in zip(block, k.results):
        b.store_masked(b.b.fdiv(total, divisor), target, place, mask)
