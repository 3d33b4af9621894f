"""Run a Graph with the NumPy references: the oracle, and the engine of the bind graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..errors import MXNetError, located
from ..ops.registry import run_ref
from ..records import dataclass
from ..types import FLOAT32
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


# Bytes of a parameter that are not kept twice: where its packed form has all of its bits.
WORTH_LENDING = 1 << 20


@dataclass(frozen=True)
class MovedRows:
    """A value that is a variable with its elements moved about within the rows of axis 0.

    Where there is a ``factor``, each row was multiplied by one of its numbers before.
    """

    variable: Value
    steps: tuple[Value, ...]  # from the variable to the value
    factor: Use | None = None

    def forth(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the value from those of the variable; a view where that can be."""
        for step in self.steps:
            if _is_transpose(step):
                rows = rows.transpose(step.attrs["axes"])
            else:
                rows = rows.reshape(len(rows), *step.shape[1:])
        return rows

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the variable from those of the value."""
        for step in reversed(self.steps):
            if _is_transpose(step):
                rows = rows.transpose(np.argsort(step.attrs["axes"]))
            else:
                rows = rows.reshape(len(rows), *step.inputs[0].value.shape[1:])
        return rows


def moved_rows(use: Use) -> MovedRows | None:
    """How the value comes from a variable; None where a row is not made of one row of one."""
    chain: list[Value] = []
    value = use.value
    while value.op is not None and value.op.name in _AS_VIEWS:
        chain.append(value)
        value = value.inputs[0].value
    factor = None
    if value.op is not None and value.op.name == "broadcast_mul" and _scales_rows(value):
        value, factor = value.inputs[0].value, value.inputs[1]
    if value.op is not None or not all(map(_keeps_rows, chain)):
        return None
    return MovedRows(value, tuple(reversed(chain)), factor)


def _scales_rows(value: Value) -> bool:
    """Whether a product has the second operand's numbers for each row of the first."""
    rows, numbers = value.inputs[0].type, value.inputs[1].type
    if not rows.dims or rows != value.type or rows.dtype != FLOAT32 or numbers.dtype != FLOAT32:
        return False
    return numbers.dims == (rows.dims[0], *(1,) * (rows.ndim - 1))


def _keeps_rows(value: Value) -> bool:
    before = value.inputs[0].value.shape
    moves = _is_transpose(value) and value.attrs["axes"][0] != 0
    return bool(before) and bool(value.shape) and before[0] == value.shape[0] and not moves


def _is_transpose(value: Value) -> bool:
    return value.op is not None and value.op.name == "transpose"


def run_value(value: Value, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """One value's outputs by its op's reference."""
    assert value.op is not None, f"{value.name} was given no array"
    try:
        return run_ref(value.op, arrays, value.attrs)
    except MXNetError as error:
        operands = zip((u.value.name for u in value.inputs), (u.type for u in value.inputs))
        raise located(error, value.describe(), operands, value.source) from None
