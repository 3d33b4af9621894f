"""Selection of the first few elements, and of their indices, from many long rows."""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..kinds.parts.selection import FEW, selection_of
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64
from ..spec import KernelSpec


@dataclass(frozen=True)
class SelectSpec(KernelSpec):
    """The first ``most`` elements of rows. Arguments: x, y, places; then rows, count."""

    most: int
    ascending: bool
    dtype: str
    kind = "select"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_select(b: LoopBuilder, spec: SelectSpec, args: Arguments) -> None:
    """y, places = the first elements of each row of x and their indices."""
    x, y, places = (args.pointer(name) for name in ("x", "y", "places"))
    rows, count = args.integer("rows"), args.integer("count")
    with b.each_unit(rows, args.share, args.shares) as unit:
        row = b.at(x, b.mul(unit.index, count))
        first = b.mul(unit.index, spec.most)
        numbers, found = b.at(y, first), b.at(places, first, I64)
        in_heap = spec.most > FEW
        selection_of(b, row, numbers, found, spec.most, spec.ascending, in_heap).emit(count)
