"""Conversions between float32 and bfloat16, for the pass that lowers to bfloat16.

Input: float32 arrays, or bits of bfloat16 in the representation of ``types.BFLOAT16``. Output: new
arrays of the same shapes. Rounding is to nearest, ties to even; NaN remains NaN.
"""

from __future__ import annotations

import numpy as np

from .._core.types import BFLOAT16, FLOAT32, TensorType
from .attrs import AttrValue
from .record import Samples, Traits
from .registry import register
from .rules import forward

_MANY_FILTERS = 64


def multiplies_rounded(channels: int, filters: int, groups: int) -> bool:
    """Whether bfloat16 pairs are faster for a convolution with these channels and filters per
    group.

    With few channels, a rounded copy of the input is only worthwhile if many filters read it: 7x7/2
    of 3 channels, 64 filters, takes 0.70 ms instead of 0.96; 3x3/2, 32 filters, 1 % longer.
    """
    return channels >= 8 or (channels >= 3 and groups == 1 and filters >= _MANY_FILTERS)


_SAMPLES = Traits(samples=Samples.FIRST)


def to_bfloat16(data: np.ndarray) -> np.ndarray:
    """Bits of the bfloat16 nearest to each float32."""
    bits = np.ascontiguousarray(data, FLOAT32).reshape(data.shape).view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + (upper & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)
    is_nan = np.isnan(data)
    if is_nan.any():
        rounded = np.where(is_nan, upper | np.uint32(0x40), rounded)
    return rounded.astype(BFLOAT16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 value of each bfloat16."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(FLOAT32)


def rounded(data: np.ndarray) -> np.ndarray:
    """Nearest bfloat16 of each value, as float32."""
    return from_bfloat16(to_bfloat16(data))


def _short(data: TensorType, **attrs: AttrValue) -> TensorType:
    return data.with_dtype(BFLOAT16)


def _long(data: TensorType, **attrs: AttrValue) -> TensorType:
    return data.with_dtype(FLOAT32)


TO_BFLOAT16 = register(
    "_to_bfloat16",
    "data",
    internal=True,
    infer=forward(_short),
    ref=to_bfloat16,
    scalar=lambda b, x: x,
    traits=_SAMPLES,
    doc="float32 as bfloat16, rounded at the store; created by the compiler only.",
)
FROM_BFLOAT16 = register(
    "_from_bfloat16",
    "data",
    internal=True,
    kernel="view",
    infer=forward(_long),
    ref=from_bfloat16,
    scalar=lambda b, x: x,
    traits=_SAMPLES,
    doc="bfloat16 as float32: kernels read the stored bits; created by the compiler only.",
)
ROUNDED = register(
    "_rounded_to_bfloat16",
    "data",
    internal=True,
    infer=forward(_long),
    ref=rounded,
    traits=_SAMPLES,
    doc="Weights rounded to bfloat16, as float32; created by the compiler only.",
)
