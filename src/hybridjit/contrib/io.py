"""``mx.contrib.io``: a DataLoader as an iterator for modules.

Input: a loader of pairs. Output: batches of equal size with names, shapes and types.
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
    """The pairs of ``loader`` as batches of data and label, cast to ``dtype``.

    The first pair determines the batch size; smaller batches are padded with zeros, counted by
    ``pad``. Raises StopIteration for an empty loader.
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
        assert self._pair is not None, "no current batch: call iter_next() first"
        return self._pair

    def _filled(self, array: NDArray) -> NDArray:
        """``array`` as ``dtype``, padded to the batch size."""
        found = array.astype(self.dtype)
        missing = self.batch_size - found.shape[0]
        if missing == 0:
            return found
        return nd.concat(found, nd.zeros((missing, *found.shape[1:]), dtype=self.dtype), dim=0)
