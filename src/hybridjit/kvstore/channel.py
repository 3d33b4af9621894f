"""Messages between the processes of a job, independent of those of its other channels.

Input: an array for every process. Output: the arrays that they send to this one. All processes make
the same calls on a channel in the same order, from one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import MXNetError

_TEXT = 256  # bytes of the description of an exchange
_SPIN = 1e-3  # seconds of busy waiting before the first pause
_PAUSES = 1e-4, 1e-3  # bounds of the pauses, in seconds; they grow with the wait
_PART = 0.05
INTERRUPTED = (
    "an exchange between the processes was interrupted, and their states are unknown: end "
    "the job, and start it again from a checkpoint"
)


class Channel:
    """Exchanges under one tag of a communicator; ``endings`` receives news of ended processes.

    patient     whether waits yield the processor from the beginning
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
        """The ``state`` (0 to 255) of every process, by rank, before the described exchange.

        Raises MXNetError in every process if the descriptions differ.
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
                    "all processes of a job must make the same calls in the same order: rank "
                    f"{self.rank} does '{what}', rank {other} '{theirs}'"
                )
        return [int(line[_TEXT]) for line in said]

    def exchange(
        self, what: str, sent: Sequence[np.ndarray], places: Sequence[np.ndarray] | np.ndarray
    ) -> None:
        """Send ``sent[i]`` to process i, and receive ``places[i]`` from it, for all other
        processes.

        An asynchronous exception during an exchange makes the channel unusable.
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
        """Write to ``parts`` the sums of the arrays of all processes, added in the order of ranks.

        ``sent`` has parts of the same sizes with this process's values. Each process adds up one
        part.
        """
        mine = parts[self.rank]
        received = [np.empty_like(mine) for _ in parts]
        received[self.rank] = sent[self.rank]
        if self.rank:
            received[0] = mine  # the sum starts with the part of rank 0, received in place
        else:
            np.copyto(mine, sent[0])
        self.exchange(what, sent, received)
        for part in received[1:]:
            np.add(mine, part, out=mine)
        self.exchange(what, [mine] * self.size, parts)

    def close(self) -> None:
        """Abort all waits of this channel, now and later."""
        self._is_closed = True

    def _wait(self, requests: list[Any], what: str) -> None:
        least, most = _PAUSES
        begin = time.monotonic()
        while not self._mpi.Request.Testall(requests):
            self._require_all_there(what)
            waited = time.monotonic() - begin
            time.sleep(0 if waited < self._spin else min(max(waited * _PART, least), most))

    def _require_all_there(self, what: str) -> None:
        """Raise MXNetError if another process has ended, or this one is about to end."""
        if self._is_closed:
            raise MXNetError(f"rank {self.rank} ends during an exchange: {what}")
        state = self._mpi.Status()
        if self._endings.Iprobe(status=state):
            raise MXNetError(
                f"rank {state.Get_source()} ended while rank {self.rank} waits for it: {what}"
            )


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """The same memory as bytes, because MPI has no float16."""
    return array.reshape(-1).view(np.uint8)
