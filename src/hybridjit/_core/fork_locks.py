"""Locks that a fork waits for, so that a child does not inherit a lock that stays held.

A lock has a rank. Before a fork all locks are acquired, lowest rank first, and afterwards released,
in the parent and in the child: so other threads are not inside the protected code then. Code that
holds a lock may only acquire locks of higher rank.
"""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """The protected operations, in the order in which nested calls lock them.

    BINDING is held while a network packs its parameters, and while several are written together.
    """

    TRACING = 0
    BINDING = 1
    INITIALISING = 2
    COMPILING = 3
    KERNELS = 4
    LLVM = 5
    EVICTION = 6
    SAVING = 7
    NOTING = 8
    LOADING = 9


_locks: dict[Rank, Any] = {rank: threading.RLock() for rank in Rank}


def held_at_fork(rank: Rank) -> Any:
    """The re-entrant lock of this rank: see :func:`.async_safety.holding`."""
    return _locks[rank]


# The lock's methods are registered directly: a Python function in between could be interrupted. The
# hooks before a fork run in the reverse of this order, so the lowest rank is acquired first.
if hasattr(os, "register_at_fork"):
    for _rank in reversed(Rank):
        os.register_at_fork(
            before=_locks[_rank].acquire,
            after_in_parent=_locks[_rank].release,
            after_in_child=_locks[_rank].release,
        )
