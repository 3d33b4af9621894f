"""``mx.util``: the switches of NumPy mode, and queries about GPUs and the environment.

Both switches, of shapes and of arrays, are local to a thread, initially off.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from ._core.shapes import is_np_array, is_np_shape, set_np_array, set_np_shape
from .errors import MXNetError

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


class _NumpyShapeScope:
    """Sets the shape semantics for the duration of a ``with`` block; None keeps them."""

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
    """``with np_shape():`` makes 0 and () valid shapes; -1 and None are the unknown ones."""
    return _NumpyShapeScope(active)


class _NumpyArrayScope:
    """Sets the array semantics for the duration of a ``with`` block."""

    def __init__(self, active: bool) -> None:
        self._active = active
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(set_np_array(self._active))

    def __exit__(self, *error: object) -> None:
        set_np_array(self._before.pop())


def np_array(active: bool = True) -> _NumpyArrayScope:
    """``with np_array():`` makes Gluon's parameters and batches arrays of NumPy mode."""
    return _NumpyArrayScope(active)


def use_np_shape(func: _Decorated) -> _Decorated:
    """A function, or a class with all its methods and properties, that runs in ``np_shape``.

    Raises TypeError for other objects.
    """
    return _within(func, np_shape, "use_np_shape")


def use_np_array(func: _Decorated) -> _Decorated:
    """A function, or a class with all its methods and properties, that runs in ``np_array``.

    Raises TypeError for other objects.
    """
    return _within(func, np_array, "use_np_array")


def use_np(func: _Decorated) -> _Decorated:
    """A function, or a class with all its methods and properties, that runs in NumPy mode.

    Raises TypeError for other objects.
    """
    return use_np_shape(use_np_array(func))


def _within(func: Any, scope: Callable[[], Any], name: str) -> Any:
    if inspect.isclass(func):
        for member in dir(func):
            _wrap_member(func, member, lambda part: _within(part, scope, name))
        return func
    if not callable(func):
        raise TypeError(
            f"{name} can only decorate classes and callable objects, while received a {type(func)}"
        )

    @functools.wraps(func)
    def within(*args: object, **kwargs: object) -> object:
        with scope():
            return func(*args, **kwargs)

    return within


def _wrap_member(owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
    """Wrap a method or property written in Python, so that it runs in a scope."""
    member = inspect.getattr_static(owner, name)
    if isinstance(member, property):
        parts: Iterable[Callable[..., Any] | None] = (member.fget, member.fset, member.fdel)
        getter, setter, deleter = (part and wrap(part) for part in parts)
        setattr(owner, name, property(getter, setter, deleter, member.__doc__))
    elif isinstance(member, (staticmethod, classmethod)):
        setattr(owner, name, type(member)(wrap(member.__func__)))
    elif inspect.isfunction(member):
        setattr(owner, name, wrap(member))


def set_np(shape: bool = True, array: bool = True) -> None:
    """NumPy mode for this thread. Raises ValueError for ``array`` without ``shape``."""
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    set_np_array(array)
    set_np_shape(shape)


def reset_np() -> None:
    """Classic arrays and shapes for this thread."""
    set_np(shape=False, array=False)


def get_gpu_count() -> int:
    """No GPUs."""
    return 0


def get_gpu_memory(gpu_dev_id: int) -> NoReturn:
    """Raise MXNetError: hybridjit does not use GPUs."""
    raise MXNetError("get_gpu_memory: hybridjit runs on the CPU and does not use GPUs")


def get_cuda_compute_capability(ctx: object) -> NoReturn:
    """Raise ValueError, as MXNet does for a context that is not a GPU."""
    raise ValueError(f"Expecting a gpu context to get cuda compute capability, got {ctx}")


def getenv(name: str) -> str | None:
    """An environment variable; None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None unsets it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
