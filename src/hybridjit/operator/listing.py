"""Names of operators, and descriptions of their arguments in MXNet's words."""

from __future__ import annotations

from typing import NamedTuple

from .._core.types import DTYPE_NAMES
from ..ops.attrs import Attr
from ..ops.namespace import input_slots, is_variadic
from ..ops.registry import all_names, lookup

__all__ = ["OperatorArguments", "get_all_registered_operators", "get_operator_arguments"]

_TENSOR = "NDArray-or-Symbol"
_KINDS = {
    "bool": "boolean",
    "shape": "Shape(tuple)",
    "pairs": "Shape(tuple)",
    "ints": "Shape(tuple)",
    "floats": "tuple of <float>",
    "layout": "string",
}


class OperatorArguments(NamedTuple):
    """Number, names and types of an operator's arguments: operands first, then attributes."""

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """Names of all operators that are not written in Python."""
    return sorted(all_names())


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Arguments of the operator of this name. Raises UnknownOpError for an unknown name."""
    op = lookup(op_name)
    operands = dict.fromkeys(input_slots(op), _TENSOR)
    if is_variadic(op):
        operands = {"data": f"{_TENSOR}[]"}
    found = {**operands, **{attr.name: _described(attr) for attr in op.attrs}}
    return OperatorArguments(len(found), [*found], [*found.values()])


def _described(attr: Attr) -> str:
    """Type of an attribute, and its default or "required"."""
    admits_none = attr.type.endswith("?")
    choices = DTYPE_NAMES if attr.base == "dtype" else attr.choices
    if choices:
        listed = ["None"] * admits_none + [repr(choice) for choice in sorted(choices)]
        kind = f"{{{', '.join(listed)}}}"
    else:
        kind = _KINDS.get(attr.base, attr.base) + " or None" * admits_none
    if attr.required:
        return f"{kind}, required"
    return f"{kind}, optional, default={_spelled(attr)}"


def _spelled(attr: Attr) -> str:
    """Default of an attribute as MXNet writes it."""
    value = attr.default
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return str([*value])
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if value is None else repr(str(value))
