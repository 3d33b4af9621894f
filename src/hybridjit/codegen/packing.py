"""Packed layouts of weights, written by NumPy at bind time.

A packing is frozen data, so that the plan can print it and equal packings share one packed array.
It computes the number of elements and writes them into a given array, which avoids a second copy of
weights that may be most of a network's memory. ``rows`` is the number of rows of the weights in a
block; blocks are stored in the order of the rows, so that they can be packed one by one. It is 0 if
rows are mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from .._core.errstate import quiet
from .._core.frozen import dataclass
from .._core.types import BFLOAT16, product
from ..ir.plan_image import Unpack
from ..ops.bfloat16 import to_bfloat16
from .interpolation import Line, filter_matrix

_Transform = Callable[[np.ndarray, np.ndarray], None]


def whole_vectors(channels: int, lanes: int) -> int:
    """``channels`` rounded up to full vectors."""
    return -(-channels // lanes) * lanes


def first_half(filters: int, lanes: int) -> int:
    """Number of filters in the first half in :class:`StrassenPacking`: full vectors."""
    return whole_vectors(-(-filters // 2), lanes)


@dataclass(frozen=True)
class ConvPacking:
    """Weights [F, kd, kh, kw, C] to blocks of ``nv`` vectors of filters, filters innermost.

    Per group and block: [K][columns], where K runs over (kd, kh, kw, C), or over (C, kd, kh, kw)
    with ``taps``; the last block has only the necessary vectors, and the last vector is padded with
    zeros.
    """

    groups: int
    lanes: int
    nv: int
    taps: bool

    @property
    def rows(self) -> int:
        return self.nv * self.lanes if self.groups == 1 else 0

    def size(self, weight: np.ndarray) -> int:
        filters = weight.shape[0] // self.groups
        columns: int = weight.size // weight.shape[0]
        return self.groups * whole_vectors(filters, self.lanes) * columns

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        filters = weight.shape[0] // self.groups
        split = weight.reshape(self.groups, filters, -1, weight.shape[-1])
        transposed = split.transpose(0, 1, 3, 2) if self.taps else split
        rows = transposed.reshape(self.groups, filters, -1)
        padded, width = whole_vectors(filters, self.lanes), self.nv * self.lanes
        position = 0
        for group in rows:
            for start in range(0, padded, width):
                columns = min(width, padded - start)
                block = out[position : position + columns * rows.shape[2]]
                _transpose_into(group[start : start + width], block.reshape(-1, columns))
                position += block.size

    @property
    def unpacking(self) -> Unpack | None:
        """The function that restores the weights bit by bit; None if impossible."""
        return self.unpack if self.groups == 1 and not self.taps else None

    def unpack(self, packed: np.ndarray, filters: slice, size: int) -> np.ndarray:
        """Weights [filters, size] of full blocks, as they were before :meth:`pack`."""
        blocks = packed[filters.start * size : whole_vectors(filters.stop, self.lanes) * size]
        result = np.empty((filters.stop - filters.start, size), packed.dtype)
        for start in range(0, len(result), self.rows):
            rows = result[start : start + self.rows]
            columns = whole_vectors(len(rows), self.lanes)
            block = blocks[start * size : start * size + columns * size].reshape(size, columns)
            rows[:] = block[:, : len(rows)].T
        return result


def _transpose_into(rows: np.ndarray, block: np.ndarray) -> None:
    """block[k, f] = rows[f, k], zeros for missing f."""
    block[:, : rows.shape[0]] = rows.T
    block[:, rows.shape[0] :] = 0


@dataclass(frozen=True)
class NibblePacking:
    """Weights [F, C / 2] of two nibbles a byte to words of eight: [vector][C / 8][lanes]."""

    lanes: int
    rows = 0
    unpacking = None

    @property
    def _inner(self) -> ConvPacking:
        return ConvPacking(1, self.lanes, 1, False)

    def size(self, weight: np.ndarray) -> int:
        return self._inner.size(weight[:, ::4])

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self._inner.pack(np.ascontiguousarray(weight).view(np.uint32), out)


@dataclass(frozen=True)
class ChannelPacking:
    """A vector of one element per channel, per group padded with zeros to full vectors."""

    groups: int
    lanes: int
    rows = 0
    unpacking = None

    def size(self, bias: np.ndarray) -> int:
        return self.groups * whole_vectors(bias.size // self.groups, self.lanes)

    def pack(self, bias: np.ndarray, out: np.ndarray) -> None:
        rows = bias.reshape(self.groups, -1)
        full = out.reshape(self.groups, -1)
        full[:, : rows.shape[1]] = rows
        full[:, rows.shape[1] :] = 0


@dataclass(frozen=True)
class DepthwisePacking:
    """Weights [C, kd, kh, kw, I] to [kd, kh, kw, I, C padded to full vectors]."""

    lanes: int
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        return int(weight[0].size) * whole_vectors(weight.shape[0], self.lanes)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        _transpose_into(weight.reshape(weight.shape[0], -1), out.reshape(weight[0].size, -1))


@dataclass(frozen=True)
class WinogradPacking:
    """Weights [F, kh, kw, C] transformed for ``lines`` to [block][points][C][nv * lanes].

    Axes of one tap may be omitted or added. Computed in double precision and rounded once; the
    filters of each of ``groups`` groups are padded with zeros to full blocks. ``lines`` are the
    vertical and the horizontal algorithm; without them, F(m x m, 3x3). With ``depth``, the channels
    of its taps along a volume's depth follow each other.
    """

    m: int
    lanes: int
    nv: int
    lines: tuple[Line, ...] = ()
    depth: int = 1
    groups: int = 1

    unpacking = None

    @property
    def rows(self) -> int:
        return self.nv * self.lanes if self.groups == 1 else 0

    @property
    def points(self) -> int:
        """Number of values of a transformed filter."""
        return (
            product(tuple(line.points for line in self.lines)) if self.lines else (self.m + 2) ** 2
        )

    @property
    def matrix(self) -> np.ndarray:
        """The matrix from the taps of the window to the points of ``lines``."""
        down, across = (line.filter_matrix for line in self.lines)
        return np.kron(down, across)

    def size(self, weight: np.ndarray) -> int:
        channels: int = self.depth * weight.shape[-1]
        padded = whole_vectors(len(weight) // self.groups, self.nv * self.lanes)
        return self.groups * self.points * channels * padded

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        width, channels = self.nv * self.lanes, self.depth * weight.shape[-1]
        if self.depth > 1:
            weight = weight.transpose(0, 2, 3, 1, 4)
        taps = (-1,) if self.lines else (3, 3)
        weight = weight.reshape(len(weight), *taps, channels)
        full = out.reshape(self.groups, -1, self.points, channels, width)
        transform = self._transform(min(channels, _CHANNELS), width)
        for group, blocks in zip(np.split(weight, self.groups), full):
            self._pack_group(transform, group, blocks)

    def _pack_group(self, transform: _Transform, weight: np.ndarray, blocks: np.ndarray) -> None:
        width, channels = blocks.shape[-1], weight.shape[-1]
        for block, target in enumerate(blocks):
            filters = weight[block * width : (block + 1) * width]
            for first in range(0, channels, _CHANNELS):
                some = slice(first, first + _CHANNELS)
                transform(filters[..., some], target[:, some])

    def _transform(self, channels: int, width: int) -> _Transform:
        if not self.lines:
            return _Workspace(filter_matrix(self.m), channels, width).transform
        return partial(_transform_by_matrix, self.matrix)


def _transform_by_matrix(g: np.ndarray, filters: np.ndarray, out: np.ndarray) -> None:
    """out[point] = g w for every filter and channel; zeros for absent filters.

    Most points of a stride depend on one or two of nine taps: 256 to 512 channels, 3x3/2, take as
    long as by one product with the whole matrix, which starts threads: 77 ms instead of 470 on two
    busy cores.
    """
    count, taps, (channels, width) = len(filters), g.shape[1], out.shape[1:]
    rows = np.zeros((taps, channels, width))
    rows[..., :count] = filters.reshape(count, taps, channels).transpose(1, 2, 0)
    made, term = np.empty((2, channels, width))
    for target, factors in zip(out, g):
        first, *others = np.flatnonzero(factors)
        np.multiply(rows[first], factors[first], out=made)
        for tap in others:
            np.add(made, np.multiply(rows[tap], factors[tap], out=term), out=made)
        target[...] = made


# Channels transformed together: the data of a round stay in the second-level cache.
_CHANNELS = 128


class _Workspace:
    """Scratch arrays for transforming one block of filters, reused for the next.

    Four times as fast as transforming whole arrays, which read and write memory for every term.
    """

    def __init__(self, g: np.ndarray, channels: int, width: int) -> None:
        self._g = g
        self._taps = np.zeros((3, 3, channels, width))
        self._half = np.empty((len(g), 3, channels, width))
        self._rows = np.empty((3, 3, channels, width))
        self._columns = np.empty((3, channels, width))

    def transform(self, filters: np.ndarray, out: np.ndarray) -> None:
        """out[a, b] = (g w gT)[a, b] for every filter and channel; zeros for absent filters."""
        count, channels = filters.shape[0], filters.shape[-1]
        taps, half = self._taps[:, :, :channels], self._half[:, :, :channels]
        taps[..., count:] = 0
        for i in range(3):
            for j in range(3):
                taps[i, j, :, :count] = filters[:, i, j].T
        _interpolate(self._g, taps, half, self._rows[:, :, :channels])
        side = len(self._g)
        for row, target in zip(half, out.reshape(side, side, *out.shape[1:])):
            _interpolate(self._g, row, target, self._columns[:, :channels])


def _interpolate(g: np.ndarray, w: np.ndarray, out: np.ndarray, room: np.ndarray) -> None:
    """out[i] = g[i, 0] w[0] + g[i, 1] w[1] + g[i, 2] w[2], sharing terms of points p and -p."""
    even, odd, term = room
    zero = 1 - len(g) % 2
    if zero:
        np.multiply(w[0], g[0, 0], out=out[0], casting="same_kind")
    for i in range(zero, len(g) - 1, 2):
        np.multiply(w[0], g[i, 0], out=even)
        even += np.multiply(w[2], g[i, 2], out=term)
        np.multiply(w[1], g[i, 1], out=odd)
        np.add(even, odd, out=out[i], casting="same_kind")
        mirrored = (even, odd) if zero else (odd, even)
        np.subtract(*mirrored, out=out[i + 1], casting="same_kind")
    out[-1] = w[2]


@dataclass(frozen=True)
class StrassenPacking:
    """Weights [F, 1, 1, C] of 1x1 layers to sums of quarters, [block][product][C / 2][nv * lanes].

    Wij are the weights from the channels of half i to the filters of half j; the first half of the
    filters consists of full vectors, the second is padded with zeros. A block of filters has W11,
    W21, W22, T4, T1, T2 and T3, where T1 = W12 - W11, T2 = W22 - T1, T3 = W22 - W12 and T4 = T2 -
    W21; the blocks contain half of the filters, padded with zeros. W12 of all blocks follows: no
    kernel reads it, but with it the weights can be restored and need not be kept as well.
    """

    lanes: int
    nv: int
    rows = 0

    def size(self, weight: np.ndarray) -> int:
        filters, channels = first_half(len(weight), self.lanes), weight.size // len(weight) // 2
        return 8 * int(channels) * whole_vectors(filters, self.nv * self.lanes)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        for rows, block in self.blocks(weight, out):
            _transpose_into(rows, block)
        self.add_up(weight.size // len(weight) // 2, out)

    def blocks(
        self, weight: np.ndarray, out: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each quarter and block, its rows, possibly too few, and its destination."""
        width = self.nv * self.lanes
        for source, quarter in self.quarters(weight, out):
            for number, block in enumerate(quarter):
                yield source[number * width : (number + 1) * width], block

    def quarters(
        self, weight: np.ndarray, out: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """W11, W21, W22, W12, each [F / 2, C / 2], and targets [block][C / 2][nv * lanes]."""
        parts = weight.reshape(len(weight), 2, -1).swapaxes(0, 1)
        half = first_half(len(weight), self.lanes)
        (w11, w21), (w12, w22) = parts[:, :half], parts[:, half:]
        blocks, kept = self._split(w11.shape[1], out)
        yield from zip((w11, w21, w22), blocks.swapaxes(0, 1))
        yield w12, kept

    @quiet
    def add_up(self, channels: int, out: np.ndarray) -> None:
        """Compute the sums of the quarters, which are packed already; ``channels`` is C / 2."""
        blocks, kept = self._split(channels, out)
        for (w11, w21, w22, t4, t1, t2, t3), w12 in zip(blocks, kept):
            np.subtract(w12, w11, out=t1)
            np.subtract(w22, t1, out=t2)
            np.subtract(w22, w12, out=t3)
            np.subtract(t2, w21, out=t4)

    def _split(self, channels: int, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums, kept = np.split(out, [out.size // 8 * 7])
        width = self.nv * self.lanes
        return sums.reshape(-1, 7, channels, width), kept.reshape(-1, channels, width)

    @property
    def unpacking(self) -> Unpack:
        """The function that restores the weights bit by bit."""
        return self.unpack

    def unpack(self, packed: np.ndarray, filters: slice, size: int) -> np.ndarray:
        """Weights [filters, size] of all filters."""
        result = np.empty((filters.stop, size), packed.dtype)
        for target, quarter in self.quarters(result, packed):
            rows = quarter.swapaxes(1, 2).reshape(-1, target.shape[1])
            target[:] = rows[: len(target)]
        return result


@dataclass(frozen=True)
class RecurrentPacking:
    """Weights [gates * H, K] to [vectors of H][K][gate][lanes]; K = 1 for a bias."""

    gates: int
    lanes: int
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        rows = whole_vectors(weight.shape[0] // self.gates, self.lanes) * self.gates
        columns: int = weight.size // weight.shape[0]
        return rows * columns

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        units = weight.shape[0] // self.gates
        split = weight.reshape(self.gates, units, -1)
        full = out.reshape(-1, split.shape[2], self.gates, self.lanes)
        for block, start in enumerate(range(0, units, self.lanes)):
            rows = split[:, start : start + self.lanes]
            full[block, :, :, : rows.shape[1]] = rows.transpose(2, 0, 1)
            full[block, :, :, rows.shape[1] :] = 0


@dataclass(frozen=True)
class PhasePacking:
    """Weights [C, kd, kh, kw, F / groups] of a transposed convolution, for one of its phases.

    A phase is an ordinary convolution with every ``step``-th tap from ``first`` on, ``count`` taps,
    in reverse order; ``inner`` packs its weights [F, taps, C / groups]. A phase without taps has a
    single zero tap.
    """

    inner: ConvPacking | PairPacking | DepthwisePacking | WinogradPacking
    groups: int
    first: tuple[int, ...]
    step: tuple[int, ...]
    count: tuple[int, ...]
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        return self.inner.size(self._transposed(weight))

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self.inner.pack(self._transposed(weight), out)

    def _transposed(self, weight: np.ndarray) -> np.ndarray:
        channels, filters = weight.shape[0] // self.groups, weight.shape[-1]
        rank = weight.ndim - 2
        taps = [
            first + step * np.arange(count)[::-1]
            for first, step, count in zip(self.first, self.step, self.count)
        ]
        if 0 in self.count:
            shape = (self.groups * filters, *(1,) * rank, channels)
            return np.zeros(shape, weight.dtype)
        chosen = weight[np.ix_(np.arange(weight.shape[0]), *taps, np.arange(filters))]
        split = chosen.reshape(self.groups, channels, *self.count, filters)
        transposed: np.ndarray = split.transpose(0, -1, *range(2, 2 + rank), 1)
        return transposed.reshape(-1, *self.count, channels)


@dataclass(frozen=True)
class PairPacking:
    """Weights [F, ..., C] in bfloat16: words of two channels, the first in the low half.

    ``inner`` packs the words; an odd last channel is paired with a 0.
    """

    inner: ConvPacking | RecurrentPacking
    unpacking = None

    @property
    def rows(self) -> int:
        return self.inner.rows

    def size(self, weight: np.ndarray) -> int:
        words = (*weight.shape[:-1], -(-weight.shape[-1] // 2))
        return self.inner.size(np.broadcast_to(np.uint32(0), words))

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self.inner.pack(self.words(weight), out)

    def words(self, weight: np.ndarray) -> np.ndarray:
        """The weights in pairs, as uint32."""
        channels = weight.shape[-1]
        short = np.zeros((*weight.shape[:-1], channels + channels % 2), BFLOAT16)
        short[..., :channels] = to_bfloat16(weight)
        return short.view(np.uint32)


@dataclass(frozen=True)
class QuadPacking:
    """Weights [F, ..., C] of int8: words of four channels, the first in the lowest byte.

    ``inner`` packs the words; missing channels of the last word are 0. With ``in_lines``, the
    channels of all taps of a row follow each other, [F, ..., kw * C].
    """

    inner: ConvPacking
    in_lines: bool = False
    unpacking = None

    @property
    def rows(self) -> int:
        return self.inner.rows

    def size(self, weight: np.ndarray) -> int:
        shape = self._shape(weight)
        words = (*shape[:-1], -(-shape[-1] // 4))
        return self.inner.size(np.broadcast_to(np.uint32(0), words))

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self.inner.pack(self.words(weight), out)

    def words(self, weight: np.ndarray) -> np.ndarray:
        """The weights as words of uint32."""
        shape = self._shape(weight)
        full = np.zeros((*shape[:-1], whole_vectors(shape[-1], 4)), np.int8)
        full[..., : shape[-1]] = weight.reshape(shape)
        return full.view(np.uint32)

    def _shape(self, weight: np.ndarray) -> tuple[int, ...]:
        if not self.in_lines:
            return weight.shape
        *rest, taps, channels = weight.shape
        return (*rest, 1, taps * channels)


@dataclass(frozen=True)
class AbreastPacking:
    """Weights [F, ..., kw, C] for ``columns`` columns of the result as filters of one wider window.

    The taps of each column are ``step`` taps to the right of those of the previous column, between
    zeros. A vector with one element per filter is repeated.
    """

    inner: ConvPacking | ChannelPacking
    columns: int
    step: int
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        return self.inner.size(self._wide(weight))

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self.inner.pack(self._wide(weight), out)

    def _wide(self, weight: np.ndarray) -> np.ndarray:
        if weight.ndim == 1:
            return np.tile(weight, self.columns)
        *rest, taps, channels = weight.shape
        width = taps + (self.columns - 1) * self.step
        wide = np.zeros((self.columns, *rest, width, channels), weight.dtype)
        for column, part in enumerate(wide):
            first = column * self.step
            part[..., first : first + taps, :] = weight
        return wide.reshape(-1, *wide.shape[2:])


Packing = (
    ConvPacking
    | PairPacking
    | QuadPacking
    | ChannelPacking
    | DepthwisePacking
    | WinogradPacking
    | StrassenPacking
    | RecurrentPacking
    | PhasePacking
    | AbreastPacking
)


def pack(packing: Packing, weight: np.ndarray, out: np.ndarray) -> None:
    """Pack with NumPy."""
    packing.pack(weight, out)
