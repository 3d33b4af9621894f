"""Runs of a float32 network on calibration data, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from logging import Logger
from typing import Any, Protocol

import numpy as np

from ... import nd, sym
from ..._core.types import shape_text
from ...context import Context
from ...errors import MXNetError, ShapeError
from ...io import DataBatch, DataDesc, DataIter
from ...nd import NDArray
from ...sym import Symbol

Arrays = Mapping[str, NDArray]


class Collector(Protocol):
    """An object that receives the values of layers."""

    def collect(self, name: str, arr: NDArray) -> None:
        """Receive one array."""


class LoaderIter(DataIter):
    """A data iterator over any iterable of arrays or of lists of arrays, such as a DataLoader.

    The first array is called ``data``; of three or more arrays all are called ``data0``, ``data1``,
    ... Raises TypeError for an object that is not iterable, ValueError without a batch.
    """

    def __init__(self, calib_data: Iterable[Any]) -> None:
        self._data = calib_data
        try:
            first = next(iter(calib_data), None)
        except TypeError as error:
            raise TypeError(f"calib_data is not a valid iterator. {error}") from error
        if first is None:
            raise ValueError("calib_data has no batch: at least one is needed to find ranges")
        arrays = _flattened(first)
        super().__init__(arrays[0].shape[0])
        names = [f"data{i}" for i in range(len(arrays))]
        if len(arrays) < 3:
            names = ["data", *names[:-1]]
        self.provide_data = [DataDesc(name, x.shape) for name, x in zip(names, arrays)]
        self.provide_label: list[DataDesc] = []
        self.reset()

    def reset(self) -> None:
        """Start again with the first batch."""
        self._batches = iter(self._data)

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration after the last."""
        return DataBatch(data=_flattened(next(self._batches)))


def _flattened(batch: Any) -> list[NDArray]:
    """Arrays of a batch; the first axes of 5 and more are joined, as in MXNet."""
    arrays = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    if arrays[0].ndim > 4:
        arrays[0] = arrays[0].reshape((-1, *arrays[0].shape[2:]))
    return arrays


def as_data_iter(calib_data: Any) -> DataIter:
    """``calib_data`` as a data iterator."""
    return calib_data if isinstance(calib_data, DataIter) else LoaderIter(calib_data)


def collect_statistics(
    symbol: Symbol,
    parameters: tuple[Arrays, Arrays],
    data: DataIter,
    names: Sequence[str],
    wanted: Sequence[str],
    collector: Collector,
    *,
    context: Context,
    most: int | None = None,
    logger: Logger | None = None,
) -> int:
    """Run the network on batches and pass the wanted values to the collector.

    Parameters
    ----------
    names : sequence of str
        The network's inputs, in the order of a batch's arrays.
    wanted : sequence of str
        Names of the network's inner values, as outputs.
    most : int, optional
        Number of examples after which the run ends, at the end of a batch.

    Returns
    -------
    int
        Number of examples.

    Raises
    ------
    ShapeError
        For a batch whose arrays do not have the announced shapes.
    MXNetError
        For data with NaN or infinity, and without any batch.
    """
    # Layers that a network calls twice are nodes of the same name: their values have one range.
    internals = symbol.get_internals()
    every = zip(internals, internals.list_outputs())
    inner = [(part, name) for part, name in every if name in wanted and name not in names]
    group = sym.Group([part for part, _ in inner]) if inner else None
    reads = _reads_of(internals)
    run = _Runs(group, parameters, context)
    examples = batches = 0
    for batch in data:
        inputs = _checked_inputs(batch, data, names, batches)
        for name, array in inputs.items():
            for _ in range(max(1, reads[name])):
                collector.collect(name, array)
        for (_, name), array in zip(inner, run(inputs)):
            collector.collect(name, array)
        batches += 1
        examples += data.batch_size
        if most is not None and examples >= most:
            break
    if not batches:
        raise MXNetError("calib_data has no batch: reset it, or pass one that is not exhausted")
    if logger:
        logger.info(
            "Collected statistics from %d batches with batch_size=%d", batches, data.batch_size
        )
    return examples


def _reads_of(internals: Symbol) -> Counter[str]:
    """The number of operands that each input is: so often MXNet's monitor sees it, and histograms
    have these multiples, on which the smoothing of empty bins in the divergence depends.
    """
    nodes = dict.fromkeys(output.node for output in internals.outputs)
    return Counter(source.node.name for node in nodes for source in node.inputs)


def _checked_inputs(
    batch: DataBatch, data: DataIter, names: Sequence[str], number: int
) -> dict[str, NDArray]:
    """The batch's arrays by name."""
    shapes = {desc[0]: tuple(desc[1]) for desc in data.provide_data}
    inputs = dict(zip(names, batch.data or ()))
    for name, array in inputs.items():
        expected = shapes.get(name, array.shape)
        if array.shape[1:] != expected[1:]:
            raise ShapeError(
                f"calibration batch {number}: {name} has shape {shape_text(array.shape)}, but "
                f"calib_data announces {shape_text(expected)}; only the first size may differ"
            )
        values = array.asnumpy()
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise MXNetError(
                f"calibration batch {number}: {name} contains NaN or infinity, which have no "
                "range; remove these examples"
            )
    return inputs


class _Runs:
    """The network bound once for each shape of its inputs."""

    def __init__(
        self, group: Symbol | None, parameters: tuple[Arrays, Arrays], context: Context
    ) -> None:
        self._group, self._parameters, self._context = group, parameters, context
        self._bound: dict[tuple[object, ...], Any] = {}

    def __call__(self, inputs: Mapping[str, NDArray]) -> list[NDArray]:
        if self._group is None:
            return []
        key = tuple((name, x.shape) for name, x in inputs.items())
        if key not in self._bound:
            self._bound[key] = self._bind(inputs)
        used = self._group.list_arguments()
        fed = {name: x for name, x in inputs.items() if name in used}
        found: list[NDArray] = self._bound[key].forward(is_train=False, **fed)
        return found

    def _bind(self, inputs: Mapping[str, NDArray]) -> Any:
        arguments, states = self._parameters
        given = {**arguments, **{name: x.copy() for name, x in inputs.items()}}
        group = self._group
        assert group is not None
        needed = group.list_arguments()
        shapes, _, _ = group.infer_shape_partial(
            **{name: x.shape for name, x in given.items() if name in needed}
        )
        for name, shape in zip(needed, shapes):
            if name not in given:  # a label, which inference does not read
                given[name] = nd.zeros(shape or (), ctx=self._context)
        return group.bind(
            self._context,
            {name: given[name] for name in needed},
            aux_states={name: states[name] for name in group.list_auxiliary_states()},
            grad_req="null",
        )
