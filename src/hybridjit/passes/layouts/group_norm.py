"""Group normalization of data with channels last.

A group of adjacent channels is a row in MXNet's order of axes only. With channels last, moments of
each channel are joined to those of its group, so that a region does not end at the normalization,
and the scaling is fused with its neighbours.
"""

from __future__ import annotations

from ..._core.types import Shape
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.algebra import add, average, mul, shifted, sub
from ...ops.elementwise.unary import RSQRT
from ...ops.nn.normalization import GROUP_NORM, INSTANCE_NORM
from ...ops.tensor.moments import MOMENTS
from ...ops.tensor.primitives import RESHAPE_TO, broadcast, reshape


def name_group_norms(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace instance normalization of reshaped groups, as PyTorch exports it, by GroupNorm."""
    if not any(value.op is INSTANCE_NORM for value in graph.values):
        return graph
    return rewrite(graph, (norm_of_groups,), fired)


@rule(
    "reshape(InstanceNorm(reshape(x, (n, groups, ...))), x.shape)  =>  GroupNorm(x, groups)",
    RESHAPE_TO,
)
def norm_of_groups(value: Value, match: Match) -> Replacement:
    """The scale and the shift of InstanceNorm's channels are those of groups."""
    normed = value.inputs[0].value
    if normed.op is not INSTANCE_NORM or normed.inputs[0].value.op is not RESHAPE_TO:
        return None
    (data,), (_, gamma, beta) = normed.inputs[0].value.inputs, normed.inputs
    shape, (batch, groups, *_) = data.type.dims, normed.shape
    if shape != value.shape or len(shape) < 3 or shape[0] != batch or not match.is_sole_use(0):
        return None
    if not isinstance(shape[1], int) or not isinstance(groups, int) or shape[1] % groups:
        return None
    eps = normed.attrs["eps"]
    return building(normed).op(GROUP_NORM, data, gamma, beta, num_groups=groups, eps=eps)


def group_norm_last(value: Value, last: Use, gamma: Use, beta: Use) -> Use | None:
    """GroupNorm of the data ``last``, whose channels are last; None with statistics as results."""
    if value.attrs["output_mean_var"]:
        return None
    g, dims, groups = building(value), last.type.dims, value.attrs["num_groups"]
    batch, channels = dims[0], dims[-1]
    rows: Shape = (batch, groups, channels // groups)
    mean, variance = _of_groups(g, last, rows)
    factor = g.op(RSQRT, shifted(g, variance, value.attrs["eps"]), at="factor")
    factor = mul(g, factor, reshape(g, gamma, (1, groups, 1), at="gamma"))

    def of_channels(x: Use, at: str) -> Use:
        wide = broadcast(g, x, (x.type.dims[0], *rows[1:]))
        ones = (1,) * (len(dims) - 2)
        return reshape(g, wide, (x.type.dims[0], *ones, channels), at=at)

    scaled = mul(g, sub(g, last, of_channels(mean, "means")), of_channels(factor, "factors"))
    return add(g, scaled, of_channels(reshape(g, beta, (1, groups, 1), at="beta"), "shifts"))


def _of_groups(g: ValueBuilder, last: Use, rows: Shape) -> tuple[Use, Use]:
    """Mean and variance of [batch, groups, 1].

    The variance of a group is the mean of its channels' variances and the variance of their means.
    """
    places = tuple(range(1, last.type.ndim - 1))
    moments = g.outputs(MOMENTS, last, at="channels", axis=places, keepdims=False)
    means, spreads = (reshape(g, x, rows, at=str(i)) for i, x in enumerate(moments))
    mean, spread = g.outputs(MOMENTS, means, at="groups", axis=(2,), keepdims=True)
    return mean, add(g, spread, average(g, spreads, (2,)))
