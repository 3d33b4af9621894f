"""Samplers: the order of a dataset's elements, and their grouping into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..._core.frames import public

Sample: TypeAlias = Any  # an element of a dataset, of any type
Drawn: TypeAlias = Any  # an index, or a list of indices for a batch

_LAST_BATCH = ("keep", "discard", "rollover")


class Elements(Protocol):
    """A dataset, a list, an array: an object with a length, and elements by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, idx: int, /) -> Sample: ...


class Sampler:
    """Base of samplers: iteration yields indices of a dataset's elements, ``len`` is their number.

    Examples
    --------
    >>> issubclass(gluon.data.RandomSampler, gluon.data.Sampler)
    True
    """

    def __iter__(self) -> Iterator[Drawn]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")


class SequentialSampler(Sampler):
    """Consecutive indices.

    Parameters
    ----------
    length : int
        Number of indices.
    start : int
        First index.

    Examples
    --------
    >>> list(gluon.data.SequentialSampler(3, start=2))
    [2, 3, 4]
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """All indices in random order, a new one in each iteration.

    The order comes from NumPy's global generator: ``np.random.seed`` makes it reproducible.

    Parameters
    ----------
    length : int
        Number of indices.

    Examples
    --------
    >>> sorted(gluon.data.RandomSampler(3))
    [0, 1, 2]
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self._length)
        np.random.shuffle(order)  # noqa: NPY002
        return iter(order.tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of the elements for which a function is true, in order.

    Parameters
    ----------
    fn : callable
        Called with each element, once.
    dataset : Dataset, list or array
        The elements.

    Examples
    --------
    >>> list(gluon.data.FilterSampler(lambda x: x > 2, [5, 1, 3]))
    [0, 2]
    """

    def __init__(self, fn: Callable[[Sample], object], dataset: Elements) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of indices from another sampler.

    Parameters
    ----------
    sampler : Sampler
        Indices.
    batch_size : int
        Indices per list.
    last_batch : str
        Incomplete last list: "keep", "discard", or "rollover" to the next iteration.

    Raises
    ------
    ValueError
        For another ``last_batch``.

    Examples
    --------
    >>> list(gluon.data.BatchSampler(gluon.data.SequentialSampler(5), 2))
    [[0, 1], [2, 3], [4]]
    """

    @public
    def __init__(self, sampler: Sampler, batch_size: int, last_batch: str = "keep") -> None:
        if last_batch not in _LAST_BATCH:
            raise ValueError(
                f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch}"
            )
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._left_over: list[Drawn] = []

    def __iter__(self) -> Iterator[list[Drawn]]:
        batch, self._left_over = self._left_over, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._left_over = batch

    def __len__(self) -> int:
        if self._last_batch == "keep":
            return -(-len(self._sampler) // self._batch_size)
        return (len(self._sampler) + len(self._left_over)) // self._batch_size
