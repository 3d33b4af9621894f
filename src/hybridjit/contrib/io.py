"""``mx.contrib.io``: a DataLoader as an iterator for modules.

In: a loader of pairs. Out: batches of one size with names, shapes and types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import nd
from .._core.types import DType
from ..io import DataDesc, DataIter
from ..nd import NDArray

if TYPE_CHECKING:
    from ..gluon.data import DataLoader

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """The pairs of ``loader`` as batches of data and label, both of ``dtype``.

    The first pair says how large a batch is; a smaller one is filled up with zeros, which its
    ``pad`` counts. Raises StopIteration for a loader without pairs.
    """

    def __init__(
        self,
        loader: DataLoader,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: DType = "float32",
    ) -> None:
        data, label = next(iter(loader))
        super().__init__(data.shape[0])
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._loader = loader
        self._pair: tuple[NDArray, NDArray] | None = None
        self.reset()

    def reset(self) -> None:
        self._pairs: Iterator[tuple[NDArray, NDArray]] = iter(self._loader)

    def iter_next(self) -> bool:
        self._pair = next(self._pairs, None)
        return self._pair is not None

    def getdata(self) -> list[NDArray]:
        return [self._filled(self._current()[0])]

    def getlabel(self) -> list[NDArray]:
        return [self._filled(self._current()[1])]

    def getpad(self) -> int:
        return self.batch_size - self._current()[0].shape[0]

    def _current(self) -> tuple[NDArray, NDArray]:
        assert self._pair is not None, "there is no batch: call iter_next() first"
        return self._pair

    def _filled(self, array: NDArray) -> NDArray:
        """``array`` as ``dtype`` with as many rows as a batch has."""
        found = array.astype(self.dtype)
        missing = self.batch_size - found.shape[0]
        if missing == 0:
            return found
        return nd.concat(found, nd.zeros((missing, *found.shape[1:]), dtype=self.dtype), dim=0)
