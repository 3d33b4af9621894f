"""What Dropout and BatchNorm do while ``autograd.is_training()``.

In: an operator's operands and attribute values. Out: those with which its reference computes the
training result. As in MXNet, the forward pass leaves BatchNorm's moving statistics as they are
(the backward pass, which does not exist here, would move them). Every other operator means the
same in both modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Operands = tuple[list[np.ndarray], Mapping[str, Any]]


def _dropping(arrays: list[np.ndarray], attrs: Mapping[str, Any]) -> Operands:
    return arrays, {**attrs, "mode": "always"}


def _with_batch_statistics(arrays: list[np.ndarray], attrs: Mapping[str, Any]) -> Operands:
    """The batch's own mean and variance per channel in place of the moving ones."""
    if attrs["use_global_stats"]:
        return arrays, attrs
    data, gamma, beta, moving_mean, moving_var = arrays
    channel = attrs.get("axis", 1) % data.ndim
    others = tuple(axis for axis in range(data.ndim) if axis != channel)
    mean = data.mean(others, dtype=moving_mean.dtype)  # float32 for float16 data
    variance = data.var(others, dtype=moving_var.dtype)
    return [data, gamma, beta, mean, variance], attrs


TRAINING_OPERANDS: dict[str, Callable[[list[np.ndarray], Mapping[str, Any]], Operands]] = {
    "Dropout": _dropping,
    "BatchNorm": _with_batch_statistics,
    "BatchNorm_v1": _with_batch_statistics,
    "_contrib_SyncBatchNorm": _with_batch_statistics,
    "_contrib_BatchNormWithReLU": _with_batch_statistics,
}
