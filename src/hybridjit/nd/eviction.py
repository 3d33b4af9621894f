"""Weight eviction: arrays give up their memory while a compiled net keeps their values packed.

A compiled net packs its weights. Large ones need not be there twice: the array is *evicted*, and is
restored to memory of its own when it is read or written. Only the amount of memory tells: an array
is evicted when no other array, no NumPy array and no other library refers to its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._core.async_safety import finished, holding
from .._core.fork_locks import Rank, held_at_fork
from .._core.types import TensorType, type_of

if TYPE_CHECKING:
    from .memory import DenseArray

_lock = held_at_fork(Rank.EVICTION)


class Evicted(NamedTuple):
    """What an array was, and how its values come back."""

    type: TensorType
    restore: Callable[[], np.ndarray]


@holding(_lock)
def evict(array: DenseArray, restore: Callable[[], np.ndarray], version: int) -> bool:
    """Free the memory of ``array`` until it is looked at; False if anything else refers to it.

    ``restore`` makes a fresh array with the values that were there at ``version`` of the storage;
    False if it was written since.
    """
    if array._storage.exposed or not _COUNTS_REFERENCES:
        return False
    data = array._data
    try:
        array._evicted = Evicted(type_of(data), restore)
        # The order matters: unpublish `_data`, then count its references, then compare the version.
        # A writer keeps a reference to `_data` until it has advanced the version. So a writer that
        # started before shows in the count or in the version; one that starts later finds no
        # `_data` and waits for `_lock` in `restore_memory`.
        del array._data
        is_known = data.base is not None or sys.getrefcount(data) > _ALONE
        if is_known or array._storage.version != version or not data.flags.owndata:
            _keep(array, data)
            return False
        return True
    except BaseException:
        _keep(array, data)
        raise


@finished
def _keep(array: DenseArray, data: np.ndarray) -> None:
    """Let ``array`` have its memory again."""
    array._data = data
    array._evicted = None


@holding(_lock)
def restore_memory(array: DenseArray) -> np.ndarray:
    """The memory of an array that was evicted, filled again."""
    evicted = array._evicted
    if evicted is not None:
        _keep(array, evicted.restore())
    return array._data


def type_of_array(array: DenseArray) -> TensorType:
    """Shape and dtype, without a look at the values."""
    evicted = array._evicted
    return type_of(array._data) if evicted is None else evicted.type


def is_evicted(array: DenseArray) -> bool:
    """Whether the values are in a packed form alone."""
    return array._evicted is not None


def _count_alone() -> int:
    """What a reference count says of an array that one variable holds."""
    data = np.empty(1)
    return sys.getrefcount(data)


_ALONE = _count_alone()
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()
