"""A sampler that takes every n-th element."""

from __future__ import annotations

from collections.abc import Iterator

from ...data.sampler import Sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """Every ``interval``-th index below ``length``.

    Parameters
    ----------
    length : int
        Number of elements.
    interval : int
        Distance of indices.
    rollover : bool
        Whether the remaining indices follow, again with this distance.

    Raises
    ------
    AssertionError
        For an interval greater than the length.

    Examples
    --------
    >>> list(gluon.contrib.data.IntervalSampler(7, 3))
    [0, 3, 6, 1, 4, 2, 5]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        assert interval <= length, (
            f"Interval {interval} must be smaller than or equal to length {length}"
        )
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)
