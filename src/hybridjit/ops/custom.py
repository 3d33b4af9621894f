"""Operators written in Python by programs: lookup of the record for a node.

Input: the attribute strings of a ``Custom`` node. Output: a separate operator record for that node.
:mod:`..operator`, a layer above arrays, creates records from classes; this module only maps names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import AttributeValueError, UnknownOpError
from .record import OpDef

NAME = "Custom"

# make(keywords as strings) -> the record
Maker = Callable[[Mapping[str, str]], OpDef]

_makers: dict[str, Maker] = {}


def provide(op_type: str, make: Maker) -> None:
    """Set the function that creates records of this type."""
    _makers[op_type] = make


def custom_operator(text: Mapping[str, str]) -> OpDef:
    """Record of one use of the operator that ``text`` selects.

    Raises AttributeValueError without ``op_type``, UnknownOpError if no class is registered for it.
    """
    op_type = text.get("op_type")
    if op_type is None:
        raise AttributeValueError(
            "Required argument 'op_type' is missing: Custom takes the name of a class"
        )
    if op_type not in _makers:
        raise UnknownOpError(
            f"Cannot find custom operator {op_type}: no class is registered under this name; "
            f"import the module that has @mx.operator.register({op_type!r}) first"
        )
    own = {k: v for k, v in text.items() if k != "op_type" and not k.startswith("__")}
    return _makers[op_type](own)


def keyword_texts(given: Mapping[str, object], spell: Callable[[object], str]) -> dict[str, str]:
    """All keywords as strings; None becomes "None"."""
    return {key: "None" if value is None else spell(value) for key, value in given.items()}
