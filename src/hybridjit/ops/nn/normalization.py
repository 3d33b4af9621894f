"""Normalizations by statistics of the data.

Input: data, and scale and shift if the operator has them. Output: the data's type. Variances are
population variances; statistics are computed at least in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, merge, product
from ...errors import AttributeValueError, ShapeError
from ..algebra import average, div, in_single, mul, sub, total
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..casting import widened
from ..elementwise.binary import ADD, SUBTRACT
from ..elementwise.unary import SQRT, SQUARE
from ..record import Samples, Traits
from ..registry import register
from ..rules import (
    CHANNELS_FOLLOW,
    Types,
    fill,
    forward,
    merged,
    normalized_axis,
    reduced_axes,
    reduced_shape,
    refuse_bool,
    require_float,
    same_dtype,
)
from ..signatures import Arrays
from ..tensor.primitives import reshape
from ..tensor.reductions import MEAN
from .batchnorm import along, check_length, summed


def _scale_and_shift(
    what: str, ins: Types, outs: Types, length: int | None, owner: str
) -> tuple[Types, TensorType]:
    """Data merged with the output, gamma and beta of ``length`` elements; all dtypes are equal."""
    dtype = same_dtype(*ins, *outs)
    data = merge(ins[0], outs[0]).with_dtype(dtype) if outs else ins[0].with_dtype(dtype)
    require_float(what, data)
    for name, param in zip(("gamma", "beta"), ins[1:]):
        check_length(name, param.shape, length, owner)
    return (data, *(fill(p, (length,), dtype) for p in ins[1:])), data


def _mean(x: np.ndarray, axes: Shape) -> np.ndarray:
    """Mean with keepdims; NaN without a warning for no elements."""
    count = product(tuple(x.shape[a] for a in axes))
    return summed(x, axes) / x.dtype.type(count)


def _centred(x: np.ndarray, axes: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x - mean, the mean and the population variance."""
    mean = _mean(x, axes)
    centred = x - mean
    return centred, mean, _mean(np.square(centred), axes)


def _standardised(x: np.ndarray, axes: Shape, eps: float) -> tuple[np.ndarray, ...]:
    """(x - mean) / std, mean and std with keepdims; std = sqrt(variance + eps)."""
    centred, mean, variance = _centred(x, axes)
    std = np.sqrt(variance + x.dtype.type(eps))
    return centred / std, mean, std


def _with_statistics(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, dtype: np.dtype, wanted: bool
) -> Arrays:
    results = tuple(a.astype(dtype, copy=False) for a in (y, mean, std))
    return results if wanted else results[0]


def _mean_std_outputs(*, output_mean_var: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("output", "mean", "std") if output_mean_var else ("output",)


def _infer_layernorm(
    ins: Types, outs: Types, *, axis: int, output_mean_var: bool, **attrs: AttrValue
) -> tuple[Types, Types]:
    """gamma and beta have the length of ``axis``; mean and std keep that axis with size 1."""
    shape = merge(ins[0], outs[0]).shape if outs else ins[0].shape
    if shape is None:
        return ins, outs
    axis = normalized_axis(axis, len(shape), way=CHANNELS_FOLLOW)
    ins, data = _scale_and_shift(
        "LayerNorm", ins, outs, shape[axis], f"data has {shape[axis]} elements on axis {axis}"
    )
    reduced = data.with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
    return ins, merged(outs, (data, reduced, reduced) if output_mean_var else (data,))


def _layernorm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    axis: int,
    eps: float,
    output_mean_var: bool,
) -> Arrays:
    """(x - mean) / sqrt(variance + eps) * gamma + beta along ``axis``."""
    y, mean, std = _standardised(widened(data), (axis,), eps)
    y = y * along(gamma, data.ndim, axis) + along(beta, data.ndim, axis)
    return _with_statistics(y, mean, std, data.dtype, output_mean_var)


def _mean_and_variance(g: Builder[X], x: X, axes: Shape) -> tuple[X, X]:
    """Mean and variance over ``axes``, with keepdims."""
    mean = g.op(MEAN, x, at="mean", axis=axes, keepdims=True)
    squares = g.op(SQUARE, g.op(SUBTRACT.broadcasting, x, mean, at="centred"), at="squares")
    return mean, g.op(MEAN, squares, at="variance", axis=axes, keepdims=True)


def deviation(g: Builder[X], variance: X, eps: float) -> X:
    return g.op(SQRT, g.op(ADD.scalar, variance, at="kept", scalar=eps), at="std")


def _back_scaled(
    g: Builder[X], ins: Sequence[X], dout: X, sizes: Shape, axes: Shape, channel: int, eps: float
) -> tuple[Reached[X], ...]:
    """Gradients with respect to data, gamma and beta.

    ``axes`` of the data reshaped to ``sizes`` were normalized; gamma is along axis ``channel``.
    With x normalized and d its gradient, dx = (d - mean(d) - x mean(d x)) / std.
    """
    data, gamma, _ = ins
    others = tuple(i for i in range(len(sizes)) if i != channel)
    wide, d = (reshape(g, in_single(g, t), sizes) for t in (data, dout))
    mean, variance = _mean_and_variance(g, wide, axes)
    std = deviation(g, variance, eps)
    x = div(g, sub(g, wide, mean), std)

    def by_data() -> X:
        along_channel = tuple(n if i == channel else 1 for i, n in enumerate(sizes))
        scaled_d = mul(g, d, reshape(g, in_single(g, gamma), along_channel))
        slope = mul(g, x, average(g, mul(g, scaled_d, x), axes))
        found = sub(g, sub(g, scaled_d, average(g, scaled_d, axes)), slope)
        return reshape(g, div(g, found, std), g.type(data).dims)

    return (
        by_data,
        lambda: total(g, mul(g, d, x), others, keepdims=False),
        lambda: total(g, d, others, keepdims=False),
    )


def _grad_layer_norm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    axis: int,
    eps: float,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """Output gradients of the statistics are ignored, as in MXNet."""
    if douts[0] is None:
        return (None,) * 3
    sizes = g.type(ins[0]).dims
    axis %= len(sizes)
    return _back_scaled(g, ins, douts[0], sizes, (axis,), axis, eps)


def _grad_instance_norm(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, eps: float
) -> tuple[Reached[X], ...]:
    sizes = g.type(ins[0]).dims
    return _back_scaled(g, ins, douts[0], sizes, tuple(range(2, len(sizes))), 1, eps)


def _grad_group_norm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    num_groups: int,
    eps: float,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """Output gradients of the statistics are ignored, as in MXNet."""
    if douts[0] is None:
        return (None,) * 3
    batch, *rest = g.type(ins[0]).dims
    rows = (batch, num_groups, product(tuple(rest)) // num_groups)
    return _back_scaled(g, ins, douts[0], rows, (2,), 1, eps)


def _layer_norm_apart(
    g: Builder[X], data: X, gamma: X, beta: X, *, axis: int, eps: float, output_mean_var: bool
) -> tuple[X, ...] | None:
    """LayerNorm with statistics  =>  LayerNorm(x), mean(x), sqrt(variance + eps)"""
    if not output_mean_var:
        return None
    plain = g.op(LAYER_NORM, data, gamma, beta, axis=axis, eps=eps)
    mean, variance = _mean_and_variance(g, data, (axis % g.type(data).ndim,))
    return plain, mean, deviation(g, variance, eps)


LAYER_NORM = register(
    "LayerNorm",
    "data gamma beta",
    "axis:int=-1 eps:float=1e-05 output_mean_var:bool=False",
    kernel="norm",
    infer=_infer_layernorm,
    ref=_layernorm,
    expand=_layer_norm_apart,
    grad=_grad_layer_norm,
    traits=Traits(parts_in_floats=True, in_single=True, total_outputs=3, samples=Samples.AXIS),
    outputs=_mean_std_outputs,
    doc="Normalization along one axis, followed by scale and shift.",
)


def _check_images(what: str, shape: PartialShape) -> None:
    if len(shape) < 3:
        raise ShapeError(f"{what} only supports input tensors of rank >= 3, got {len(shape)}")


def _infer_instancenorm(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """gamma and beta per channel (axis 1)."""
    shape = merge(ins[0], outs[0]).shape if outs else ins[0].shape
    if shape is None:
        return ins, outs
    _check_images("InstanceNorm", shape)
    ins, data = _scale_and_shift(
        "InstanceNorm", ins, outs, shape[1], f"data has {shape[1]} channels on axis 1"
    )
    return ins, merged(outs, (data,))


def _instancenorm(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, *, eps: float
) -> np.ndarray:
    """Normalization of each channel of each sample over its spatial axes."""
    y = _standardised(widened(data), tuple(range(2, data.ndim)), eps)[0]
    y = y * along(gamma, data.ndim, 1) + along(beta, data.ndim, 1)
    return y.astype(data.dtype, copy=False)


INSTANCE_NORM = register(
    "InstanceNorm",
    "data gamma beta",
    "eps:float=0.001",
    kernel="norm",
    infer=_infer_instancenorm,
    ref=_instancenorm,
    grad=_grad_instance_norm,
    traits=Traits(in_single=True, total_outputs=3, samples=Samples.FIRST),
    doc="Normalization of each channel of each sample over its spatial axes.",
)


def _instance_norm_last(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, *, eps: float
) -> np.ndarray:
    y = _instancenorm(np.moveaxis(data, -1, 1), gamma, beta, eps=eps)
    return np.ascontiguousarray(np.moveaxis(y, 1, -1))


INSTANCE_NORM_LAST = register(
    "_instance_norm_last",
    "data gamma beta",
    "eps:float!",
    internal=True,
    kernel="norm",
    infer=forward(lambda data, gamma, beta, eps: data),
    ref=_instance_norm_last,
    traits=Traits(samples=Samples.FIRST),
    doc="InstanceNorm of data with channels last; created by the compiler only.",
)


def _infer_groupnorm(
    ins: Types, outs: Types, *, num_groups: int, output_mean_var: bool, **attrs: AttrValue
) -> tuple[Types, Types]:
    """gamma and beta per group; mean and std are (N, num_groups)."""
    shape = merge(ins[0], outs[0]).shape if outs else ins[0].shape
    if shape is None:
        return ins, outs
    _check_images("GroupNorm", shape)
    if num_groups < 1:
        raise AttributeValueError(f"num_groups must be at least 1, got {num_groups}")
    if shape[1] is not None and shape[1] % num_groups:
        raise ShapeError(
            f"num_groups must divide the channels, but {num_groups} does not divide {shape[1]}"
        )
    ins, data = _scale_and_shift(
        "GroupNorm", ins, outs, num_groups, f"GroupNorm has {num_groups} groups"
    )
    reduced = data.with_shape((shape[0], num_groups))
    return ins, merged(outs, (data, reduced, reduced) if output_mean_var else (data,))


def _groupnorm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    num_groups: int,
    eps: float,
    output_mean_var: bool,
) -> Arrays:
    """Normalization of each group of channels of each sample; one gamma and beta per group."""
    batch = data.shape[0]
    x = widened(data).reshape(batch, num_groups, product(data.shape[1:]) // num_groups)
    y, mean, std = _standardised(x, (2,), eps)
    y = (y * gamma[:, None] + beta[:, None]).reshape(data.shape)
    mean, std = (a.reshape(batch, num_groups) for a in (mean, std))
    return _with_statistics(y, mean, std, data.dtype, output_mean_var)


def _group_norm_apart(
    g: Builder[X],
    data: X,
    gamma: X,
    beta: X,
    *,
    num_groups: int,
    eps: float,
    output_mean_var: bool,
) -> tuple[X, ...] | None:
    """GroupNorm with statistics  =>  GroupNorm(x), mean and sqrt(variance + eps) of its rows"""
    if not output_mean_var:
        return None
    plain = g.op(GROUP_NORM, data, gamma, beta, num_groups=num_groups, eps=eps)
    batch, *rest = g.type(data).dims
    length = product(tuple(rest)) // num_groups
    rows = reshape(g, data, (batch, num_groups, length), at="rows")
    mean, variance = _mean_and_variance(g, rows, (2,))
    std = deviation(g, variance, eps)
    flat = (reshape(g, x, (batch, num_groups), at=str(i)) for i, x in enumerate((mean, std)))
    return (plain, *flat)


GROUP_NORM = register(
    "GroupNorm",
    "data gamma beta",
    "num_groups:int=1 eps:float=1e-05 output_mean_var:bool=False",
    kernel="norm",
    infer=_infer_groupnorm,
    ref=_groupnorm,
    expand=_group_norm_apart,
    grad=_grad_group_norm,
    traits=Traits(parts_in_floats=True, in_single=True, total_outputs=3, samples=Samples.FIRST),
    outputs=_mean_std_outputs,
    doc="Normalization of each group of channels; gamma and beta are per group.",
)


@forward
def _infer_moments(data: TensorType, *, axes: Shape | None, keepdims: bool) -> Types:
    """Mean and variance, each of the reduced shape."""
    refuse_bool(data)
    if not axes:
        raise AttributeValueError("Empty axes is not supported; pass all axes for global moments")
    shape = reduced_shape(data.dims, reduced_axes(data.ndim, axes), keepdims)
    return (data.with_shape(shape),) * 2


def _moments(data: np.ndarray, *, axes: Shape, keepdims: bool) -> tuple[np.ndarray, ...]:
    """Mean and population variance over ``axes``; for integers all steps wrap in their dtype."""
    reduced = reduced_axes(data.ndim, axes)
    shape = reduced_shape(data.shape, reduced, keepdims)
    if data.dtype.kind == "f":
        _, mean, variance = _centred(widened(data), reduced)
    else:
        mean = _whole_mean(data, reduced)
        variance = _whole_mean(np.square(data - mean), reduced)
    return tuple(a.reshape(shape).astype(data.dtype, copy=False) for a in (mean, variance))


def _whole_mean(data: np.ndarray, axes: Shape) -> np.ndarray:
    mean = MEAN.ref(data, axis=axes, keepdims=True, exclude=False)
    assert isinstance(mean, np.ndarray)
    return mean


def _moments_apart(g: Builder[X], data: X, *, axes: Shape, keepdims: bool) -> tuple[X, ...]:
    """moments(x)  =>  mean(x), mean((x - mean)^2)"""
    t = g.type(data)
    reduced = reduced_axes(t.ndim, axes)
    shape = reduced_shape(t.dims, reduced, keepdims)
    found = _mean_and_variance(g, data, reduced)
    return tuple(reshape(g, x, shape, at=str(i)) for i, x in enumerate(found))


register(
    "moments",
    "data",
    "axes:shape?=None keepdims:bool=False",
    infer=_infer_moments,
    ref=_moments,
    expand=_moments_apart,
    traits=Traits(parts_in_floats=True, names_data=True, flat_in_integers=True),
    outputs=("output0", "output1"),
    doc="Mean and variance over the given axes.",
)
