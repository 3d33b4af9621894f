"""Locks that a fork waits for, so that a child does not inherit a lock that stays held.

A lock has a rank. Before a fork all locks are acquired, lowest rank first, and afterwards released,
in the parent and in the child: so other threads are not inside the protected code then. Code that
holds a lock may only acquire locks of higher rank, and then those of the standard library.
"""

from __future__ import annotations

import os
import sys
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


# Modules of the standard library that acquire a lock before a fork, and the name that
# each defines after it has registered that hook. Those that are loaded already precede this module.
_later = {"logging": "getLogger", "concurrent.futures.thread": "ThreadPoolExecutor"}
for _name in sys.modules.keys() & _later.keys():
    del _later[_name]


def _register() -> None:
    """Register the hooks of all locks.

    The lock's methods are registered directly: a Python function in between could be interrupted.
    The hooks before a fork run in the reverse of this order, so the lowest rank is acquired first.
    """
    for rank in reversed(Rank):
        os.register_at_fork(
            before=_locks[rank].acquire,
            after_in_parent=_locks[rank].release,
            after_in_child=_locks[rank].release,
        )


def precede_later_hooks() -> None:
    """Register the hooks again, before those of modules that were loaded since.

    A thread that holds one of these locks may log. A fork that had acquired the lock of ``logging``
    first would wait for that thread, and the thread for the fork. The locks are re-entrant, so a
    fork may acquire them twice.
    """
    for name, last in tuple(_later.items()):
        if hasattr(sys.modules.get(name), last):
            if hasattr(os, "register_at_fork"):
                _register()
            _later.pop(name, None)


if hasattr(os, "register_at_fork"):
    _register()
