"""Sizes that specs of convolutions, of their gradients, and layers of the choosers share."""

from __future__ import annotations

from typing import Any

from ...._core.frozen import dataclass
from ...spec import Extents, Ints


@dataclass(frozen=True)
class Windows:
    """Sizes of windows over an input. Spatial triples are (depth, height, width)."""

    inp: Extents
    out: Extents
    kernel: Ints
    stride: Ints
    dilate: Ints
    pad: Ints

    @property
    def geometry(self) -> dict[str, Any]:
        """Spatial triples by name."""
        names = ("inp", "out", "kernel", "stride", "dilate", "pad")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Convolution(Windows):
    """The same with channels in groups: ``ic`` and ``oc`` are those of a group.

    xs  strides of the input per (image, d, h, w, channel)
    """

    groups: int
    ic: int
    oc: int
    xs: Extents
