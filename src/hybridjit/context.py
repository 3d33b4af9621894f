"""Devices by MXNet's names. Only the CPU computes; use of a GPU raises an error.

``cpu(1)`` is a separate device: arrays store the device on which they were made.
"""

from __future__ import annotations

import threading
from typing import NoReturn

from ._core.async_safety import outside
from ._core.frames import public
from .errors import MXNetError

_TYPE_IDS = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
_TYPE_NAMES = {number: name for name, number in _TYPE_IDS.items()}
_GPU = _TYPE_IDS["gpu"]


class _Stack(threading.local):
    """The contexts entered with ``with`` in this thread."""

    entered: tuple[Context, ...] = ()
    default: Context | None = None


class _Current:
    """MXNet's name of this thread's context, which programs read and assign."""

    @property
    def value(self) -> Context:
        """The innermost context."""
        return current_context()

    @value.setter
    def value(self, ctx: Context) -> None:
        set_default_context(ctx)


_current = _Current()


class _ContextType(type):
    """Metaclass with ``Context.default_ctx``, which MXNet has on the class."""

    @property
    def default_ctx(cls) -> Context:
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, ctx: Context) -> None:
        set_default_context(ctx)

    @property
    def _default_ctx(cls) -> _Current:
        return _current


class Context(metaclass=_ContextType):
    """A device: type and number. Usable as ``with mx.cpu(1):``."""

    __slots__ = ("device_typeid", "device_id")

    devtype2str = _TYPE_NAMES
    devstr2type = _TYPE_IDS

    device_typeid: int
    device_id: int

    @public
    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
            return
        if not isinstance(device_type, str) or device_type not in _TYPE_IDS:
            text = f"unknown device type {device_type!r}: one of {', '.join(_TYPE_IDS)}"
            if isinstance(device_type, str):
                raise KeyError(text)
            hint = "; a shape is one tuple, as in nd.zeros((2, 3))"
            raise MXNetError(text + hint * isinstance(device_type, int))
        self.device_typeid, self.device_id = _TYPE_IDS[device_type], device_id

    @property
    def device_type(self) -> str:
        """ "cpu", "gpu", "cpu_pinned" or "cpu_shared"."""
        return _TYPE_NAMES[self.device_typeid]

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context)
            and self.device_typeid == other.device_typeid
            and self.device_id == other.device_id
        )

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __enter__(self) -> Context:
        STACK.entered = (*STACK.entered, self)
        return self

    def __exit__(self, *error: object) -> None:
        STACK.entered = outside(STACK.entered, self)

    def empty_cache(self) -> None:
        """No effect: devices have no caches."""

    def require_host(self, what: str) -> None:
        """Raise MXNetError if this is a GPU, which cannot compute."""
        if self.device_typeid == _GPU:
            raise MXNetError(
                f"Operator {what} is not implemented for GPU. Use the CPU: ctx=mx.cpu()"
            )


STACK = _Stack()
_CPU = Context("cpu", 0)


def cpu(device_id: int = 0) -> Context:
    """The CPU with any device number."""
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """The CPU's memory under the name that MXNet uses for transfers to GPUs."""
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU by name; making an array on it raises MXNetError."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """0: hybridjit does not use GPUs."""
    return 0


def gpu_memory_info(device_id: int = 0) -> NoReturn:
    """Raise MXNetError: hybridjit does not use GPUs."""
    raise MXNetError("gpu_memory_info: hybridjit runs on the CPU and does not use GPUs")


def current_context() -> Context:
    """The innermost context entered in this thread, by default ``cpu(0)``."""
    return STACK.entered[-1] if STACK.entered else STACK.default or _CPU


def set_default_context(ctx: Context) -> None:
    """Make ``ctx`` this thread's context, inside a ``with`` block until that block ends.

    Raises TypeError for other objects.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"ctx must be a Context, got {type(ctx).__name__}")
    if STACK.entered:
        STACK.entered = (*STACK.entered, Context(ctx))  # a copy: blocks are left by identity
    else:
        STACK.default = ctx
