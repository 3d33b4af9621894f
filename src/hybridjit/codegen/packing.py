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
        rows = weight.reshape(self.groups, filters, -1, weight.shape[-1])
        if self.taps:
            rows = rows.transpose(0, 1, 3, 2)
        rows = rows.reshape(self.groups, filters, -1)
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
class Plain:
    """The array as it is, contiguous."""

    def pack(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array)


Packing = ConvPacking | ChannelPacking | DepthwisePacking | Plain
