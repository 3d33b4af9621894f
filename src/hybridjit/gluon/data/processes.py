"""Batches made by forked processes.

Input: a function from a list of indices to a batch, and such lists. Output: a ticket for each list.
The program's thread may be interrupted anywhere (Ctrl-C). Therefore a separate thread, in which no
exception is raised, communicates with the processes and passes on answers by atomic C calls.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import selectors
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from typing import Any

import numpy as np

from ..._core.background import begin
from ..._core.frames import shortened
from ...errors import MXNetError
from ...ops.random.draws import generator
from ...ops.random.draws import seed as seed_generator
from .messages import Layout, laid_out, portable, post, received
from .workers import Make, Ticket, failed, raised

_GRACE = 2.0  # seconds for a worker to end normally
_DYING = 20.0  # limit in seconds for the exit code of a worker that closed its pipe
# Tasks of a worker at a time. They and their answers fit into the buffers of a socket, so that
# the two sides cannot block each other in `send`.
_AT_ONCE = 4


class Processes:
    """Batches made by forked processes, which have a copy of the dataset from the time of creation.

    Each has separate random generators, seeded from those of this process. Raises MXNetError if no
    thread can be started.
    """

    def __init__(self, make: Make, count: int) -> None:
        self._pid = os.getpid()
        self._asked: deque[tuple[Layout, Ticket]] = deque()
        self._count = 0
        self._is_closed = self._is_over = False
        self._bell, self._rung = socket.socketpair()
        self._bell.setblocking(False)
        self._rung.setblocking(False)
        self._workers: list[_Worker] = []
        try:
            for seeds in _seeds(count):
                self._workers.append(_Worker(make, [w.pipe for w in self._workers], seeds))
            self._task = begin(self._serve)
        except BaseException:
            _end(self._workers)
            raise
        if self._task is None:
            _end(self._workers)
            raise MXNetError("the system cannot start a thread for a DataLoader")

    def submit(self, indices: Sequence[int]) -> Ticket:
        """Request a batch."""
        ticket = Ticket(self._pid)
        self._asked.append((laid_out(list(indices)), ticket))
        self._ring()
        if self._is_over:
            self._take_asked()
        return ticket

    def close(self) -> None:
        """End the processes."""
        if os.getpid() != self._pid:
            return  # a fork of the program does not own the workers
        self._is_closed = True
        self._ring()
        if self._task is not None and not getattr(_SERVING, "is_one", False):
            self._task.wait()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # the thread is woken already
            self._bell.send(b"!")

    # In the thread

    def _serve(self) -> None:
        _SERVING.is_one = True
        try:
            with selectors.DefaultSelector() as waiting:
                self._serve_until_closed(waiting)
        except BaseException as error:
            for worker in self._workers:
                worker.leave(f"the thread of the DataLoader's workers failed: {error!r}")
        finally:
            _end(self._workers)
            self._is_over = True
            self._take_asked()

    def _serve_until_closed(self, waiting: selectors.BaseSelector) -> None:
        waiting.register(self._rung, selectors.EVENT_READ)
        for worker in self._workers:
            for source in worker.sources:
                waiting.register(source, selectors.EVENT_READ, worker)
        while not self._is_closed:
            for key, _ in waiting.select():
                if key.data is None:
                    self._rung.recv(4096)
                    self._take_asked()
                elif key.data.left is None and not key.data.hear():
                    for source in key.data.sources:
                        waiting.unregister(source)

    def _take_asked(self) -> None:
        """Distribute the tasks to the workers in turn."""
        with suppress(IndexError):  # until it is empty
            while True:
                task, ticket = self._asked.popleft()
                self._count += 1
                self._workers[self._count % len(self._workers)].take(task, ticket)


# Whether this thread serves workers. If it collects another loader as garbage, it must not wait
# for that loader's thread, which may do the same.
_SERVING = threading.local()


class _Worker:
    """A process with its current and its pending tasks.

    left    reason why it makes no more batches, or None
    """

    def __init__(
        self, make: Make, others: Sequence[connection.Connection], seeds: Sequence[int]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        target = (make, theirs, [*others, self.pipe], seeds)
        self.process = context.Process(target=_work, args=target, daemon=True)
        self.left: str | None = None
        self._has: deque[Ticket] = deque()
        self._later: deque[tuple[Layout, Ticket]] = deque()
        self.process.start()
        theirs.close()
        self.sources: tuple[Any, Any] = (self.pipe, self.process.sentinel)

    def take(self, task: Layout, ticket: Ticket) -> None:
        """Request the batch of a list of indices."""
        self._later.append((task, ticket))
        if self.left is None:
            self._go_on()
        else:
            self.leave(self.left)

    def hear(self) -> bool:
        """Receive an answer; return False if there will be no more."""
        try:
            if not self.pipe.poll():
                raise EOFError  # the process ended
            answer = received(self.pipe)
            assert answer is not None  # only the program sends the end marker
        except (EOFError, OSError):
            self.leave(self._how_it_ended())
            return False
        self._has.popleft().put(answer)
        self._go_on()
        return True

    def leave(self, why: str) -> None:
        """Stop using the process: all tickets fail for this reason."""
        self.left = why
        for ticket in [*self._has, *(ticket for _, ticket in self._later)]:
            ticket.put(partial(failed, why))
        self._has.clear()
        self._later.clear()

    def _go_on(self) -> None:
        while self._later and len(self._has) < _AT_ONCE:
            task, ticket = self._later.popleft()
            self._has.append(ticket)
            try:
                post(self.pipe, True, task)
            except MXNetError as error:  # the task was not sent
                self._has.pop().put(partial(raised, error))
            except OSError:
                return  # the process ended; the next receive detects it

    def _how_it_ended(self) -> str:
        self.process.join(_DYING)
        code = self.process.exitcode
        how = "closed its connection" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code} (out of memory?)"
        return f"a worker process of the DataLoader {how}"


def _end(workers: Sequence[_Worker]) -> None:
    """End the processes: normally, or by force after a grace period."""
    for worker in workers:
        with suppress(OSError):
            worker.pipe.send(None)  # closing is not enough: other forks may hold the pipe open
        worker.pipe.close()
        worker.leave("the DataLoader is closed")
    end = time.monotonic() + _GRACE
    for worker in workers:
        worker.process.join(max(0.0, end - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _seeds(count: int) -> list[list[int]]:
    """Seeds for each worker's three generators, from the states of this process's generators."""
    numpy_state = np.random.get_state()  # noqa: NPY002
    own = [int(generator().integers(2**32)), int(numpy_state[1][0]), int(numpy_state[2])]  # type: ignore[index]
    entropy = [*own, *random.getstate()[1][:2]]
    spawned = np.random.SeedSequence(entropy).spawn(count)
    return [[int(word) for word in one.generate_state(3)] for one in spawned]


# In the worker


def _work(
    make: Make,
    pipe: connection.Connection,
    others: Sequence[connection.Connection],
    seeds: Sequence[int],
) -> None:
    """Make batches until the program closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program handles Ctrl-C
    for other in others:
        other.close()  # otherwise the pipe would stay open after the program ends
    seed_generator(seeds[0])
    np.random.seed(seeds[1])  # noqa: NPY002
    random.seed(seeds[2])
    with suppress(EOFError, ConnectionError):
        while (task := received(pipe)) is not None:
            _answer(pipe, make, task)


def _traceback(error: BaseException) -> str:
    """The lines of a traceback, without notes: the exception has them in the other process too."""
    said = traceback.TracebackException.from_exception(error)
    said.__notes__ = None  # type: ignore[attr-defined]
    return "".join(said.format()).rstrip()


def _answer(pipe: connection.Connection, make: Make, task: Callable[[], Sequence[int]]) -> None:
    """Send the batch, or the exception and its traceback."""
    try:
        is_made, answer = True, laid_out(make(task()))
    except BaseException as error:
        is_made, answer = False, laid_out((portable(error), _traceback(shortened(error))))
    try:
        post(pipe, is_made, answer)
    except MXNetError as error:
        post(pipe, False, laid_out((error,)))
