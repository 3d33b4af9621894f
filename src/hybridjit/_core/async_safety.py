"""What an exception that comes between any two bytecodes leaves behind: nothing.

A signal handler raises in the main thread at almost any place (Ctrl-C does), and other programs
raise in other threads. ``with`` and ``finally`` do not hold against that: they leave their blocks
by bytecodes of their own, and a context manager that is written in Python can be interrupted before
its first one. What holds is a handler around all of it:

    try:
        acquire, work, release
    except BaseException:
        release what is still held
        raise

The functions here have that form. Each takes care of one such exception; what a second one finds,
one that comes while the first is handled, is as right as ``with`` would leave it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def holding(lock: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The function runs while its thread holds ``lock``, a re-entrant one that C implements."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if lock._is_owned():  # the outermost call releases
                return function(*args, **kwargs)
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
    """The function makes many objects, all of which it needs: nobody looks for garbage meanwhile.

    A fifth of the time of passes went into that. For one thread at a time, and well below a second.
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
    """When the function raises, the attributes of these objects are as they were before.

    Of a ``threading.local`` those of the calling thread.
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
    """``step`` stores a few things, cannot fail, and may run twice: it is done even if interrupted.

    So that others see all that it stores or nothing.
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
    """Call ``function``; ``done`` has what it returns if, and only if, it was called to its end.

    One call of C's: no exception from outside comes between the function and the note.
    """
    done.extend(map(function, *((arg,) for arg in args)))


def outside(entered: tuple[R, ...], scope: R) -> tuple[R, ...]:
    """What had been entered before ``scope`` was, innermost last.

    Scopes inside it that an exception kept from being left go with it.
    """
    return entered[: max(i for i, one in enumerate(entered) if one is scope)]
