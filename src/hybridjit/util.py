"""``mx.util``: what programs ask about MXNet's NumPy mode, GPUs and environment.

The NumPy mode does not exist here: to ask gives False, to switch it on raises MXNetError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from .errors import MXNetError

_ONLY_CLASSIC = (
    "is MXNet's NumPy mode, which hybridjit does not have: use nd, sym and gluon, whose networks "
    "and files need it not"
)


def is_np_array() -> bool:
    """Whether arrays have NumPy's semantics: never."""
    return False


def is_np_shape() -> bool:
    """Whether a size of 0 in a shape is a size rather than unknown: never."""
    return False


def set_np_shape(active: bool) -> bool:
    """Nothing for False; returns what was before. Raises MXNetError for True."""
    _refuse_if(active, "set_np_shape")
    return False


@contextmanager
def np_shape(active: bool = True) -> Iterator[None]:
    """Nothing for False. Raises MXNetError for True."""
    _refuse_if(active, "np_shape")
    yield


@contextmanager
def np_array(active: bool = True) -> Iterator[None]:
    """Nothing for False. Raises MXNetError for True."""
    _refuse_if(active, "np_array")
    yield


def set_np(shape: bool = True, array: bool = True) -> None:
    """Nothing for False twice. Raises MXNetError otherwise."""
    _refuse_if(shape or array, "set_np")


def reset_np() -> None:
    """Nothing: the NumPy mode is never on."""


def use_np(func: Any) -> NoReturn:
    """Raises MXNetError: classes and functions in NumPy mode do not run here."""
    raise MXNetError(f"use_np {_ONLY_CLASSIC}")


use_np_shape = use_np
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


def get_cuda_compute_capability(ctx: Any) -> NoReturn:
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
