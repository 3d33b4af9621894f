"""A convolution or dense layer as input of the choosers."""

from __future__ import annotations

from typing import Any

from ...._core.frozen import dataclass
from ...._core.types import product
from ...spec import Extents, Program
from ..parts.convolution import Convolution


@dataclass(frozen=True)
class Layer(Convolution):
    """A convolution as input of the choosers. Spatial triples are (depth, height, width).

    images    the number of images per packing of the weights in a call; 0 if they are packed at
              bind
    are_rows  whether the filters of all groups have the same stride as those of one group
    """

    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    program: Program
    images: int = 0
    are_rows: bool = True

    @property
    def tensors(self) -> dict[str, Any]:
        names = ("xs", "reads", "writes", "program")
        return {name: getattr(self, name) for name in names}

    @property
    def operations(self) -> int:
        """Floating-point operations for one image by the definition."""
        return 2 * product(self.out) * product(self.kernel) * self.ic * self.oc * self.groups

    def has_small_groups(self, lanes: int) -> bool:
        """Whether a vector of channels holds several whole groups with equal ic and oc."""
        fitting = self.ic == self.oc < lanes and lanes % self.ic == 0
        fitting = fitting and (self.are_rows or self.oc == 1)
        return fitting and self.groups > 1 and self.xs[4] == 1
