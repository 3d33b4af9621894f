"""What the chunk of positions that comes next reads, which is asked for while this one is summed.

Data and gradients of a large layer come from memory, and every chunk of them is new: without
asking, 8 images of 56x56, 64 to 256 channels, wait for 1.1 of 5.0 ms.
"""

from __future__ import annotations

from ....records import dataclass
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.gemm import LINE_BYTES
from .spec import ByWeightSpec

# Lines that are asked for without a loop: 225 are half of a kernel's code.
_FEW = 4


@dataclass(frozen=True)
class Region:
    """Rows of memory: ``count`` cache lines, of which a row has ``row_lines``.

    row_step  elements from row to row
    """

    pointer: Value
    count: int
    row_lines: int
    row_step: int

    def ask(self, b: LoopBuilder, step: Index, steps: int) -> None:
        """For the lines of one of so many steps, which are all lines in the end."""
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
        if self.row_step == self.row_lines * column:  # rows follow each other
            b.prefetch(self.pointer, b.mul(number, column))
            return
        row, line = b.divmod(number, self.row_lines)
        b.prefetch(self.pointer, b.add(b.mul(row, self.row_step), b.mul(line, column)))


def next_regions(
    b: LoopBuilder, spec: ByWeightSpec, x: Value, d: Value, line: Index
) -> tuple[Region, ...]:
    """Data and gradients from a line of the result on, where all images are one run of lines.

    ``d`` is where the unit's first block of filters begins.
    """
    if spec.groups > 1 or spec.kernel[0] > 1 or spec.out[0] > 1:
        return ()
    image, row = b.divmod(line, spec.out[1])
    filters = min(spec.oc, spec.blocks * spec.nv * b.lanes)
    lines = spec.images * spec.lines
    found = []
    if spec.xs[0] == spec.xs[2] * spec.inp[1] and spec.xs[4] == 1:
        at = b.dot((image, b.mul(row, spec.stride[1])), (spec.xs[0], spec.xs[2]))
        down = lines * spec.stride[1]
        found.append(region_of(b, b.at(x, at), down, spec.xs[2], spec.xs[2]))
    if spec.ds[0] == spec.ds[2] * spec.out[1] and spec.ds[4] == 1:
        at = b.dot((image, row), (spec.ds[0], spec.ds[2]))
        found.append(region_of(b, b.at(d, at), lines * spec.out[2], filters, spec.ds[3]))
    return tuple(region for region in found if region.count)


def region_of(b: LoopBuilder, pointer: Value, rows: int, columns: int, step: int) -> Region:
    """``rows`` of so many elements, ``step`` apart."""
    row_lines = -(-columns * b.target.stored_bytes // LINE_BYTES)
    return Region(pointer, rows * row_lines, row_lines, step)
