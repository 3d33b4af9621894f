"""Run a Graph with the NumPy references: for checks, and to compute the bind graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ..errors import MXNetError, located
from ..ops.record import OpDef
from ..ops.registry import run_ref
from ..ops.tensor.primitives import RESHAPE_TO, TRANSPOSE
from .graph import Graph, Use, Value
from .node import Node

Item = TypeVar("Item", Node, Value)
Array = TypeVar("Array")


def run_in_order(
    order: Iterable[Item],
    given: Mapping[tuple[Item, int], Array],
    run: Callable[[Item, list[Array]], Sequence[Array]],
) -> dict[tuple[Item, int], Array]:
    """Every output of every item: those ``given``, and the results of ``run(item, operands)``.

    ``order`` has each item after the items that it reads. Every interpreter of a graph uses this
    loop: checks, monitors and clocks are in ``run``.
    """
    results = dict(given)
    for item in order:
        if (item, 0) not in results:
            operands = [results[use] for use in item.inputs]
            for index, result in enumerate(run(item, operands)):
                results[item, index] = result
    return results


def interpret(graph: Graph, arrays: Mapping[Value, np.ndarray]) -> list[np.ndarray]:
    """The graph's outputs, given an array for every input and parameter."""
    return evaluate(graph.outputs, graph.values, arrays)


# Operators as views, for results that may share memory with the operand.
AS_VIEWS: dict[OpDef | None, Callable[..., np.ndarray]] = {
    RESHAPE_TO: lambda data, shape: data.reshape(shape),
    TRANSPOSE: lambda data, axes: data.transpose(axes),
}


def evaluate(
    wanted: Iterable[Use],
    values: Iterable[Value],
    arrays: Mapping[Value, np.ndarray],
    as_views: bool = False,
) -> list[np.ndarray]:
    """The ``wanted`` outputs, computed by running ``values`` (in order) on the given arrays.

    ``as_views`` saves copies for callers that only read: results may share the arrays' memory.
    """

    def run(value: Value, operands: list[np.ndarray]) -> list[np.ndarray]:
        view = AS_VIEWS.get(value.op) if as_views else None
        return [view(*operands, **value.attrs)] if view else run_value(value, operands)

    results = run_in_order(values, {(v, 0): a for v, a in arrays.items()}, run)
    return [results[use] for use in wanted]


def run_value(value: Value, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of one value, by the reference of its operator."""
    assert value.op is not None, f"{value.name} was given no array"
    try:
        return run_ref(value.op, arrays, value.attrs)
    except MXNetError as error:
        operands = zip((u.value.name for u in value.inputs), (u.type for u in value.inputs))
        raise located(error, value.describe(), operands, value.source) from None
