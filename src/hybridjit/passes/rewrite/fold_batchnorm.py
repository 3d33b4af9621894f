"""BatchNorm(conv(x, w)) -> conv(x, w'); elsewhere BatchNorm(x) -> x * scale + shift.

The folded weights are ordinary graph values that depend on parameters only, so ``hoist`` moves them
into the bind graph, and a changed parameter recomputes them. Two kinds of weights are not folded:
large weights that packing only copies, because the folded copy would be kept beside the parameter,
and weights that are not parameters, because every call would scale them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.types import FLOATS
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.moved_rows import WORTH_EVICTING
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.elementwise.binary import ADD, MULTIPLY, SUBTRACT
from ...ops.elementwise.unary import RSQRT
from ...ops.internal import BN_SCALE, BN_SHIFT
from ...ops.nn.batchnorm import BATCH_NORM
from ...ops.nn.convolution import CONVOLUTION
from ...ops.nn.matrix_products import FULLY_CONNECTED
from ...ops.tensor.primitives import reshape


def fold_batchnorm(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Remove every BatchNorm, except those with mixed element types."""
    return rewrite(graph, (fold_into_producer, to_scale_and_shift), fired)


@rule("BatchNorm(conv(x, w) + b)  =>  conv(x, w * scale) + (b - mean) * scale + beta", BATCH_NORM)
def fold_into_producer(value: Value, match: Match) -> Replacement:
    if not _is_plain(value) or match.graph.purpose.training:
        return None  # in training the weights change at every step
    layer = value.inputs[0].value
    if layer.op not in (CONVOLUTION, FULLY_CONNECTED) or not match.is_sole_use(0):
        return None
    if value.attrs["axis"] % len(value.shape) != _channel_axis(layer):
        return None
    data, weight, *bias = layer.inputs
    if _may_be_evicted(layer) or not match.is_fixed(weight):
        return None
    scale = _scale(value)
    sizes = (*scale.type.dims, *(1,) * (weight.type.ndim - 1))
    per_filter = reshape(building(value), scale, sizes, at="scale4")
    folded = building(layer).op(MULTIPLY.broadcasting, weight, per_filter, at="folded_weight")
    attrs = dict(layer.attrs) | {"no_bias": False}
    g = ValueBuilder(value.name, layer.source, layer.layer or layer.name)
    return g.op(layer.op, data, folded, _shift(value, bias), **attrs)


@rule("BatchNorm(x)  =>  x * scale + shift", BATCH_NORM)
def to_scale_and_shift(value: Value, match: Match) -> Replacement:
    if not _is_plain(value):
        return None
    axis = value.attrs["axis"] % len(value.shape)
    sizes = tuple(d if i == axis else 1 for i, d in enumerate(value.shape))
    g = building(value)
    is_live = not all(match.is_fixed(use) for use in value.inputs[1:])
    both = _live_factors(value) if is_live else (_scale(value), _shift(value, ()))
    scale, shift = (reshape(g, use, sizes, at=at) for use, at in zip(both, ("scale4", "shift4")))
    product = g.op(MULTIPLY.broadcasting, value.inputs[0], scale, at="scaled")
    return g.op(ADD.broadcasting, product, shift)


def _may_be_evicted(layer: Value) -> bool:
    """Whether the weights are large and packing only copies them: a scaled copy doubles the memory.

    Their outputs are scaled instead: not measurable beside hundreds of multiplications per output.
    """
    weight = layer.inputs[1]
    is_large = weight.type.nbytes >= WORTH_EVICTING and weight.value.op is None
    if not is_large or weight.type.dtype not in FLOATS:
        return False
    window, stride = (layer.attrs.get(name, ()) for name in ("kernel", "stride"))
    may_be_transformed = set(window) - {1} == {3} and set(stride) <= {1}
    return not may_be_transformed and layer.attrs.get("num_group", 1) == 1


def _is_plain(value: Value) -> bool:
    if value.op is not BATCH_NORM or len(value.types) > 1:
        return False
    return len({use.type.dtype for use in value.inputs}) == 1


def _channel_axis(layer: Value) -> int:
    if layer.op is FULLY_CONNECTED:
        return 1 if len(layer.shape) == 2 else -1
    layout = layer.attrs.get("layout")
    return 1 if layout is None or layout[1] == "C" else len(layer.shape) - 1


def _live_factors(value: Value) -> tuple[Use, Use]:
    """Scale and shift by kernels, for states that change from call to call."""
    g, (_, gamma, beta, mean, var) = building(value), value.inputs
    padded = g.op(ADD.scalar, var, at="padded", scalar=value.attrs["eps"])
    scale = g.op(RSQRT, padded, at="inverse")
    if not value.attrs["fix_gamma"]:
        scale = g.op(MULTIPLY.broadcasting, scale, gamma, at="scale")
    moved = g.op(MULTIPLY.broadcasting, mean, scale, at="moved")
    return scale, g.op(SUBTRACT.broadcasting, beta, moved, at="shift")


def _scale(value: Value) -> Use:
    _, gamma, _, _, var = value.inputs
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma")}
    return building(value).op(BN_SCALE, gamma, var, at="scale", **attrs)


def _shift(value: Value, bias: Sequence[Use]) -> Use:
    _, gamma, beta, mean, var = value.inputs
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma")}
    inputs = (beta, mean, gamma, var, *bias)
    return building(value).op(BN_SHIFT, *inputs, at="shift", num_args=len(inputs), **attrs)
