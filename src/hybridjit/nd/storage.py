"""Who has written to an array's memory, as numbers that are cheap to compare.

Arrays that share memory share one :class:`Storage`. Every write bumps its ``version``. A compiled
net marks the storages of its parameters as watched; a write to any watched storage also advances
the one process-wide counter ``WRITES.count``, so that the net learns from a single comparison per
call that none of its parameters changed.
"""

from __future__ import annotations

from .._core.async_safety import holding
from .._core.fork_locks import Rank, held_at_fork

# A function that writes several parameters, of which a compiled network in another thread sees the
# old values or the new ones: networks hold this lock while they pack their parameters.
together_written = holding(held_at_fork(Rank.BINDING))


class Writes:
    """How many writes to watched storages there have been."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


WRITES = Writes()
NEVER = -1  # a count that WRITES does not reach


class Storage:
    """The identity of a piece of memory: how often it was written, and whether anyone watches.

    Exposed memory is also known to other libraries, whose writes nobody counts.
    """

    __slots__ = ("version", "watched", "exposed")

    def __init__(self, exposed: bool = False) -> None:
        self.version = 0
        self.watched = False
        self.exposed = exposed

    def bump(self) -> None:
        """Note one write."""
        self.version += 1
        if self.watched:
            WRITES.count += 1

    def expose(self) -> None:
        """From now on others may write to this memory."""
        self.exposed = True
        self.bump()
