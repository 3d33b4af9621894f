"""Run a Graph with the NumPy references: the oracle, and the engine of the bind graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import MXNetError, located
from ..ops.registry import run_ref
from .graph import Graph, Use, Value


def interpret(graph: Graph, arrays: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
    """The graph's outputs, given an array for every input and parameter."""
    return evaluate(graph.outputs, graph.values, arrays)


# Operators that move nothing where the result may share memory with the operand.
_AS_VIEWS = {
    "_reshape_to": lambda data, shape: data.reshape(shape),
    "transpose": lambda data, axes: data.transpose(axes),
}


def evaluate(
    wanted: Iterable[Use],
    values: Iterable[Value],
    arrays: Mapping[Value, np.ndarray],
    as_views: bool = False,
) -> list[np.ndarray]:
    """The ``wanted`` outputs, running ``values`` (in order) on the arrays given.

    ``as_views`` saves copies where the caller only reads: results may share the arrays' memory.
    """
    results: dict[Value, list[np.ndarray]] = {v: [a] for v, a in arrays.items()}
    for value in values:
        if value in results:
            continue
        operands = [results[u.value][u.index] for u in value.inputs]
        view = _AS_VIEWS.get(value.op.name) if as_views and value.op else None
        results[value] = [view(*operands, **value.attrs)] if view else run_value(value, operands)
    return [results[use.value][use.index] for use in wanted]


def run_value(value: Value, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """One value's outputs by its op's reference."""
    assert value.op is not None, f"{value.name} was given no array"
    try:
        return run_ref(value.op, arrays, value.attrs)
    except MXNetError as error:
        operands = zip((u.value.name for u in value.inputs), (u.type for u in value.inputs))
        raise located(error, value.describe(), operands, value.source) from None
