"""Calibration of a network for 8 bits: the range of the data of each layer.

Input: a network and batches, or a table that an earlier calibration wrote. Output: the range of the
data that each convolution and dense layer multiplies, by its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import Parameter as Argument
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._core.config import config
from .._core.frames import public
from .._core.lazy import Late
from .._core.types import Shape
from ..errors import MXNetError
from ..formats.ranges import checked_ranges
from ..formats.ranges import read_ranges as read_ranges
from ..formats.ranges import write_ranges as write_ranges
from ..graph_exec.cached_graph import CachedGraph
from ..ir import calibrated
from ..ir.calibrated import Ranges as Ranges
from ..ir.calibrated import float_products, layers_of
from ..ir.node import Output
from ..nd import NDArray, array
from .inference import finish_deferred
from .parameter import Parameter
from .statistics import STATISTICS, Ends
from .structure import flatten
from .trace import Trace

if TYPE_CHECKING:
    from ..io import batches as io_batches
else:
    io_batches = Late("..io.batches", __package__)  # with the first batch

# Batches of calibration, the path of a table, or a table.
Calibration = Iterable[object] | str | os.PathLike[str] | Mapping[str, tuple[float, float]]


class Network(Protocol):
    """The parts of a ``HybridBlock`` that calibration uses."""

    @property
    def name(self) -> str: ...

    def _parameters_of_call(self) -> Mapping[str, object]: ...

    def _traced_with_values(
        self, args: Sequence[object]
    ) -> tuple[Trace, Mapping[str, Parameter]]: ...


def ranges_for(block: Network, given: Calibration | None) -> Ranges:
    """The ranges that ``hybridize(precision="int8", calibration=given)`` uses.

    Raises MXNetError without a calibration, and as :func:`calibrate` and :func:`read_ranges`.
    """
    if given is None:
        raise MXNetError(
            'hybridize(precision="int8") needs calibration=: batches of typical inputs, or a '
            "table of ranges"
        )
    if isinstance(given, (str, os.PathLike)):
        return read_ranges(given)
    if isinstance(given, Mapping):
        return checked_ranges(given, "calibration")
    return calibrate(block, given)


@public
def calibrate(
    block: Network, batches: Iterable[object], mode: str = "naive"
) -> dict[str, tuple[float, float]]:
    """The range of each layer's data over all batches, computed in float32.

    Parameters
    ----------
    block : HybridBlock
        The network, with initialised parameters.
    batches : iterable
        Typical inputs: an array, a ``DataBatch``, or a list that begins with the inputs of the
        network (others are labels) for each. An array alone is one batch.
    mode : str
        ``naive``: the least and the greatest value; ``entropy``: the range whose 8-bit values
        diverge least from the distribution of the data, so that rare large values saturate.

    Returns
    -------
    dict
        The ends of the range by the name of a convolution or dense layer; of a product of two
        computed matrices, as in attention, by its name and by its name with ``:rhs``.

    Raises
    ------
    ValueError
        For another mode, or no batches but another object.
    MXNetError
        If batches are empty, or the data of a layer are not finite. Other exceptions are those of
        a call.

    Examples
    --------
    >>> from hybridjit import gluon, nd
    >>> from hybridjit.gluon import calibration
    >>> net = gluon.nn.Dense(2, in_units=3, prefix="fc_")
    >>> net.initialize()
    >>> calibration.calibrate(net, [nd.array([[1, -2, 0.5]])])
    {'fc_fwd': (-2.0, 1.0)}
    """
    if mode not in STATISTICS:
        raise ValueError(f"mode is one of {', '.join(map(repr, STATISTICS))}, got {mode!r}")
    try:
        batches = iter([batches] if is_array(batches) else batches)
    except TypeError:
        raise ValueError(
            f"a calibration is batches of typical inputs or a table of ranges, got {batches!r}"
        ) from None
    graph: CachedGraph | None = None
    layers: dict[str, list[Output]] = {}
    statistics: dict[Output, Ends] = {}
    for number, batch in enumerate(batches):
        args = _inputs_of(batch, block)
        if graph is None:
            traced, params = block._traced_with_values(args)
            layers = layers_of(traced.outputs, params)
            statistics = {use: STATISTICS[mode]() for data in layers.values() for use in data}
            # The outputs, because shapes may follow from operators after the last layer.
            watched = (*statistics, *traced.outputs)
            graph = CachedGraph(
                watched, traced.input_names, params, {}, f"{block.name}_ranges", finish_deferred
            )
        found = {data: x.asnumpy() for data, x in zip(statistics, graph(flatten(args, "input")[0]))}
        _require_finite(found, layers, number)
        for data, values in found.items():
            statistics[data].add(values)
    if graph is None:
        raise MXNetError("calibration has no batch: give at least one")
    return {name: _joined([statistics[use] for use in data]) for name, data in layers.items()}


def excluded_layers(given: Any) -> frozenset[str]:
    """Names of layers that stay in floating point. Raises ValueError for other than their list."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    names = [*given] if is_list else []
    if not is_list or not all(isinstance(name, str) for name in names):
        raise ValueError(f"exclude is a list of names of layers, got {given!r}")
    return frozenset(names)


def with_ranges(
    outputs: tuple[Output, ...],
    params: Collection[str],
    ranges: Ranges,
    exclude: Collection[str],
    shapes: Mapping[str, Shape],
) -> tuple[Output, ...]:
    """The graph in which the data of layers have their ranges, see :func:`.calibrated.with_ranges`.

    HYBRIDJIT_EXPLAIN lists the products that stay in floating point.
    """
    if config.explain:
        for line in float_products(outputs, params, ranges, exclude, shapes):
            print(f"in floating point: {line}", file=sys.stderr)
    return calibrated.with_ranges(outputs, params, ranges, exclude)


def _joined(parts: Sequence[Ends]) -> tuple[float, float]:
    """The range that covers those of all parts."""
    lows, highs = zip(*(part.range() for part in parts))
    return min(lows), max(highs)


def _require_finite(
    found: Mapping[Output, np.ndarray], layers: Mapping[str, Sequence[Output]], number: int
) -> None:
    for name, data in layers.items():
        if not all(np.isfinite(found[use]).all() for use in data):
            raise MXNetError(
                f"batch {number} of the calibration gives layer {name!r} data that are not finite: "
                "remove the samples with NaN or infinity"
            )


def is_array(batches: object) -> bool:
    """Whether one batch was given in place of several."""
    return isinstance(batches, (NDArray, np.ndarray))


def _inputs_of(batch: object, block: Network) -> list[Any]:
    """Inputs of the block in a batch: arrays, or lists of arrays; others are labels."""
    if isinstance(batch, io_batches.DataBatch):
        return list(batch.data or [])
    given = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    taken = given[: inputs_taken(block)]
    return [_arrays(x) for x in taken]


def _arrays(given: Any) -> Any:
    """An array of anything that NumPy takes; a list of arrays of a list of arrays."""
    if isinstance(given, (list, tuple)) and any(isinstance(x, NDArray) for x in given):
        return [_arrays(x) for x in given]
    return given if isinstance(given, NDArray) else array(np.asarray(given))


def inputs_taken(block: Network) -> int | None:
    """The number of arrays of a batch that are inputs of the block: the arguments without a
    default, or all if each has one; None for a block with ``*args``, which takes any number.
    """
    parameters = block._parameters_of_call().values()
    return sum(default is Argument.empty for default in parameters) or len(parameters) or None
