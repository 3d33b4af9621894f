"""Graph files as users name them: what the methods of Symbol and ``sym.load`` ask for.

In: names of files, JSON text, the outputs that a Symbol holds. Out: the same. These are the
functions of :class:`~hybridjit.sym.upper.Upper`; :func:`attach` puts them there. The format itself
is in ``symbol_json.py``.
"""

from __future__ import annotations

from ..ir.node import Output
from ..sym.upper import UPPER
from . import symbol_json

Outputs = tuple[Output, ...]


def attach() -> None:
    """Give Symbol its files; called once, by the package."""
    UPPER.to_json = symbol_json.dumps
    UPPER.from_json = from_json
    UPPER.save = save
    UPPER.load = load


def from_json(text: str) -> Outputs:
    """The outputs of a graph. Raises TypeError unless given a string, MXNetError for a bad one."""
    if not isinstance(text, str):
        raise TypeError("fname required to be string")
    return symbol_json.loads(text)


def save(fname: str, outputs: Outputs, remove_amp_cast: bool = True) -> None:
    """Write a graph. Raises TypeError unless ``fname`` is a string, MXNetError when it fails."""
    symbol_json.save(_checked(fname), outputs, remove_amp_cast)


def load(fname: str) -> Outputs:
    """Read a graph. Raises TypeError unless ``fname`` is a string, MXNetError as ``from_json``."""
    return symbol_json.load(_checked(fname))


def _checked(fname: str) -> str:
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    return fname
