"""Fewer cases than all combinations of several arguments of a test."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any


def one_in(count: int, *arguments: Iterable[Any]) -> list[tuple[Any, ...]]:
    """One in ``count`` combinations of the values of three or more arguments.

    Each pair of values of two arguments is in one of them if every argument has at least ``count``
    values.
    """
    rows = product(*(enumerate(values) for values in arguments))
    chosen = (row for row in rows if sum(index for index, _ in row) % count == 0)
    return [tuple(value for _, value in row) for row in chosen]
