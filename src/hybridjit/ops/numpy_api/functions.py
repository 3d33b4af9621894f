"""All functions of ``mx.np`` on one frontend."""

from __future__ import annotations

from typing import Any

from ..._core.frames import public
from .arguments import described
from .creation import Creation
from .elementwise import Elementwise
from .later import LaterArrays
from .products import Products
from .reductions import Reductions
from .shapes import Shapes


class Functions(Elementwise, Reductions, Shapes, Products, Creation, LaterArrays):
    """Functions of ``mx.np`` for both arrays and symbols."""


def names_of(group: type) -> list[str]:
    """Names of the functions of a group."""
    return [name for name in dir(group) if not name.startswith("_")]


def bound(group: Any) -> dict[str, Any]:
    """Functions of a group bound to its frontend, by name, with all arguments described."""
    return {name: _documented(getattr(group, name)) for name in names_of(type(group))}


def _documented(method: Any) -> Any:
    function = public(method)
    if method.__doc__:
        function.__doc__ = described(method.__func__, method.__doc__)
    return function
