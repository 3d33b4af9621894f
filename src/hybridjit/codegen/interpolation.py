"""Convolution along a line with few multiplications, by interpolation (Toom, Cook; Winograd).

F(m, taps) computes ``m`` adjacent results from m + taps - 1 products. With a stride, each phase
(every ``stride``-th tap) is a separate convolution of stride 1, and their results are added.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._core.frozen import dataclass

# Pairs of points +p and -p by the number of points, which also include infinity and, if the number
# is even, 0. Chosen for small errors. 6 points: sqrt(1/2) and sqrt(2) instead of the usual 1 and 2
# reduce the largest error of a layer to a quarter (F(4x4, 3x3): 8e-6 against 3e-5 of the output's
# deviation, 128 channels). F(6x6, 3x3) has 4e-5, F(4x4, 5x5) 3e-5, F(6, 7) along one line 3e-5; 9
# points in both directions, F(7x7, 3x3), would have 1.1e-4.
_PAIRS: dict[int, tuple[float, ...]] = {
    3: (1.0,),
    4: (1.0,),
    5: (0.36, 1.28),
    6: (0.5**0.5, 2.0**0.5),
    7: (0.29, 0.82, 1.77),
    8: (0.5, 1.0, 2.0),
    9: (0.2, 0.66, 1.11, 2.1),
    10: (0.39, 0.84, 1.24, 2.36),
    11: (0.17, 0.53, 0.93, 1.33, 2.5),
    12: (0.36, 0.63, 1.0, 1.41, 2.56),
}


def interpolation_points(count: int) -> tuple[float, ...]:
    """The finite points of ``count`` points; infinity is the last point."""
    pairs = [sign * p for p in _PAIRS[count] for sign in (1.0, -1.0)]
    return (*([] if count % 2 else [0.0]), *pairs)


@dataclass(frozen=True)
class Line:
    """The algorithm along one axis: ``m`` results of a window of ``taps`` with a stride."""

    m: int
    taps: int
    stride: int = 1

    @property
    def phases(self) -> tuple[int, ...]:
        """The number of taps of each nonempty phase."""
        return _phases(self.taps, self.stride)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of products of each phase."""
        return _counts(self.m, self.phases)

    @property
    def points(self) -> int:
        """Products for all ``m`` results."""
        return sum(self.counts)

    @property
    def reach(self) -> int:
        """Number of elements of the data that ``m`` results read."""
        return (self.m - 1) * self.stride + self.taps

    @property
    def filter_matrix(self) -> np.ndarray:
        """The matrix from taps to points, [points, taps]."""
        g, row = np.zeros((self.points, self.taps)), 0
        for phase, (taps, count) in enumerate(zip(self.phases, self.counts)):
            g[row : row + count, phase :: self.stride] = filter_matrix(self.m, taps)
            row += count
        return g


@lru_cache(maxsize=1024)
def _phases(taps: int, stride: int) -> tuple[int, ...]:
    return tuple(len(range(i, taps, stride)) for i in range(min(stride, taps)))


@lru_cache(maxsize=1024)
def _counts(m: int, phases: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(m + taps - 1 for taps in phases)


@lru_cache(maxsize=1024)
def lines_for(m: int, window: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Line, Line]:
    """The vertical and the horizontal algorithm: ``m`` results along axes with several taps."""
    down, across = (
        Line(m if taps > 1 else 1, taps, stride) for taps, stride in zip(window, strides)
    )
    return down, across


@lru_cache(maxsize=1024)
def points_of(lines: tuple[Line, Line]) -> int:
    """Products of a tile of two nested lines."""
    return lines[0].points * lines[1].points


@lru_cache(maxsize=1024)
def most_points(lines: tuple[Line, Line]) -> int:
    """The largest number of points of a phase."""
    return max(count for line in lines for count in line.counts)


def filter_matrix(m: int, taps: int = 3) -> np.ndarray:
    """G of F(m, taps), [m + taps - 1, taps]: a point's powers over the product of its distances.

    A single tap needs no interpolation: each result is one product.
    """
    if taps == 1:
        return np.ones((m, 1))
    points = interpolation_points(m + taps - 1)
    g = np.zeros((m + taps - 1, taps))
    for i, p in enumerate(points):
        others = np.prod([p - q for q in points if q != p])
        g[i] = np.array([p**k for k in range(taps)]) / others
    g[-1, -1] = 1.0
    return g
