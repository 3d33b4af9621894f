"""Functions that leave no trace when an exception arrives between any two bytecodes.

A signal handler raises in the main thread at almost any place (Ctrl-C does), and other programs
raise in other threads. ``with`` and ``finally`` do not protect against that: leaving their blocks
takes several bytecodes, and a context manager written in Python can be interrupted before its first
one. A handler around the whole sequence does:

    try:
        acquire, work, release
    except BaseException:
        release what is still held
        raise

The functions here have that form. Each handles one such exception. A second one, raised while the
first is handled, finds the same state as ``with`` would leave.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .fork_locks import precede_later_hooks

P = ParamSpec("P")
R = TypeVar("R")


def holding(lock: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function to run while its thread holds ``lock``, a re-entrant one written in C."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if lock._is_owned():  # the outermost call releases
                return function(*args, **kwargs)
            precede_later_hooks()
            try:
                lock.acquire()
                result = function(*args, **kwargs)
                lock.release()
                return result
            except BaseException:
                if lock._is_owned():
                    lock.release()
                raise

        return run

    return decorate


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that makes many objects, all in use: garbage collection pauses meanwhile.

    Collections took a fifth of the time of the passes. Only for functions that take well below a
    second, in one thread at a time.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():  # the outermost call's, or the program's choice
            return function(*args, **kwargs)
        try:
            gc.disable()
            result = function(*args, **kwargs)
            gc.enable()
            return result
        except BaseException:
            gc.enable()
            raise

    return run


def restoring(*scopes: object) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function to restore the attributes of these objects when it raises.

    For a ``threading.local``, only those of the calling thread.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            before = [vars(scope).copy() for scope in scopes]
            try:
                return function(*args, **kwargs)
            except BaseException:
                for scope, attributes in zip(scopes, before):
                    for name in vars(scope).keys() - attributes.keys():
                        delattr(scope, name)
                    vars(scope).update(attributes)
                raise

        return run

    return decorate


def finished(step: Callable[P, None]) -> Callable[P, None]:
    """Decorate a ``step`` that finishes even if it is interrupted: it is then run again.

    The step stores a few things, cannot fail, and may run twice. Other threads see all of its
    stores or
    none.
    """

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(*args, **kwargs)
        except BaseException:
            step(*args, **kwargs)
            raise

    return run


def noted(done: list[Any], function: Callable[..., Any], *args: Any) -> None:
    """Call ``function`` and append the result to ``done``, which is extended only after it
    returned.

    This is a single call of a C function: no exception from outside comes between the function and
    the
    append.
    """
    done.extend(map(function, *((arg,) for arg in args)))


def outside(entered: tuple[R, ...], scope: R) -> tuple[R, ...]:
    """The scopes that were entered before ``scope``, innermost last.

    Scopes inside it that an exception kept from being left are dropped with it.
    """
    return entered[: max(i for i, one in enumerate(entered) if one is scope)]
