"""All functions of ``mx.np`` over one front end."""

from __future__ import annotations

from typing import Any

from .creation import Creation
from .elementwise import Elementwise
from .later import LaterArrays
from .products import Products
from .reductions import Reductions
from .shapes import Shapes


class Functions(Elementwise, Reductions, Shapes, Products, Creation, LaterArrays):
    """The functions of ``mx.np`` that arrays and symbols have in common."""


def names_of(group: type) -> list[str]:
    """The functions of a group."""
    return [name for name in dir(group) if not name.startswith("_")]


def bound(group: Any) -> dict[str, Any]:
    """The functions of a group over its front end, by name."""
    return {name: getattr(group, name) for name in names_of(type(group))}
