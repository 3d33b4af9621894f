"""Sums of weighted cells of images: bilinear samples of the bins of regions.

A unit of work is a region. Tables computed by the reference contain the cells around each sample.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.types import I64
from ..spec import KernelSpec

# Bounds of the loop over the samples of a bin, which is too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class WeightedSpec(KernelSpec):
    """Arguments: images (N, C, cells), bins (R, C, P), images of regions (R), the first sample of
    each bin and the end (R * P + 1), cells of samples (S, 4) of int64, their weights (S, 4); then
    R, C, P, cells.
    """

    dtype: str
    kind = "weighted"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_weighted(b: LoopBuilder, spec: WeightedSpec, args: Arguments) -> None:
    """Emit all bins of all regions: the sum of the samples of each bin, added in order."""
    images, bins = args.pointer("images"), args.pointer("bins")
    images_of, starts, cells = (args.pointer(n, "int64") for n in ("images_of", "starts", "cells"))
    weights = args.pointer("weights")
    regions, channels, places, size = map(args.integer, ("regions", "channels", "places", "size"))
    with b.each_unit(regions, args.share, args.shares) as region:
        first = b.mul(b.load_scalar(images_of, region.index, I64), channels)
        with b.loop("channel", 0, channels) as channel, b.loop("place", 0, places) as place:
            plane = b.at(images, b.mul(b.add(first, channel.index), size))
            own = b.add(b.mul(region.index, places), place.index)
            start, end = (b.load_scalar(starts, b.add(own, i), I64) for i in range(2))
            with b.loop("sample", start, end, carry=[b.number(0)], **_FEW) as sample:
                corners = [b.add(b.mul(sample.index, 4), i) for i in range(4)]
                x = [b.load_scalar(plane, b.load_scalar(cells, at, I64)) for at in corners]
                parts = [
                    b.b.fmul(value, b.load_scalar(weights, at)) for value, at in zip(x, corners)
                ]
                both = [b.b.fadd(*parts[:2]), b.b.fadd(*parts[2:])]
                sample.yields([b.b.fadd(sample.carried[0], b.b.fadd(*both))])
            target = b.add(b.mul(region.index, channels), channel.index)
            b.store(sample.results[0], bins, b.add(b.mul(target, places), place.index))
