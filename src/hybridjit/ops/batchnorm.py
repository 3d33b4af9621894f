"""BatchNorm at inference, under its several names.

In: data, gamma, beta and the stored mean and variance. Out: the data's type. gamma counts as 1
when fix_gamma is set; whoever owns the buffer writes the ones into it, not this reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import FLOAT32, PartialShape, TensorType, merge, shape_text
from .casting import widened
from .registry import Kind, Types, register
from .rules import fill, merged, normalized_axis, require_float


def along(vector: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """``vector`` shaped to broadcast along ``axis`` of an array of ``ndim`` axes."""
    return vector.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def check_length(name: str, found: PartialShape | None, length: int | None, owner: str) -> None:
    """Raises ShapeError unless a parameter has ``length`` numbers; ``owner`` needs them."""
    if found is not None and None not in (*found, length) and found != (length,):
        raise ShapeError(f"{name} has shape {shape_text(found)}, {owner}")


def _infer_batchnorm(
    ins: Types, outs: Types, *, axis: int = 1, output_mean_var: bool, **attrs: Any
) -> tuple[Types, Types]:
    """Output like the data; parameters one per channel, float32 for float16 data."""
    data = merge(ins[0], outs[0]) if outs else ins[0]
    require_float("BatchNorm", data)
    dtype = FLOAT32 if data.dtype == np.float16 else data.dtype
    per_channel: PartialShape = (None,)
    if data.shape is not None:
        axis = normalized_axis(axis, len(data.shape), "channel axis")
        per_channel = (data.shape[axis],)
        for name, param in zip(("gamma", "beta", "moving_mean", "moving_var"), ins[1:]):
            owner = f"data has {per_channel[0]} channels on axis {axis}"
            check_length(name, param.shape, per_channel[0], owner)
    params = tuple(fill(param, per_channel, dtype) for param in ins[1:])
    found = (data, *[TensorType(per_channel, dtype)] * 2) if output_mean_var else (data,)
    return (data, *params), merged(outs, found)


def _batchnorm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    moving_mean: np.ndarray,
    moving_var: np.ndarray,
    *,
    eps: float,
    fix_gamma: bool,
    output_mean_var: bool,
    axis: int = 1,
    **attrs: Any,
) -> Any:
    """(data - mean) / sqrt(var + eps) * gamma + beta with the stored mean and variance.

    output_mean_var adds the mean as given and, as MXNet has it, 1 / sqrt(var + eps) for ``var``.
    """
    inverse = 1 / np.sqrt(moving_var + moving_var.dtype.type(eps))
    scale = inverse if fix_gamma else inverse * gamma
    ndim = data.ndim
    y = widened(data) - along(moving_mean, ndim, axis)
    y *= along(scale, ndim, axis)
    y += along(beta, ndim, axis)
    y = y.astype(data.dtype, copy=False)
    return (y, moving_mean.copy(), inverse) if output_mean_var else y


def _batchnorm_relu(*arrays: np.ndarray, **attrs: Any) -> Any:
    y = _batchnorm(*arrays, **attrs)
    if isinstance(y, tuple):
        return (np.maximum(y[0], 0), *y[1:])
    return np.maximum(y, 0)


def _batchnorm_v1(*arrays: np.ndarray, **attrs: Any) -> Any:
    """As BatchNorm, but ``var`` is the variance as given."""
    y = _batchnorm(*arrays, **attrs)
    return (*y[:2], arrays[4].copy()) if isinstance(y, tuple) else y


def _batchnorm_outputs(*, output_mean_var: bool, **attrs: Any) -> tuple[str, ...]:
    return ("output", "mean", "var") if output_mean_var else ("output",)


_INPUTS = "data gamma beta *moving_mean *moving_var"
_ATTRS = (
    "eps:double=0.001 momentum:float=0.9 fix_gamma:bool=True use_global_stats:bool=False "
    "output_mean_var:bool=False"
)
_CALIBRATION = " min_calib_range:float?=None max_calib_range:float?=None"

register(
    "BatchNorm",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    kind=Kind.NORM,
    infer=_infer_batchnorm,
    ref=_batchnorm,
    outputs=_batchnorm_outputs,
    doc="Normalise each channel with its stored mean and variance.",
)
register(
    "_contrib_BatchNormWithReLU",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    kind=Kind.HOST,
    infer=_infer_batchnorm,
    ref=_batchnorm_relu,
    outputs=_batchnorm_outputs,
    doc="BatchNorm, then negatives clamped to zero.",
)
register(
    "_contrib_SyncBatchNorm",
    _INPUTS,
    _ATTRS + " ndev:int=1 key:string!",
    kind=Kind.NORM,
    infer=_infer_batchnorm,
    ref=_batchnorm,
    outputs=_batchnorm_outputs,
    doc="BatchNorm over axis 1; the devices that it names matter in training only.",
)
register(
    "BatchNorm_v1",
    _INPUTS,
    _ATTRS,
    kind=Kind.HOST,
    infer=_infer_batchnorm,
    ref=_batchnorm_v1,
    outputs=_batchnorm_outputs,
    doc="The first BatchNorm: axis 1.",
)
