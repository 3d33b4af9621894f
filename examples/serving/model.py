"""A network for a web service: few batch sizes, compiled in advance; parameters reload."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import numpy as np

import hybridjit


class Model:
    """A network with one input from any path that ``hybridjit.load`` takes.

    ``shapes`` are those of samples. A batch is filled up to the next power of two, so that a shape
    has at most log2(``max_batch``) + 1 batch sizes. The filling changes no bit of a result.
    """

    def __init__(self, path: str, shapes: Sequence[tuple[int, ...]], max_batch: int) -> None:
        self.shapes, self.max_batch = tuple(shapes), max_batch
        self._path = path
        self._stamp = self._file_stamp()
        self._net = hybridjit.load(path)

    def warm_up(self) -> None:
        """Compile every shape and batch size, or load them from the cache of objects.

        Raises MXNetError for a shape that the network does not take.
        """
        for shape in self.shapes:
            size = 1
            while size < 2 * self.max_batch:
                self.predict(np.zeros((min(size, self.max_batch), *shape), np.float32))
                size *= 2

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Results of 1 to ``max_batch`` samples of one shape. Safe to call from several threads."""
        size = min(1 << (len(rows) - 1).bit_length(), self.max_batch)
        batch = np.zeros((size, *rows.shape[1:]), np.float32)
        batch[: len(rows)] = rows
        results: np.ndarray = self._net.predict(batch)
        return results[: len(rows)]

    def reload_if_changed(self) -> bool:
        """Read the parameters again if their file, or the archive, was replaced.

        A concurrent call uses all of the old or all of the new parameters, and nothing is compiled.
        Raises MXNetError or AssertionError for a file that does not fit; the old parameters stay.
        """
        stamp = self._file_stamp()
        if stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        found = hybridjit.load(self._path).collect_params()
        arrays = {name: parameter.data() for name, parameter in found.items()}
        self._net.collect_params().load_dict(arrays, filename=self._path)
        return True

    def _file_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(parameters_file(self._path))
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def parameters_file(path: str) -> str:
    """The file that changes with the parameters of the model at this path."""
    if os.path.isfile(path) and not path.endswith("-symbol.json"):
        return path  # an archive, an .onnx file, or the file of parameters
    start = (
        os.path.join(path, "") if os.path.isdir(path) else path.removesuffix("-symbol.json") + "-"
    )
    return min(glob.glob(glob.escape(start) + "*.params"), default=path)
