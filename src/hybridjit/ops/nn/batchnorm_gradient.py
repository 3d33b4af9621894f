"""Gradients of BatchNorm, by stored statistics and by those of the batch, on any builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from ..._core.frozen import dataclass
from ..._core.types import product
from ..algebra import add, as_shape, div, in_dtype, mul, scaled, sub, zeros_like
from ..attrs import AttrValue
from ..building import Builder, Many, Reached, X
from ..elementwise.binary import ADD
from ..internal import BN_SCALE
from ..record import OpDef
from ..tensor.moments import MOMENTS, SUMS_ABOUT
from ..tensor.reductions import MEAN, MEAN_SQUARE_ABOUT, SUM


def other_axes(ndim: int, axis: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(i for i in range(ndim) if i != axis % ndim)


def _over_samples(
    g: Builder[X], op: OpDef, inputs: tuple[X, ...], axis: int, at: str
) -> tuple[bool, tuple[X, ...]]:
    """Two statistics for each channel of each sample, so that several threads can compute.

    If the samples are along ``axis``, or the only other axis, the statistics are those of all
    samples, and the first result is True.
    """
    others = other_axes(g.type(inputs[0]).ndim, axis)
    if axis == 0 or len(others) == 1:
        return True, g.outputs(op, *inputs, at=at, axis=others, keepdims=True)
    return False, g.outputs(op, *inputs, at=at, axis=others[1:], keepdims=True)


def _join(g: Builder[X], op: OpDef, *of_samples: X, at: str) -> X:
    """Statistics of all samples from those of each sample."""
    return g.op(op, *of_samples, at=at, axis=(0,), keepdims=True)


def batch_moments(g: Builder[X], data: X, axis: int) -> tuple[X, X]:
    """Mean and biased variance of each channel, shaped to broadcast along the data.

    The variance is the mean of the samples' variances plus the variance of their means, because
    samples have equal sizes.
    """
    is_whole, (mean, var) = _over_samples(g, MOMENTS, (data,), axis, "moments")
    if is_whole:
        return mean, var
    joint = _join(g, MEAN, mean, at="mean")
    between = _join(g, MEAN_SQUARE_ABOUT, mean, joint, at="between")
    return joint, g.op(ADD.strict, _join(g, MEAN, var, at="within"), between, at="var")


@dataclass(frozen=True)
class _Channels(Generic[X]):
    """Data, in single precision for float16, and its statistics, shaped to broadcast."""

    x: X
    mean: X
    inverse: X
    axis: int

    @staticmethod
    def of(g: Builder[X], data: X, mean: X, inverse: X, axis: int) -> _Channels[X]:
        dims = g.type(data).dims
        sizes = tuple(size if i == axis else 1 for i, size in enumerate(dims))
        wide = in_dtype(g, data, g.type(mean))
        return _Channels(wide, as_shape(g, mean, sizes), as_shape(g, inverse, sizes), axis)

    def distance(self, g: Builder[X]) -> X:
        """data - mean."""
        return sub(g, self.x, self.mean)

    def normalised(self, g: Builder[X]) -> X:
        """(data - mean) * inverse."""
        return mul(g, self.distance(g), self.inverse)

    def sums(self, g: Builder[X], d: X) -> tuple[X, X]:
        """Sums for each channel of d and of d (data - mean), shaped to broadcast."""
        if g.type(d).ndim == 1:
            return d, mul(g, d, self.distance(g))
        operands = (d, self.x, self.mean)
        is_whole, (heads, products) = _over_samples(g, SUMS_ABOUT, operands, self.axis, "sums")
        if is_whole:
            return heads, products
        return _join(g, SUM, heads, at="heads"), _join(g, SUM, products, at="products")


def _grad_normalised(
    g: Builder[X],
    gamma: X,
    channels: _Channels[X],
    dout: X,
    fix_gamma: bool,
    live: bool,
) -> tuple[Reached[X], ...]:
    """Gradients with respect to data, gamma and beta; ``live`` if the statistics depend on the
    data.

    Ioffe and Szegedy 2015, section 3, with n elements per channel: dx = gamma inverse (d - sum(d) /
    n - (data - mean) inverse^2 sum(d (data - mean)) / n). Two sums for each channel and one pass:
    all other values have the size of gamma.
    """
    inverse, sizes = channels.inverse, g.type(channels.inverse).dims
    d = in_dtype(g, dout, g.type(inverse))
    heads, products = channels.sums(g, d)
    scale = inverse if fix_gamma else mul(g, inverse, as_shape(g, gamma, sizes))
    d_data = d
    if live:
        part = 1 / max(1, g.type(d).size // max(1, product(sizes)))
        slope = scaled(g, mul(g, mul(g, inverse, inverse), products), part)
        # Terms that depend on both sums are combined, so that one pass computes them.
        of_means = add(g, mul(g, channels.distance(g), slope), scaled(g, heads, part))
        d_data = sub(g, d, of_means)
    length = (product(sizes),)
    d_gamma = None if fix_gamma else as_shape(g, mul(g, products, inverse), length)
    return mul(g, d_data, scale), d_gamma, as_shape(g, heads, length), None, None


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
    """Output gradients of visible statistics are ignored, as in MXNet.

    If the statistics are not visible, their gradients come from this rule applied a second time.
    """
    axis %= g.type(ins[0]).ndim
    channels = _Channels.of(g, ins[0], outs[1], outs[2], axis)
    found: Any = (None,) * 5
    if douts[0] is not None:
        found = _grad_normalised(g, ins[1], channels, douts[0], fix_gamma, live=True)
    if output_mean_var or all(d is None for d in douts[1:]):
        return found
    x = channels.normalised(g)
    more = _through_statistics(g, x, outs[2], douts[1:], axis)
    return (more if found[0] is None else add(g, found[0], more), *found[1:])


def _through_statistics(g: Builder[X], x: X, inverse: X, douts: Sequence[X | None], axis: int) -> X:
    """Gradient with respect to the data through the mean, 1 / deviation and variance.

    With n elements per channel 1 / n, -x inverse^2 / n and 2 x / (n inverse).
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
    """Gradient for stored statistics, which are constants."""
    if douts[0] is None:
        return (None,) * 5
    inverse = g.op(BN_SCALE, ins[1], ins[4], at="invstd", eps=eps, fix_gamma=True)
    channels = _Channels.of(g, ins[0], ins[3], inverse, axis % g.type(ins[0]).ndim)
    return _grad_normalised(g, ins[1], channels, douts[0], fix_gamma, live=False)
