"""Sizes for which a library is compiled: named sizes with bounds, and all their combinations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as combinations

from .._core.frozen import dataclass
from .._core.types import product
from ..errors import MXNetError

# Combinations of sizes in one library: a byte for each, and a few microseconds to compile.
MOST_COMBINATIONS = 1 << 20
LARGEST_SIZE = (1 << 31) - 1


@dataclass(frozen=True)
class Bound:
    """The values of a named size: ``low``, ``low + step`` and so on, up to ``high``."""

    name: str
    low: int
    high: int
    step: int = 1

    @property
    def values(self) -> range:
        """All values."""
        return range(self.low, self.high + 1, self.step)

    def __str__(self) -> str:
        steps = f", in steps of {self.step}" if self.step > 1 else ""
        return f"{self.name} must be {self.low} to {self.values[-1]}{steps}"


class Grid:
    """All combinations of some sizes, numbered with the last size the fastest.

    Raises MXNetError for more than MOST_COMBINATIONS.
    """

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self.bounds = tuple(bounds)
        self.count = product(tuple(len(bound.values) for bound in bounds))
        if self.count > MOST_COMBINATIONS:
            listed = ", ".join(map(str, bounds))
            raise MXNetError(
                f"a library has at most {MOST_COMBINATIONS} combinations of sizes, and the bounds "
                f"give {self.count} ({listed}): use narrower bounds, or steps, as in "
                "--bound 'H%32==0'"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes."""
        return tuple(bound.name for bound in self.bounds)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Every combination, in the order of their numbers."""
        return combinations(*(bound.values for bound in self.bounds))

    def text(self, point: Sequence[int]) -> str:
        """A combination for messages."""
        return ", ".join(f"{name} = {size}" for name, size in zip(self.names, point))
