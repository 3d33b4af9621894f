"""``sym.Custom``: an operator written in Python, in a symbol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core.frames import public
from ..ops.attrs import attr_text
from ..ops.custom import custom_operator, keyword_texts
from .symbol import Symbol, call

_OPTIONS = ("name", "attr")


@public
def Custom(*args: Symbol, **kwargs: object) -> Symbol:
    """Symbol of the class registered as ``op_type``; operands by position or by name.

    Missing operands become variables. All other keywords are passed to the class as strings. Raises
    MXNetError for a type that is not registered, AssertionError for an operand that is not a
    Symbol.
    """
    return custom_call("Custom", args, kwargs)


def custom_call(called: str, args: Sequence[Symbol], kwargs: dict[str, Any]) -> Symbol:
    """:func:`Custom` with another base of automatic names."""
    options = {key: kwargs.pop(key) for key in _OPTIONS if key in kwargs}
    named = {key: kwargs.pop(key) for key in [k for k in kwargs if _is_symbol(kwargs[k])]}
    texts = keyword_texts(kwargs, attr_text)
    op = custom_operator(texts)
    for symbol in args:
        if not _is_symbol(symbol):
            raise AssertionError(f"Positional arguments must be Symbol instances, but got {symbol}")
    tensors = {**dict(zip(op.input_names({}), args)), **named}
    return call(op, called, tensors, {**texts, **options})


def _is_symbol(value: object) -> bool:
    return isinstance(value, Symbol)
