"""Functions that run without NumPy's reports of overflow and the like, whose results are values.

Input: a function. Output: the same function, run under other error modes; the calling thread's
modes are restored afterwards, however the function ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def quiet(**modes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function to run under ``numpy.errstate(**modes)``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            before = np.geterr()
            try:
                with np.errstate(**modes):  # type: ignore[arg-type]
                    return function(*args, **kwargs)
            except BaseException:
                np.seterr(**before)  # type: ignore[arg-type]
                raise

        return run

    return decorate
