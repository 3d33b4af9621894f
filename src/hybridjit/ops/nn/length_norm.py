"""L2Normalization and local response normalization.

Input: data. Output: the data's type. Squares are summed at least in float32.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, merge, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..algebra import div, in_single, mul, scaled, shifted, sub, total
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import widened
from ..elementwise.unary import SQUARE
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged, require_float
from ..tensor.primitives import reshape
from .normalization import deviation
from .pooling import POOLING


def _infer_l2(ins: Types, outs: Types, *, mode: str, **attrs: AttrValue) -> tuple[Types, Types]:
    data = merge(ins[0], outs[0]) if outs else ins[0]
    require_float("L2Normalization", data)
    if data.shape is not None and mode != "instance" and len(data.shape) < 3:
        raise ShapeError(
            f"at least 3 dimensions required in {mode} mode, got {shape_text(data.shape)}"
        )
    return (data,), merged(outs, (data,))


def _axes_of_length(mode: str, ndim: int) -> Shape:
    """Axes of the norm: each sample, the channels, or the spatial axes."""
    axes = {"instance": range(1, ndim), "channel": (1,), "spatial": range(2, ndim)}
    return tuple(axes[mode])


def _l2_normalization(data: np.ndarray, *, eps: float, mode: str) -> np.ndarray:
    """x / sqrt(sum of x^2 + eps)."""
    x = widened(data)
    squares = np.square(x).sum(axis=_axes_of_length(mode, data.ndim), keepdims=True)
    return (x / np.sqrt(squares + x.dtype.type(eps))).astype(data.dtype, copy=False)


def _grad_l2(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, eps: float, mode: str
) -> X:
    """(d - y sum(d y)) / length"""
    x, d = in_single(g, ins[0]), in_single(g, douts[0])
    axes = _axes_of_length(mode, g.type(x).ndim)
    length = deviation(g, total(g, g.op(SQUARE, x, at="squares"), axes), eps)
    y = div(g, x, length)
    return div(g, sub(g, d, mul(g, y, total(g, mul(g, d, y), axes))), length)


L2_NORMALIZATION = register(
    "L2Normalization",
    "data",
    "eps:float=1e-10 mode:channel|instance|spatial=instance",
    kernel="norm",
    infer=_infer_l2,
    ref=_l2_normalization,
    grad=_grad_l2,
    traits=Traits(in_single=True, names_data=True, total_outputs=2, samples=Samples.FIRST),
    doc="Data divided by the Euclidean norm of each sample, pixel or channel.",
)


def _infer_lrn(ins: Types, outs: Types, *, nsize: int, **attrs: AttrValue) -> tuple[Types, Types]:
    data = merge(ins[0], outs[0]) if outs else ins[0]
    require_float("LRN", data)
    if nsize < 1:
        raise AttributeValueError(f"nsize must be at least 1, got {nsize}")
    if data.shape is not None and len(data.shape) not in (2, 4):
        raise ShapeError(f"LRN needs 4D or 2D data, got {shape_text(data.shape)}")
    return (data,), merged(outs, (data,))


def _lrn(data: np.ndarray, *, alpha: float, beta: float, knorm: float, nsize: int) -> np.ndarray:
    """x * (knorm + alpha / nsize * sum of x^2)^-beta over neighbouring channels, clipped at
    borders.

    The window is symmetric: an even nsize has the window of the next smaller odd one.
    """
    x = widened(data)
    square = np.square(x)
    channels = x.shape[1]
    reach = min((nsize - 1) // 2, channels - 1)
    total = np.zeros_like(x)
    for offset in range(-reach, reach + 1):
        low, high = max(0, -offset), min(channels, channels - offset)
        total[:, low:high] += square[:, low + offset : high + offset]
    scale = x.dtype.type(knorm) + x.dtype.type(alpha / nsize) * total
    return (x * scale ** x.dtype.type(-beta)).astype(data.dtype, copy=False)


def _sum_around(g: Builder[X], x: X, nsize: int) -> X:
    """Sum over the neighbouring channels of each one: Pooling with channels as rows."""
    batch, channels, *inner = dims = g.type(x).dims
    reach = min((nsize - 1) // 2, channels - 1)
    rows = reshape(g, x, (batch, 1, channels, product(tuple(inner))), at="rows")
    kernel, pad = (2 * reach + 1, 1), (reach, 0)
    summed = g.op(POOLING, rows, at="around", pool_type="sum", kernel=kernel, pad=pad)
    return reshape(g, summed, dims)


def _grad_lrn(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    alpha: float,
    beta: float,
    knorm: float,
    nsize: int,
) -> X:
    """d s^-beta - 2 alpha beta / nsize x sum(d x s^(-beta - 1)) over neighbouring channels.

    The result is divided by s to the power beta.
    """
    x, d, power = in_single(g, ins[0]), in_single(g, douts[0]), lookup("_power_scalar")
    energy = _sum_around(g, g.op(SQUARE, x, at="squares"), nsize)
    s = shifted(g, scaled(g, energy, alpha / nsize), knorm)
    own = mul(g, d, g.op(power, s, at="power", scalar=-beta))
    around = _sum_around(g, div(g, mul(g, own, x), s), nsize)
    return sub(g, own, scaled(g, mul(g, x, around), 2 * alpha * beta / nsize))


LRN = register(
    "LRN",
    "data",
    "alpha:float=0.0001 beta:float=0.75 knorm:float=2 nsize:int!",
    kernel="lrn",
    infer=_infer_lrn,
    ref=_lrn,
    grad=_grad_lrn,
    traits=Traits(in_single=True, names_data=True, total_outputs=2, samples=Samples.FIRST),
    doc="Data divided by a power of the energy of neighbouring channels.",
)


LRN_LAST = register(
    "_lrn_last",
    "data",
    "alpha:float! beta:float! knorm:float! nsize:int!",
    internal=True,
    kernel="lrn",
    infer=forward(lambda data, **attrs: data),
    ref=lambda data, **attrs: np.ascontiguousarray(
        np.moveaxis(_lrn(np.moveaxis(data, -1, 1), **attrs), 1, -1)
    ),
    traits=Traits(samples=Samples.FIRST),
    doc="LRN of data with channels last; created by the compiler only.",
)
