"""Frontend of NumPy mode's functions, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as onp

from ..._core.types import CODE_OF_DTYPE, DTYPE_NAMES, DType, Sizes
from ...context import Context
from ...errors import MXNetError

NUMBERS = (bool, int, float, onp.generic)


class Frontend:
    """Kind of tensors: ``tensor`` is its class, ``other`` the corresponding classic class."""

    tensor: type[Any]
    other: type[Any]
    is_symbolic = False

    def op(self, name: str, *inputs: Any, out: Any = None, ctx: Any = None, **attrs: Any) -> Any:
        """Result of an operator, or a list if it has several."""
        raise NotImplementedError

    def on_own(self, name: str, inputs: Any, attrs: dict[str, Any], out: Any = None) -> Any:
        """Result of an operator on tensors that the caller has checked to be of this kind."""
        return self.op(name, *inputs, out=out, **attrs)

    def constant(self, name: str, shape: Any, value: float, dtype: Any, ctx: Any) -> Any:
        """Tensor filled with a number; ``name`` is the operator ``_full`` or one with its value."""
        given = {"value": value} if name == "_full" else {}
        return self.op(name, shape=sizes_of(shape), **given, dtype=dtype_name(dtype), ctx=ctx)

    def alike(self, x: Any, value: float, dtype: Any, out: Any) -> Any:
        """Tensor of another's shape filled with a number, of its element type if dtype is None."""
        given = {"fill_value": value, "dtype": dtype_name(dtype, None)}
        return self.op("_npi_full_like", x, out=out, **given)

    def several(self, name: str, *inputs: Any, **attrs: Any) -> list[Any]:
        """All results of an operator as a list."""
        made = self.op(name, *inputs, **attrs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def check(self, name: str, x: Any) -> None:
        """Raise TypeError for a classic tensor, AssertionError for other objects."""
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

    def flat(self, x: Any) -> Any:
        """Elements as a vector, which the caller only reads: it may be ``x``, or share memory."""
        return self.op("_np_reshape", x, newshape=(-1,), order="C")

    def shape(self, x: Any) -> tuple[int, ...]:
        """Shape of an array. Raises NotImplementedError for symbols, whose shape is unknown."""
        raise NotImplementedError("the shape of a symbol is unknown while a block is traced")


class Group:
    """Group of functions on one frontend."""

    def __init__(self, front: Frontend) -> None:
        self._front = front
        self._op = front.op


def dtype_name(dtype: DType | None, default: str | None = "float32") -> str | None:
    """Name of a dtype, ``default`` for None. Raises KeyError for one without a name.

    Python's int is int64, float is float64.
    """
    if dtype is None:
        return default
    if type(dtype) is str and dtype in DTYPE_NAMES:
        return dtype
    found = onp.dtype(dtype)
    if found not in CODE_OF_DTYPE:
        raise KeyError(found.type)
    return found.name


def sizes_of(shape: Sizes) -> tuple[int, ...]:
    """Shape from an argument, which may be a single size. Raises MXNetError for other objects."""
    if type(shape) is tuple and _are_ints(shape):
        return shape
    given = (shape,) if isinstance(shape, (int, onp.integer)) else shape
    try:
        sizes = tuple(given)
        if any(not isinstance(size, (int, onp.integer)) for size in sizes):
            raise TypeError
    except TypeError:
        raise MXNetError(
            f"a shape must be an integer or a sequence of integers, got {shape!r}"
        ) from None
    return tuple(int(size) for size in sizes)


def _are_ints(sizes: tuple[Any, ...]) -> bool:
    """Test whether all sizes are Python's integers. The loop takes a fifth of ``all(...)``."""
    for size in sizes:  # noqa: SIM110
        if type(size) is not int:
            return False
    return True


def axes_of(axis: Any) -> Any:
    """Attribute for one axis, several, or None."""
    if isinstance(axis, list):
        return tuple(axis)
    return axis


def refuse_order(order: str, allowed: Sequence[str] = ("C",)) -> None:
    """Raise NotImplementedError for a memory order that arrays do not have."""
    if order not in allowed:
        raise NotImplementedError(f"order must be one of {', '.join(allowed)}, got {order!r}")


def check_keywords(name: str, given: dict[str, Any]) -> None:
    """Raise NotImplementedError or ValueError for unsupported keywords of official ufuncs."""
    for key, value in given.items():
        if key == "where":
            if isinstance(value, onp.ndarray) or not isinstance(value, (bool, onp.bool_)):
                bool(value)
            if not value:
                raise NotImplementedError(f"where={value} is not implemented for operator {name}")
        elif key in _ACCEPTED:
            if key == "dtype":
                onp.dtype(value)  # raises TypeError for an invalid dtype
            if key in _OFFICIAL and value not in _OFFICIAL[key]:
                raise TypeError(f"{key} must be one of {', '.join(_OFFICIAL[key])}, got {value!r}")
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
    """Context of an argument. Raises MXNetError for a GPU."""
    if ctx is None:
        return None
    place = Context(ctx)
    place.require_host("the operator")
    return place
