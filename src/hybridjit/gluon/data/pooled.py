"""Batches that a pool of processes or threads makes in advance, for loaders of other packages.

DataLoader has other workers. GluonCV's RandomTransformDataLoader and similar classes extend MXNet's
iterator over a ``multiprocessing.Pool``, whose interface this one has.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ...context import cpu_pinned
from .dataloader import Batch, as_in_context
from .sampler import Sample, Sampler


class MultiWorkerIter:
    """Iterator over the batches of a sampler, made by a pool.

    A subclass may replace ``_push_next``, which requests the next batch.

    Parameters
    ----------
    worker_pool : multiprocessing.pool.Pool
        Pool of processes or threads.
    batchify_fn : callable
        Function from a list of elements to a batch, for the worker's function.
    batch_sampler : Sampler
        Lists of indices.
    pin_memory, pin_device_id : bool, int
        Whether batches are on the context ``cpu_pinned(pin_device_id)``.
    worker_fn : callable
        Function of indices, ``batchify_fn`` and ``dataset``, called in a worker.
    prefetch : int
        Number of batches requested in advance.
    dataset : Dataset, optional
        Dataset of threads, whose function returns batches. Without it, the function returns pickled
        batches.
    data_loader : object, optional
        Object that stays alive as long as the iterator.
    timeout : float
        Seconds to wait for a batch.

    Raises
    ------
    multiprocessing.TimeoutError
        In iteration, if a batch takes longer than ``timeout``.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Sequence[Sample]], Batch],
        batch_sampler: Sampler,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] | None = None,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._worker_fn = worker_fn
        self._dataset = dataset
        self._data_loader = data_loader
        self._timeout = timeout
        self._iter = iter(batch_sampler)
        self._data_buffer: dict[int, Any] = {}  # requested batches by their number
        self._sent_idx = self._rcvd_idx = 0  # numbers of the next request, and of the next batch
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def _push_next(self) -> None:
        indices = next(self._iter, None)
        if indices is None:
            return
        arguments = (indices, self._batchify_fn, self._dataset)
        self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
            self._worker_fn, arguments
        )
        self._sent_idx += 1

    def __iter__(self) -> MultiWorkerIter:
        return self

    def __next__(self) -> Batch:
        self._push_next()
        if self._rcvd_idx not in self._data_buffer:
            raise StopIteration
        made = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        self._rcvd_idx += 1
        batch = pickle.loads(made) if self._dataset is None else made
        return as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def next(self) -> Batch:
        """The next batch, or StopIteration after the last one."""
        return self.__next__()
