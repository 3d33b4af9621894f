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
    """What the locks protect, in the order in which nested calls take them.

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
    """The lock of this rank, a re-entrant one: see :func:`.unwinding.holding`."""
    return _locks[rank]


# The lock's own methods, not functions that call them: nothing can come in between. The hooks
# before a fork run in the reverse of this order, so the lowest rank is taken first.
if hasattr(os, "register_at_fork"):
    for _rank in reversed(Rank):
        os.register_at_fork(
            before=_locks[_rank].acquire,
            after_in_parent=_locks[_rank].release,
            after_in_child=_locks[_rank].release,
        )
