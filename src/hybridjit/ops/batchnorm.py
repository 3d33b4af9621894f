"""BatchNorm at inference, under its several names.

In: data, gamma, beta and the stored mean and variance. Out: the data's type. gamma counts as 1
when fix_gamma is set; whoever owns the buffer writes the ones into it, not this reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..types import FLOAT32, PartialShape, TensorType, merge, shape_text
from .building import Builder, X
from .casting import widened
from .internal import BN_SCALE
from .pointwise import RELU
from .record import Operands, Traits
from .registry import register
from .rules import Types, fill, merged, normalized_axis, require_float


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


def _single_output(
    g: Builder[X],
    data: X,
    gamma: X,
    beta: X,
    mean: X,
    var: X,
    *,
    eps: float,
    output_mean_var: bool,
    axis: int = 1,
    **attrs: Any,
) -> Any:
    """BatchNorm with statistics as outputs  =>  BatchNorm, mean, 1 / sqrt(variance + eps)"""
    kept = {key: attrs[key] for key in ("fix_gamma", "momentum", "use_global_stats")}
    axis %= g.type(data).ndim
    plain = g.op(BATCH_NORM, data, gamma, beta, mean, var, eps=eps, axis=axis, **kept)
    if not output_mean_var:
        return plain
    inverse = g.op(BN_SCALE, gamma, var, at="invstd", eps=eps, fix_gamma=True)
    return plain, mean, inverse


def _unless_single(g: Builder[X], *inputs: X, output_mean_var: bool, **attrs: Any) -> Any:
    """BatchNorm with statistics as outputs  =>  BatchNorm, mean, 1 / sqrt(variance + eps)"""
    if not output_mean_var:
        return None
    return _single_output(g, *inputs, output_mean_var=True, **attrs)


def _newer(g: Builder[X], *inputs: X, **attrs: Any) -> Any:
    """BatchNorm_v1(x)  =>  BatchNorm(x), mean, variance"""
    plain = _single_output(g, *inputs, **{**attrs, "output_mean_var": False})
    return (plain, *inputs[3:]) if attrs["output_mean_var"] else plain


def _split_relu(g: Builder[X], *inputs: X, **attrs: Any) -> Any:
    """BatchNormWithReLU(x)  =>  relu(BatchNorm(x))"""
    keys = ("eps", "fix_gamma", "axis", "output_mean_var")
    plain, *rest = g.outputs(BATCH_NORM, *inputs, at="norm", **{k: attrs[k] for k in keys})
    positive = g.op(RELU, plain)
    return (positive, *rest) if rest else positive


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


_TRAITS = Traits(
    in_single=True,
    total_outputs=3,
    initial={"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'},
    training=_with_batch_statistics,
)

BATCH_NORM = register(
    "BatchNorm",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    infer=_infer_batchnorm,
    ref=_batchnorm,
    expand=_unless_single,
    outputs=_batchnorm_outputs,
    traits=_TRAITS,
    doc="Normalise each channel with its stored mean and variance.",
)
register(
    "_contrib_BatchNormWithReLU",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    infer=_infer_batchnorm,
    ref=_batchnorm_relu,
    expand=_split_relu,
    outputs=_batchnorm_outputs,
    traits=replace(_TRAITS, total_outputs=4),
    doc="BatchNorm, then negatives clamped to zero.",
)
register(
    "_contrib_SyncBatchNorm",
    _INPUTS,
    _ATTRS + " ndev:int=1 key:string!",
    infer=_infer_batchnorm,
    ref=_batchnorm,
    expand=_single_output,
    outputs=_batchnorm_outputs,
    traits=_TRAITS,
    doc="BatchNorm over axis 1; the devices that it names matter in training only.",
)
register(
    "BatchNorm_v1",
    _INPUTS,
    _ATTRS,
    infer=_infer_batchnorm,
    ref=_batchnorm_v1,
    expand=_newer,
    outputs=_batchnorm_outputs,
    traits=_TRAITS,
    doc="The first BatchNorm: axis 1.",
)
