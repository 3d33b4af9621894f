"""Symbols as files: what ``Symbol.tojson``, ``Symbol.save``, ``sym.load`` and ``sym.load_json`` do.

In: Symbols, names of files, JSON text. Out: the same. The format itself is in ``symbol_json.py``.
"""

from __future__ import annotations

from ..sym.symbol import Symbol
from . import symbol_json


def to_json(symbol: Symbol, remove_amp_cast: bool = True) -> str:
    """The graph as MXNet's symbol JSON."""
    return symbol_json.dumps(symbol.outputs, remove_amp_cast)


def save(symbol: Symbol, fname: str, remove_amp_cast: bool = True) -> None:
    """Write the graph to a file. Raises TypeError unless ``fname`` is a string."""
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    symbol_json.save(fname, symbol.outputs, remove_amp_cast)


def load(fname: str) -> Symbol:
    """Read a ``-symbol.json`` file.

    Raises TypeError unless ``fname`` is a string, and MXNetError for a file that is missing or
    that is not a graph.
    """
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    return Symbol(symbol_json.load(fname))


def load_json(json_str: str) -> Symbol:
    """A Symbol from JSON text. Raises TypeError unless it is a string, MXNetError as ``load``."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(symbol_json.loads(json_str))
