"""Operators that programs write in Python: where a node finds the one that its text names.

In: the attribute texts of a ``Custom`` node. Out: an operator's record of its own for that node.
What makes records from classes stands in :mod:`..operator`, above arrays; nothing is known here
but names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import AttributeValueError, UnknownOpError
from .record import OpDef

NAME = "Custom"

# make(keywords as texts) -> the record
Maker = Callable[[Mapping[str, str]], OpDef]

_makers: dict[str, Maker] = {}


def provide(op_type: str, make: Maker) -> None:
    """Let ``make`` answer for this type from now on."""
    _makers[op_type] = make


def custom_operator(text: Mapping[str, str]) -> OpDef:
    """A record for one use of the operator that ``text`` names.

    Raises AttributeValueError without ``op_type``, UnknownOpError for a type that no class is
    registered for.
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
    """All keywords as texts: None is one of them."""
    return {key: "None" if value is None else spell(value) for key, value in given.items()}
