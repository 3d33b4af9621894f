"""Versions of array memory, as integers that are cheap to compare.

Arrays that share memory share one :class:`Storage`. Every write increments its ``version``. A
compiled network marks the storages of its parameters as watched; a write to any watched storage
also increments the process-wide counter ``WRITES.count``, so that one comparison per call tells the
network that none of its parameters changed.
"""

from __future__ import annotations

from .._core.async_safety import holding
from .._core.config import LISTENERS
from .._core.fork_locks import Rank, held_at_fork

# Decorator of functions that write several parameters. Networks hold this lock while they pack
# their parameters, so a network in another thread packs either all old or all new values.
together_written = holding(held_at_fork(Rank.BINDING))


class Writes:
    """Counters: of writes to watched storages, and of arrays that replaced one of a parameter."""

    __slots__ = ("count", "replaced")

    def __init__(self) -> None:
        self.count = 0
        self.replaced = 0

    def bump(self) -> None:
        """Make networks look at their parameters, and for their code, again."""
        self.count += 1


WRITES = Writes()
LISTENERS.append(WRITES.bump)
NEVER = -1  # not a value of WRITES.count


class Storage:
    """Identity of a memory block: its number of writes, and whether a network watches it.

    Exposed memory is shared with other libraries, whose writes are not counted. The first values
    are the class's, because each new array has a storage: an initializer takes 0.08 us more.
    """

    version = 0
    watched = False
    exposed = False

    def bump(self) -> None:
        """Count one write."""
        self.version += 1
        if self.watched:
            WRITES.count += 1

    def expose(self) -> None:
        """Mark this memory as writable by other libraries."""
        self.exposed = True
        self.bump()
