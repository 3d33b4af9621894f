"""BatchNorm at inference and in training, under its several names.

Input: data, gamma, beta and the stored mean and variance. Output: the data's type. gamma counts as
1 if fix_gamma is set; the caller writes ones to the buffer, not this reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product as combinations
from typing import Any

import numpy as np

from ..._core.types import (
    FLOAT32,
    FLOAT64,
    PartialShape,
    Shape,
    TensorType,
    merge,
    product,
    shape_text,
)
from ...errors import ShapeError
from ..algebra import add, scaled
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Made, Many, Reached, X, as_results
from ..casting import widened
from ..derivative import derivative
from ..elementwise.binary import ADD, MULTIPLY, SUBTRACT
from ..elementwise.unary import RELU, RSQRT
from ..internal import BN_SCALE
from ..record import OnStored, OpDef, Traits
from ..registry import register
from ..rules import CHANNELS_FOLLOW, Types, fill, merged, normalized_axis, require_float
from ..signatures import Arrays, Expansion, Gradient, Reference
from ..tensor.primitives import reshape
from .batchnorm_gradient import batch_moments, grad_batchnorm, grad_trained, other_axes

# Elements that an eager layer scales at a time (a core's second-level cache), and array size up to
# which three passes take no longer (shared cache).
_PIECE, _NEAR = 1 << 16, 1 << 20


def along(vector: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """``vector`` reshaped to broadcast along ``axis`` of an array of ``ndim`` axes."""
    return vector.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def summed(x: np.ndarray, axes: Shape) -> np.ndarray:
    """Sum in the array's dtype over axes, with keepdims.

    NumPy adds pairwise along the last axis, but sequentially along others, which in float32 has an
    error of 1e-4 for a mean of 70,000 equal values: then it adds in float64.
    """
    dtype = x.dtype if x.ndim - 1 in axes else FLOAT64
    return x.sum(axes, keepdims=True, dtype=dtype).astype(x.dtype, copy=False)


def check_length(name: str, found: PartialShape | None, length: int | None, owner: str) -> None:
    """Raise ShapeError unless a parameter has ``length`` elements, as ``owner`` requires."""
    if found is not None and None not in (*found, length) and found != (length,):
        raise ShapeError(f"{name} has shape {shape_text(found)}, {owner}")


def _infer_batchnorm(
    ins: Types, outs: Types, *, axis: int = 1, output_mean_var: bool, **attrs: AttrValue
) -> tuple[Types, Types]:
    """Output type of the data; parameters have one element per channel, float32 for float16
    data."""
    data = merge(ins[0], outs[0]) if outs else ins[0]
    require_float("BatchNorm", data)
    dtype = FLOAT32 if data.dtype == np.float16 else data.dtype
    per_channel: PartialShape = (None,)
    if data.shape is not None:
        axis = normalized_axis(axis, len(data.shape), "channel axis", CHANNELS_FOLLOW)
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
    **attrs: AttrValue,
) -> Arrays:
    """(data - mean) / sqrt(var + eps) * gamma + beta with the stored mean and variance.

    output_mean_var adds the mean and, as in MXNet, 1 / sqrt(var + eps) as ``var``.
    """
    inverse = 1 / np.sqrt(moving_var + moving_var.dtype.type(eps))
    scale = inverse if fix_gamma else inverse * gamma
    y = _on_channels(widened(data), moving_mean, scale, beta, axis).astype(data.dtype, copy=False)
    return (y, moving_mean.copy(), inverse) if output_mean_var else y


def _on_channels(
    x: np.ndarray, mean: np.ndarray, scale: np.ndarray, beta: np.ndarray, axis: int
) -> np.ndarray:
    """(x - mean) * scale + beta, chunk by chunk.

    8 images in ResNet-50's 53 layers take 76 ms, with three passes over memory 160.
    """
    y = np.empty(x.shape, np.result_type(x, mean))
    operands = [along(p, x.ndim, axis) for p in (mean, scale, beta)]
    for place in _chunks(x.shape):
        moved, factor, added = (p[_where_long(p, place)] for p in operands)
        part = np.subtract(x[place], moved, out=y[place])
        part *= factor
        part += added
    return y


def _chunks(shape: Shape) -> Iterator[tuple[slice, ...]]:
    """Slices of about ``_PIECE`` elements: rows of the first axis, or parts of rows of the
    second."""
    row = product(shape[1:])
    if shape[0] * row <= _NEAR:
        yield (slice(None),)
        return
    if row <= _PIECE:
        rows = _PIECE // row
        yield from ((slice(i, i + rows),) for i in range(0, shape[0], rows))
        return
    step = max(1, _PIECE // product(shape[2:]))
    for n, i in combinations(range(shape[0]), range(0, shape[1], step)):
        yield slice(n, n + 1), slice(i, i + step)


def _where_long(p: np.ndarray, place: tuple[slice, ...]) -> tuple[slice, ...]:
    """Slice of an operand that corresponds to a slice of the data."""
    return tuple(s if size > 1 else slice(None) for s, size in zip(place, p.shape))


def _batchnorm_relu(*arrays: np.ndarray, **attrs: Declared) -> Arrays:
    y = _batchnorm(*arrays, **attrs)
    if isinstance(y, tuple):
        return (np.maximum(y[0], 0), *y[1:])
    return np.maximum(y, 0)


def _batchnorm_v1(*arrays: np.ndarray, **attrs: Declared) -> Arrays:
    """BatchNorm, but ``var`` is the variance."""
    y = _batchnorm(*arrays, **attrs)
    return (*y[:2], arrays[4].copy()) if isinstance(y, tuple) else y


def _batchnorm_outputs(*, output_mean_var: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("output", "mean", "var") if output_mean_var else ("output",)


_INPUTS = "data gamma beta *moving_mean *moving_var"
_ATTRS = (
    "eps:double=0.001 momentum:float=0.9 fix_gamma:bool=True use_global_stats:bool=False "
    "output_mean_var:bool=False"
)
_SINGLE_ATTRS = _ATTRS.replace("eps:double", "eps:float")  # as MXNet declares it
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
    **attrs: Declared,
) -> X | tuple[X, ...]:
    """BatchNorm with statistics as outputs  =>  BatchNorm, mean, 1 / sqrt(variance + eps)"""
    kept = {key: attrs[key] for key in ("fix_gamma", "momentum", "use_global_stats")}
    axis %= g.type(data).ndim
    plain = g.op(BATCH_NORM, data, gamma, beta, mean, var, eps=eps, axis=axis, **kept)
    if not output_mean_var:
        return plain
    inverse = g.op(BN_SCALE, gamma, var, at="invstd", eps=eps, fix_gamma=True)
    return plain, mean, inverse


def _unless_single(g: Builder[X], *inputs: X, output_mean_var: bool, **attrs: Declared) -> Made[X]:
    """BatchNorm with statistics as outputs  =>  BatchNorm, mean, 1 / sqrt(variance + eps)"""
    if not output_mean_var:
        return None
    return _single_output(g, *inputs, output_mean_var=True, **attrs)


def _newer(g: Builder[X], *inputs: X, **attrs: Declared) -> Made[X]:
    """BatchNorm_v1(x)  =>  BatchNorm(x), mean, variance"""
    made = _single_output(g, *inputs, **{**attrs, "output_mean_var": False})
    (plain,) = as_results(made)
    return (plain, *inputs[3:]) if attrs["output_mean_var"] else plain


def _split_relu(g: Builder[X], *inputs: X, **attrs: AttrValue) -> Made[X]:
    """BatchNormWithReLU(x)  =>  relu(BatchNorm(x))"""
    keys = ("eps", "fix_gamma", "axis", "output_mean_var")
    plain, *rest = g.outputs(BATCH_NORM, *inputs, at="norm", **{k: attrs[k] for k in keys})
    positive = g.op(RELU, plain)
    return (positive, *rest) if rest else positive


def _statistics(data: np.ndarray, axis: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Mean and biased variance of each channel of the batch; float32 for float16 data.

    They are 0 for no elements.
    """
    others = other_axes(data.ndim, axis)
    count = dtype.type(max(1, product(tuple(data.shape[i] for i in others))))
    wide = data.astype(dtype, copy=False)
    mean = summed(wide, others) / count
    spread = summed(np.square(wide - mean), others) / count
    return mean.reshape(-1), spread.reshape(-1)


def _trained(*arrays: np.ndarray, axis: int = 1, **attrs: Declared) -> tuple[np.ndarray, ...]:
    """Normalization by the batch's statistics, which are further results."""
    data, gamma, beta, moving_mean, moving_var = arrays
    mean, var = _statistics(data, axis, moving_mean.dtype)
    y, *_ = as_results(_batchnorm(data, gamma, beta, mean, var, axis=axis, **attrs))
    inverse = 1 / np.sqrt(var + var.dtype.type(attrs["eps"]))
    return y, mean, inverse, var


def _from_reductions(
    g: Builder[X],
    data: X,
    gamma: X,
    beta: X,
    *moving: X,
    eps: float,
    fix_gamma: bool,
    axis: int = 1,
    **attrs: AttrValue,
) -> Made[X]:
    """BatchNorm in training(x)  =>  (x - mean) * scale + beta, by the mean and variance of x"""
    dims = g.type(data).dims
    axis %= len(dims)
    if len(dims) == 1:
        return None
    mean, var = batch_moments(g, data, axis)
    padded = g.op(ADD.scalar, var, at="padded", scalar=eps)
    inverse = g.op(RSQRT, padded, at="inverse")
    sizes = tuple(size if i == axis else 1 for i, size in enumerate(dims))
    scale = inverse
    if not fix_gamma:
        gamma = reshape(g, gamma, sizes, at="gamma")
        scale = g.op(MULTIPLY.broadcasting, inverse, gamma, at="scale")
    # x * scale + shift would lose precision if the mean is larger than the deviation.
    centred = g.op(SUBTRACT.broadcasting, data, mean, at="centred")
    spread = g.op(MULTIPLY.broadcasting, centred, scale, at="scaled")
    y = g.op(ADD.broadcasting, spread, reshape(g, beta, sizes, at="beta"))
    flat = {"flat_mean": mean, "flat_inverse": inverse, "flat_var": var}
    return y, *(reshape(g, each, (dims[axis],), at=at) for at, each in flat.items())


def _from_reductions_relu(g: Builder[X], *inputs: X, **attrs: Declared) -> Made[X]:
    """BatchNormWithReLU in training(x)  =>  relu((x - mean) * scale + beta)"""
    made = _from_reductions(g, *inputs, **attrs)
    return made and (g.op(RELU, made[0], at="relu"), *made[1:])


def _trained_relu(*arrays: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, ...]:
    y, *rest = _trained(*arrays, **attrs)
    return np.maximum(y, 0), *rest


def _grad_trained_relu(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X | None], **attrs: Declared
) -> tuple[Reached[X], ...]:
    """Gradient without relu, from the output gradient where the result is positive."""
    d = douts[0]
    if d is not None:
        d = g.op(derivative(RELU, 0), d, outs[0], at="positive")
    return grad_trained(g, ins, outs, (d, *douts[1:]), **attrs)


def _infer_trained(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    ins, found = _infer_batchnorm(ins, outs[:3], **{**attrs, "output_mean_var": True})
    return ins, merged(outs, (*found, found[2]))


def _moved(
    g: Builder[X], ins: Many[X], outs: Many[X], *, momentum: float, **attrs: AttrValue
) -> dict[int, X]:
    """moving = momentum moving + (1 - momentum) batch, with the biased variance.

    An empty batch changes nothing, as in MXNet.
    """
    if 0 in g.type(ins[0]).dims:
        return {3: ins[3], 4: ins[4]}

    def moved(old: X, new: X) -> X:
        return add(g, scaled(g, old, momentum), scaled(g, new, 1 - momentum))

    return {3: moved(ins[3], outs[1]), 4: moved(ins[4], outs[3])}


def _trained_v1(*arrays: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, ...]:
    """BatchNorm in training; the third result is the variance."""
    y, mean, inverse, var = _trained(*arrays, **attrs)
    return y, mean, var, inverse


def _grad_trained_v1(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[Reached[X], ...]:
    y, mean, var, inverse = outs
    dy, dmean, dvar, dinverse = (*douts, None, None, None)[:4]
    return grad_trained(g, ins, (y, mean, inverse, var), (dy, dmean, dinverse, dvar), **attrs)


def _moved_v1(g: Builder[X], ins: Many[X], outs: Many[X], **attrs: Declared) -> dict[int, X]:
    y, mean, var, inverse = outs
    return _moved(g, ins, (y, mean, inverse, var), **attrs)


_TRAINED: dict[str, OpDef] = {}


def _in_training(name: str) -> Callable[[Attrs], OpDef | None]:
    """Operator that replaces BatchNorm in training; None if it uses the stored statistics."""
    return lambda attrs: None if attrs["use_global_stats"] else _TRAINED[name]


_TRAITS = Traits(
    in_single=True,
    total_outputs=3,
    initial={"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'},
    training=_in_training("BatchNorm"),
    on_stored=OnStored.LEARNED_GAMMA,
)


def _from_reductions_v1(g: Builder[X], *inputs: X, **attrs: Declared) -> Made[X]:
    """BatchNorm_v1 in training(x)  =>  (x - mean) * scale + beta"""
    made = _from_reductions(g, *inputs, **attrs)
    return made and (*made[:2], made[3], made[2])


_RESULTS = ("output", "mean", "invstd", "var")


def _register_trained(
    name: str,
    ref: Reference,
    expand: Expansion,
    grad: Gradient,
    updates: Callable[..., Any] = _moved,
    outputs: tuple[str, ...] = _RESULTS,
) -> None:
    _TRAINED[name] = register(
        f"_{name}_training",
        _INPUTS,
        _ATTRS + " axis:int=1" + _CALIBRATION,
        internal=True,
        infer=_infer_trained,
        ref=ref,
        expand=expand,
        grad=grad,
        outputs=outputs,
        traits=Traits(in_single=True, parts_in_floats=True, updates=updates),
        doc=f"{name} with the mean and variance of the batch.",
    )


_register_trained("BatchNorm", _trained, _from_reductions, grad_trained)
_register_trained("BatchNormWithReLU", _trained_relu, _from_reductions_relu, _grad_trained_relu)
_register_trained(
    "BatchNorm_v1",
    _trained_v1,
    _from_reductions_v1,
    _grad_trained_v1,
    _moved_v1,
    ("output", "mean", "var", "invstd"),
)

BATCH_NORM = register(
    "BatchNorm",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    infer=_infer_batchnorm,
    ref=_batchnorm,
    grad=grad_batchnorm,
    expand=_unless_single,
    outputs=_batchnorm_outputs,
    traits=_TRAITS,
    doc="Normalize each channel by its stored mean and variance.",
)
register(
    "_contrib_BatchNormWithReLU",
    _INPUTS,
    _ATTRS + " axis:int=1" + _CALIBRATION,
    infer=_infer_batchnorm,
    ref=_batchnorm_relu,
    expand=_split_relu,
    outputs=_batchnorm_outputs,
    traits=replace(_TRAITS, total_outputs=4, training=_in_training("BatchNormWithReLU")),
    doc="BatchNorm followed by relu.",
)
register(
    "_contrib_SyncBatchNorm",
    _INPUTS,
    _SINGLE_ATTRS + " ndev:int=1 key:string!",
    infer=_infer_batchnorm,
    ref=_batchnorm,
    expand=_single_output,
    grad=grad_batchnorm,
    outputs=_batchnorm_outputs,
    traits=replace(_TRAITS, training=_in_training("BatchNorm_v1")),
    doc="BatchNorm over axis 1; in training the third result is the variance.",
)
register(
    "BatchNorm_v1",
    _INPUTS,
    _SINGLE_ATTRS,
    infer=_infer_batchnorm,
    ref=_batchnorm_v1,
    expand=_newer,
    outputs=_batchnorm_outputs,
    traits=replace(_TRAITS, training=_in_training("BatchNorm_v1")),
    doc="BatchNorm of old files: axis 1.",
)
