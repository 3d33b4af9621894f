"""Weight eviction: arrays release their memory while a compiled network has packed copies.

A compiled network packs its weights. To avoid two copies of a large weight, its array is *evicted*,
and restored to new memory when it is read or written. Eviction changes memory use only: an array is
evicted if no other array, no NumPy array and no other library refers to its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from .._core.async_safety import finished, holding
from .._core.fork_locks import Rank, held_at_fork
from .._core.types import TensorType, type_of
from .storage import Storage

_lock = held_at_fork(Rank.EVICTION)


class Evicted(NamedTuple):
    """Type of an evicted array, and the function that restores its values."""

    type: TensorType
    restore: Callable[[], np.ndarray]


class Evictable(Protocol):
    """Array that can be evicted: a DenseArray."""

    _data: np.ndarray
    _storage: Storage
    _evicted: Evicted | None


@holding(_lock)
def evict(array: Evictable, restore: Callable[[], np.ndarray], version: int) -> bool:
    """Release the memory of ``array`` until its next use; False if it has other references.

    ``restore`` returns a new array with the values at ``version`` of the storage; the result is
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
def _keep(array: Evictable, data: np.ndarray) -> None:
    """Set the memory of ``array``."""
    array._data = data
    array._evicted = None


@holding(_lock)
def restore_memory(array: Evictable) -> np.ndarray:
    """Memory of an array, restored if it was evicted."""
    evicted = array._evicted
    if evicted is not None:
        _keep(array, evicted.restore())
    return array._data


def type_of_array(array: Evictable) -> TensorType:
    """Shape and dtype, without restoring the values."""
    evicted = array._evicted
    return type_of(array._data) if evicted is None else evicted.type


def is_evicted(array: Evictable) -> bool:
    """Test whether the array is evicted."""
    return array._evicted is not None


def _count_alone() -> int:
    """Reference count of an array that has one variable."""
    data = np.empty(1)
    return sys.getrefcount(data)


_ALONE = _count_alone()
_COUNTS_REFERENCES = getattr(sys, "_is_gil_enabled", lambda: True)()
