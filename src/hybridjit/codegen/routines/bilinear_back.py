"""Gradients of bilinear samples of images with channels last.

A unit of work is an image; vectors lie along channels. Points are taken in their order, of each the
four corners; a corner outside of the image has no cell.
"""

from __future__ import annotations

from typing import Any

from ..._core.frozen import dataclass
from ..._core.target import TYPES_OF, ElementTypes
from ..kinds.parts.arguments import Arguments
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, Value
from ..spec import KernelSpec


@dataclass(frozen=True)
class BilinearBackSpec(KernelSpec):
    """Arguments: x (N, cells, C), heads (N, P, C), corners (N, P, 4) of int64, -1 outside, shares
    of rows and columns (N, P, 2), factors of heads (N, P); then zeros for the results: gradients
    with respect to x, to rows and columns, and to factors; then N, cells, P, C.
    """

    dtype: str
    kind = "bilinear_back"

    @property
    def element(self) -> ElementTypes:  # type: ignore[override]
        return TYPES_OF[self.dtype]


def emit_bilinear_back(b: LoopBuilder, spec: BilinearBackSpec, args: Arguments) -> None:
    """All three gradients."""
    _BilinearBack(b, args).emit()


class _BilinearBack:
    def __init__(self, b: LoopBuilder, args: Arguments) -> None:
        self.b, self.args = b, args
        self.x, self.heads = args.pointer("x"), args.pointer("heads")
        self.corners = args.pointer("corners", "int64")
        arrays = ("shares", "factors", "of_x", "of_places", "of_factors")
        self.shares, self.factors, self.of_x, self.of_places, self.of_factors = map(
            args.pointer, arrays
        )
        names = ("batch", "cells", "points", "channels")
        self.batch, self.cells, self.points, self.channels = map(args.integer, names)

    def emit(self) -> None:
        b = self.b
        with b.each_unit(self.batch, self.args.share, self.args.shares) as unit:
            first = b.mul(unit.index, b.mul(self.cells, self.channels))
            x, of_x = b.at(self.x, first), b.at(self.of_x, first)
            with b.loop("point", 0, self.points) as point:
                place = b.add(b.mul(unit.index, self.points), point.index)
                for corner in range(4):
                    name = b.load_scalar(self.corners, b.add(b.mul(place, 4), corner), I64)
                    with b.when(b.b.icmp_signed(">=", name, b.i64(0))):
                        start = b.mul(name, self.channels)
                        self._corner(place, corner, b.at(x, start), b.at(of_x, start))

    def _corner(self, place: Value, corner: int, cell: Value, of_cell: Value) -> None:
        b, one = self.b, self.b.number(1)
        parts = [b.load_scalar(self.shares, b.add(b.mul(place, 2), axis)) for axis in range(2)]
        far = (corner // 2, corner % 2)
        weights = [part if step else b.b.fsub(one, part) for part, step in zip(parts, far)]
        weight = b.b.fmul(*weights)
        factor = b.load_scalar(self.factors, place)
        product = self._along_channels(place, b.b.fmul(weight, factor), cell, of_cell)
        scaled = b.b.fmul(product, factor)
        for axis in range(2):
            slope = b.b.fmul(scaled, weights[1 - axis])
            slope = slope if far[axis] else b.b.fneg(slope)
            self._add(self.of_places, b.add(b.mul(place, 2), axis), slope)
        self._add(self.of_factors, place, b.b.fmul(product, weight))

    def _along_channels(self, place: Value, weight: Value, cell: Value, of_cell: Value) -> Value:
        """Add the weighted head to a cell's gradient; the sum of the products of both."""
        b = self.b
        head, weights = b.at(self.heads, b.mul(place, self.channels)), b.splat(weight)
        # The loop is too short to poll inside.
        few: dict[str, Any] = {"most": 1 << 12, "by_data": True}
        start = [b.splat(0.0)]
        with b.loop("channel", 0, self.channels, b.lanes, start, **few) as channel:
            mask = b.mask_first(b.min(b.sub(self.channels, channel.index), b.lanes))
            d, x, known = (b.load_masked(p, channel.index, mask) for p in (head, cell, of_cell))
            b.store_masked(b.b.fadd(known, b.b.fmul(d, weights)), of_cell, channel.index, mask)
            channel.yields([b.b.fadd(channel.carried[0], b.b.fmul(x, d))])
        return b.reduce_lanes(channel.results[0], b.b.fadd)

    def _add(self, base: Value, index: Index, value: Value) -> None:
        b = self.b
        b.store(b.b.fadd(b.load_scalar(base, index), value), base, index)
