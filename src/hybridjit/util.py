"""``mx.util``: NumPy's shape semantics, and what programs ask about GPUs and the environment.

Arrays of MXNet's NumPy mode do not exist here: to ask gives False, to switch them on raises
MXNetError.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from .errors import MXNetError
from .shapes import is_np_shape, set_np_shape

__all__ = [
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "np_array",
    "np_shape",
    "reset_np",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_Decorated = TypeVar("_Decorated")

_ONLY_CLASSIC = (
    "is MXNet's NumPy mode, which hybridjit does not have: use nd, sym and gluon, whose networks "
    "and files need it not"
)


def is_np_array() -> bool:
    """Whether arrays have NumPy's semantics: never."""
    return False


class _NumpyShapeScope:
    """Switches the shape semantics for the length of a ``with`` block; None leaves them alone."""

    def __init__(self, active: bool | None) -> None:
        self._active = active
        self._before: list[bool] = []

    def __enter__(self) -> None:
        if self._active is not None:
            self._before.append(set_np_shape(self._active))

    def __exit__(self, *error: object) -> None:
        if self._active is not None and (before := self._before.pop()) != self._active:
            set_np_shape(before)


def np_shape(active: bool | None = True) -> _NumpyShapeScope:
    """``with np_shape():`` makes 0 and () shapes of arrays, and -1 and None the unknown ones."""
    return _NumpyShapeScope(active)


def use_np_shape(func: _Decorated) -> _Decorated:
    """A function, or a class with all its methods and properties, that runs in ``np_shape``.

    Raises TypeError for what is neither.
    """
    if inspect.isclass(func):
        for name in dir(func):
            _wrap_member(func, name)
        return func
    if not callable(func):
        raise TypeError(
            "use_np_shape can only decorate classes and callable objects, while received a "
            f"{type(func)}"
        )

    @functools.wraps(func)
    def within(*args: object, **kwargs: object) -> object:
        with np_shape():
            return func(*args, **kwargs)

    return within  # type: ignore[return-value]


def _wrap_member(owner: type, name: str) -> None:
    """Let a method or property that is written in Python run in ``np_shape``."""
    member = inspect.getattr_static(owner, name)
    if isinstance(member, property):
        parts: Iterable[Callable[..., Any] | None] = (member.fget, member.fset, member.fdel)
        getter, setter, deleter = (part and use_np_shape(part) for part in parts)
        setattr(owner, name, property(getter, setter, deleter, member.__doc__))
    elif isinstance(member, (staticmethod, classmethod)):
        setattr(owner, name, type(member)(use_np_shape(member.__func__)))
    elif inspect.isfunction(member):
        setattr(owner, name, use_np_shape(member))


@contextmanager
def np_array(active: bool = True) -> Iterator[None]:
    """Nothing for False. Raises MXNetError for True."""
    _refuse_if(active, "np_array")
    yield


def set_np(shape: bool = True, array: bool = True) -> None:
    """The shape semantics alone: raises MXNetError unless ``array`` is False."""
    _refuse_if(array, "set_np")
    set_np_shape(shape)


def reset_np() -> None:
    """Back to the classic shape semantics."""
    set_np_shape(False)


def use_np(func: object) -> NoReturn:
    """Raises MXNetError: classes and functions in NumPy mode do not run here."""
    raise MXNetError(f"use_np {_ONLY_CLASSIC}")


use_np_array = use_np


def _refuse_if(active: bool, name: str) -> None:
    if active:
        raise MXNetError(f"{name} {_ONLY_CLASSIC}")


def get_gpu_count() -> int:
    """No GPUs."""
    return 0


def get_gpu_memory(gpu_dev_id: int) -> NoReturn:
    """Raises MXNetError: there are no GPUs."""
    raise MXNetError("get_gpu_memory: hybridjit runs on the CPU, there are no GPUs")


def get_cuda_compute_capability(ctx: object) -> NoReturn:
    """Raises ValueError, as MXNet does for a context that is no GPU."""
    raise ValueError(f"Expecting a gpu context to get cuda compute capability, got {ctx}")


def getenv(name: str) -> str | None:
    """An environment variable, None when it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None unsets it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
