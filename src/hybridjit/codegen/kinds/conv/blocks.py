"""Blocks of output channels: the vectors that a register tile has of each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value


@dataclass(frozen=True)
class Block:
    """A block of output channels: ``nv`` vectors, the last with ``last`` lanes."""

    nv: int
    last: int


def blocks_of(oc: int, nv: int, lanes: int) -> list[Block]:
    """The output channels of a group as blocks of ``nv`` vectors; the last may be narrower."""
    vectors = -(-oc // lanes)
    last = oc - (vectors - 1) * lanes
    full, rest = divmod(vectors, nv)
    blocks = [Block(nv, lanes)] * full + ([Block(rest, lanes)] if rest else [])
    blocks[-1] = Block(blocks[-1].nv, last)
    return blocks


def runs_of_blocks(blocks: list[Block]) -> list[tuple[Block, int, int]]:
    """Runs of equal adjacent blocks: (block, count, index of the first)."""
    runs, first = [], 0
    for kind, members in groupby(blocks):
        count = len(list(members))
        runs.append((kind, count, first))
        first += count
    return runs


def runs_of_channels(
    b: LoopBuilder, channels: Index, nv: int
) -> tuple[list[tuple[Block, Index, int]], Index]:
    """The runs of :func:`runs_of_blocks`, and the number of blocks. If the call gives the number of
    channels, all blocks are full.
    """
    if isinstance(channels, int):
        blocks = blocks_of(channels, nv, b.lanes)
        return [*runs_of_blocks(blocks)], len(blocks)
    number, _ = b.divmod(channels, nv * b.lanes)
    return [(Block(nv, b.lanes), number, 0)], number


def in_range(b: LoopBuilder, value: Index, low: int, high: Index, size: Index) -> Value:
    if low == 0:
        return b.less(value, high)
    return b.less(low - 1, value)
