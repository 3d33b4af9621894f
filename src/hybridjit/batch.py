"""``hybridjit.batch``: a network on the workers of a batch engine.

Input: a model's files, and batches in the form of the engine (dicts of arrays, arrays, data
frames). Output: the network's results for every record, in the same form. A :class:`Predictor` is
pickled as the names of its files; each worker loads the network once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, Signature
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ._core.config import config
from ._core.frames import public
from ._core.types import Shape
from .errors import MXNetError
from .formats.atomic import system_errors
from .gluon.symbol_block import SymbolBlock
from .loading import load
from .nd import NDArray, array
from .onnx.load import load as load_onnx
from .runtime.threads import set_num_threads

Frame: TypeAlias = Any  # of pandas, which is not imported for its types
Column: TypeAlias = Any  # an array, or a list of records

KEPT = 4  # networks of a process: the least recently used one is dropped
_Files = tuple[tuple[str, int, int], ...]


class Predictor:
    """A network as a function of batches, which is pickled as the names of its files.

    A worker loads the network at the first call. A batch is a dict of arrays, an array, or (with
    ``frame``) a pandas data frame. At most ``batch_size`` records are computed at a time; the
    remainder of a batch is padded to a power of two, so that batches of any size need at most
    log2(``batch_size``) + 1 compilations. A record has the same bits in each batch.

    Parameters
    ----------
    model : str or path
        Prefix of MXNet's two files, or an ``.onnx`` file; all workers must find
        it under this name.
    epoch : int
        Number in the name of the parameters' file.
    shapes : dict of str to tuple, optional
        Shape of one record for each input, without the batch. Records are checked against it,
        and flat records are reshaped.
    dtype : str
        Element type to which records are cast.
    batch_size : int
        Largest number of records of one call.
    outputs : sequence of str
        Names of the columns of results.
    key : str, optional
        Column that identifies a record in errors.
    threads : int, optional
        Number of threads of a call in the process that loads the network. By default
        ``OMP_NUM_THREADS`` applies, which Ray, Dask and Spark set to the worker's share.
    cache_dir : str, optional
        Folder of compiled objects in that process.

    Raises
    ------
    ValueError
        For a ``batch_size`` below 1.

    Examples
    --------
    >>> from hybridjit.batch import Predictor
    >>> predictor = Predictor("examples/digits/digits", shapes={"data": (1, 28, 28)})
    >>> rows = predictor({"id": [7, 8], "data": np.zeros((2, 784), np.float32)})
    >>> sorted(rows), rows["output"].shape
    (['id', 'output'], (2, 10))
    """

    @public
    def __init__(
        self,
        model: str | os.PathLike[str],
        epoch: int = 0,
        *,
        shapes: Mapping[str, Shape] | None = None,
        dtype: str = "float32",
        batch_size: int = 64,
        outputs: Sequence[str] = ("output",),
        key: str | None = None,
        threads: int | None = None,
        cache_dir: str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.model, self.epoch = os.path.abspath(os.fspath(model)), epoch
        self.shapes, self.dtype = dict(shapes or {}), dtype
        self.batch_size, self.outputs, self.key = batch_size, tuple(outputs), key
        self.threads, self.cache_dir = threads, cache_dir

    @public
    def load(self) -> Predictor:
        """Load the network in this process, if it is not loaded; for the start of a worker.

        Raises MXNetError for files that are missing, malformed, or do not belong together.
        """
        self._network()
        return self

    @public
    def __call__(self, batch: object, *more: object) -> Any:
        """Compute the results of a batch: a dict for a dict, otherwise arrays.

        A dict has a column for each input of the network; its other columns are copied to the
        result. Arrays are the inputs in the network's order; the result is an array, or a tuple for
        several outputs. Raises MXNetError that names the first record that does not fit.
        """
        network = self._network()
        names = network.input_names
        if isinstance(batch, Mapping):
            kept = {name: column for name, column in batch.items() if name not in names}
            return kept | self._results(network, batch)
        results = self._results(network, self._by_name(names, (batch, *more)))
        return _alone(tuple(results.values()))

    def frame(self, frame: Frame) -> Frame:
        """Compute a pandas data frame: result columns replace the columns of the inputs.

        A result with more than one element per record is a flat list in its row.
        """
        network = self._network()
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        results = self._results(network, columns)
        kept = frame.drop(columns=[name for name in network.input_names if name in columns])
        return kept.assign(**{name: _cells(rows) for name, rows in results.items()})

    def frames(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Compute several data frames, as a function for Spark's ``mapInPandas``."""
        return map(self.frame, frames)

    def here(self) -> Callable[..., Any]:
        """The network as a function of arrays, for Spark's ``predict_batch_udf``.

        Spark counts its parameters: it has as many as the network has inputs. It returns an array,
        or a dict of several outputs by name.
        """
        network = self._network()
        names = network.input_names

        def predict(*arrays: object) -> Any:
            results = self._results(network, self._by_name(names, arrays))
            return _alone(tuple(results.values())) if len(results) == 1 else results

        places = [Parameter(f"input{i}", Parameter.POSITIONAL_ONLY) for i in range(len(names))]
        vars(predict)["__signature__"] = Signature(places)
        return predict

    def _network(self) -> SymbolBlock:
        versions = _versions(self.model, self.epoch)
        return _network(self.model, self.epoch, versions, self.threads, self.cache_dir)

    def _by_name(self, names: Sequence[str], columns: Sequence[object]) -> dict[str, object]:
        if len(columns) != len(names):
            raise MXNetError(
                f"{self.model} has {len(names)} inputs ({', '.join(names)}), got {len(columns)}"
            )
        return dict(zip(names, columns))

    def _results(
        self, network: SymbolBlock, columns: Mapping[str, Column]
    ) -> dict[str, np.ndarray]:
        """A column of results for each output."""
        keys = None if self.key is None else columns.get(self.key)
        rows = [self._rows(name, columns, keys) for name in network.input_names]
        count, fixed = _common_length(network.input_names, rows), self._fixed_batch(network)
        most = fixed or self.batch_size
        starts = range(0, count, most) or [0]
        parts = [self._part(network, [r[s : s + most] for r in rows], fixed) for s in starts]
        names = self._names(len(parts[0]))
        return {name: np.concatenate(column) for name, column in zip(names, zip(*parts))}

    def _fixed_batch(self, network: SymbolBlock) -> int:
        """The number of records of any call, if the graph fixes it; otherwise 0.

        Raises MXNetError for inputs without a common batch size, and for a batch size of 0.
        """
        shapes = [shape for shape in network.input_shapes.values() if shape is not None]
        sizes = {shape[0] if shape else 0 for shape in shapes} - {None}
        if len(sizes) > 1 or 0 in sizes:
            found = ", ".join(f"'{n}' {s}" for n, s in network.input_shapes.items())
            raise MXNetError(
                f"the first axis of the inputs of {self.model} is not a batch: {found}"
            )
        return next(iter(sizes), 0) or 0

    def _rows(self, name: str, columns: Mapping[str, Column], keys: Column | None) -> np.ndarray:
        """An input's records as one array. Raises MXNetError that names a record that does not
        fit."""
        if name not in columns:
            raise MXNetError(
                f"{self.model} has the input '{name}', but the batch has only the columns "
                f"{', '.join(map(repr, columns))}"
            )
        column = columns[name]
        wanted = self.shapes.get(name)
        if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
            if wanted is None or column.shape[1:] == wanted:
                return column.astype(self.dtype, copy=False)
            if column.shape[1:] == (prod(wanted),):
                return column.reshape(len(column), *wanted).astype(self.dtype, copy=False)
        records = [self._record(row, wanted, name, i, keys) for i, row in enumerate(column)]
        for i, record in enumerate(records):
            if record.shape != records[0].shape:
                raise _misfit(name, i, keys, record.shape, records[0].shape)
        return np.array(records, self.dtype).reshape(len(records), *_shape(records, wanted))

    def _record(
        self, row: object, wanted: Shape | None, name: str, i: int, keys: Column | None
    ) -> np.ndarray:
        if row is None:
            raise MXNetError(f"{_name(i, keys)} of '{name}' is missing")
        try:
            record = np.asarray(row, self.dtype)
        except (TypeError, ValueError) as error:
            raise MXNetError(f"{_name(i, keys)} of '{name}' is not an array: {error}") from None
        if wanted is None or record.shape == wanted:
            return record
        if record.ndim > 1 or record.size != prod(wanted):
            raise _misfit(name, i, keys, record.shape, wanted)
        return record.reshape(wanted)

    def _part(
        self, network: SymbolBlock, rows: Sequence[np.ndarray], fixed: int
    ) -> list[np.ndarray]:
        """The outputs for at most ``batch_size`` records, or for the records of a fixed batch."""
        count = len(rows[0])
        size = fixed or min(self.batch_size, 1 << max(count - 1, 0).bit_length())
        results = network(*(array(_filled(part, size), dtype=part.dtype) for part in rows))
        arrays = [r.asnumpy() for r in ([results] if isinstance(results, NDArray) else results)]
        for i, result in enumerate(arrays):
            if result.shape[:1] != (size,):
                raise MXNetError(
                    f"output {i} of {self.model} has shape {result.shape} for {size} records: its "
                    "first axis is not the batch"
                )
        return [result[:count] for result in arrays]

    def _names(self, count: int) -> Sequence[str]:
        if len(self.outputs) == count:
            return self.outputs
        if len(self.outputs) == 1:
            return [f"{self.outputs[0]}_{i}" for i in range(count)]
        raise MXNetError(
            f"{self.model} has {count} outputs, got {len(self.outputs)} names in outputs="
        )


@lru_cache(maxsize=KEPT)
def _network(
    model: str,
    epoch: int,
    versions: _Files,
    threads: int | None,
    cache_dir: str | None,
) -> SymbolBlock:
    """The network of these versions of a model's files; configures the process on loading."""
    if threads is not None:
        set_num_threads(threads)
    if cache_dir is not None:
        config.cache_dir = cache_dir
    if model.endswith(".onnx"):
        return load_onnx(model)
    return load(model, epoch)


def _versions(model: str, epoch: int) -> _Files:
    """Each file of a model with its size in bytes and its modification time in nanoseconds."""
    pair = (f"{model}-symbol.json", f"{model}-{epoch:04d}.params")
    names = (model,) if model.endswith(".onnx") else pair
    found = []
    for name in names:
        with system_errors(name):
            state = os.stat(name)
        found.append((name, state.st_size, state.st_mtime_ns))
    return tuple(found)


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """``size`` records: ``rows``, padded with zeros."""
    missing = size - len(rows)
    if not missing:
        return rows
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)])


def _common_length(names: Sequence[str], rows: Sequence[np.ndarray]) -> int:
    for name, part in zip(names, rows):
        if len(part) != len(rows[0]):
            raise MXNetError(
                f"inputs must have the same number of records: '{names[0]}' has {len(rows[0])}, "
                f"'{name}' has {len(part)}"
            )
    return len(rows[0])


def _shape(records: Sequence[np.ndarray], wanted: Shape | None) -> Shape:
    return records[0].shape if records else wanted or ()


def _misfit(name: str, i: int, keys: Column | None, shape: Shape, wanted: Shape) -> MXNetError:
    return MXNetError(f"{_name(i, keys)} of '{name}' has shape {shape}, needs {wanted}")


def _name(i: int, keys: Column | None) -> str:
    return f"record {i}" if keys is None else f"record {i} ({keys[i]!r})"


def _alone(results: tuple[np.ndarray, ...]) -> np.ndarray | tuple[np.ndarray, ...]:
    return results[0] if len(results) == 1 else results


def _cells(rows: np.ndarray) -> np.ndarray | list[np.ndarray]:
    """A column of a data frame: scalars, or a flat list per row."""
    flat = rows.reshape(len(rows), prod(rows.shape[1:]))
    return flat[:, 0] if flat.shape[1] == 1 else list(flat)
