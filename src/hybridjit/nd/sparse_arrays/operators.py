"""``+ - * /`` of sparse arrays: elementwise if the shapes are equal, else broadcast.

Input: arrays and numbers, at least one of them sparse. Output: results with the storage types of
MXNet's operators (:mod:`.rules`).
"""

from __future__ import annotations

from ...ops.registry import lookup
from .. import ndarray
from ..ndarray import NDArray, invoke


def _equal_shapes(lhs: object, rhs: object) -> bool:
    return isinstance(lhs, NDArray) and isinstance(rhs, NDArray) and lhs.shape == rhs.shape


def add(lhs: object, rhs: object) -> NDArray:
    """lhs + rhs."""
    if _equal_shapes(lhs, rhs):
        return invoke(lookup("elemwise_add"), (lhs, rhs), {})  # type: ignore[arg-type]
    return ndarray.add(lhs, rhs)


def subtract(lhs: object, rhs: object) -> NDArray:
    """lhs - rhs."""
    if _equal_shapes(lhs, rhs):
        return invoke(lookup("elemwise_sub"), (lhs, rhs), {})  # type: ignore[arg-type]
    return ndarray.subtract(lhs, rhs)


def multiply(lhs: object, rhs: object) -> NDArray:
    """lhs * rhs."""
    if _equal_shapes(lhs, rhs):
        return invoke(lookup("elemwise_mul"), (lhs, rhs), {})  # type: ignore[arg-type]
    return ndarray.multiply(lhs, rhs)


def divide(lhs: object, rhs: object) -> NDArray:
    """lhs / rhs."""
    if _equal_shapes(lhs, rhs):
        return invoke(lookup("elemwise_div"), (lhs, rhs), {})  # type: ignore[arg-type]
    return ndarray.divide(lhs, rhs)
