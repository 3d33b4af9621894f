"""Counts of this process's compilations, for users who search the cause of slow calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_COUNTS: dict[str, float] = dict.fromkeys(
    ("compilations", "variants", "classes", "eager", "new_sizes", "evictions", "seconds"), 0
)


def compile_stats() -> dict[str, float]:
    """Counts of compilations of this process, since it began.

    Returns
    -------
    dict of str to float
        - ``compilations``: graphs compiled, for inference and for training
        - ``variants``: those of them that serve all sizes which satisfy their guards
        - ``classes``: ranges of sizes for which a variant compiled other kernels, such as few rows
        - ``eager``: graphs of single operators compiled for eager calls
        - ``new_sizes``: signatures that a variant served without a compilation
        - ``evictions``: signatures that were released because too many were kept
        - ``seconds``: time of all compilations

    Examples
    --------
    >>> sorted(mx.compile_stats())
    ['classes', 'compilations', 'eager', 'evictions', 'new_sizes', 'seconds', 'variants']
    """
    return dict(_COUNTS)


def count(name: str) -> None:
    """Increment a count."""
    _COUNTS[name] += 1


def add_seconds(seconds: float) -> None:
    """Add the time of kernels that are compiled for a variant."""
    _COUNTS["seconds"] += seconds


def counted(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a compilation: count each success under these names and add its time."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            _COUNTS["seconds"] += time.perf_counter() - start
            for name in names:
                count(name)
            return result

        return run

    return decorate
