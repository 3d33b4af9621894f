"""bfloat16, which the narrow pass makes: float32 in and out, 16 bits in between.

In: float32 arrays, or bits of bfloat16 as ``types.BFLOAT16`` holds them. Out: new arrays of the
same shapes. Rounding is to the nearest, halves to even; NaN stays NaN.
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
    """Whether a convolution's sums are worth pairs, by the channels and filters of a group.

    Few channels are worth a rounded copy of what is read where many filters read it: 7x7/2 of 3
    channels, 64 filters, takes 0.70 ms with it for 0.96; 3x3/2, 32 filters, 1 % longer.
    """
    return channels >= 8 or (channels >= 3 and groups == 1 and filters >= _MANY_FILTERS)


_SAMPLES = Traits(samples=Samples.FIRST)


def to_bfloat16(data: np.ndarray) -> np.ndarray:
    """The bits of the bfloat16 next to each float32."""
    bits = np.ascontiguousarray(data, FLOAT32).reshape(data.shape).view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + (upper & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)
    is_nan = np.isnan(data)
    if is_nan.any():
        rounded = np.where(is_nan, upper | np.uint32(0x40), rounded)
    return rounded.astype(BFLOAT16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 that each of bfloat16's bits stand for."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(FLOAT32)


def rounded(data: np.ndarray) -> np.ndarray:
    """The float32 that bfloat16 has next to each number."""
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
    doc="float32 as bfloat16, rounded when it is stored; made by the compiler only.",
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
    doc="bfloat16 as float32: kernels read it as it lies; made by the compiler only.",
)
ROUNDED = register(
    "_rounded_to_bfloat16",
    "data",
    internal=True,
    infer=forward(_long),
    ref=rounded,
    traits=_SAMPLES,
    doc="float32 rounded to what bfloat16 has, of weights; made by the compiler only.",
)
