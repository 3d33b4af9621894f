"""The spec of a reduction. Strides count elements."""

from __future__ import annotations

from enum import auto

from ...._core.frozen import dataclass
from ...spec import KernelSpec, Sizes, Way


class Statistic(Way):
    """What comes of many numbers.

    ``SPREAD`` is the mean of squares of the distance from ``about``. Pairs of them are ``MOMENTS``,
    the mean and the mean of squares of the distance from it, and ``SUMS`` of x and of x times the
    distance of ``other`` from ``about``.
    """

    SUM = auto()
    MEAN = auto()
    PROD = auto()
    MAX = auto()
    MIN = auto()
    NANSUM = auto()
    NANPROD = auto()
    NORM1 = auto()
    NORM2 = auto()
    ARGMAX = auto()
    ARGMIN = auto()
    SPREAD = auto()
    MOMENTS = auto()
    SUMS = auto()


EXTREMES = frozenset((Statistic.MAX, Statistic.MIN))
PLACES = frozenset((Statistic.ARGMAX, Statistic.ARGMIN))
MULTIPLIED = frozenset((Statistic.PROD, Statistic.NANPROD))
NUMBERS_ONLY = frozenset((Statistic.NANSUM, Statistic.NANPROD))
NORMS = frozenset((Statistic.NORM1, Statistic.NORM2))
PAIRS = frozenset((Statistic.MOMENTS, Statistic.SUMS))
AVERAGED = frozenset((Statistic.MEAN, Statistic.SPREAD))


@dataclass(frozen=True)
class ReduceSpec(KernelSpec):
    """A reduction of [row, *kept, *reduced] to [row, *kept]; arguments: x, [other,] y,
    [second,] [about,] rows.

    along   whether vectors lie along the last reduced axis, or across, on the last kept one
    x, y    strides of x per (row, *kept, *reduced), of y per (row, *kept)
    dtype   the element type of x; ``result`` that of y and ``sums`` that of what is carried,
            where they are not the same
    about   strides of the operand ``about`` per (row, *kept)
    other   strides of the operand ``other``, as those of x
    most    so many elements make one result, about, where their number is given
    """

    how: Statistic
    along: bool
    kept: Sizes
    reduced: Sizes
    x: Sizes
    y: Sizes
    dtype: str = "float32"
    result: str = ""
    sums: str = ""
    about: Sizes = ()
    other: Sizes = ()
    most: int = 0
    kind = "reduce"
    needs_passes = False


@dataclass(frozen=True)
class PairSpec(ReduceSpec):
    """A reduction to two results; ``second`` are strides of the second one, as those of y."""

    second: Sizes = ()
    kind = "reduce_pair"
