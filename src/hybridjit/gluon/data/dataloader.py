"""DataLoader: batches of a dataset's elements as NDArrays.

Batches are made by the calling thread or, with ``num_workers``, in advance by processes or threads.
Their order is always that of the sampler.
"""

from __future__ import annotations

import importlib
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ... import nd
from ..._core.frames import public
from ..._core.shapes import is_np_array
from ...context import Context, cpu_pinned
from ...nd import NDArray
from ...util import np_array, np_shape
from ..parameter.single import as_mode
from .sampler import BatchSampler, Elements, RandomSampler, Sample, Sampler, SequentialSampler

Batch: TypeAlias = Any  # an NDArray, or nested lists of them


def default_batchify_fn(data: Sequence[Sample]) -> Batch:
    """Stack elements along a new first axis; for tuples, a list with one array per part.

    NumPy arrays and numbers keep their dtype.
    """
    if isinstance(data[0], NDArray):
        return nd.stack(*data)
    if isinstance(data[0], tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    shapes = {np.shape(item) for item in data}
    if len(shapes) > 1:
        listed = ", ".join(map(str, sorted(shapes)))
        raise ValueError(
            f"the samples of a batch have the same shape, these have {listed}: pad them, or give a "
            "batchify_fn"
        )
    stacked = np.asarray(data)
    return as_mode(nd.array(stacked, dtype=stacked.dtype))


default_mp_batchify_fn = default_batchify_fn


def __getattr__(name: str) -> Any:
    """Import ForkingPickler, which loaders of other packages take from this module."""
    if name == "ForkingPickler":
        return importlib.import_module("multiprocessing.reduction").ForkingPickler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_in_context(data: Batch, ctx: Context) -> Batch:
    """NDArrays in nested lists, on ``ctx``."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [as_in_context(item, ctx) for item in data]
    return data


class _Ticket(Protocol):
    """A requested batch."""

    is_wanted: bool

    def result(self, timeout: float) -> Batch: ...


class _Workers(Protocol):
    """Processes or threads that make batches in advance."""

    def submit(self, indices: Sequence[int]) -> _Ticket: ...

    def close(self) -> None: ...


class DataLoader:
    """Batches of a dataset, made in this process or by workers in advance.

    Iteration yields batches; ``len`` is their number. Workers make batches in the order of the
    sampler. An exception in a worker is raised here with its type.

    Parameters
    ----------
    dataset : Dataset or sequence
        Elements by index.
    batch_size : int, optional
        Elements per batch; required without ``batch_sampler``.
    shuffle : bool
        Whether elements come in a new random order in each round.
    sampler : Sampler, optional
        Order of the elements, in place of ``shuffle``.
    last_batch : str, optional
        Incomplete last batch: "keep" (default), "discard", or "rollover" to the next round.
    batch_sampler : Sampler, optional
        Lists of indices, in place of the four arguments above.
    batchify_fn : callable, optional
        Function from a list of elements to a batch; by default it stacks arrays.
    num_workers : int
        Number of worker processes, or of threads with ``thread_pool``. 0: batches are made in
        this process. Processes use a copy of the dataset from the creation of the loader.
    pin_memory : bool
        Whether batches are on the context ``cpu_pinned(pin_device_id)``; the memory is ordinary.
    pin_device_id : int
        Number of that context.
    prefetch : int, optional
        Number of batches made in advance; by default twice ``num_workers``.
    thread_pool : bool
        Whether workers are threads.
    timeout : float
        Seconds to wait for a batch.
    auto_reload : bool
        Whether workers begin the next round immediately.

    Raises
    ------
    ValueError
        For arguments that contradict each other, another ``last_batch``, or a timeout of 0 or
        less.
    MXNetError
        In iteration, if a worker died.
    multiprocessing.TimeoutError
        In iteration, if a batch takes longer than ``timeout``.

    Examples
    --------
    >>> dataset = gluon.data.ArrayDataset(np.arange(6).reshape(3, 2), [10, 20, 30])
    >>> loader = gluon.data.DataLoader(dataset, batch_size=2)
    >>> [label.asnumpy().tolist() for data, label in loader]
    [[10, 20], [30]]
    """

    @public
    def __init__(
        self,
        dataset: Elements,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        last_batch: str | None = None,
        batch_sampler: Sampler | None = None,
        batchify_fn: Callable[[Sequence[Sample]], Batch] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
        self._dataset = dataset
        self._num_workers = max(num_workers, 0)
        self._batchify_fn = batchify_fn or default_batchify_fn
        if batch_sampler is None:
            batch_sampler = _batches(dataset, batch_size, shuffle, sampler, last_batch)
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if "
                "batch_sampler is specified."
            )
        self._batch_sampler = batch_sampler
        # Loaders of other packages, which extend this class, read these two.
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._timeout = timeout
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._auto_reload = auto_reload
        self._ready: _Round | None = None
        self._workers = self._employed(thread_pool) if self._num_workers else None

    def _employed(self, thread_pool: bool) -> _Workers:
        """Workers that end with the loader."""
        make = _Make(self._dataset, self._batchify_fn)
        of_threads = thread_pool or not hasattr(os, "fork")
        # Imported on demand: most programs need neither.
        name, kind = ("workers", "Threads") if of_threads else ("processes", "Processes")
        module = importlib.import_module(f".{name}", __package__)
        workers: _Workers = getattr(module, kind)(make, self._num_workers)
        weakref.finalize(self, workers.close)
        return workers

    def __repr__(self) -> str:
        found = self._dataset
        size = f" of {len(found)} samples" if hasattr(found, "__len__") else ""
        return f"DataLoader({type(found).__name__}{size}, num_workers={self._num_workers})"

    @public
    def __iter__(self) -> Iterator[Batch]:
        if self._workers is None:
            make = _Make(self._dataset, self._batchify_fn)
            batches: Iterator[Batch] = (make(indices) for indices in self._batch_sampler)
        else:
            batches = self._ahead(self._workers)
        if self._pin_memory:
            pinned = cpu_pinned(self._pin_device_id)
            batches = (as_in_context(batch, pinned) for batch in batches)
        yield from batches

    def _ahead(self, workers: _Workers) -> Iterator[Batch]:
        current, self._ready = self._ready or self._round(workers), None
        try:
            yield from current.batches(self._timeout)
        finally:
            current.leave()
        if self._auto_reload:
            self._ready = self._round(workers)

    def _round(self, workers: _Workers) -> _Round:
        return _Round(workers, iter(self._batch_sampler), self._prefetch)

    def __len__(self) -> int:
        return len(self._batch_sampler)


class _Make:
    """Function from indices to a batch, in the mode of the thread that created it."""

    def __init__(self, dataset: Elements, batchify: Callable[[Sequence[Sample]], Batch]) -> None:
        self._dataset = dataset
        self._batchify = batchify
        self._is_numpy = is_np_array()

    def __call__(self, indices: Sequence[int]) -> Batch:
        if self._is_numpy == is_np_array():
            return self._batchify([self._dataset[i] for i in indices])
        with np_shape(self._is_numpy or None), np_array(self._is_numpy):
            return self._batchify([self._dataset[i] for i in indices])


class _Round:
    """One pass over the batches, some of them in progress."""

    def __init__(self, workers: _Workers, order: Iterator[Sequence[int]], ahead: int) -> None:
        self._workers = workers
        self._order = order
        self._tickets: deque[_Ticket] = deque()
        for _ in range(ahead):
            self._submit()

    def _submit(self) -> None:
        indices = next(self._order, None)
        if indices is not None:
            self._tickets.append(self._workers.submit(indices))

    def batches(self, timeout: float) -> Iterator[Batch]:
        """All batches in order."""
        self._submit()
        while self._tickets:
            batch = self._tickets.popleft().result(timeout)
            self._submit()
            yield batch

    def leave(self) -> None:
        """Discard the batches in progress."""
        for ticket in self._tickets:
            ticket.is_wanted = False
        self._tickets.clear()


def _require_elements(dataset: object) -> None:
    """Raise TypeError or KeyError for an object without elements by index."""
    if isinstance(dataset, dict) and 0 not in dataset:
        raise KeyError(
            "0: a loader reads elements by index, and a dict has keys: pass ArrayDataset(data, "
            "label)"
        )
    if not hasattr(dataset, "__len__"):
        raise TypeError(
            f"object of type {type(dataset).__name__!r} has no len(): a loader reads elements by "
            "index from an object with a length, such as list(elements) or an ArrayDataset"
        )


def _batches(
    dataset: Elements,
    batch_size: int | None,
    shuffle: bool,
    sampler: Sampler | None,
    last_batch: str | None,
) -> BatchSampler:
    """The batch sampler for these arguments."""
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if isinstance(batch_size, str) or batch_size < 1:
        raise ValueError(f"batch_size must be an integer, at least 1, got {batch_size!r}")
    if sampler is None:
        _require_elements(dataset)
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")
