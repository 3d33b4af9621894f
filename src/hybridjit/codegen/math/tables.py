"""Odd functions that saturate at 1, as polynomials on 16 intervals, with a table per coefficient.

An interval's polynomial interpolates the function at Chebyshev's nodes, which makes the largest
error nearly minimal. The first interval's polynomial is odd, so that results near 0 are also exact
to the unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..._core.frozen import dataclass

ENTRIES = 16


@dataclass(frozen=True)
class OddTable:
    """A function as polynomials of the distance from the middle of an interval.

    Interval n, 0 to 15, is ``width`` wide (a number of few bits) and centred at n * width. The last
    polynomial's value in the middle is 1, and the function is 1 from there on.

    columns  for each power from 0 on, the coefficients of all intervals; for the first interval,
             the coefficient of power 1 is reduced by 1
    """

    width: float
    columns: tuple[tuple[float, ...], ...]

    @property
    def limit(self) -> float:
        """The argument from which on the function is 1."""
        return (ENTRIES - 1) * self.width


def odd_table(function: Callable[[float], float], width: float, degree: int) -> OddTable:
    """The table of an odd function, by polynomials of an odd ``degree``."""
    first = _first(function, width, degree)
    others = [_about(function, n * width, width / 2, degree) for n in range(1, ENTRIES)]
    return OddTable(width, tuple(zip(first, *others)))


def _first(function: Callable[[float], float], width: float, degree: int) -> list[float]:
    """The first interval: a polynomial of the square for function(x) / x - 1."""
    middle = (width / 2) ** 2 / 2
    squares = [middle + middle * node for node in _nodes((degree + 1) // 2)]
    values = [function(math.sqrt(s)) / math.sqrt(s) - 1 for s in squares]
    return [c for even in _through(squares, values) for c in (0.0, even)]


def _about(
    function: Callable[[float], float], middle: float, reach: float, degree: int
) -> list[float]:
    """The interval with this middle, for distances up to ``reach``."""
    nodes = [reach * node for node in _nodes(degree + 1)]
    return _through(nodes, [function(middle + node) for node in nodes])


def _nodes(count: int) -> list[float]:
    """Chebyshev's nodes between -1 and 1."""
    return [math.cos(math.pi * (k + 0.5) / count) for k in range(count)]


def _through(nodes: Sequence[float], values: Sequence[float]) -> list[float]:
    """Coefficients, lowest first, of the polynomial through these points (Newton)."""
    divided, count = list(values), len(nodes)
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            divided[k] = (divided[k] - divided[k - 1]) / (nodes[k] - nodes[k - order])
    result = [0.0] * count
    for node, constant in zip(reversed(nodes), reversed(divided)):
        shifted = [constant, *result[:-1]]
        result = [above - node * own for above, own in zip(shifted, result)]
    return result
