"""Names that count: ``output0``, ``output1``, ... without making any that nobody reads.

In: how many, and what they begin with. Out: a sequence of them. A node with 16,384 outputs is asked
for their number and for single names far more often than for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload


class Numbered(Sequence[str]):
    """``count`` names: the prefix and a number from 0."""

    __slots__ = ("_numbers", "_prefix")

    def __init__(self, prefix: str, count: int) -> None:
        self._prefix = prefix
        self._numbers = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(f"{self._prefix}{i}" for i in self._numbers[index])
        return f"{self._prefix}{self._numbers[index]}"
