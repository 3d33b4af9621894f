"""Numbered names, ``output0``, ``output1``, ..., created on access only.

Input: a count and a prefix. Output: a sequence of names. The length and single names of a node with
16,384 outputs are read far more often than all names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload


class Numbered(Sequence[str]):
    """``count`` names: the prefix and an index from 0."""

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
