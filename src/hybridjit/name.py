"""Automatic names: one counter per hint, and managers that modify names.

Symbols and prefixes of Gluon blocks get their names from ``NameManager.current``. Outside of
``with`` blocks that is one manager for the whole process; entering one replaces it in this thread.

While a block is traced, :data:`TRACED` has the names of the blocks around the node that is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from ._core.async_safety import outside


class _Stack(threading.local):
    """The managers entered with ``with`` in this thread."""

    entered: tuple[NameManager, ...] = ()


class _Traced(threading.local):
    """The block whose ``hybrid_forward`` runs in this thread, and the names of the blocks around
    its nodes, outermost first; the root has no name."""

    block: Any = None
    path: tuple[str, ...] = ()


TRACED = _Traced()


@contextmanager
def tracing(block: object, name: str) -> Iterator[None]:
    """Trace ``block``, a child called ``name``; "" for the root."""
    outer = TRACED.block, TRACED.path
    TRACED.block, TRACED.path = block, (*TRACED.path, name) if name else ()
    try:
        yield
    finally:
        TRACED.block, TRACED.path = outer


class _ManagerType(type):
    """Metaclass with ``NameManager.current``, which MXNet has on the class."""

    @property
    def current(cls) -> NameManager:
        return STACK.entered[-1] if STACK.entered else _process_wide


class NameManager(metaclass=_ManagerType):
    """Generates the names ``hint0``, ``hint1``, ... for objects without a name."""

    def __init__(self) -> None:
        self._numbers: dict[str, Iterator[int]] = {}

    def get(self, name: str | None, hint: str) -> str:
        """``name`` if it is given, else the next automatic name for ``hint``.

        Raises TypeError for a name that is not a string.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a name must be a string, got {type(name).__name__}")
        if name:
            return name
        return f"{hint}{next(self._numbers.setdefault(hint, count()))}"

    def __enter__(self) -> NameManager:
        STACK.entered = (*STACK.entered, self)
        return self

    def __exit__(self, *error: object) -> None:
        STACK.entered = outside(STACK.entered, self)


class Prefix(NameManager):
    """Adds ``prefix`` to every name, automatic or given."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


STACK = _Stack()
_process_wide = NameManager()
