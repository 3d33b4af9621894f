"""Gradients of BatchNorm, by stored statistics and by those of the batch, on any builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...types import product
from ..algebra import add, as_shape, average, div, in_dtype, mul, scaled, sub, total, zeros_like
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..internal import BN_SCALE


def other_axes(ndim: int, axis: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(i for i in range(ndim) if i != axis % ndim)


def _centred(g: Builder[X], data: X, mean: X, inverse: X, axis: int) -> X:
    """(data - mean) * inverse, in single precision for float16."""
    like = g.type(mean)
    shape = tuple(-1 if i == axis else 1 for i in range(g.type(data).ndim))
    sizes = tuple(g.type(data).dims[i] if size < 0 else 1 for i, size in enumerate(shape))
    wide = in_dtype(g, data, like)
    return mul(g, sub(g, wide, as_shape(g, mean, sizes)), as_shape(g, inverse, sizes))


def _grad_normalised(
    g: Builder[X],
    ins: Sequence[X],
    x: X,
    inverse: X,
    dout: X,
    axis: int,
    fix_gamma: bool,
    live: bool,
) -> tuple[Reached[X], ...]:
    """What reaches data, gamma and beta; ``live`` when the statistics follow from the data.

    Ioffe and Szegedy 2015, section 3: dx = gamma inverse (d - mean(d) - x mean(d x)).
    """
    data, gamma, *_ = ins
    ndim = g.type(data).ndim
    axis %= ndim
    others = other_axes(ndim, axis)
    sizes = tuple(g.type(data).dims[axis] if i == axis else 1 for i in range(ndim))
    d = in_dtype(g, dout, g.type(inverse))
    product_of = mul(g, d, x)
    scale = inverse if fix_gamma else mul(g, inverse, gamma)
    if live:
        slope = mul(g, x, average(g, product_of, others))
        d_data = sub(g, sub(g, d, average(g, d, others)), slope)
    else:
        d_data = d
    d_data = mul(g, d_data, as_shape(g, scale, sizes))
    d_gamma = None if fix_gamma else total(g, product_of, others, keepdims=False)
    return d_data, d_gamma, total(g, d, others, keepdims=False), None, None


def grad_trained(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    fix_gamma: bool,
    output_mean_var: bool,
    axis: int = 1,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """Head gradients that a program gives the statistics count for nothing, as in MXNet.

    Where it cannot see them, what comes back to them is of this very rule, taken once more.
    """
    axis %= g.type(ins[0]).ndim
    x = _centred(g, ins[0], outs[1], outs[2], axis)
    found: Any = (None,) * 5
    if douts[0] is not None:
        found = _grad_normalised(g, ins, x, outs[2], douts[0], axis, fix_gamma, live=True)
    if output_mean_var or all(d is None for d in douts[1:]):
        return found
    more = _through_statistics(g, x, outs[2], douts[1:], axis)
    return (more if found[0] is None else add(g, found[0], more), *found[1:])


def _through_statistics(g: Builder[X], x: X, inverse: X, douts: Sequence[X | None], axis: int) -> X:
    """What reaches the data of the mean, 1 / deviation and variance, which follow from it.

    With n numbers in a channel 1 / n, -x inverse^2 / n and 2 x / (n inverse).
    """
    dims = g.type(x).dims
    sizes = tuple(size if i == axis else 1 for i, size in enumerate(dims))
    mean, deviation, var = (*douts, None, None)[:3]
    found = zeros_like(g, x)
    if mean is not None:
        found = add(g, found, as_shape(g, mean, sizes))
    if deviation is not None:
        factor = mul(g, deviation, mul(g, inverse, inverse))
        found = sub(g, found, mul(g, x, as_shape(g, factor, sizes)))
    if var is not None:
        factor = scaled(g, div(g, var, inverse), 2.0)
        found = add(g, found, mul(g, x, as_shape(g, factor, sizes)))
    return scaled(g, found, 1 / max(1, product(dims) // max(1, dims[axis])))


def grad_batchnorm(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    eps: float,
    fix_gamma: bool,
    axis: int = 1,
    **attrs: AttrValue,
) -> tuple[Reached[X], ...]:
    """The stored statistics are constants."""
    if douts[0] is None:
        return (None,) * 5
    inverse = g.op(BN_SCALE, ins[1], ins[4], at="invstd", eps=eps, fix_gamma=True)
    x = _centred(g, ins[0], ins[3], inverse, axis % g.type(ins[0]).ndim)
    return _grad_normalised(g, ins, x, inverse, douts[0], axis, fix_gamma, live=False)
