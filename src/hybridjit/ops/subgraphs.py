"""Operators that run graphs of their own: where a reader of files finds what makes them.

In: an operator's name, its attribute texts and its graphs. Out: a record for that node. What makes
records stands in :mod:`..control`, above graphs; nothing is known here but names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .record import OpDef

NAMES = frozenset({"_foreach", "_while_loop", "_cond"})
MOST_NESTED = 6  # graphs in graphs

# make(name, attribute texts, the outputs of each graph) -> the record
Maker = Callable[[str, Mapping[str, str], Sequence[Sequence[Any]]], OpDef]

_maker: list[Maker] = []


def provide(make: Maker) -> None:
    """Let ``make`` answer from now on."""
    _maker[:] = [make]


def control_operator(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Any]]) -> OpDef:
    """A record for one use of the operator. Raises MXNetError for texts that do not fit graphs."""
    return _maker[0](name, text, graphs)
