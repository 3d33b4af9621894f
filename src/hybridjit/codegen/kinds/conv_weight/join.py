"""Add the buffers of all parts, in order, and write them as a weight.

A square of channels x filters is read along the filters, as the buffers store them, and written
along the channels, because the filters of a weight are far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...._core.frozen import dataclass
from ...._core.types import product
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..conv.blocks import Block, blocks_of, in_range, runs_of_blocks
from ..parts.arguments import Arguments
from ..parts.partial import whole_and_last, write_vector
from ..parts.transpose import transposed
from .spec import JoinPartsSpec


@dataclass(frozen=True)
class _Parts:
    """The buffers (number, elements of one, rows of a tap) and the weight's strides."""

    count: Value
    floats: Index
    rows: Index
    strides: list[Index]


@dataclass(frozen=True)
class _Place:
    """A block of filters and a vector of channels: addresses to read and to write."""

    source: Value
    target: Value


def emit_join_parts(b: LoopBuilder, spec: JoinPartsSpec, args: Arguments) -> None:
    """w[f,tap,c] = sum over parts of buffer[part,f,tap,c]; a unit is a vector of channels."""
    buffers, w, count = args.working("buffers"), args.pointer("w"), args.integer("parts")
    (ic, oc), strides = args.given((spec.ic, spec.oc)), args.given(spec.ws)
    columns = spec.nv * b.lanes
    kinds, blocks = _kinds_of_blocks(b, spec, oc)
    vectors = b.divmod(b.add(ic, b.lanes - 1), b.lanes)[0]
    block_floats = b.mul(ic, product(spec.kernel) * columns)
    parts = _Parts(count, b.mul(b.mul(blocks, spec.groups), block_floats), ic, strides)
    units = b.mul(b.mul(blocks, vectors), spec.groups)
    with b.each_unit(units, args.share, args.shares) as unit:
        group, block, vector = b.split(unit.index, (0, blocks, vectors))
        number, channel = b.add(b.mul(group, blocks), block), b.mul(vector, b.lanes)
        filters = b.add(b.mul(group, oc), b.mul(block, columns))
        place = _Place(
            b.at(buffers, b.add(b.mul(number, block_floats), b.mul(channel, columns))),
            b.at(w, b.add(b.mul(filters, strides[0]), b.mul(channel, strides[4]))),
        )
        last = (ic - 1) % b.lanes + 1 if isinstance(ic, int) else b.lanes
        for kind, is_here in kinds:
            body = partial(_join, b, spec, parts, place, kind)
            with b.when(is_here(block)):
                whole_and_last(b, vector, vectors, last, body)


def _kinds_of_blocks(
    b: LoopBuilder, spec: JoinPartsSpec, oc: Index
) -> tuple[list[tuple[Block, Callable[[Index], Value]]], Index]:
    """Different kinds of blocks, each with a condition on the block's number; and the number of
    blocks.

    If the number of filters is given by the call, all blocks are full.
    """
    if not isinstance(oc, int):
        blocks = b.divmod(oc, spec.nv * b.lanes)[0]
        return [(Block(spec.nv, b.lanes), lambda block: b.less(block, blocks))], blocks
    found = blocks_of(oc, spec.nv, b.lanes)
    kinds = [
        (kind, partial(_in_range, b, start, start + count, len(found)))
        for kind, count, start in runs_of_blocks(found)
    ]
    return list(kinds), len(found)


def _in_range(b: LoopBuilder, low: int, high: int, size: int, block: Index) -> Value:
    return in_range(b, block, low, high, size)


def _join(
    b: LoopBuilder,
    spec: JoinPartsSpec,
    parts: _Parts,
    place: _Place,
    kind: Block,
    channels: int,
) -> None:
    """All taps of a block of filters, for ``channels`` channels."""
    columns = spec.nv * b.lanes
    with b.loop("tap", 0, product(spec.kernel)) as tap:
        source = b.at(place.source, b.mul(tap.index, b.mul(parts.rows, columns)))
        at = b.dot(b.split(tap.index, spec.kernel), parts.strides[1:4])
        body = partial(_turn, b, parts, source, b.at(place.target, at), columns, channels)
        whole = kind.nv if kind.last == b.lanes else kind.nv - 1
        with b.loop("vector", 0, whole) as vector:
            body(vector.index, b.lanes)
        if whole < kind.nv:
            body(whole, kind.last)


def _turn(
    b: LoopBuilder,
    parts: _Parts,
    source: Value,
    target: Value,
    columns: int,
    channels: int,
    vector: Index,
    lanes: int,
) -> None:
    """``lanes`` filters of a vector of a block, at one tap: LLVM takes 8 ms for each square."""
    first = b.mul(vector, b.lanes)
    rows = _sum_parts(b, columns, b.at(source, first), parts, channels)
    rows += [b.splat(0.0)] * (b.lanes - channels)
    for lane, value in enumerate(transposed(b, rows)[:lanes]):
        to = b.mul(parts.strides[0], b.add(first, lane))
        write_vector(b, value, target, to, parts.strides[4], channels)


def _sum_parts(
    b: LoopBuilder, columns: int, source: Value, parts: _Parts, channels: int
) -> list[Value]:
    """A vector of filters for each channel."""

    def read(at: Value) -> list[Value]:
        return [b.load(at, row * columns) for row in range(channels)]

    with b.loop("part", 1, parts.count, carry=read(source)) as part:
        following = read(b.at(source, b.mul(part.index, parts.floats)))
        part.yields([b.b.fadd(*pair) for pair in zip(part.carried, following)])
    return list(part.results)
