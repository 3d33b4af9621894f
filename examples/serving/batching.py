"""Batch concurrent requests: samples that arrive during a call are computed in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

Compute = Callable[[np.ndarray], np.ndarray]


class Overloaded(Exception):
    """More samples are waiting than the queue admits."""


class Batcher:
    """Joins requests of one event loop into batches of at most ``max_batch`` samples of one shape.

    An idle batcher computes at once, so a single request waits for nothing. ``max_delay`` seconds
    make it wait for more samples; that raises throughput only if calls are much faster than
    requests arrive. ``max_waiting`` bounds the queue in samples. Calls run in one thread: compiled
    code releases the interpreter lock, so that the event loop goes on meanwhile.
    """

    def __init__(
        self, compute: Compute, max_batch: int, max_delay: float = 0.0, max_waiting: int = 1024
    ) -> None:
        self._compute, self._max_batch, self._max_delay = compute, max_batch, max_delay
        self._max_waiting = max_waiting
        self._queue: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "network")
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.batches = self.samples = 0

    @property
    def waiting(self) -> int:
        """Samples in the queue."""
        return sum(len(rows) for rows, _ in self._queue)

    def start(self) -> None:
        """Begin to compute; for a running event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Compute the samples that wait, then end."""
        self._is_stopping = True
        self._arrived.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The results of these samples, at most ``max_batch``. Raises Overloaded."""
        if self.waiting + len(rows) > self._max_waiting:
            raise Overloaded
        result: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        self._queue.append((rows, result))
        self._arrived.set()
        return await result

    async def _run(self) -> None:
        while self._queue or not self._is_stopping:
            await self._arrived.wait()
            if self._max_delay and self.waiting < self._max_batch:
                await asyncio.sleep(self._max_delay)
            taken = self._take()
            if taken:
                await self._compute_batch(taken)

    def _take(self) -> list[tuple[np.ndarray, asyncio.Future[np.ndarray]]]:
        """The oldest request, and the next ones of its shape that fit into its batch."""
        taken: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]] = []
        kept: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]] = []
        total, is_full = 0, False
        for request in self._queue:
            rows = request[0]
            is_other = bool(taken) and rows.shape[1:] != taken[0][0].shape[1:]
            is_full = is_full or not is_other and total + len(rows) > self._max_batch
            (kept if is_other or is_full else taken).append(request)
            total += 0 if is_other or is_full else len(rows)
        self._queue = kept
        if not self._queue:
            self._arrived.clear()
        return taken

    async def _compute_batch(
        self, taken: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]]
    ) -> None:
        batch = np.concatenate([rows for rows, _ in taken])
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._compute, batch)
        except Exception as error:  # the requests of this batch fail, the service goes on
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        self.batches += 1
        self.samples += len(batch)
        start = 0
        for rows, future in taken:
            if not future.done():  # a client may have gone
                future.set_result(results[start : start + len(rows)])
            start += len(rows)
