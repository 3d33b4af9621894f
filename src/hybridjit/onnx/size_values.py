"""Constants of a model that depend on symbolic sizes of its inputs, such as a ``Shape``.

Input: object arrays of integers and symbolic sizes, and operators on them. Output: such arrays, and
nodes whose attributes have symbolic sizes. Other operators receive the sizes of the current call,
and the scope adds a guard for each.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.frozen import replace
from .._core.symbolic import Size, hint_of
from ..ir.node import Node, Output, apply
from ..ir.sized import is_symbolic
from ..ops.building import ON_ARRAYS
from ..ops.namespace import attr_texts
from ..ops.record import OpDef

_INT64 = np.dtype(np.int64)

# Operators that only move elements, and the operand that controls the movement.
_MOVES = frozenset(
    ("Concat", "Flatten", "Reshape", "SwapAxis", "_copy", "broadcast_to", "expand_dims")
    + ("repeat", "reverse", "slice", "slice_axis", "squeeze", "stack", "take", "tile", "transpose")
    + ("where",)
)
_KEPT = {"where": 0, "take": 1}


def _larger(a: Any, b: Any) -> Any:
    return a if a >= b else b


def _smaller(a: Any, b: Any) -> Any:
    return a if a <= b else b


def _tested(test: Callable[[Any, Any], Any]) -> Callable[[Any, Any], int]:
    return lambda a, b: int(bool(test(a, b)))


_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast_add": operator.add,
    "broadcast_sub": operator.sub,
    "broadcast_mul": operator.mul,
    "broadcast_mod": operator.mod,
    "broadcast_maximum": _larger,
    "broadcast_minimum": _smaller,
    "broadcast_equal": _tested(operator.eq),
    "broadcast_not_equal": _tested(operator.ne),
    "broadcast_lesser": _tested(operator.lt),
    "broadcast_lesser_equal": _tested(operator.le),
    "broadcast_greater": _tested(operator.gt),
    "broadcast_greater_equal": _tested(operator.ge),
}
_TOTALS: dict[str, Callable[[Iterable[Any]], Any]] = {"prod": math.prod, "sum": sum}


def of_sizes(items: Any) -> np.ndarray:
    """Array of integers and sizes: int64 if none is symbolic."""
    array = np.asarray(items, object)
    if not any(isinstance(item, Size) for item in array.reshape(-1)):
        return array.astype(_INT64)
    return array


def has_sizes(array: np.ndarray) -> bool:
    """Whether an element is symbolic."""
    return array.dtype == object


def pinned(array: np.ndarray) -> np.ndarray:
    """Array for the sizes of the current call, with a guard for each."""
    return array.astype(_INT64) if has_sizes(array) else array


def computed(
    op: OpDef, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]
) -> list[np.ndarray] | None:
    """Results of an operator on such arrays; None if it is not supported, or moves no size."""
    moved = [array for i, array in enumerate(arrays) if _KEPT.get(op.name) != i]
    if op.name in _MOVES and not any(map(has_sizes, moved)):
        return None  # its numbers may be of any type
    if op.name in _MOVES:
        return [of_sizes(found) for found in _moved(op, arrays, attrs)]
    if op.name in _PAIRS:
        one, other = (np.asarray(array, object) for array in arrays)
        return [of_sizes(np.frompyfunc(_PAIRS[op.name], 2, 1)(one, other))]
    if op.name == "Cast" and attrs["dtype"].kind in "iu":
        return [arrays[0]]
    if op.name in _TOTALS and arrays[0].ndim == 1 and len(arrays) == 1:
        return [of_sizes([_TOTALS[op.name](arrays[0].tolist())])]
    return None


def _moved(op: OpDef, arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> list[np.ndarray]:
    """Results of a movement, by applying it to the indices of the elements."""
    elements: list[Any] = []
    numbers = []
    for i, array in enumerate(arrays):
        if _KEPT.get(op.name) == i:
            numbers.append(pinned(array))
            continue
        first = len(elements)
        elements += array.reshape(-1).tolist()
        numbers.append(np.arange(first, len(elements), dtype=_INT64).reshape(array.shape))
    table = np.empty(len(elements), object)
    table[:] = elements
    return [table[found] for found in ON_ARRAYS.outputs(op, *numbers, at="", **attrs)]


def apply_sized(op: OpDef, name: str, inputs: Iterable[Output], attrs: Mapping[str, Any]) -> Node:
    """Node with symbolic sizes in its attributes; its strings have the current call's sizes."""
    sized = {key: value for key, value in attrs.items() if is_symbolic(value)}
    texts = attr_texts(op, {**attrs, **{key: _hints(value) for key, value in sized.items()}})
    node = apply(op, name, inputs, texts)
    return replace(node, attrs={**node.attrs, **sized}) if sized else node


def _hints(value: Any) -> Any:
    return tuple(map(hint_of, value)) if isinstance(value, tuple) else hint_of(value)
