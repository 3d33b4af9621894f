"""A convolution as input of the choosers for its weight gradient."""

from __future__ import annotations

from typing import Any

from ...._core.frozen import dataclass
from ...spec import Extents, Ints


@dataclass(frozen=True)
class Layer:
    """``ic`` and ``oc`` are channels of a group.

    xs, ds, ws  strides of the data, of the output gradient and of the weight
    """

    inp: Extents
    out: Extents
    kernel: Ints
    stride: Ints
    dilate: Ints
    pad: Ints
    groups: int
    ic: int
    oc: int
    xs: Extents
    ds: Extents
    ws: Ints
    batch: int

    @property
    def geometry(self) -> dict[str, Any]:
        """Spatial triples by name."""
        names = ("inp", "out", "kernel", "stride", "dilate", "pad")
        return {name: getattr(self, name) for name in names}
