"""Attributes that a ``with AttrScope(key="text"):`` block sets on every symbol made inside it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

from ._core.async_safety import outside


class _Stack(threading.local):
    """The scopes entered with ``with`` in this thread."""

    entered: tuple[AttrScope, ...] = ()


class _ScopeType(type):
    """Metaclass with ``AttrScope.current``, which MXNet has on the class."""

    @property
    def current(cls) -> AttrScope:
        return STACK.entered[-1] if STACK.entered else _NO_SCOPE


class AttrScope(metaclass=_ScopeType):
    """Attribute strings for the symbols made inside; an inner scope adds to the outer ones."""

    # Number of graphs by name inside of loops and branches
    _subgraph_names: ClassVar[defaultdict[str, int]] = defaultdict(int)

    def __init__(self, **texts: str) -> None:
        if any(not isinstance(text, str) for text in texts.values()):
            raise ValueError("Attributes need to be string")
        self._own = texts
        self._texts = texts

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes, overridden by ``attr``."""
        return {**self._texts, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._texts = {**AttrScope.current._texts, **self._own}
        STACK.entered = (*STACK.entered, self)
        return self

    def __exit__(self, *error: object) -> None:
        STACK.entered = outside(STACK.entered, self)


STACK = _Stack()
_NO_SCOPE = AttrScope()
