"""How a kernel wants its weights: NumPy, run when a parameter is bound.

A packing is frozen data, so that the plan can print it and equal ones share one packed array. It
says how many floats it makes and writes them where it is told, so that no second copy is made of
weights that may be most of a network's memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def whole_vectors(channels: int, lanes: int) -> int:
    """``channels`` rounded up to whole vectors."""
    return -(-channels // lanes) * lanes


@dataclass(frozen=True)
class ConvPacking:
    """Weights [F, kd, kh, kw, C] to blocks of ``nv`` vectors of filters, filters innermost.

    Per group and block: [K][columns], where K runs over (kd, kh, kw, C), or over
    (C, kd, kh, kw) when ``taps``; the last block has only the vectors it needs, the last vector
    is padded with zeros.
    """

    groups: int
    lanes: int
    nv: int
    taps: bool

    def size(self, weight: np.ndarray) -> int:
        filters = weight.shape[0] // self.groups
        return self.groups * whole_vectors(filters, self.lanes) * (weight.size // weight.shape[0])

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        filters = weight.shape[0] // self.groups
        split = weight.reshape(self.groups, filters, -1, weight.shape[-1])
        turned = split.transpose(0, 1, 3, 2) if self.taps else split
        rows = turned.reshape(self.groups, filters, -1)
        padded, width = whole_vectors(filters, self.lanes), self.nv * self.lanes
        position = 0
        for group in rows:
            for start in range(0, padded, width):
                columns = min(width, padded - start)
                block = out[position : position + columns * rows.shape[2]]
                _transpose_into(group[start : start + width], block.reshape(-1, columns))
                position += block.size


def _transpose_into(rows: np.ndarray, block: np.ndarray) -> None:
    """block[k, f] = rows[f, k], zeros where there is no f."""
    block[:, : rows.shape[0]] = rows.T
    block[:, rows.shape[0] :] = 0


@dataclass(frozen=True)
class ChannelPacking:
    """A per-channel vector of each group, padded with zeros to whole vectors."""

    groups: int
    lanes: int

    def size(self, bias: np.ndarray) -> int:
        return self.groups * whole_vectors(bias.size // self.groups, self.lanes)

    def pack(self, bias: np.ndarray, out: np.ndarray) -> None:
        rows = bias.reshape(self.groups, -1)
        full = out.reshape(self.groups, -1)
        full[:, : rows.shape[1]] = rows
        full[:, rows.shape[1] :] = 0


@dataclass(frozen=True)
class DepthwisePacking:
    """Weights [C, kd, kh, kw, 1] to [kd, kh, kw, C padded to whole vectors]."""

    lanes: int

    def size(self, weight: np.ndarray) -> int:
        return weight[0].size * whole_vectors(weight.shape[0], self.lanes)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        _transpose_into(weight.reshape(weight.shape[0], -1), out.reshape(weight[0].size, -1))


@dataclass(frozen=True)
class WinogradPacking:
    """Weights [F, 3, 3, C] transformed by F(m x m, 3x3) to [block][points][C][nv * lanes].

    Computed in double precision and rounded once; padded with zeros to whole blocks.
    """

    m: int
    lanes: int
    nv: int

    def size(self, weight: np.ndarray) -> int:
        width = self.nv * self.lanes
        return (self.m + 2) ** 2 * weight.shape[-1] * whole_vectors(weight.shape[0], width)

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        width, count = self.nv * self.lanes, weight.shape[0]
        filters = weight.reshape(count, 3, 3, -1).astype(np.float64)
        g = filter_matrix(self.m)
        full = out.reshape(-1, (self.m + 2) ** 2, filters.shape[3], width)
        for a, row in enumerate(g):
            half = row[0] * filters[:, 0] + row[1] * filters[:, 1] + row[2] * filters[:, 2]
            for b, column in enumerate(g):
                point = column[0] * half[:, 0] + column[1] * half[:, 1] + column[2] * half[:, 2]
                for block, start in enumerate(range(0, count, width)):
                    target = full[block, a * (self.m + 2) + b]
                    _transpose_into(point[start : start + width], target)


def interpolation_points(m: int) -> tuple[float, ...]:
    """The finite points of F(m, 3); infinity is the last point.

    For m = 4, sqrt(1/2) and sqrt(2) instead of the usual 1 and 2: the largest error of a layer is
    a quarter (8e-6 against 3e-5 of the output's deviation, 128 channels).
    """
    if m == 2:
        return (0.0, 1.0, -1.0)
    return (0.0, 0.5**0.5, -(0.5**0.5), 2.0**0.5, -(2.0**0.5))


def filter_matrix(m: int) -> np.ndarray:
    """G of F(m, 3), [m + 2, 3]: a point's powers over the product of its distances (Toom, Cook)."""
    points = interpolation_points(m)
    g = np.zeros((m + 2, 3))
    for i, p in enumerate(points):
        others = np.prod([p - q for q in points if q != p])
        g[i] = np.array([1.0, p, p * p]) / others
    g[-1, 2] = 1.0
    return g


@dataclass(frozen=True)
class RecurrentPacking:
    """Weights [gates * H, K] to [vectors of H][K][gate][lanes]; a bias is the case of K = 1."""

    gates: int
    lanes: int

    def size(self, weight: np.ndarray) -> int:
        rows = whole_vectors(weight.shape[0] // self.gates, self.lanes) * self.gates
        return rows * (weight.size // weight.shape[0])

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

    A phase is a plain convolution by every ``step``-th tap from ``first`` on, ``count`` of them,
    backwards; ``inner`` packs its weights [F, taps, C / groups]. A phase without taps has one that
    is zero.
    """

    inner: ConvPacking | DepthwisePacking | WinogradPacking
    groups: int
    first: tuple[int, ...]
    step: tuple[int, ...]
    count: tuple[int, ...]

    def size(self, weight: np.ndarray) -> int:
        return self.inner.size(self._turned(weight))

    def pack(self, weight: np.ndarray, out: np.ndarray) -> None:
        self.inner.pack(self._turned(weight), out)

    def _turned(self, weight: np.ndarray) -> np.ndarray:
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
        turned = split.transpose(0, -1, *range(2, 2 + rank), 1)
        return turned.reshape(-1, *self.count, channels)


Packing = (
    ConvPacking
    | ChannelPacking
    | DepthwisePacking
    | WinogradPacking
    | RecurrentPacking
    | PhasePacking
)
