"""Workspaces: memory whose contents do not outlive a call.

Input: the memory that each executable needs. Output: an arena and scratch. Executables whose calls
do not overlap in time, such as forward and backward of a training step, share one workspace.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from .._core.frozen import dataclass
from .arena import Arena

# Number of workspaces kept for later calls; a call that finds none allocates one.
MAX_IDLE = 8


def rounded(number: int) -> int:
    """A number rounded up to a power of two; 0 stays 0."""
    return 1 << (number - 1).bit_length() if number else 0


@dataclass(frozen=True)
class Room:
    """Bytes that calls need: an arena, scratch for each thread, and scratch for all of them."""

    arena: int
    scratch: int
    shared: int

    @staticmethod
    def for_each(rooms: Sequence[Room]) -> Room:
        """A room that is sufficient for each of these."""
        if not rooms:
            return Room(0, 0, 0)
        return Room(
            *(max(sizes) for sizes in zip(*((r.arena, r.scratch, r.shared) for r in rooms)))
        )

    @property
    def rounded(self) -> Room:
        """The room for which each number is rounded up to a power of two."""
        return Room(*map(rounded, (self.arena, self.scratch, self.shared)))

    @property
    def nbytes(self) -> int:
        """Bytes for a call on one thread."""
        return self.arena + self.scratch + self.shared

    def holds(self, other: Room) -> bool:
        """Whether this room is sufficient for a call that needs ``other``."""
        return (
            self.arena >= other.arena
            and self.scratch >= other.scratch
            and self.shared >= other.shared
        )


class Workspace:
    """An arena and scratch for up to ``threads`` threads, with the instances that use them by
    executable.
    """

    __slots__ = ("arena", "scratch", "room", "threads", "shared_at", "instances")

    def __init__(self, room: Room, threads: int) -> None:
        of_threads = threads * room.scratch
        self.arena = Arena(room.arena)
        self.scratch = Arena(of_threads + room.shared)
        self.scratch.bytes[:] = 0
        self.room = room
        self.threads = threads
        self.shared_at = self.scratch.address + of_threads
        self.instances: weakref.WeakKeyDictionary[object, Any] = weakref.WeakKeyDictionary()


class Turns:
    """The idle workspaces of executables that share memory; a call has one exclusively."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self._room = Room.for_each(rooms)
        self._idle: list[Workspace] = []

    def take(self, threads: int) -> Workspace:
        """A workspace that no other call uses, for ``threads`` threads."""
        try:
            found = self._idle.pop()
        except IndexError:
            return Workspace(self._room, threads)
        is_enough = found.threads >= threads and found.room.holds(self._room)
        return found if is_enough else Workspace(self._room, threads)

    def grow(self, room: Room, rounds: bool = False) -> None:
        """Make later workspaces sufficient for another executable, or for the rounded room."""
        if not self._room.holds(room):
            self._room = Room.for_each([self._room, room.rounded if rounds else room])

    def forget(self, owner: object) -> None:
        """Free the instances of ``owner`` in idle workspaces: they keep replaced parameters."""
        for workspace in [*self._idle]:
            workspace.instances.pop(owner, None)

    def give(self, workspace: Workspace) -> None:
        """Take a workspace back from a finished call, unless enough are idle."""
        if len(self._idle) < MAX_IDLE:
            self._idle.append(workspace)
