"""All functions of ``mx.np`` on one frontend."""

from __future__ import annotations

from types import MethodType
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


def bound(group: Any) -> dict[str, Any]:
    """Functions of a group bound to its frontend, by name, with all arguments described."""
    names = [name for name in dir(group) if not name.startswith("_")]
    return {name: _documented(getattr(group, name)) for name in names}


def _documented(made: Any) -> Any:
    """A method as a public function; a function that a group has made, itself."""
    function = public(made) if isinstance(made, MethodType) else made
    if made.__doc__:
        function.__doc__ = described(made, made.__doc__)
    return function
