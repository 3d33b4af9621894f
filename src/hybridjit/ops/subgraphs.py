"""Operators with subgraphs: lookup of the records for file readers.

Input: an operator's name, its attribute strings and its graphs. Output: a record for that node.
:mod:`..control`, a layer above graphs, creates the records; this module only maps names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .record import OpDef

NAMES = frozenset({"_foreach", "_while_loop", "_cond"})
MOST_NESTED = 6  # limit of nesting

# make(name, attribute strings, outputs of each graph) -> the record
Maker = Callable[[str, Mapping[str, str], Sequence[Sequence[Any]]], OpDef]

_maker: list[Maker] = []


def provide(make: Maker) -> None:
    """Set the function that creates records."""
    _maker[:] = [make]


def control_operator(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Any]]) -> OpDef:
    """Record of one use. Raises MXNetError for strings that are inconsistent with the graphs."""
    return _maker[0](name, text, graphs)
