"""Packing of weights that another step has computed, as ``packing.ConvPacking`` packs others."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....types import product
from ...llvm.builder import Index, LoopBuilder
from ..parts.arguments import Arguments
from ..parts.tail import read_vector, whole_and_last
from .spec import PackSpec


def emit_pack(b: LoopBuilder, spec: PackSpec, args: Arguments) -> None:
    """result[group][block][k][column] = w[group, filter, k], zeros beyond the last filter."""
    w, result = args.pointer("w"), args.pointer("result")
    last = spec.filters - (spec.vectors - 1) * b.lanes
    taps = product(spec.sizes)
    with b.each_unit(spec.groups * spec.vectors, args.tid, args.threads) as unit:
        group, vector = b.split(unit.index, (0, spec.vectors))
        block, inside = b.divmod(vector, spec.nv)
        # The last block has only the vectors that it needs.
        width = b.min(b.sub(spec.vectors, b.mul(block, spec.nv)), spec.nv)
        first = b.mul(b.add(b.mul(group, spec.vectors), b.mul(block, spec.nv)), taps * b.lanes)
        place = (group, b.mul(vector, b.lanes))
        source = b.at(w, b.dot(place, spec.strides[:2]))
        target = b.at(result, b.add(first, b.mul(inside, b.lanes)))
        column = b.mul(width, b.lanes)
        whole_and_last(
            b, vector, spec.vectors, last, partial(_copy, b, spec, source, target, column)
        )


def _copy(b: LoopBuilder, spec: PackSpec, w: Any, result: Any, step: Index, lanes: int) -> None:
    """One vector of filters at every k."""
    with b.loop("k", 0, product(spec.sizes)) as k:
        place = b.split(k.index, (0, *spec.sizes[1:]))
        at = b.dot(place, spec.strides[2:])
        value = read_vector(b, w, at, spec.strides[1], lanes)
        b.store(value, result, b.mul(k.index, step))
