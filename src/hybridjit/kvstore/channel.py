"""Messages between the processes of a job, apart from those of its other channels.

In: an array for every process. Out: theirs for this one. What one process does on a channel, all do
there in the same order, each in one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import MXNetError

_TEXT = 256  # bytes of what a process says that it is about to do
_SPIN = 1e-3  # seconds: so long a wait asks without rest
_PAUSES = 1e-4, 1e-3  # seconds between the questions of a longer one: a part of it, within these
_PART = 0.05
INTERRUPTED = (
    "an exchange between the processes was interrupted, and nobody knows what the others have: end "
    "the job, and start it again from a checkpoint"
)


class Channel:
    """Exchanges under one tag of a communicator; ``endings`` tells of processes that ended.

    patient  whether waiting leaves the processor to others from the beginning
    """

    def __init__(self, mpi: Any, data: Any, endings: Any, tag: int, patient: bool = False) -> None:
        self._mpi = mpi
        self._data, self._endings, self._tag = data, endings, tag
        self.rank: int = data.Get_rank()
        self.size: int = data.Get_size()
        self._spin = 0.0 if patient else _SPIN
        self._under_way: list[Any] = []  # memory that MPI may write until its exchange is over
        self._is_closed = False

    def agree(self, what: str, state: int = 0) -> list[int]:
        """The state, 0 to 255, of every process, by rank: all are about to do ``what``.

        Raises MXNetError, here as there, if another process is about to do something else.
        """
        text = what.encode()[:_TEXT].ljust(_TEXT)
        mine = np.frombuffer(text + bytes([state]), np.uint8)
        said = np.empty((self.size, _TEXT + 1), np.uint8)
        said[self.rank] = mine
        self.exchange(what, [mine] * self.size, said)
        for other, line in enumerate(said):
            if not np.array_equal(line[:_TEXT], mine[:_TEXT]):
                theirs = line[:_TEXT].tobytes().decode(errors="replace").strip()
                raise MXNetError(
                    "all processes of a job do the same in the same order: rank "
                    f"{self.rank} does '{what}', rank {other} '{theirs}'"
                )
        return [int(line[_TEXT]) for line in said]

    def exchange(
        self, what: str, sent: Sequence[np.ndarray], places: Sequence[np.ndarray] | np.ndarray
    ) -> None:
        """Send ``sent[i]`` to process i, and receive ``places[i]`` from it; without the own.

        After an exception from outside in the middle of it no exchange is possible any more.
        """
        if self._under_way:
            raise MXNetError(INTERRUPTED)
        self._under_way.append((sent, places))
        others = [other for other in range(self.size) if other != self.rank]
        requests = [self._data.Irecv(_as_bytes(places[o]), o, self._tag) for o in others]
        self._under_way.append(requests)
        requests += [self._data.Isend(_as_bytes(sent[o]), o, self._tag) for o in others]
        self._wait(requests, what)
        self._under_way.clear()

    def sum(self, what: str, sent: Sequence[np.ndarray], parts: Sequence[np.ndarray]) -> None:
        """Write to ``parts`` the sums of what all processes send, in the order of the ranks.

        ``sent`` has the same parts of this process's numbers; each process adds up its own part.
        """
        mine = parts[self.rank]
        received = [np.empty_like(mine) for _ in parts]
        received[self.rank] = sent[self.rank]
        if self.rank:
            received[0] = mine  # arrives where the sum is made
        else:
            np.copyto(mine, sent[0])
        self.exchange(what, sent, received)
        for part in received[1:]:
            np.add(mine, part, out=mine)
        self.exchange(what, [mine] * self.size, parts)

    def close(self) -> None:
        """Let no thread wait here any longer."""
        self._is_closed = True

    def _wait(self, requests: list[Any], what: str) -> None:
        least, most = _PAUSES
        begin = time.monotonic()
        while not self._mpi.Request.Testall(requests):
            self._require_all_there(what)
            waited = time.monotonic() - begin
            time.sleep(0 if waited < self._spin else min(max(waited * _PART, least), most))

    def _require_all_there(self, what: str) -> None:
        """Raises MXNetError if another process has come to its end, or this one does."""
        if self._is_closed:
            raise MXNetError(f"rank {self.rank} comes to its end in the middle of this: {what}")
        state = self._mpi.Status()
        if self._endings.Iprobe(status=state):
            raise MXNetError(
                f"rank {state.Get_source()} came to its end, and rank {self.rank} waits for it: "
                f"{what}"
            )


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """The same memory as bytes: MPI has no float16."""
    return array.reshape(-1).view(np.uint8)
