"""Datasets: sequences with elements ``[0]`` to ``[len - 1]``, and datasets derived from them."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..._core.frames import public, public_methods
from ...errors import MXNetError, is_of_call
from ...nd import NDArray
from ...recordio import MXIndexedRecordIO
from . import sampler
from .sampler import Elements, Sample


class Dataset:
    """Base of datasets: a subclass defines ``__getitem__`` and ``__len__``.

    Examples
    --------
    >>> class Squares(gluon.data.Dataset):
    ...     def __getitem__(self, idx):
    ...         return idx**2
    ...
    ...     def __len__(self):
    ...         return 10
    >>> Squares().transform(lambda x: x + 1).take(3)[2]
    5
    """

    def __getitem__(self, idx: int) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def filter(self, fn: Callable[[Sample], object]) -> Dataset:
        """The elements for which ``fn`` is true; it is called now, for all."""
        return _SampledDataset(self, sampler.FilterSampler(fn, self))

    @public
    def shard(self, num_shards: int, index: int) -> Dataset:
        """Part ``index`` of ``num_shards`` consecutive parts; the first ones may be larger by
        one."""
        assert index < num_shards, f"Shard index of out bound: {index} out of {num_shards}"
        assert num_shards > 0, "Number of shards must be greater than 0"
        assert index >= 0, "Index must be non-negative"
        size, larger = divmod(len(self), num_shards)
        start = size * index + min(index, larger)
        length = size + (index < larger)
        return _SampledDataset(self, sampler.SequentialSampler(length, start))

    def take(self, count: int | None) -> Dataset:
        """The first ``count`` elements; all if ``count`` is None or exceeds the length."""
        if count is None or count > len(self):
            count = len(self)
        return _SampledDataset(self, sampler.SequentialSampler(max(count, 0)))

    def sample(self, sampler: sampler.Sampler) -> Dataset:
        """The elements at the sampler's indices. Raises TypeError for other objects than a
        Sampler."""
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Sample], lazy: bool = True) -> Dataset:
        """Apply ``fn`` to each element, with a tuple's parts as arguments; at once if not
        ``lazy``."""
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset(list(_elements(transformed)))

    def transform_first(self, fn: Callable[[Sample], object], lazy: bool = True) -> Dataset:
        """Apply ``fn`` to the first part of each element, and keep the other parts."""
        return self.transform(_TransformFirst(fn), lazy)


def _elements(dataset: Dataset) -> list[Sample]:
    return [dataset[i] for i in range(len(dataset))]


class SimpleDataset(Dataset):
    """A sequence as a dataset.

    Parameters
    ----------
    data : sequence
        Elements by index.

    Examples
    --------
    >>> gluon.data.SimpleDataset([1, 2, 3]).filter(lambda x: x > 1)[0]
    2
    """

    def __init__(self, data: Elements) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Sample:
        return self._data[idx]


@public_methods
class ArrayDataset(Dataset):
    """Several arrays or datasets of one length; an element is a tuple with one part of each.

    With one argument an element is its part. Elements of a one-dimensional NDArray are NumPy
    numbers.

    Parameters
    ----------
    *args : arrays, lists or datasets
        The parts.

    Raises
    ------
    AssertionError
        Without arrays, and for arrays of different lengths.

    Examples
    --------
    >>> gluon.data.ArrayDataset([1, 2], ["a", "b"])[1]
    (2, 'b')
    """

    def __init__(self, *args: Elements) -> None:
        assert args, "Needs at least 1 arrays"
        for data in args:
            if not hasattr(data, "__len__"):
                raise TypeError(
                    f"object of type {type(data).__name__!r} has no len(): pass arrays or lists "
                    "with a sample at each index"
                )
        self._length = len(args[0])
        for i, data in enumerate(args):
            assert len(data) == self._length, (
                f"All arrays must have the same length; array[0] has length {self._length} "
                f"while array[{i}] has {len(data)}."
            )
        self._data = [
            data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data
            for data in args
        ]

    def __repr__(self) -> str:
        count = len(self._data)
        return f"ArrayDataset({len(self)} samples of {count} value{'' if count == 1 else 's'})"

    def __getitem__(self, idx: int) -> Sample:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class _SampledDataset(Dataset):
    """Another dataset's elements in a sampler's order."""

    def __init__(self, dataset: Dataset, order: sampler.Sampler) -> None:
        if not isinstance(order, sampler.Sampler):
            raise TypeError(
                f"Invalid sampler type: {type(order)}. Expected gluon.data.Sampler instead."
            )
        self._dataset = dataset
        self._indices = list(order)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Sample:
        return self._dataset[self._indices[idx]]


def _with_way(error: TypeError, item: object) -> TypeError:
    """The error of a transform; with the way out if it does not take the parts of a sample."""
    if isinstance(item, tuple) and is_of_call(error):
        error.args = (
            f"{error}: a sample has {len(item)} parts, which the function takes one by one; "
            "transform_first passes the first one alone",
        )
    return error


class _LazyTransformDataset(Dataset):
    """A function applied to another dataset's elements on access."""

    def __init__(self, data: Dataset, fn: Callable[..., object]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Sample:
        item = self._data[idx]
        try:
            return self._fn(*item) if isinstance(item, tuple) else self._fn(item)
        except TypeError as error:
            raise _with_way(error, item) from None


class _TransformFirst:
    """``fn`` applied to the first argument; a class, so that it can be pickled."""

    def __init__(self, fn: Callable[[Sample], object]) -> None:
        self._fn = fn

    def __call__(self, first: Sample, *rest: Sample) -> Sample:
        return (self._fn(first), *rest) if rest else self._fn(first)


class RecordFileDataset(Dataset):
    """The records of a ``.rec`` file as bytes, in the order of the ``.idx`` file of the same name.

    Parameters
    ----------
    filename : str
        The ``.rec`` file.

    Raises
    ------
    MXNetError
        If a file is missing or malformed.

    Examples
    --------
    >>> rec = mx.recordio.MXIndexedRecordIO("data.idx", "data.rec", "w")
    >>> rec.write_idx(0, b"first")
    >>> rec.close()
    >>> gluon.data.RecordFileDataset("data.rec")[0]
    b'first'
    """

    @public
    def __init__(self, filename: str) -> None:
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self.filename = filename
        self._record = MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: int) -> Sample:
        key = self._record.keys[idx]
        record = self._record.read_idx(key)
        if record is None:
            raise MXNetError(f"{self.filename} ends before record {key}")
        return record

    def __len__(self) -> int:
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """Base of datasets of programs whose files are in a folder, which is created.

    A subclass defines ``_get_data``, which sets ``_data`` and ``_label``.
    """

    _data: Elements
    _label: Elements

    def __init__(self, root: str, transform: Callable[..., Sample] | None) -> None:
        self._transform = transform
        self._root = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        self._get_data()

    def _get_data(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define _get_data")

    def __getitem__(self, idx: int) -> Sample:
        sample = self._data[idx], self._label[idx]
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)
