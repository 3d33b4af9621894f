"""Locks that a fork waits for, so that no child inherits one that nobody will release.

A lock has a rank. Before a fork all are taken, the lowest rank first, and after it given back, in
the parent and in the child: no other thread is then in the middle of what they protect. Code that
holds a lock may only take locks of higher rank.
"""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """What the locks protect, in the order in which nested calls take them."""

    TRACING = 0
    BINDING = 1
    INITIALISING = 2
    COMPILING = 3
    KERNELS = 4
    LLVM = 5
    LENDING = 6


_locks: dict[Rank, Any] = {}
_taken: list[Any] = []


def held_at_fork(rank: Rank, lock: Any = None) -> Any:
    """``lock``, or a new re-entrant one, registered; there is one for each rank."""
    assert rank not in _locks, f"there is a lock of rank {rank.name} already"
    _locks[rank] = threading.RLock() if lock is None else lock
    return _locks[rank]


def _take() -> None:
    for rank in sorted(_locks):
        _locks[rank].acquire()
        _taken.append(_locks[rank])


def _give_back() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)
