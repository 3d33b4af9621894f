"""A network for a web service: compiled in advance, its parameters reload."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import numpy as np

import hybridjit

Refused = hybridjit.MXNetError  # raised for shapes and files that the network does not take
memory_stats = hybridjit.memory_stats


class Model:
    """A network with one input from any path that ``hybridjit.load`` takes.

    ``shapes`` are those of samples. Batches of other sizes than those of ``warm_up`` run compiled
    code of these: a network of independent samples is a loop around the code of one.
    """

    def __init__(self, path: str, shapes: Sequence[tuple[int, ...]], max_batch: int) -> None:
        self.shapes, self.max_batch = tuple(shapes), max_batch
        self._path = path
        self._stamp = self._file_stamp()
        self._net = hybridjit.load(path)

    def warm_up(self) -> None:
        """Compile, or load from the cache of objects: each shape, batches of powers of two.

        Raises Refused for a shape that the network does not take.
        """
        for shape in self.shapes:
            size = 1
            while size < 2 * self.max_batch:
                self.predict(np.zeros((min(size, self.max_batch), *shape), np.float32))
                size *= 2

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Results of 1 to ``max_batch`` samples of one shape. Safe to call from several threads."""
        results: np.ndarray = self._net.predict(rows)
        return results

    def reload_if_changed(self) -> bool:
        """Read the parameters again if their file, or the archive, was replaced.

        A concurrent call uses all of the old or all of the new parameters, and nothing is compiled.
        Raises Refused or AssertionError for a file that does not fit; the old parameters stay.
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
