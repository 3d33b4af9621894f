"""How a kernel wants its weights: NumPy, run when a parameter is bound.

A packing is frozen data, so that the plan can print it and equal ones share one packed array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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

    def pack(self, weight: np.ndarray) -> np.ndarray:
        filters = weight.shape[0] // self.groups
        split = weight.reshape(self.groups, filters, -1, weight.shape[-1])
        turned = split.transpose(0, 1, 3, 2) if self.taps else split
        rows = turned.reshape(self.groups, filters, -1)
        padded = -(-filters // self.lanes) * self.lanes
        full = np.zeros((self.groups, padded, rows.shape[2]), np.float32)
        full[:, :filters] = rows
        width = self.nv * self.lanes
        blocks = [
            full[g, start : start + width].T.ravel()
            for g in range(self.groups)
            for start in range(0, padded, width)
        ]
        return np.concatenate(blocks)


@dataclass(frozen=True)
class ChannelPacking:
    """A per-channel vector of each group, padded with zeros to whole vectors."""

    groups: int
    lanes: int

    def pack(self, bias: np.ndarray) -> np.ndarray:
        rows = bias.reshape(self.groups, -1)
        padded = -(-rows.shape[1] // self.lanes) * self.lanes
        full = np.zeros((self.groups, padded), np.float32)
        full[:, : rows.shape[1]] = rows
        return full.ravel()


@dataclass(frozen=True)
class DepthwisePacking:
    """Weights [C, kd, kh, kw, 1] to [kd, kh, kw, C padded to whole vectors]."""

    lanes: int

    def pack(self, weight: np.ndarray) -> np.ndarray:
        channels = weight.shape[0]
        padded = -(-channels // self.lanes) * self.lanes
        full = np.zeros((weight[0].size, padded), np.float32)
        full[:, :channels] = weight.reshape(channels, -1).T
        return full.ravel()


@dataclass(frozen=True)
class WinogradPacking:
    """Weights [F, 3, 3, C] transformed by F(m x m, 3x3) to [points][block][C][nv * lanes].

    Computed in double precision and rounded once; padded with zeros to whole blocks.
    """

    m: int
    lanes: int
    nv: int

    def pack(self, weight: np.ndarray) -> np.ndarray:
        width = self.nv * self.lanes
        padded = -(-weight.shape[0] // width) * width
        filters = weight.reshape(weight.shape[0], 3, 3, -1).astype(np.float64)
        g = filter_matrix(self.m)
        full = np.zeros(((self.m + 2) ** 2, filters.shape[3], padded), np.float32)
        turned = np.einsum("ar,frsc,bs->abcf", g, filters, g, optimize=True)
        full[:, :, : weight.shape[0]] = turned.reshape(full.shape[0], full.shape[1], -1)
        split = full.reshape(full.shape[0], full.shape[1], -1, width)
        return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).ravel()


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
class Plain:
    """The array as it is, contiguous."""

    def pack(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array)


Packing = ConvPacking | ChannelPacking | DepthwisePacking | WinogradPacking | Plain
