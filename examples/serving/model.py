"""A network for a web service: few batch sizes, compiled in advance; parameters reload."""

from __future__ import annotations

import os

import numpy as np

import hybridjit
from hybridjit import nd


class Model:
    """The network of ``prefix-symbol.json`` and ``prefix-0000.params`` with one input.

    ``shape`` is that of one sample. A batch is filled up to the next power of two, so that at most
    log2(``max_batch``) + 1 signatures are compiled. The filling changes no bit of a result.
    """

    def __init__(self, prefix: str, shape: tuple[int, ...], max_batch: int) -> None:
        self.shape, self.max_batch = shape, max_batch
        self._parameters = f"{prefix}-0000.params"
        self._stamp = self._file_stamp()
        self._net = hybridjit.load(prefix)

    def warm_up(self) -> None:
        """Compile every batch size, or load it from the cache of objects."""
        size = 1
        while size < 2 * self.max_batch:
            self.predict(np.zeros((min(size, self.max_batch), *self.shape), np.float32))
            size *= 2

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Results of 1 to ``max_batch`` samples. Safe to call from several threads."""
        size = min(1 << (len(rows) - 1).bit_length(), self.max_batch)
        batch = np.zeros((size, *self.shape), np.float32)
        batch[: len(rows)] = rows
        return self._net(nd.array(batch)).asnumpy()[: len(rows)]

    def reload_if_changed(self) -> bool:
        """Read the parameters again if their file was replaced.

        A concurrent call uses all of the old or all of the new parameters, and nothing is compiled.
        Raises MXNetError for a file that does not fit; the old parameters then stay.
        """
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._net.load_parameters(self._parameters)
        return True

    def _file_stamp(self) -> tuple[int, int, int]:
        status = os.stat(self._parameters)
        return status.st_mtime_ns, status.st_size, status.st_ino
