"""Calibration of a network for 8 bits: the range of the data of each layer.

Input: a network and batches, or a table that an earlier calibration wrote. Output: the least and
the greatest value of the data that each convolution and dense layer multiplies, by its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter as Argument
from typing import Any, Protocol

import numpy as np

from .._core.safe_open import open_file
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import system_errors, write_atomically
from ..formats.json_stream import parse
from ..io import DataBatch
from ..ir.calibrated import Ranges as Ranges
from ..ir.calibrated import layers_of
from ..ir.calibrated import with_ranges as with_ranges
from ..ir.node import Output
from ..nd import NDArray, array
from .hybrid import CachedGraph
from .parameter import Parameter
from .trace import Trace

# Batches of calibration, the path of a table, or a table.
Calibration = Iterable[object] | str | os.PathLike[str] | Mapping[str, tuple[float, float]]
_FORMAT = "hybridjit ranges"


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
        return _checked(given, "calibration")
    return calibrate(block, [given] if isinstance(given, (NDArray, np.ndarray)) else given)


def calibrate(block: Network, batches: Iterable[object]) -> dict[str, tuple[float, float]]:
    """The range of each layer's data over all batches, computed in float32.

    Parameters
    ----------
    block : HybridBlock
        The network, with initialised parameters.
    batches : iterable
        Typical inputs: an array, a ``DataBatch``, or a list that begins with the inputs of the
        network (others are labels) for each.

    Returns
    -------
    dict
        The least and the greatest value by the name of a convolution or dense layer.

    Raises
    ------
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
    found: dict[str, tuple[float, float]] = {}
    graph: CachedGraph | None = None
    layers: dict[str, Output] = {}
    watched: tuple[Output, ...] = ()
    for number, batch in enumerate(batches):
        arrays = _inputs_of(batch, block)
        if graph is None:
            traced, params = block._traced_with_values(arrays)
            layers = layers_of(traced.outputs, params)
            watched = tuple(dict.fromkeys(layers.values()))
            graph = CachedGraph(watched, traced.input_names, params, {}, f"{block.name}_ranges")
        ends = [_ends(x) for x in graph(arrays)]
        known = dict(zip(watched, ends))
        for name, data in layers.items():
            low, high = known[data]
            _require_finite(name, low, high, number)
            least, most = found.get(name, (low, high))
            found[name] = min(least, low), max(most, high)
    if graph is None:
        raise MXNetError("calibration has no batch: give at least one")
    return found


def _ends(x: NDArray) -> tuple[float, float]:
    data = x.asnumpy()
    return (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)


def _require_finite(name: str, low: float, high: float, number: int) -> None:
    if not (np.isfinite(low) and np.isfinite(high)):
        raise MXNetError(
            f"batch {number} of the calibration gives layer {name!r} data that are not finite: "
            f"from {low} to {high}"
        )


def _inputs_of(batch: object, block: Network) -> list[NDArray]:
    """The arrays of a batch that are inputs of the block; others are labels."""
    if isinstance(batch, DataBatch):
        return list(batch.data or [])
    given = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    taken = given[: inputs_taken(block)]
    return [x if isinstance(x, NDArray) else array(np.asarray(x)) for x in taken]


def inputs_taken(block: Network) -> int | None:
    """The number of arrays of a batch that are inputs of the block: the arguments without a
    default, or all if each has one; None for a block with ``*args``, which takes any number.
    """
    parameters = block._parameters_of_call().values()
    return sum(default is Argument.empty for default in parameters) or len(parameters) or None


# ---- tables


def read_ranges(path: str | os.PathLike[str]) -> dict[str, tuple[float, float]]:
    """The ranges in a file of :func:`write_ranges`.

    Raises ModelFormatError for another content, MXNetError if the file cannot be read.
    """
    name = os.fspath(path)
    with system_errors(name), open_file(name) as file:
        data = file.read()
    try:
        content = parse(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{name}: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ModelFormatError(f"{name}: is not a table of ranges, which `format` would say")
    return _checked(content.get("ranges"), name)


def _checked(ranges: Any, where: str) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name, ends in ranges.items() if isinstance(ranges, Mapping) else [("ranges", ranges)]:
        is_pair = isinstance(ends, (list, tuple)) and len(ends) == 2
        if not is_pair or not all(isinstance(x, (int, float)) and np.isfinite(x) for x in ends):
            raise ModelFormatError(f"{where}: the range of {name!r} is not two numbers: {ends!r}")
        low, high = map(float, ends)
        if low > high:
            raise ModelFormatError(f"{where}: the range of {name!r} is from {low} down to {high}")
        found[name] = low, high
    return found


def write_ranges(path: str | os.PathLike[str], ranges: Ranges) -> None:
    """Write ranges as JSON. Raises MXNetError if the file cannot be written."""
    content = {"format": _FORMAT, "ranges": {name: list(ends) for name, ends in ranges.items()}}
    write_atomically(os.fspath(path), [(json.dumps(content, indent=1) + "\n").encode()])
