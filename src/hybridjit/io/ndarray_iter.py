"""``NDArrayIter``: batches of slices of arrays in memory.

Input: data and labels by name, NumPy arrays or NDArrays with samples along one axis. Output:
batches of ``batch_size`` samples. The caller selects the handling of an incomplete last batch.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .._core.frames import public_methods
from ..nd import array, concatenate
from ..nd import op as array_ops
from ..nd.ndarray import NDArray
from .batches import DataBatch, DataDesc, DataIter

Named = list[tuple[str, NDArray]]
Array: TypeAlias = NDArray | np.ndarray
Source: TypeAlias = Array | list[Array] | dict[str, Array]


@public_methods
class NDArrayIter(DataIter):
    """Batches of arrays in memory.

    Shuffling uses NumPy's global generator, so ``np.random.seed`` makes it repeatable.

    Parameters
    ----------
    data : array, list of arrays, or dict of str to array
        NDArrays or NumPy arrays with as many samples each. NumPy arrays become float32.
    label : array, list of arrays, or dict of str to array, optional
        The labels, in the same forms.
    batch_size : int
        Samples of a batch.
    shuffle : bool
        Whether the samples are permuted, again at each ``reset``.
    last_batch_handle : str
        The incomplete batch at the end of an epoch: "pad" fills it with samples from the start,
        which ``pad`` of the batch counts; "discard" drops it; "roll_over" begins the next epoch
        with its samples.
    data_name, label_name : str
        Names of a single array, and ends of the names of several in a list. The keys of a dict
        are names already.
    layout : str
        Axes of an array; the samples are along the axis N.

    Raises
    ------
    TypeError
        For data that are not arrays.
    AssertionError
        For no data, and for another ``last_batch_handle``.
    NotImplementedError
        For csr arrays, unless ``last_batch_handle`` is "discard".

    Examples
    --------
    >>> batches = mx.io.NDArrayIter(np.ones((5, 3)), np.arange(5), batch_size=2)
    >>> [(batch.data[0].shape, batch.pad) for batch in batches]
    [((2, 3), 0), ((2, 3), 0), ((2, 3), 1)]
    >>> batches.provide_label
    [DataDesc[softmax_label,(2,),<class 'numpy.float32'>,NCHW]]
    """

    def __init__(
        self,
        data: Source,
        label: Source | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        if not isinstance(batch_size, (int, np.integer)):
            raise TypeError(f"batch_size is an integer, got {batch_size!r}")
        super().__init__(batch_size)
        assert last_batch_handle in ("pad", "discard", "roll_over"), (
            f"last_batch_handle must be pad, discard or roll_over, got {last_batch_handle}"
        )
        self.data = named(data, False, data_name)
        self.label = named(label, True, label_name)
        self._require_whole_batches(last_batch_handle)
        self.layout = layout
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self._axis = layout.find("N")
        self.num_data = self.data[0][1].shape[self._axis]
        self.idx = np.arange(self.num_data)
        self.cursor = -batch_size
        self._rest: tuple[list[NDArray], list[NDArray]] | None = None
        self.reset()

    def _require_whole_batches(self, last_batch_handle: str) -> None:
        """Raise NotImplementedError for csr arrays unless incomplete batches are dropped."""
        rows = [name for name, values in self.data + self.label if values.stype == "csr"]
        if rows and last_batch_handle != "discard":
            raise NotImplementedError(
                f"NDArrayIter cuts whole batches from csr arrays ({', '.join(rows)}), and "
                f"last_batch_handle={last_batch_handle!r} joins rows of both ends: pass "
                "last_batch_handle='discard'"
            )

    @property
    def data_list(self) -> list[NDArray]:
        """All arrays, data and labels."""
        return [values for _, values in self.data + self.label]

    @property
    def num_source(self) -> int:
        """Number of arrays, data and labels."""
        return len(self.data) + len(self.label)

    @property
    def provide_data(self) -> list[DataDesc]:  # type: ignore[override]
        """Names, shapes and dtypes of the data of a batch."""
        return self._described(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:  # type: ignore[override]
        """Names, shapes and dtypes of the labels of a batch."""
        return self._described(self.label)

    def _described(self, named: Named) -> list[DataDesc]:
        found = []
        for name, values in named:
            shape = list(values.shape)
            shape[self._axis] = self.batch_size
            found.append(DataDesc(name, tuple(shape), values.dtype, self.layout))
        return found

    def hard_reset(self) -> None:
        """Start the next epoch without samples carried over."""
        if self.shuffle:
            self._shuffle()
        self._rest = None
        self.cursor = -self.batch_size

    def reset(self) -> None:
        """Start the next epoch, with samples carried over first if requested."""
        if self.shuffle:
            self._shuffle()
        left = self.num_data - self.cursor  # samples of the incomplete batch
        if self.last_batch_handle == "roll_over" and 0 < left < self.batch_size:
            self.cursor = -left - self.batch_size
        else:
            self.cursor = -self.batch_size

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        if data[0].shape[self._axis] != self.batch_size:
            self._rest = data, label
            raise StopIteration
        if self.cursor < 0:
            self._rest = None
        return DataBatch(data, label, self.getpad())

    def getdata(self) -> list[NDArray]:
        return self._cut(self.data, 0)

    def getlabel(self) -> list[NDArray]:
        return self._cut(self.label, 1)

    def getpad(self) -> int:
        """Number of samples that pad the batch, or were carried over to it."""
        if self.last_batch_handle == "pad":
            return max(0, self.cursor + self.batch_size - self.num_data)
        if self.last_batch_handle == "roll_over":
            return max(0, -self.cursor)
        return 0

    def _cut(self, named: Named, which: int) -> list[NDArray]:
        """Current batch of every array; incomplete at the end unless padded."""
        assert self.cursor < self.num_data, "DataIter needs reset."
        end = self.cursor + self.batch_size
        if self.last_batch_handle != "pad":
            end = min(end, self.num_data)
        found = [self._samples(values, max(0, self.cursor), end) for _, values in named]
        if self.cursor >= 0:
            return found
        assert self._rest is not None, "next epoch should have cached data"
        both = zip(self._rest[which], found)
        return [concatenate([first, second], axis=self._axis) for first, second in both]

    def _samples(self, values: NDArray, begin: int, end: int) -> NDArray:
        """Samples from ``begin`` to ``end``, wrapping around after the last one."""
        if end <= self.num_data:
            return array_ops.slice_axis(values, axis=self._axis, begin=begin, end=end)
        chosen = array(np.arange(begin, end) % self.num_data, dtype="int64")
        return array_ops.take(values, chosen, axis=self._axis)

    def _shuffle(self) -> None:
        np.random.shuffle(self.idx)
        self.data = chosen(self.data, self.idx, self._axis)
        self.label = chosen(self.label, self.idx, self._axis)


def named(source: Source | None, allow_empty: bool, default_name: str) -> Named:
    """Arrays with names, sorted by name.

    Raises TypeError for other objects, AssertionError without arrays unless ``allow_empty``.
    """
    assert source is not None or allow_empty, "data is required, got None"
    found = _by_name([] if source is None else source, default_name)
    assert found or allow_empty, "data does not contain arrays"
    return sorted(((name, _converted(name, each)) for name, each in found.items()), key=_name_of)


def chosen(data: Named, idx: np.ndarray, axis: int = 0) -> Named:
    """The samples at ``idx`` of every array."""
    places = array(idx, dtype="int64")
    return [(name, array_ops.take(values, places, axis=axis)) for name, values in data]


def has_instance(data: Named, dtype: type) -> bool:
    """Whether any of the arrays is of a class."""
    return any(isinstance(values, dtype) for _, values in data)


def _by_name(source: Source, default_name: str) -> dict[str, Array]:
    if isinstance(source, (np.ndarray, NDArray)):
        source = [source]
    if isinstance(source, list):
        is_lone = len(source) == 1
        names = [default_name if is_lone else f"_{i}_{default_name}" for i in range(len(source))]
        source = dict(zip(names, source))
    if not isinstance(source, dict):
        raise TypeError(
            "Input must be NDArray, numpy.ndarray, a list of them or dict with them as values, "
            f"got {type(source)}"
        )
    return source


def _name_of(named: tuple[str, NDArray]) -> str:
    return named[0]


def _converted(name: str, values: Array) -> NDArray:
    if isinstance(values, NDArray):
        return values
    try:
        return array(values)
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid type '{type(values)}' for {name}, should be NDArray or numpy.ndarray"
        ) from None
