"""Rows of memory that are prefetched, some lines at every step of a loop."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from .gemm import LINE_BYTES

# Maximum lines that are prefetched without a loop: 225 are half of a kernel's code.
_FEW = 4


@dataclass(frozen=True)
class Region:
    """Rows of memory: ``count`` cache lines, ``row_lines`` for each row.

    row_step  stride of rows in elements
    """

    pointer: Value
    count: int
    row_lines: int
    row_step: int

    def ask(self, b: LoopBuilder, step: Index, steps: int) -> None:
        """Prefetch the lines of one of ``steps`` steps, which together cover all lines."""
        share = -(-self.count // steps)
        first = b.min(b.mul(step, share), self.count - share)
        if share <= _FEW:
            for number in range(share):
                self._ask_for(b, b.add(first, number))
            return
        with b.loop("ahead", first, b.add(first, share), most=share) as line:
            self._ask_for(b, line.index)

    def _ask_for(self, b: LoopBuilder, number: Index) -> None:
        column = LINE_BYTES // b.target.stored_bytes
        if self.row_step == self.row_lines * column:  # contiguous rows
            b.prefetch(self.pointer, b.mul(number, column))
            return
        row, line = b.divmod(number, self.row_lines)
        b.prefetch(self.pointer, b.add(b.mul(row, self.row_step), b.mul(line, column)))


def region_of(b: LoopBuilder, pointer: Value, rows: int, columns: int, step: int) -> Region:
    """``rows`` rows of ``columns`` elements, ``step`` apart."""
    row_lines = -(-columns * b.target.stored_bytes // LINE_BYTES)
    return Region(pointer, rows * row_lines, row_lines, step)
