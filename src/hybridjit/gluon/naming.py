"""Prefixes of blocks, and ``with block.name_scope():``.

Input: the prefix and parameters from a constructor, and the hint of its class. Output: the block's
prefix and its ParameterDict. Open scopes are local to their thread.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from typing import Any, NamedTuple, Protocol, TypedDict

from .._core.async_safety import outside
from ..name import NameManager, Prefix
from .parameter import ParameterDict


class Prefixed(Protocol):
    """Attributes of a block that a scope needs."""

    @property
    def prefix(self) -> str: ...

    @property
    def params(self) -> ParameterDict: ...


class Parent(Prefixed, Protocol):
    """A block with children."""

    _children: OrderedDict[str, Any]


class _Entered(NamedTuple):
    """An entered scope, the scope in effect since then, and its name manager."""

    scope: BlockScope
    in_force: BlockScope | None
    manager: Prefix | None = None


class _Open(threading.local):
    """The scopes entered with ``with`` in this thread."""

    scopes: tuple[_Entered, ...] = ()

    @property
    def innermost(self) -> BlockScope | None:
        return self.scopes[-1].in_force if self.scopes else None


OPEN = _Open()


class BlockScope:
    """One block's scope: names the children made inside it, and operators during tracing."""

    def __init__(self, block: Prefixed, is_transparent: bool = False) -> None:
        self.block = block
        self.is_transparent = is_transparent  # the outer scope remains in effect
        self._counter: Counter[str] = Counter()

    def next_prefix(self, hint: str) -> str:
        """``<hint><number>_``, counted per hint in this scope."""
        number = self._counter[hint]
        self._counter[hint] += 1
        return f"{hint}{number}_"

    def __enter__(self) -> BlockScope:
        if self.is_transparent:
            OPEN.scopes = (*OPEN.scopes, _Entered(self, OPEN.innermost))
            return self
        manager = Prefix(self.block.prefix)
        manager.__enter__()
        OPEN.scopes = (*OPEN.scopes, _Entered(self, self, manager))
        return self

    def __exit__(self, *error: object) -> None:
        mine = next(entry for entry in reversed(OPEN.scopes) if entry.scope is self)
        if mine.manager is not None:
            mine.manager.__exit__()
        OPEN.scopes = outside(OPEN.scopes, mine)


def name_block(
    prefix: str | None, params: ParameterDict | None, hint: str
) -> tuple[str, ParameterDict]:
    """A new block's full prefix and its parameters.

    Outside of all scopes the number comes from the process-wide counter; inside, from the scope,
    whose prefix is prepended. ``params`` shares another block's parameters, and keeps their
    prefix.
    """
    if not isinstance(prefix, (str, type(None))):
        raise AttributeError(
            f"prefix is a str, got {type(prefix).__name__}: make the block, then call it with data"
        )
    scope = OPEN.innermost
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
    params = getattr(params, "params", params)  # a block, as MXNet allows
    return ParameterDict(params.prefix, params)


def name_within(parent: Parent | None, block: Prefixed) -> str:
    """Name of a child block in its parent: the attribute, else the name in the parent's scope.

    A block in a sequence without a name in that scope is ``Class[number]``. "" without parent.
    """
    if parent is None:
        return ""
    key = next((key for key, child in parent._children.items() if child is block), "")
    if key and not key.isdigit():
        return key
    if block.prefix != parent.prefix and block.prefix.startswith(parent.prefix):
        return block.prefix.removeprefix(parent.prefix).strip("_")
    return f"{type(block).__name__}[{key}]"


class BlockArgs(TypedDict, total=False):
    """Arguments of every block."""

    prefix: str | None
    params: ParameterDict | None
