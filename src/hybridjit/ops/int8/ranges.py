"""Ranges of 8-bit values: their types, scales, and rounding to bytes.

A range is a minimum and a maximum, float32 of shape (1,). Its magnitude R is the larger absolute
value of the two. 127.5 / R is the scale of int8 and 255.5 / R that of uint8 in most operators;
``_contrib_quantize`` and ``_contrib_requantize`` use 127 and 255.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from ..._core.types import FLOAT32, TensorType
from ...errors import DTypeError
from ..gradient import NoGradientError
from ..rules import Types, fill
from ..signatures import Gradient

INT8, UINT8, INT32 = (np.dtype(name) for name in ("int8", "uint8", "int32"))
BYTES = (INT8, UINT8)
RANGE = TensorType((1,), FLOAT32)
SUMS = np.float32(2147483647)  # levels of int32 sums

CALIBRATED = "min_calib_range:float?=None max_calib_range:float?=None"

Range = tuple[np.float32, np.float32]
Ends = Sequence[object]  # a minimum and a maximum: numbers, or arrays of one element


def first(x: object) -> np.float32:
    """The only element of a range's end."""
    return np.float32(np.asarray(x).reshape(-1)[0])


def magnitude(low: object, high: object) -> np.float32:
    """R: the larger absolute value of a range's ends."""
    return max(abs(first(low)), abs(first(high)))


def levels(dtype: np.dtype) -> np.float32:
    """127.5 for int8 and 255.5 for uint8."""
    return np.float32(127.5) if dtype == INT8 else np.float32(255.5)


def whole_levels(dtype: np.dtype) -> np.float32:
    """127 for int8 and 255 for uint8."""
    return np.float32(127) if dtype == INT8 else np.float32(255)


def scale_of(dtype: np.dtype, low: object, high: object) -> np.float32:
    """Bytes per unit of this range."""
    return levels(dtype) / magnitude(low, high)


def layer_scale(dtype: np.dtype, low: object, high: object) -> np.float32:
    """Bytes per unit of this range in fused layers: 2**31 for a range of 0, as in MXNet 1.9.1."""
    top = magnitude(low, high)
    return levels(dtype) / top if top else np.float32(2**31)


def saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``x`` rounded to the nearest integers, ties to even, and saturated to ``dtype``.

    NaN becomes the smallest byte.
    """
    low, high = (-128, 127) if dtype == INT8 else (0, 255)
    return np.asarray(np.fmin(np.fmax(np.rint(x), low), high)).astype(dtype)


def sums_range(data: np.float32, weight: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Range of int32 sums from the units of data and weights."""
    return symmetric(data * weight * SUMS)


def dense_range(dtype: np.dtype, data: Ends, weight: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Range of the sums of a fully connected layer, with MXNet's divisors: 255 for the weights."""
    return sums_range(magnitude(*data) / np.float32(127), magnitude(*weight) / whole_levels(dtype))


def symmetric(top: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """The range from -top to top."""
    return ends(-top, top)


def ends(low: object, high: object) -> tuple[np.ndarray, np.ndarray]:
    """A range as arrays."""
    return np.full(1, first(low), FLOAT32), np.full(1, first(high), FLOAT32)


def calibrated(low: float | None, high: float | None) -> Range | None:
    """The calibrated range of the attributes; None unless both are set."""
    return None if low is None or high is None else (np.float32(low), np.float32(high))


def ranges(known: Sequence[TensorType]) -> Types:
    """These operands as ends of ranges. Raises ShapeError or DTypeError."""
    return tuple(fill(t, (1,), FLOAT32) for t in known)


def with_range(out: TensorType) -> Types:
    """Types of bytes or sums and of their range."""
    return out, RANGE, RANGE


def require_bytes(what: str, t: TensorType, allowed: Sequence[np.dtype] = BYTES) -> None:
    """Raise DTypeError unless ``t`` has one of these types or an unknown one."""
    if t.dtype is not None and t.dtype not in allowed:
        names = " or ".join(d.name for d in allowed)
        raise DTypeError(f"{what} must be {names}, got {t.dtype.name}; quantize it first")


def untrainable(name: str) -> Gradient:
    """Gradient rule of an operator that is for inference only."""

    def rule(*args: object, **attrs: object) -> NoReturn:
        raise NoGradientError(
            f"Operator {name} has no gradient: quantized networks are for inference; train the "
            "float32 network and quantize it afterwards"
        )

    return rule
