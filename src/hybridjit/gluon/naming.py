"""Prefixes of blocks: which one a new block gets, and what ``with block.name_scope():`` does.

In: the prefix and parameters that a constructor was given, and its class's hint. Out: the block's
prefix and its ParameterDict. The scopes that are open belong to the thread that opened them.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Protocol

from ..name import NameManager, Prefix
from .parameter import ParameterDict


class Prefixed(Protocol):
    """What a scope needs of its block."""

    @property
    def prefix(self) -> str: ...

    @property
    def params(self) -> ParameterDict: ...


class _Open(threading.local):
    """The scopes entered with ``with`` in this thread, each with its name manager if it has one."""

    def __init__(self) -> None:
        self.scopes: list[tuple[BlockScope | None, Prefix | None]] = []

    @property
    def innermost(self) -> BlockScope | None:
        return self.scopes[-1][0] if self.scopes else None


_open = _Open()


class BlockScope:
    """One block's scope: names the children made inside it, and the operators while tracing."""

    def __init__(self, block: Prefixed, is_transparent: bool = False) -> None:
        self.block = block
        self.is_transparent = is_transparent  # entering it leaves the outer scope in force
        self._counter: Counter[str] = Counter()

    def next_prefix(self, hint: str) -> str:
        """``<hint><number>_``, counted per hint in this scope."""
        number = self._counter[hint]
        self._counter[hint] += 1
        return f"{hint}{number}_"

    def __enter__(self) -> BlockScope:
        if self.is_transparent:
            _open.scopes.append((_open.innermost, None))
            return self
        manager = Prefix(self.block.prefix)
        manager.__enter__()
        _open.scopes.append((self, manager))
        return self

    def __exit__(self, *error: object) -> None:
        _, manager = _open.scopes.pop()
        if manager is not None:
            manager.__exit__()


def name_block(
    prefix: str | None, params: ParameterDict | None, hint: str
) -> tuple[str, ParameterDict]:
    """A new block's full prefix and its parameters.

    Outside of all scopes the number comes from the process-wide name counter; inside, from the
    scope, and the scope's own prefix goes in front. ``params`` shares another block's parameters
    and keeps their prefix.
    """
    scope = _open.innermost
    if scope is None:
        full = NameManager.current.get(None, hint) + "_" if prefix is None else prefix
        return full, _parameters(full, params, None)
    local = scope.next_prefix(hint) if prefix is None else prefix
    outer = scope.block
    return outer.prefix + local, _parameters(
        outer.params.prefix + local, params, outer.params.shared
    )


def _parameters(
    prefix: str, params: ParameterDict | None, shared: ParameterDict | None
) -> ParameterDict:
    if params is None:
        return ParameterDict(prefix, shared)
    return ParameterDict(params.prefix, params)
