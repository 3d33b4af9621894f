"""KernelSpec and packings of layers of bytes by Winograd's algorithm, in integers."""

from __future__ import annotations

import numpy as np

from ...._core.frozen import dataclass
from ...._core.target import SHORTS, ElementTypes
from ...packing import whole_vectors
from ..conv.spec import WinogradSpec

# 24 G for F(4x4, 3x3) with the points 0, 1, -1, 2, -2 and infinity, whose row is 8 instead of 24.
# The filters at all points fit into int16: 12 * 12 * 128 is the largest value.
FILTER_MATRIX = (
    (6, 0, 0),
    (-4, -4, -4),
    (-4, 4, -4),
    (1, 2, 4),
    (1, -2, 4),
    (0, 0, 8),
)
POINTS = len(FILTER_MATRIX) ** 2
# Results are sums times 24 * 24 = 9 * 64, modulo 2**32: a sum is known modulo 2**26.
ODD, BITS = 9, 6
# Maximum channels of a part: sums of 9 * channels products of uint8 and int8 have fewer than 2**26
# values.
MOST_CHANNELS = (2**26 - 1) // (9 * 255 * 128)


@dataclass(frozen=True)
class ByteWinogradSpec(WinogradSpec):
    """F(4x4, 3x3) of bytes: x, w, lows, bias, operands, results, scratch, batch.

    Exact: data and filters at the points are int16, sums are int32 modulo 2**32, and the least
    value of a filter's sums, ``lows``, decides which integer modulo 2**26 a result is.

    parts  of the channels, each with its own products, whose results are added
    """

    element: ElementTypes = SHORTS
    parts: int = 1
    kind = "byte_winograd"

    @property
    def points(self) -> int:
        """Values of one transformed tile in all parts."""
        return POINTS * self.parts

    @property
    def of_part(self) -> int:
        """Channels of a part."""
        channels: int = self.ic
        return channels // self.parts

    def row_step(self, lanes: int) -> int:
        """Words of a row of transformed data, each of two channels."""
        return self.of_part // 2


@dataclass(frozen=True)
class ByteWinogradPacking:
    """Weights [F, 3, 3, C] of int8 at the points: [block][part][point][C / 2][nv * lanes], as words
    of two channels, the first in the low half.
    """

    lanes: int
    nv: int
    parts: int = 1
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        channels: int = weight.shape[-1]
        return POINTS * channels // 2 * whole_vectors(len(weight), self.nv * self.lanes)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        width, channels = self.nv * self.lanes, weight.shape[-1]
        of_part = channels // self.parts
        blocks = out.view(np.int16).reshape(-1, self.parts, POINTS, of_part // 2, width, 2)
        taps = weight.reshape(-1, 3, 3, channels).transpose(1, 2, 3, 0)
        some = np.zeros((3, 3, channels, width), np.int16)
        for number, block in enumerate(blocks):
            filters = taps[..., number * width : (number + 1) * width]
            some[..., : filters.shape[-1]] = filters
            some[..., filters.shape[-1] :] = 0
            for part, target in enumerate(block):
                _write_points(some[:, :, part * of_part : (part + 1) * of_part], target)


def _write_points(taps: np.ndarray, out: np.ndarray) -> None:
    """out[point, c / 2, f, c % 2] = (g w gT)[point] for taps [3, 3, c, f]."""
    g = np.array(FILTER_MATRIX, np.int16)
    pairs = taps.reshape(3, 3, -1, 2, taps.shape[-1]).swapaxes(3, 4)
    rows = np.stack([_combined(factors, pairs) for factors in g])
    for number, target in enumerate(out):
        row, column = divmod(number, len(g))
        target[...] = _combined(g[column], rows[row])


def _combined(factors: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The sum of three arrays times their factors."""
    first, *others = np.flatnonzero(factors)
    made: np.ndarray = parts[first] * factors[first]
    for at in others:
        made += parts[at] * factors[at]
    return made


@dataclass(frozen=True)
class LowsPacking:
    """255 times the sum of the negative weights of each filter, negated, for each part of the
    channels; zeros after the last filter.
    """

    lanes: int
    parts: int = 1
    rows = 0
    unpacking = None

    def size(self, weight: np.ndarray) -> int:
        return self.parts * whole_vectors(len(weight), self.lanes)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        negative = np.minimum(weight.reshape(len(weight), 9, self.parts, -1), 0)
        full = out.reshape(self.parts, -1)
        full[:, : len(weight)] = -255 * negative.sum(axis=(1, 3), dtype=np.int32).T
        full[:, len(weight) :] = 0
