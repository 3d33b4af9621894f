"""Automatic names: one counter per hint, and managers that change what a name becomes.

Symbols and gluon's block prefixes ask ``NameManager.current`` for their names. Outside of any
``with`` block that is one manager for the whole process; entering one replaces it in this thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

from ._core.async_safety import outside


class _Stack(threading.local):
    """The managers entered with ``with`` in this thread."""

    entered: tuple[NameManager, ...] = ()


class _ManagerType(type):
    """Gives ``NameManager.current``, as MXNet has it on the class."""

    @property
    def current(cls) -> NameManager:
        return STACK.entered[-1] if STACK.entered else _process_wide


class NameManager(metaclass=_ManagerType):
    """Gives ``hint0``, ``hint1``, ... to what the user did not name."""

    def __init__(self) -> None:
        self._numbers: dict[str, Iterator[int]] = {}

    def get(self, name: str | None, hint: str) -> str:
        """``name`` if the user gave one, else the next automatic name for ``hint``.

        Raises TypeError for a name that is no string.
        """
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a name is a string, got {type(name).__name__}")
        if name:
            return name
        return f"{hint}{next(self._numbers.setdefault(hint, count()))}"

    def __enter__(self) -> NameManager:
        STACK.entered = (*STACK.entered, self)
        return self

    def __exit__(self, *error: object) -> None:
        STACK.entered = outside(STACK.entered, self)


class Prefix(NameManager):
    """Puts ``prefix`` before every name, automatic or given."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


STACK = _Stack()
_process_wide = NameManager()
