"""The spec of a reduction. Strides count elements."""

from __future__ import annotations

from enum import auto
from typing import ClassVar

from ...._core.frozen import dataclass
from ...spec import Extents, KernelSpec, Way


class Statistic(Way):
    """The statistic of a reduction.

    ``SPREAD`` is the mean of squared distances from ``about``. Pairs of statistics are ``MOMENTS``,
    the mean and the mean of squared distances from it, and ``SUMS`` of x and of x times the
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
    """A reduction of [row, *kept, *reduced] to [row, *kept]; arguments: x, [other,] y, [second,]
    [about,] rows.

    along   whether vectors are along the last reduced axis, or across, along the last kept one
    x, y    strides of x per (row, *kept, *reduced), of y per (row, *kept)
    dtype   the element type of x; ``result`` is that of y and ``sums`` that of carried values, if
            they differ
    about   strides of the operand ``about`` per (row, *kept)
    other   strides of the operand ``other``, as those of x
    most    approximate number of elements per result, if their number is given
    """

    how: Statistic
    along: bool
    kept: Extents
    reduced: Extents
    x: Extents
    y: Extents
    dtype: str = "float32"
    result: str = ""
    sums: str = ""
    about: Extents = ()
    other: Extents = ()
    most: int = 0
    kind = "reduce"
    extents: ClassVar[tuple[str, ...]] = ("kept", "reduced", "x", "y", "about", "other")
    needs_passes = False


@dataclass(frozen=True)
class PairSpec(ReduceSpec):
    """A reduction to two results; ``second`` has strides of the second one, as those of y."""

    second: Extents = ()
    kind = "reduce_pair"
    extents = (*ReduceSpec.extents, "second")
