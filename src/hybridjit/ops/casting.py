"""Element types in NumPy references: conversions as in C, and the type of computations.

Input: arrays and a target dtype. Output: new C-contiguous arrays. NumPy's promotion is never used:
every result has an explicit dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from .._core.types import FLOAT64
from .attrs import AttrValue
from .signatures import Computation, Reference

# Type in which a floating formula is computed before its single rounding: single precision for
# float16, double for integers.
_WORKING = {np.dtype(name): np.dtype(name) for name in ("float32", "float64")}
_WORKING[np.dtype("float16")] = np.dtype("float32")


def working_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for float16, the dtype itself for wider floats, float64 for integers."""
    return _WORKING.get(dtype, FLOAT64)


def widened(array: np.ndarray) -> np.ndarray:
    """Array converted to its working type; unchanged if it has this type."""
    return array.astype(working_dtype(array.dtype), copy=False)


def convert(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """C-contiguous array of ``dtype``; ``array`` itself if it is one already.

    Floats are converted to integers by truncation. Values out of the range of int32 (int64 for an
    int64 target), NaN included, become its smallest value; narrower integers then take the low
    bits.
    """
    if array.dtype is dtype and array.flags.c_contiguous:  # usual: half the time of ``asarray``
        return array
    if array.dtype.kind == "f" and dtype.kind in "iu":
        array = _truncated(widened(array), np.dtype("int64" if dtype.itemsize == 8 else "int32"))
    return np.asarray(array, dtype, order="C")


def _truncated(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize - 1
    smallest = array.dtype.type(-(2.0**bits))
    if array.size and array.min() >= smallest and array.max() < -smallest:  # half the time
        return array.astype(dtype)
    fits = (array >= smallest) & (array < -smallest)
    return np.where(fits, array, smallest).astype(dtype)


def bounded(array: np.ndarray, low: float, high: float) -> np.ndarray:
    """Floats limited to [low, high]; NaN becomes ``low``."""
    kind = array.dtype.type
    return np.where(array > kind(low), np.minimum(array, kind(high)), kind(low))


def fresh(result: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy of ``result``, for formulas that may return an operand or a view of it."""
    return np.array(result, dtype, order="C")


def scalar_of(value: float, dtype: np.dtype) -> np.ndarray:
    """``value`` converted to ``dtype``: truncated and wrapped for integers."""
    if dtype.kind == "f":
        return np.asarray(value, dtype)
    return convert(np.asarray(value, np.float64), dtype)


def exactly(formula: Computation) -> Callable[..., np.ndarray]:
    """Reference from a formula that is computed in the operands' dtype."""

    @wraps(formula)
    def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        return convert(np.asarray(formula(first, *rest, **attrs)), first.dtype)

    return ref


def in_floating(formula: Computation) -> Callable[..., np.ndarray]:
    """Reference from a formula that is computed in the working type; the result has the
    operands'."""

    @wraps(formula)
    def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        result = formula(widened(first), *(widened(a) for a in rest), **attrs)
        return convert(np.asarray(result), first.dtype)

    ref.is_in_floating = True  # type: ignore[attr-defined]
    return ref


def is_in_floating(ref: Reference) -> bool:
    """Whether a reference computes integers in double precision, as those of :func:`in_floating`.

    Functions wrapped around such a reference with ``functools.wraps`` keep the mark.
    """
    return getattr(ref, "is_in_floating", False)


def on_integers(integral: Computation) -> Callable[..., Callable[..., np.ndarray]]:
    """Decorator ``@on_integers(f)``: integer operands are passed to ``f``, others to the
    function."""

    def choose(formula: Computation) -> Callable[..., np.ndarray]:
        floating, exact = in_floating(formula), exactly(integral)

        @wraps(formula)
        def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
            chosen = floating if first.dtype.kind == "f" else exact
            return chosen(first, *rest, **attrs)

        return ref

    return choose
