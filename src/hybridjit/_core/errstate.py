"""Functions that run without NumPy's reports of overflow and the like, whose results are values.

Input: a function. Output: the same function, run with every report ignored; the calling thread's
modes are restored afterwards, however the function ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to run under ``numpy.errstate(all="ignore")``."""
    return wraps(function)(_in_thread(function) if _HELD is None else _in_context(function, *_HELD))


def _held_in_context() -> tuple[ContextVar[Any], object] | None:
    """Context variable of NumPy's modes, and its value that ignores every report.

    None before NumPy 2, which keeps the modes elsewhere.
    """
    context = copy_context()
    before, modes = dict(context), np.geterr()
    context.run(np.seterr, all="ignore")
    changed = [(var, value) for var, value in context.items() if before.get(var) is not value]
    if len(changed) == 1:
        return changed[0]
    np.seterr(**modes)  # type: ignore[arg-type]
    return None


_HELD = _held_in_context()


def _in_context(
    function: Callable[P, R], variable: ContextVar[Any], silent: object
) -> Callable[P, R]:
    """The function with the variable set, in a tenth of the time of a ``with`` block."""

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        before = copy_context()
        try:
            token = variable.set(silent)
            result = function(*args, **kwargs)
            variable.reset(token)
            return result
        except BaseException:  # an interrupt may have come before the token was stored
            variable.set(before.run(variable.get))
            raise

    return run


def _in_thread(function: Callable[P, R]) -> Callable[P, R]:
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        before = np.geterr()
        try:
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)
        except BaseException:
            np.seterr(**before)  # type: ignore[arg-type]
            raise

    return run
