"""Operators on many arrays at once for training: sums of squares, and zeros."""

from __future__ import annotations

import numpy as np

from ..._core.types import TensorType
from ..attrs import AttrValue
from ..registry import register
from ..rules import Types, merged, require_float
from .update_step import SINGLE, register_update


def _arrays(num_arrays: int, **attrs: AttrValue) -> tuple[str, ...]:
    return tuple(f"data_{i}" for i in range(num_arrays))


def _states(num_arrays: int) -> tuple[str, ...]:
    return tuple(f"*data_{i}" for i in range(num_arrays))


def _sum_sq(*arrays: np.ndarray, num_arrays: int) -> np.ndarray:
    return np.array([np.square(x, dtype=SINGLE).sum() for x in arrays], SINGLE)


def _one_each(ins: Types, outs: Types, *, num_arrays: int) -> tuple[Types, Types]:
    for t in ins:
        require_float("multi_sum_sq", t)
    return ins, merged(outs, (TensorType((num_arrays,), SINGLE),))


def _zeroed(*arrays: np.ndarray, num_arrays: int) -> tuple[np.ndarray, ...]:
    return tuple(map(np.zeros_like, arrays))


register(
    "multi_sum_sq",
    _arrays,
    "num_arrays:int[1,16384]!",
    infer=_one_each,
    ref=_sum_sq,
    doc="Sum of squares of each array, in one float32 array.",
)
register_update(
    "reset_arrays",
    _states,
    "num_arrays:int[1,16384]!",
    _zeroed,
    "Zeros for all arrays.",
    infer=lambda ins, outs, num_arrays: (ins, ()),
    outputs=(),
)
