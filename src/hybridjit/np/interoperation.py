"""Official NumPy's functions on arrays of NumPy mode: dispatch to the functions of ``mx.np``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as onp

from .arrays import ndarray
from .fallback import fallback

_functions: dict[str, Any] = {}  # of mx.np, by name
_linalg: dict[str, Any] = {}  # of mx.np.linalg

# Ufuncs behind Python's operators that mx.np does not export as functions.
_OF_NUMBERS = ("floor_divide", "left_shift", "right_shift")


def _function(func: Any) -> Any:
    """Function of ``mx.np`` or ``mx.np.linalg`` with the same name, or None."""
    name = getattr(func, "__name__", "")
    if (getattr(func, "__module__", "") or "").endswith("linalg"):
        return _linalg.get(name)
    return _functions.get(name)


def call_function(self: ndarray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run the function of NumPy mode instead of official NumPy's; the tape records it.

    Raises TypeError if ``mx.np`` has no such function.
    """
    found = _function(func)
    if func is onp.histogram or (found is None and func.__module__ == "numpy.fft"):
        found = fallback(func.__name__, func)  # histogram without a range; complex results
    if found is None:
        module = getattr(func, "__module__", "numpy")
        raise TypeError(
            f"no implementation found for '{module}.{func.__name__}' on types that implement "
            f"__array_function__: {list(types)}"
        )
    if any(kind is not onp.ndarray and not issubclass(kind, ndarray) for kind in types):
        return NotImplemented
    return found(*args, **kwargs)


def call_ufunc(self: ndarray, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Run the function of NumPy mode instead of the ufunc; the tape records it.

    Raises TypeError for ufuncs that ``mx.np`` does not have.
    """
    if method != "__call__":
        raise TypeError(f"ufunc {ufunc.__name__} has no method {method} for mxnet.numpy.ndarray")
    found = _function(ufunc)
    # Official scalars arrive as arrays of shape () from some of Python's operators.
    inputs = tuple(x.item() if _is_number(x) else x for x in inputs)
    if found is None and ufunc.__name__ in _OF_NUMBERS:
        found = fallback(ufunc.__name__, ufunc)
    if found is None:
        raise TypeError(f"no implementation found for ufunc {ufunc.__name__!r}")
    out = kwargs.pop("out", None)
    if out is not None:
        target = out[0] if isinstance(out, tuple) else out
        if not isinstance(target, ndarray):
            raise TypeError("The out parameter is not compatible with mxnet.numpy.ndarray")
        kwargs["out"] = target
    return found(*inputs, **kwargs)


def _is_number(x: Any) -> bool:
    return isinstance(x, onp.generic) or (isinstance(x, onp.ndarray) and not x.ndim)


def add_dispatch(functions: Mapping[str, Any], linalg: Mapping[str, Any]) -> None:
    """Add the two methods to the class of arrays; the module of the functions calls this once."""
    _functions.update(functions)
    _linalg.update(linalg)
    ndarray.__array_function__ = call_function  # type: ignore[attr-defined]
    ndarray.__array_ufunc__ = call_ufunc  # type: ignore[attr-defined]
