"""What functions of NumPy mode are written with: a front end, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as onp

from ..._core.types import CODE_OF_DTYPE, DType, Sizes
from ...context import Context
from ...errors import MXNetError

NUMBERS = (bool, int, float, onp.generic)


class Frontend:
    """One kind of tensors: ``tensor`` is its class, ``other`` that of the classic kind."""

    tensor: type
    other: type
    is_symbolic = False

    def op(self, name: str, *inputs: Any, out: Any = None, ctx: Any = None, **attrs: Any) -> Any:
        """The result of an operator, or a list where it has several."""
        raise NotImplementedError

    def several(self, name: str, *inputs: Any, **attrs: Any) -> list[Any]:
        """All results of an operator as a list."""
        made = self.op(name, *inputs, **attrs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def check(self, name: str, x: Any) -> None:
        """Raises TypeError for a tensor of the classic kind, AssertionError for other objects."""
        if isinstance(x, self.tensor):
            return
        if isinstance(x, self.other):
            raise TypeError(
                f"Operator `{name}` registered in backend is a numpy operator which can only "
                "accept MXNet numpy ndarrays, while received a legacy ndarray. Please ensure that "
                "you have activated numpy semantics by calling `npx.set_np()` in your code, or "
                "call `as_np_ndarray()` on it."
            )
        raise AssertionError(f"Positional arguments must have NDArray type, but got {x}")

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of an array. Raises NotImplementedError for symbols, which have none yet."""
        raise NotImplementedError("a symbol has no shape while a block is traced")


class Group:
    """A group of functions over one front end."""

    def __init__(self, front: Frontend) -> None:
        self._front = front
        self._op = front.op


def dtype_name(dtype: DType | None, default: str | None = "float32") -> str | None:
    """The name of an element type, ``default`` for None. Raises KeyError for one without a name.

    Python's int is int64, float float64.
    """
    if dtype is None:
        return default
    found = onp.dtype(dtype)
    if found not in CODE_OF_DTYPE:
        raise KeyError(found.type)
    return found.name


def sizes_of(shape: Sizes) -> tuple[int, ...]:
    """A shape that a caller gives, a lone size included. Raises MXNetError for other objects."""
    given = (shape,) if isinstance(shape, (int, onp.integer)) else shape
    try:
        sizes = tuple(given)
        if any(not isinstance(size, (int, onp.integer)) for size in sizes):
            raise TypeError
    except TypeError:
        raise MXNetError(f"a shape is an integer or several, got {shape!r}") from None
    return tuple(int(size) for size in sizes)


def axes_of(axis: Any) -> Any:
    """The attribute for one axis, several, or None."""
    if isinstance(axis, list):
        return tuple(axis)
    return axis


def refuse_order(order: str, allowed: Sequence[str] = ("C",)) -> None:
    """Raises NotImplementedError for an order of elements that arrays do not have."""
    if order not in allowed:
        raise NotImplementedError(f"order is one of {', '.join(allowed)}, got {order!r}")


def check_keywords(name: str, given: dict[str, Any]) -> None:
    """Raises NotImplementedError or ValueError for what official ufuncs take and these do not."""
    for key, value in given.items():
        if key == "where":
            if isinstance(value, onp.ndarray) or not isinstance(value, (bool, onp.bool_)):
                bool(value)
            if not value:
                raise NotImplementedError(f"where={value} is not implemented for operator {name}")
        elif key in _ACCEPTED:
            if key == "dtype":
                onp.dtype(value)  # raises TypeError for an object that names no element type
            if key in _OFFICIAL and value not in _OFFICIAL[key]:
                raise TypeError(f"{key} is one of {', '.join(_OFFICIAL[key])}, got {value!r}")
            if value not in _ACCEPTED[key]:
                raise NotImplementedError(
                    f"{key}={value} is not implemented yet for operator {name}"
                )
        else:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")


_OFFICIAL = {
    "casting": ("no", "equiv", "safe", "same_kind", "unsafe"),
}
_ACCEPTED: dict[str, tuple[Any, ...]] = {
    "order": ("K",),
    "casting": ("same_kind",),
    "subok": (True,),
    "dtype": (None,),
}


def context_of(ctx: Any) -> Context | None:
    """The context that a caller names. Raises MXNetError for a GPU."""
    if ctx is None:
        return None
    place = Context(ctx)
    place.require_host("the operator")
    return place
