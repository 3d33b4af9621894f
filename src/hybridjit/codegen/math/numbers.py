"""Arithmetic by element type: the formulas for held values of it."""

from __future__ import annotations

import numpy as np

from ..llvm.builder import LoopBuilder
from ..llvm.types import Value
from .double import DoubleMath
from .integer import IntegerMath
from .single import VectorMath

FloatMath = VectorMath | DoubleMath
Numbers = FloatMath | IntegerMath


def numbers_of(b: LoopBuilder, like: Value, dtype: str) -> Numbers:
    """Arithmetic on held values of an element type."""
    if not dtype.startswith("float"):
        return IntegerMath(b, like, np.dtype(dtype))
    return float_numbers_of(b, like, dtype)


def float_numbers_of(b: LoopBuilder, like: Value, dtype: str) -> FloatMath:
    """Arithmetic on held values of a floating element type."""
    return (DoubleMath if dtype == "float64" else VectorMath)(b, like)


def float_math(b: LoopBuilder) -> FloatMath:
    """Arithmetic on the elements that the builder's vectors hold."""
    return (DoubleMath if b.dtype == "float64" else VectorMath)(b)
