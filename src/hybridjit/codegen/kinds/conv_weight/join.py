"""Add up the buffers of all parts, in their order, and write them as a weight.

A square of channels x filters is read along the filters, as the buffers have them, and written
along the channels: the filters of a weight lie far apart.
"""

from __future__ import annotations

from functools import partial

from ....records import dataclass
from ....types import product
from ...llvm.builder import LoopBuilder
from ...llvm.types import Value
from ..conv.direct import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.partial import whole_and_last, write_vector
from ..parts.transpose import transposed
from .spec import JoinPartsSpec


@dataclass(frozen=True)
class _Place:
    """A block of filters and a vector of channels: where they are read and written."""

    source: Value
    target: Value
    parts: Value


def emit_join_parts(b: LoopBuilder, spec: JoinPartsSpec, args: Arguments) -> None:
    """w[f,tap,c] = sum over parts of buffer[part,f,tap,c]; a unit is a vector of channels."""
    buffers, w, parts = args.working("buffers"), args.pointer("w"), args.integer("parts")
    blocks, vectors = blocks_of(spec, b.lanes), -(-spec.ic // b.lanes)
    last = spec.ic - (vectors - 1) * b.lanes
    with b.each_unit(spec.groups * len(blocks) * vectors, args.tid, args.threads) as unit:
        group, block, vector = b.split(unit.index, (0, len(blocks), vectors))
        number, channel = b.add(b.mul(group, len(blocks)), block), b.mul(vector, b.lanes)
        columns = spec.nv * b.lanes
        first = b.mul(number, product(spec.kernel) * spec.ic * columns)
        filters = b.add(b.mul(group, spec.oc), b.mul(block, columns))
        place = _Place(
            b.at(buffers, b.add(first, b.mul(channel, columns))),
            b.at(w, b.add(b.mul(filters, spec.ws[0]), b.mul(channel, spec.ws[4]))),
            parts,
        )
        for kind, count, start in runs_of_blocks(blocks):
            with b.when(in_range(b, block, start, start + count, len(blocks))):
                whole_and_last(b, vector, vectors, last, partial(_join, b, spec, place, kind))


def _join(b: LoopBuilder, spec: JoinPartsSpec, place: _Place, kind: Block, channels: int) -> None:
    """All taps of a block of filters, for so many channels."""
    columns = spec.nv * b.lanes
    with b.loop("tap", 0, product(spec.kernel)) as tap:
        source = b.at(place.source, b.mul(tap.index, spec.ic * columns))
        at = b.dot(b.split(tap.index, spec.kernel), spec.ws[1:4])
        for j in range(kind.nv):
            rows = _sum_parts(b, spec, b.at(source, j * b.lanes), place.parts, channels)
            rows += [b.splat(0.0)] * (b.lanes - channels)
            lanes = kind.last if j == kind.nv - 1 else b.lanes
            for lane, vector in enumerate(transposed(b, rows)[:lanes]):
                target = b.add(at, (j * b.lanes + lane) * spec.ws[0])
                write_vector(b, vector, place.target, target, spec.ws[4], channels)


def _sum_parts(
    b: LoopBuilder, spec: JoinPartsSpec, source: Value, parts: Value, channels: int
) -> list[Value]:
    """A vector of filters for each channel."""
    columns = spec.nv * b.lanes

    def read(at: Value) -> list[Value]:
        return [b.load(at, row * columns) for row in range(channels)]

    with b.loop("part", 1, parts, carry=read(source)) as part:
        following = read(b.at(source, b.mul(part.index, spec.buffer_floats(b.lanes))))
        part.yields([b.b.fadd(*pair) for pair in zip(part.carried, following)])
    return list(part.results)
