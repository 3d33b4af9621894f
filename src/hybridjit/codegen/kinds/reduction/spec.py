"""The spec of a reduction. Strides count elements."""

from __future__ import annotations

from ....records import dataclass
from ....types import product
from ...spec import Ints, KernelSpec


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """A reduction of [row, *kept, *reduced] to [row, *kept]; arguments: x, [other,] y,
    [about,] rows.

    how     sum, mean, prod, max, min, nansum, nanprod, norm1, norm2, argmax, argmin, spread: the
            mean of squares of the distance from ``about``, or products: the sum of x times the
            distance of ``other`` from ``about``
    along   whether vectors lie along the last reduced axis, or across, on the last kept one
    x, y    strides of x per (row, *kept, *reduced), of y per (row, *kept)
    dtype   the element type of x; ``result`` that of y and ``sums`` that of what is carried,
            where they are not the same
    about   strides of the operand ``about`` per (row, *kept)
    other   strides of the operand ``other``, as those of x
    """

    how: str
    along: bool
    kept: Ints
    reduced: Ints
    x: Ints
    y: Ints
    dtype: str = "float32"
    result: str = ""
    sums: str = ""
    about: Ints = ()
    other: Ints = ()
    kind = "reduce"

    @property
    def count(self) -> int:
        """Elements that make one result."""
        return product(self.reduced)
