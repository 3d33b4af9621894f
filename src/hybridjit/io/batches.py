"""Batches, their descriptions, and the protocol of their iterators.

Input: arrays. Output: a sequence of ``DataBatch``es until ``StopIteration``. This module reads no
files.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._core.frames import public_methods
from .._core.types import DType, Shape
from ..nd.ndarray import NDArray


class _NameAndShape(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, shape, element type and layout of an array of a batch: a tuple of name and shape.

    Parameters
    ----------
    name : str
        Name of the array, which is that of an input of a graph.
    shape : tuple of int
        Shape of a batch.
    dtype : str or dtype
        Element type.
    layout : str, optional
        Axes of the array, such as "NCHW" or "NTC"; the samples are along the axis N. None: along
        the first.

    Examples
    --------
    >>> desc = mx.io.DataDesc("data", (32, 3, 8, 8))
    >>> desc.name, desc.shape, mx.io.DataDesc.get_batch_axis(desc.layout)
    ('data', (32, 3, 8, 8), 0)
    """

    dtype: DType
    layout: str | None

    def __new__(
        cls, name: str, shape: Shape, dtype: DType = np.float32, layout: str | None = "NCHW"
    ) -> DataDesc:
        desc = super().__new__(cls, name, shape)
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self) -> tuple[type[DataDesc], tuple[str, Shape, DType, str | None]]:
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Axis of samples in ``layout``: 0 without a layout, -1 for one without an N."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(
        shapes: Iterable[tuple[str, Shape]], types: Iterable[tuple[str, DType]] | None
    ) -> list[DataDesc]:
        """Descriptions from names with shapes, and names with types if given."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        by_name = dict(types)
        return [DataDesc(name, shape, by_name[name]) for name, shape in shapes]


class DataBatch:
    """Arrays and labels of some samples.

    Parameters
    ----------
    data : list of NDArray
        The inputs, in the order of ``data_names`` of a module.
    label : list of NDArray, optional
        The labels.
    pad : int, optional
        Number of samples at the end that are padding, whose results ``Module.predict`` drops.
    index : numpy.ndarray, optional
        Indices of the samples in the data set.
    bucket_key : hashable, optional
        Selects the module of :class:`BucketingModule`.
    provide_data, provide_label : list of DataDesc, optional
        Names and shapes, where they differ from those that a module is bound to.

    Raises
    ------
    AssertionError
        For data or labels that are not lists.

    Examples
    --------
    >>> batch = mx.io.DataBatch([nd.ones((2, 3))], [nd.zeros(2)])
    >>> print(batch)
    DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]
    """

    def __init__(
        self,
        data: Sequence[NDArray] | None,
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: np.ndarray | None = None,
        bucket_key: Hashable = None,
        provide_data: list[DataDesc] | None = None,
        provide_label: list[DataDesc] | None = None,
    ) -> None:
        for what, arrays in (("Data", data), ("Label", label)):
            assert arrays is None or isinstance(arrays, (list, tuple)), (
                f"{what} must be list of NDArrays, got {type(arrays)}"
            )
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = [array.shape for array in self.data or ()]
        label = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"


@public_methods
class DataIter:
    """Base of iterators over batches.

    A subclass defines ``provide_data`` and ``provide_label``, ``reset``, and either ``next`` or
    ``iter_next``, ``getdata``, ``getlabel``, ``getpad`` and ``getindex``.

    Parameters
    ----------
    batch_size : int
        Samples of a batch.

    Examples
    --------
    >>> class Ones(mx.io.DataIter):
    ...     count = 0
    ...
    ...     def next(self):
    ...         self.count += 1
    ...         if self.count > 2:
    ...             raise StopIteration
    ...         return mx.io.DataBatch([nd.ones((self.batch_size, 3))])
    >>> len(list(Ones(4)))
    2
    """

    provide_data: list[DataDesc]
    provide_label: list[DataDesc]

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Restart from the beginning."""

    def next(self) -> DataBatch:
        """Next batch. Raises StopIteration at the end of the epoch."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Advance to the next batch; False at the end."""
        return False

    def getdata(self) -> Sequence[NDArray] | None:
        """Arrays of the current batch, None if absent. To override."""
        return None

    def getlabel(self) -> Sequence[NDArray] | None:
        """Labels of the current batch, None if absent. To override."""
        return None

    def getindex(self) -> np.ndarray | None:
        """Indices of its samples, None if absent. To override."""
        return None

    def getpad(self) -> int | None:
        """Number of samples that pad the batch. To override."""
        return None


class MXDataIter(DataIter):
    """Base of the iterators that read files."""


class _Forwarding(DataIter):
    """Iterator that forwards the attributes of its current batch."""

    current_batch: DataBatch | None = None

    def _current(self) -> DataBatch:
        assert self.current_batch is not None, "call iter_next() before reading a batch"
        return self.current_batch

    def getdata(self) -> Sequence[NDArray] | None:
        return self._current().data

    def getlabel(self) -> Sequence[NDArray] | None:
        return self._current().label

    def getindex(self) -> np.ndarray | None:
        return self._current().index

    def getpad(self) -> int | None:
        return self._current().pad


@public_methods
class ResizeIter(_Forwarding):
    """Another number of batches per epoch of an iterator, which starts again when it ends.

    Parameters
    ----------
    data_iter : DataIter
        The iterator.
    size : int
        Batches of an epoch.
    reset_internal : bool
        Whether ``reset`` resets ``data_iter`` too.

    Examples
    --------
    >>> batches = mx.io.NDArrayIter(np.ones((4, 3)), batch_size=2)
    >>> len(list(mx.io.ResizeIter(batches, 5)))
    5
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):  # any iterator over buckets
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


@public_methods
class PrefetchingIter(_Forwarding):
    """Combined batches of several iterators: the arrays of all in one batch.

    The name is MXNet's; nothing is prefetched, batches are computed on demand.

    Parameters
    ----------
    iters : DataIter or list of DataIter
        Iterators with equal batch sizes and lengths.
    rename_data, rename_label : list of dict, optional
        New names by old ones, for each iterator.

    Raises
    ------
    AssertionError
        For no iterator, and for iterators of unequal lengths.

    Examples
    --------
    >>> one, two = (mx.io.NDArrayIter({name: np.ones((4, 3))}, batch_size=2) for name in "ab")
    >>> [desc.name for desc in mx.io.PrefetchingIter([one, two]).provide_data]
    ['a', 'b']
    """

    def __init__(
        self,
        iters: DataIter | list[DataIter],
        rename_data: list[Mapping[str, str]] | None = None,
        rename_label: list[Mapping[str, str]] | None = None,
    ) -> None:
        self.iters = iters if isinstance(iters, list) else [iters]
        assert self.iters, "PrefetchingIter needs at least one iterator"
        self.provide_data = _described([i.provide_data for i in self.iters], rename_data)
        self.provide_label = _described([i.provide_label for i in self.iters], rename_label)
        super().__init__(self.provide_data[0].shape[0])

    def reset(self) -> None:
        for each in self.iters:
            each.reset()

    def iter_next(self) -> bool:
        batches = [next(each, None) for each in self.iters]
        found = [batch for batch in batches if batch is not None]
        if not found:
            return False
        assert len(found) == len(batches) and len({batch.pad for batch in found}) == 1, (
            "Number of entry mismatches between iterators"
        )
        self.current_batch = DataBatch(
            [array for batch in found for array in batch.data or ()],
            [array for batch in found for array in batch.label or ()],
            found[0].pad,
            found[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return self._current()


def _described(
    groups: list[list[DataDesc]], renames: list[Mapping[str, str]] | None
) -> list[DataDesc]:
    found = []
    for i, group in enumerate(groups):
        for given in group:
            desc = given if isinstance(given, DataDesc) else DataDesc(*given)
            name = desc.name if renames is None else renames[i][desc.name]
            found.append(DataDesc(name, desc.shape, desc.dtype, desc.layout))
    return found
