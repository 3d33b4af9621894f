"""Arithmetic by element type: the formulas for held values of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..._core.lazy import Late
from ..llvm.builder import LoopBuilder
from ..llvm.types import Value

if TYPE_CHECKING:
    from . import double, integer, single
else:  # 4 ms of the first call of a process, for emission alone
    double = Late(".double", __package__)
    integer = Late(".integer", __package__)
    single = Late(".single", __package__)

FloatMath: TypeAlias = "single.VectorMath | double.DoubleMath"
Numbers: TypeAlias = "FloatMath | integer.IntegerMath"


def numbers_of(b: LoopBuilder, like: Value, dtype: str) -> Numbers:
    """Arithmetic on held values of an element type."""
    if is_integer(dtype):
        return integer.IntegerMath(b, like, np.dtype(dtype))
    return float_numbers_of(b, like, dtype)


def is_integer(dtype: str) -> bool:
    """Whether elements of this type are integers."""
    return not dtype.startswith("float")


def float_numbers_of(b: LoopBuilder, like: Value, dtype: str) -> FloatMath:
    """Arithmetic on held values of a floating element type."""
    return _float_class(dtype)(b, like)


def float_math(b: LoopBuilder) -> FloatMath:
    """Arithmetic on the elements that the builder's vectors hold."""
    return _float_class(b.dtype)(b)


def _float_class(dtype: str) -> type[single.VectorMath] | type[double.DoubleMath]:
    return double.DoubleMath if dtype == "float64" else single.VectorMath
