"""Operators with subgraphs: lookup of the records for file readers.

Input: an operator's name, its attribute strings and its graphs. Output: a record for that node.
Modules in layers above graphs create the records; this module only maps names to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from .record import OpDef

# The module with the function made_from_text, imported with the first node of these operators.
_MODULES = {
    **dict.fromkeys(("_foreach", "_while_loop", "_cond"), "..control.operators"),
    "_CachedOp": "..control.network",
    **dict.fromkeys(("_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"), "..fused"),
}
NAMES = frozenset(_MODULES)
MOST_NESTED = 6  # limit of nesting


def operator_of(name: str, text: Mapping[str, str], graphs: Sequence[Sequence[Any]]) -> OpDef:
    """Record of one use. Raises MXNetError for strings that are inconsistent with the graphs."""
    made: OpDef = import_module(_MODULES[name], __package__).made_from_text(name, text, graphs)
    return made
