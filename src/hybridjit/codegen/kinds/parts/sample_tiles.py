"""Tiles of samples in the steps of recurrent layers, and their division among threads.

A sample's state depends only on the sample's previous state. Threads that keep their samples from
step to step need no barrier, and read nothing that another thread wrote. But then each reads all of
the weights: this suits weights that stay in its cache. Otherwise threads share the hidden units
too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...._core.symbolic import Size, hint_of
from ....ir.plan import View
from ...call import Argument, ByRows, Setting
from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from .arguments import Arguments
from .partial import whole_and_last

# Cost of a barrier in cycles, including the wait for data that other threads wrote: 0.3 us on two
# otherwise idle cores, and 2 us if two threads share a core.
_BARRIER = 2000
# Approximate cycles of a cell for a vector of hidden units.
_CELL = 50


class Tiles(NamedTuple):
    """The most and the fewest samples of a tile for which a kernel has code; for the call, the
    number of tiles, and the maximal number of threads that divide it by samples.
    """

    most: int
    least: int
    number: int
    threads: int


class Layer(NamedTuple):
    """Samples, hidden units, elements of a sum, and number of gates."""

    batch: int
    hidden: int
    size: int
    gates: int


def tiles_for(layer: Layer, most: int, setting: Setting) -> Tiles:
    """Tiles of up to ``most`` samples: in training for this batch only, else for all batches of at
    least half a tile, or all smaller batches.

    An even number if threads divide them by samples, so that two threads have equal work.
    """
    batch, target = layer.batch, setting.target
    if isinstance(batch, Size):
        return _symbolic_tiles(layer, most, setting)
    count, least = max(1, -(-batch // most)), (most + 1) // 2
    weights = -(-layer.hidden // target.lanes) * target.lanes * layer.size * layer.gates
    is_kept = 2 * weights * target.element_bytes <= target.l2_bytes
    is_odd = count > 1 and count % 2 == 1
    if is_kept and is_odd and (setting.is_training or batch // (count + 1) >= least):
        count += 1
    if setting.is_training:
        most, least = -(-batch // count), batch // count
    elif batch < least:
        most, least = max(1, least - 1), 1
    threads = _threads_by_samples(layer, count, most, target.lanes) if is_kept else 0
    return Tiles(most, least, count, threads)


def _symbolic_tiles(layer: Layer, most: int, setting: Setting) -> Tiles:
    """Tiles of a symbolic number of samples, of two classes: at least half a tile, or fewer.

    Their number is an argument of the call; threads divide them as they would at the hint.
    """
    least = (most + 1) // 2
    at_hint = tiles_for(layer._replace(batch=hint_of(layer.batch)), most, setting)
    if layer.batch < least:
        return at_hint._replace(most=max(1, least - 1), least=1, number=1, threads=0)
    return at_hint._replace(most=most, least=least, number=-(-layer.batch // most))


def _threads_by_samples(layer: Layer, count: int, most: int, lanes: int) -> int:
    """Maximal number of threads that divide ``count`` tiles by samples: for all numbers up to it,
    the thread with most tiles needs no longer than with an equal share and a barrier.
    """
    blocks = -(-layer.hidden // lanes)
    cycles = most * (layer.size * layer.gates // 2 + _CELL)
    for threads in range(2, count + 1):
        more = -(-count // threads) * blocks - -(-count * blocks // threads)
        if more * cycles > _BARRIER:
            return threads - 1
    return count


def by_samples(
    tiles: Tiles,
    reads: Sequence[View],
    writes: Sequence[View],
    common: Sequence[Argument],
) -> ByRows | None:
    """The accesses of steps to views (T, N, elements) or (N, elements), if threads divide by
    samples.

    None for a single tile, which is not divided.
    """
    if tiles.threads < 2:
        return None
    (batch,) = {view.shape[-2] for view in (*reads, *writes)}
    first, second = (tuple((v, len(v.shape) - 2) for v in side) for side in (reads, writes))
    return ByRows(batch, tiles.number, tiles.threads, first, second, tuple(common))


class TileShape(NamedTuple):
    """Hidden units of a layer, and the most and the fewest samples of a tile."""

    hidden: int
    most: int
    least: int


class Shares(NamedTuple):
    """Samples, tiles, most threads that divide by samples; this share and all."""

    batch: Value
    tiles: Value
    threads: Value
    share: Value
    shares: Value


def shares_of(args: Arguments) -> Shares:
    """Take the arguments batch, tiles and threads."""
    batch, tiles, threads = (args.integer(name) for name in ("batch", "tiles", "threads"))
    return Shares(batch, tiles, threads, args.share, args.shares)


def emit_tiles(
    b: LoopBuilder,
    shape: TileShape,
    shares: Shares,
    products: Callable[[Index, Index, Index, int], None],
    cells: Callable[[Index, Index, Index, int], None],
) -> None:
    """A unit of work is a vector of hidden units of a tile of samples.

    ``products(first, block, tile, height)`` is emitted once for each possible height of a tile;
    ``cells(first, block, height, lanes)`` follows, for full vectors and for the last one.
    """
    hidden, most, least = shape
    blocks = -(-hidden // b.lanes)
    first_tile, count, begin, end = _units_of(b, shares, blocks)
    with b.each_of(begin, end) as unit:
        block, at = b.divmod(unit.index, count)
        tile = b.add(first_tile, at)
        first, height = _place(b, shares, tile)
        for known in range(least, most + 1):
            with b.when(b.equal(height, known)):
                products(first, block, tile, known)
        last = hidden - (blocks - 1) * b.lanes
        whole_and_last(b, block, blocks, last, partial(cells, first, block, height))


def _place(b: LoopBuilder, shares: Shares, tile: Index) -> tuple[Index, Index]:
    """A tile's first sample and its height. Higher tiles are between lower ones, so that threads
    with equal numbers of tiles have numbers of samples that differ by at most one.
    """
    ends = (b.divmod(b.mul(at, shares.batch), shares.tiles)[0] for at in (tile, b.add(tile, 1)))
    first, end = ends
    return first, b.sub(end, first)


def _units_of(b: LoopBuilder, shares: Shares, blocks: int) -> tuple[Value, ...]:
    """Units [begin, end) of a number of tiles from a first one on, block by block: all units of a
    thread's tiles, or a part of those of all tiles if there are too many threads.
    """
    tiles, which = shares.tiles, (shares.share, shares.shares)
    own, after = b.share(tiles, *which)
    begin, end = b.share(b.mul(tiles, blocks), *which)
    none, count = b.i64(0), b.i64(b.sub(after, own))
    are_many = b.less(shares.threads, shares.shares)
    either = ((none, own), (tiles, count), (begin, none), (end, b.i64(b.mul(count, blocks))))
    return tuple(b.b.select(are_many, *two) for two in either)
