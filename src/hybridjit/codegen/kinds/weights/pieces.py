"""Packing of pieces narrower than a vector: filters of several columns, taps of a line."""

from __future__ import annotations

from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.arguments import Arguments
from ..parts.partial import read_vector
from .spec import PiecesSpec


def emit_pieces(b: LoopBuilder, spec: PiecesSpec, args: Arguments) -> None:
    """result[row][piece, i] = w[row + piece * apart + i * stride], zeros for missing elements."""
    w, result = args.pointer("w"), args.working("result")
    with b.each_unit(product(spec.sizes), args.share, args.shares) as unit:
        digits = b.split(unit.index, (0, *spec.sizes[1:]))
        target = b.at(result, b.mul(unit.index, spec.row(b.lanes)))
        for first in range(0, spec.row(b.lanes), b.lanes):
            b.store(b.splat(0.0), target, first)
        at = b.dot(digits, spec.strides[:-1])
        for piece in range(spec.pieces):
            tap = b.i64(b.sub(digits[spec.axis], spec.step * piece))
            with b.when(b.b.icmp_unsigned("<", tap, b.i64(spec.taps))):
                _copy(b, spec, b.at(w, b.add(at, spec.apart * piece)), target, piece)


def _copy(b: LoopBuilder, spec: PiecesSpec, source: Value, target: Value, piece: Index) -> None:
    """Copy the elements of a piece."""
    stride = spec.strides[-1]
    for first in range(0, spec.width, b.lanes):
        count = min(b.lanes, spec.width - first)
        value = read_vector(b, source, first * stride, stride, count)
        b.store_first(value, target, b.add(b.mul(piece, spec.width), first), count)
