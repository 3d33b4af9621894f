"""Batches made concurrently: tickets for them, and threads that make them.

Input: a function from a list of indices to a batch, and such lists. Output: a :class:`Ticket` for
each list, which receives the batch. Imported by the first DataLoader with workers.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import NoReturn

from ..._core.background import begin
from ...errors import MXNetError

_LONGEST = 1e9  # seconds, about the longest possible wait of a queue

Make = Callable[[Sequence[int]], object]


class WorkerTraceback(Exception):
    """Traceback of an exception in a worker, as the cause of the raised exception."""

    def __str__(self) -> str:
        text = self.args[0].removeprefix("Traceback (most recent call last):\n")
        return f"in a worker process\n{text}"


class Ticket:
    """A requested batch. Dropping the ticket frees the batch."""

    def __init__(self, pid: int) -> None:
        self._answer: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._pid = pid  # process of the workers' owner
        self.is_wanted = True

    def put(self, answer: Callable[[], object]) -> None:
        """Deliver a function that returns the batch or raises."""
        self._answer.put(answer)

    def result(self, timeout: float) -> object:
        """The batch. Raises the exception of its worker, TimeoutError after ``timeout``."""
        if os.getpid() != self._pid:
            raise MXNetError(
                f"the workers of this DataLoader serve process {self._pid}, and this is its fork "
                f"{os.getpid()}: make a DataLoader here"
            )
        try:
            answer = self._answer.get(timeout=min(timeout, _LONGEST))
        except Empty:
            raise multiprocessing.TimeoutError(
                f"Worker timed out after {timeout} seconds. The dataset may be slow: make timeout "
                "larger, or use num_workers=0 to find the slow part"
            ) from None
        return answer()


def raised(error: BaseException, text: str = "") -> NoReturn:
    """Raise a worker's exception; ``text`` is its traceback in a worker process."""
    if text:
        raise error from WorkerTraceback(text)
    raise error


def failed(text: str) -> NoReturn:
    """Raise a new MXNetError."""
    raise MXNetError(text)


class Threads:
    """Batches made by threads of this process."""

    def __init__(self, make: Make, count: int) -> None:
        self._make = make
        self._pid = os.getpid()
        self._asked: SimpleQueue[tuple[Sequence[int], Ticket] | None] = SimpleQueue()
        self._tasks = [begin(self._serve) for _ in range(count)]
        if None in self._tasks:
            self.close()
            raise MXNetError(f"the system cannot start {count} threads for a DataLoader")

    def submit(self, indices: Sequence[int]) -> Ticket:
        """Request a batch."""
        ticket = Ticket(self._pid)
        self._asked.put((indices, ticket))
        return ticket

    def close(self) -> None:
        """End the threads after their current batches."""
        for _ in self._tasks:
            self._asked.put(None)

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            self._answer(*asked)
            del asked

    def _answer(self, indices: Sequence[int], ticket: Ticket) -> None:
        if ticket.is_wanted:
            try:
                batch = self._make(indices)
                ticket.put(lambda: batch)
            except BaseException as error:
                ticket.put(partial(raised, error))
