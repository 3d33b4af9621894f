"""Element types in NumPy references: conversion as in C, and which type a formula is computed in.

In: arrays and a target dtype. Out: new C-contiguous arrays. NumPy's own promotion is not used
anywhere: every result names its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from .._core.types import FLOAT64
from .attrs import AttrValue
from .signatures import Computation, Reference

# The type that a floating formula is computed in before its one rounding: float16 in single
# precision, integers in double.
_WORKING = {np.dtype(name): np.dtype(name) for name in ("float32", "float64")}
_WORKING[np.dtype("float16")] = np.dtype("float32")


def working_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for float16, the type itself for wider floats, float64 for integers."""
    return _WORKING.get(dtype, FLOAT64)


def widened(array: np.ndarray) -> np.ndarray:
    """The array in its working type; itself when it has that already."""
    return array.astype(working_dtype(array.dtype), copy=False)


def convert(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A C-contiguous array of ``dtype``; ``array`` itself when it is one already.

    Floats become integers by truncation. What int32 (int64 for an int64 target) cannot hold,
    NaN included, becomes its smallest value; narrower integers then take the low bits.
    """
    if array.dtype.kind == "f" and dtype.kind in "iu":
        array = _truncated(widened(array), np.dtype("int64" if dtype.itemsize == 8 else "int32"))
    return np.asarray(array, dtype, order="C")


def _truncated(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    bits = 8 * dtype.itemsize - 1
    smallest = array.dtype.type(-(2.0**bits))
    fits = (array >= smallest) & (array < -smallest)
    return np.where(fits, array, smallest).astype(dtype)


def bounded(array: np.ndarray, low: float, high: float) -> np.ndarray:
    """Floats between ``low`` and ``high``; NaN becomes ``low``."""
    kind = array.dtype.type
    return np.where(array > kind(low), np.minimum(array, kind(high)), kind(low))


def fresh(result: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``result`` copied: for formulas that may return one of their inputs or a view of it."""
    return np.array(result, dtype, order="C")


def scalar_of(value: float, dtype: np.dtype) -> np.ndarray:
    """``value`` as an element of ``dtype`` holds it: truncated and wrapped for integers."""
    return convert(np.asarray(value, np.float64), dtype)


def exactly(formula: Computation) -> Callable[..., np.ndarray]:
    """A reference from a formula computed in the operands' own type, which the result keeps."""

    @wraps(formula)
    def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        return convert(np.asarray(formula(first, *rest, **attrs)), first.dtype)

    return ref


def in_floating(formula: Computation) -> Callable[..., np.ndarray]:
    """A reference from a formula computed in the working type; the result keeps the operands'."""

    @wraps(formula)
    def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        result = formula(widened(first), *(widened(a) for a in rest), **attrs)
        return convert(np.asarray(result), first.dtype)

    ref.is_in_floating = True  # type: ignore[attr-defined]
    return ref


def is_in_floating(ref: Reference) -> bool:
    """Whether a reference computes integers in double precision, as :func:`in_floating` makes it.

    Anything built on such a reference keeps the mark if it is wrapped with ``functools.wraps``.
    """
    return getattr(ref, "is_in_floating", False)


def on_integers(integral: Computation) -> Callable[..., Callable[..., np.ndarray]]:
    """``@on_integers(f)``: integer operands go to ``f`` in their own type, floats to the rest."""

    def choose(formula: Computation) -> Callable[..., np.ndarray]:
        floating, exact = in_floating(formula), exactly(integral)

        @wraps(formula)
        def ref(first: np.ndarray, *rest: np.ndarray, **attrs: AttrValue) -> np.ndarray:
            chosen = floating if first.dtype.kind == "f" else exact
            return chosen(first, *rest, **attrs)

        return ref

    return choose
