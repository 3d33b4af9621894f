"""DataLoader: batches of a dataset's elements as NDArrays.

The batches are made in the thread that asks for them: ``num_workers``, ``prefetch`` and the other
arguments that only concern MXNet's worker processes are taken and make no difference to the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import nd
from ...context import Context
from ...nd import NDArray
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """One array of the elements along a new first axis; for tuples, a list with one per part.

    NumPy arrays and numbers keep their dtype.
    """
    if isinstance(data[0], NDArray):
        return nd.stack(*data)
    if isinstance(data[0], tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    stacked = np.asarray(data)
    return nd.array(stacked, dtype=stacked.dtype)


default_mp_batchify_fn = default_batchify_fn


def _as_in_context(data: object, ctx: Context) -> Any:
    """For loaders of other packages: NDArrays in nested lists, on ``ctx``."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(item, ctx) for item in data]
    return data


class DataLoader:
    """Iterates over the batches of ``dataset``; ``len`` is how many there are.

    Raises ValueError for arguments that contradict each other.
    """

    def __init__(
        self,
        dataset: Sequence[Any],
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        last_batch: str | None = None,
        batch_sampler: Sampler | None = None,
        batchify_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: int = 120,
        auto_reload: bool = False,
    ) -> None:
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

    def __iter__(self) -> Iterator[Any]:
        for indices in self._batch_sampler:
            yield self._batchify_fn([self._dataset[i] for i in indices])

    def __len__(self) -> int:
        return len(self._batch_sampler)


def _batches(
    dataset: Sequence[Any],
    batch_size: int | None,
    shuffle: bool,
    sampler: Sampler | None,
    last_batch: str | None,
) -> BatchSampler:
    """The batch sampler that the plain arguments describe."""
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch or "keep")
