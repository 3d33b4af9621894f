"""Bins of regions displaced by offsets: means of bilinear samples, and their gradients.

A unit of work is a region. Tables computed by the reference contain the cells around each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, Value
from ..spec import KernelSpec

# Bounds of the loops over the samples of a bin, which are too short to poll in.
_FEW: dict[str, Any] = {"most": 1 << 11, "by_data": True}


@dataclass(frozen=True)
class MovedBinsSpec(KernelSpec):
    """Arguments: images (N, cells), bins (R, outputs, bins), gradients like the images, slopes (R,
    classes, bins, 2), images of regions (R), the first cell of each output's bins (outputs, bins);
    for rows, then for columns: cells before and after each line of samples (R, classes, bins,
    samples, 2) of int64, -1 outside; for both again: the shares of the cells after it (R, classes,
    bins, samples); samples inside of each bin (R, classes, bins); then R, outputs, outputs of a
    class, classes, bins, samples, cells.

    how  ``mean`` adds the means to zeros in ``bins``; ``back`` adds the bins' gradients to those of
         the images and to the slopes
    """

    how: str
    dtype: str
    kind = "moved_bins"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_moved_bins(b: LoopBuilder, spec: MovedBinsSpec, args: Arguments) -> None:
    """Emit all bins of all regions."""
    _MovedBins(b, spec, args).emit()


class _MovedBins:
    def __init__(self, b: LoopBuilder, spec: MovedBinsSpec, args: Arguments) -> None:
        self.b, self.args, self.is_back = b, args, spec.how == "back"
        arrays = ("images", "bins", "gradients", "slopes")
        self.images, self.bins, self.gradients, self.slopes = map(args.pointer, arrays)
        self.images_of, self.origins = (args.pointer(n, "int64") for n in ("images_of", "origins"))
        axes = ("row", "column")
        self.cells = [args.pointer(f"{axis}_cells", "int64") for axis in axes]
        self.shares = [args.pointer(f"{axis}_shares") for axis in axes]
        self.counts = args.pointer("counts")
        names = ("regions", "outputs", "of_class", "classes", "places", "samples", "size")
        self.regions, self.outputs, self.of_class, self.classes, *rest = map(args.integer, names)
        self.places, self.samples, self.size = rest

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.regions, self.args.share, self.args.shares) as region:
            image = b.load_scalar(self.images_of, region.index, I64)
            there = b.b.icmp_signed(">=", image, b.i64(0))
            first = b.mul(image, self.size)
            with b.when(there), b.loop("output", 0, self.outputs) as output:
                kind = b.b.udiv(b.i64(output.index), b.i64(self.of_class))
                own = b.mul(b.add(b.mul(region.index, self.classes), kind), self.places)
                bins = b.mul(b.add(b.mul(region.index, self.outputs), output.index), self.places)
                with b.loop("place", 0, self.places) as place:
                    at = b.add(b.mul(output.index, self.places), place.index)
                    origin = b.add(first, b.load_scalar(self.origins, at, I64))
                    self._emit_bin(b.add(own, place.index), b.add(bins, place.index), origin)

    def _emit_bin(self, own: Index, target: Index, origin: Index) -> None:
        b = self.b
        count = b.load_scalar(self.counts, own)
        line = b.mul(own, self.samples)
        share = b.b.fdiv(b.load_scalar(self.bins, target), count) if self.is_back else count
        size = self.samples
        with b.loop("down", 0, size, **_FEW) as down, b.loop("across", 0, size, **_FEW) as across:
            places = [b.add(line, one.index) for one in (down, across)]
            low = [
                b.load_scalar(table, b.mul(place, 2), I64)
                for table, place in zip(self.cells, places)
            ]
            held = [b.b.icmp_signed(">=", cell, b.i64(0)) for cell in low]
            with b.when(b.b.and_(*held)):
                self._emit_sample(own, target, origin, places, share)
        if not self.is_back:
            b.store(b.b.fdiv(b.load_scalar(self.bins, target), count), self.bins, target)

    def _emit_sample(
        self, own: Index, target: Index, origin: Index, places: Sequence[Index], share: Value
    ) -> None:
        """Emit the four corners of a sample."""
        b, one = self.b, self.b.number(1)
        parts = [b.load_scalar(table, place) for table, place in zip(self.shares, places)]
        for corner in range(4):
            far = (corner // 2, corner % 2)
            cell = origin
            for table, place, step in zip(self.cells, places, far):
                cell = b.add(cell, b.load_scalar(table, b.add(b.mul(place, 2), step), I64))
            weights = [part if step else b.b.fsub(one, part) for part, step in zip(parts, far)]
            x, weight = b.load_scalar(self.images, cell), b.b.fmul(*weights)
            if not self.is_back:
                self._add(self.bins, target, b.b.fmul(x, weight))
                continue
            self._add(self.gradients, cell, b.b.fmul(share, weight))
            value = b.b.fmul(share, x)
            for axis, step in enumerate(far):
                slope = b.b.fmul(value, weights[1 - axis])
                place = b.add(b.mul(own, 2), axis)
                self._add(self.slopes, place, slope if step else b.b.fneg(slope))

    def _add(self, base: Value, index: Index, value: Value) -> None:
        b = self.b
        b.store(b.b.fadd(b.load_scalar(base, index), value), base, index)
