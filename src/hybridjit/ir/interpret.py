"""Run a Graph with the NumPy references: the oracle, and the engine of the bind graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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


def moved_rows(use: Use) -> tuple[Value, Callable[[np.ndarray, int, int], np.ndarray]] | None:
    """For a value that is a variable with its elements moved about within the rows of axis 0.

    The variable, and a function that gives rows [first, last) of the value from the variable's
    array; None where a row of the value is not made of one row of one variable.
    """
    chain: list[Value] = []
    value = use.value
    while value.op is not None and value.op.name in _AS_VIEWS:
        chain.append(value)
        value = value.inputs[0].value
    if value.op is not None or not all(map(_keeps_rows, chain)):
        return None

    def rows(array: np.ndarray, first: int, last: int) -> np.ndarray:
        part = array[first:last]
        for step in reversed(chain):
            if step.op is not None and step.op.name == "transpose":
                part = part.transpose(step.attrs["axes"])
            else:
                part = part.reshape(len(part), *step.shape[1:])
        return part

    return value, rows


def _keeps_rows(value: Value) -> bool:
    before = value.inputs[0].value.shape
    moves = value.op is not None and value.op.name == "transpose" and value.attrs["axes"][0] != 0
    return bool(before) and bool(value.shape) and before[0] == value.shape[0] and not moves


def run_value(value: Value, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """One value's outputs by its op's reference."""
    assert value.op is not None, f"{value.name} was given no array"
    try:
        return run_ref(value.op, arrays, value.attrs)
    except MXNetError as error:
        operands = zip((u.value.name for u in value.inputs), (u.type for u in value.inputs))
        raise located(error, value.describe(), operands, value.source) from None
