"""BatchNorm folds into the convolution or dense layer before it; elsewhere it is scale and shift.

The folded weights are ordinary graph values that depend on parameters alone, so ``hoist`` moves
them into the bind graph and they are computed again when a parameter changes. Large weights that
packing only moves stay as they are, for those need not be kept twice.
"""

from __future__ import annotations

from ..ir.graph import Graph, Use, Value, make
from ..ir.moved_rows import WORTH_LENDING
from ..ir.rewrite import Match, Replacement, rewrite, rule
from ..types import FLOAT32, FLOAT64
from .moves import reshaped


def fold_batchnorm(graph: Graph, fired: list[str] | None = None) -> Graph:
    """No BatchNorm is left afterwards, but those whose element types differ."""
    return rewrite(graph, (fold_into_producer, to_scale_and_shift), fired)


@rule("BatchNorm(conv(x, w) + b)  =>  conv(x, w * scale) + (b - mean) * scale + beta")
def fold_into_producer(value: Value, match: Match) -> Replacement:
    if not _is_plain(value):
        return None
    layer = value.inputs[0].value
    if not layer.is_op("Convolution", "FullyConnected") or not match.is_sole_use(0):
        return None
    if value.attrs["axis"] % len(value.shape) != _channel_axis(layer):
        return None
    if _may_be_lent(layer):
        return None
    weight = layer.inputs[1]
    scale = _scale(value)
    per_filter = reshaped(
        Use(scale), (scale.shape[0], *(1,) * (weight.type.ndim - 1)), f"{value.name}:scale4"
    )
    folded = make("broadcast_mul", f"{layer.name}:folded_weight", [weight, per_filter])
    shift = _shift(value, layer.inputs[2:])
    attrs = dict(layer.attrs) | {"no_bias": False}
    inputs = [layer.inputs[0], Use(folded), Use(shift)]
    return Use(make(layer.op.name, value.name, inputs, layer.source, **attrs))  # type: ignore[union-attr]


@rule("BatchNorm(x)  =>  x * scale + shift")
def to_scale_and_shift(value: Value, match: Match) -> Replacement:
    if not _is_plain(value):
        return None
    axis = value.attrs["axis"] % len(value.shape)
    sizes = tuple(d if i == axis else 1 for i, d in enumerate(value.shape))
    scale = reshaped(Use(_scale(value)), sizes, f"{value.name}:scale4")
    shift = reshaped(Use(_shift(value, ())), sizes, f"{value.name}:shift4")
    product = make("broadcast_mul", f"{value.name}:scaled", [value.inputs[0], scale], value.source)
    return Use(make("broadcast_add", value.name, [Use(product), shift], value.source))


def _may_be_lent(layer: Value) -> bool:
    """Whether the weights are large, and packing only moves them: scaled, they are kept twice.

    Then the outputs are scaled: not measurable beside hundreds of multiplications for each.
    """
    weight = layer.inputs[1]
    is_large = weight.type.nbytes >= WORTH_LENDING and weight.value.op is None
    if not is_large or weight.type.dtype not in (FLOAT32, FLOAT64):
        return False
    window, stride = (layer.attrs.get(name, ()) for name in ("kernel", "stride"))
    may_be_transformed = set(window) - {1} == {3} and set(stride) <= {1}
    return not may_be_transformed and layer.attrs.get("num_group", 1) == 1


def _is_plain(value: Value) -> bool:
    if not value.is_op("BatchNorm") or len(value.types) > 1:
        return False
    return len({use.type.dtype for use in value.inputs}) == 1


def _channel_axis(layer: Value) -> int:
    if layer.is_op("FullyConnected"):
        return 1 if len(layer.shape) == 2 else -1
    layout = layer.attrs.get("layout")
    return 1 if layout is None or layout[1] == "C" else len(layer.shape) - 1


def _scale(value: Value) -> Value:
    _, gamma, _, _, var = value.inputs
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma")}
    return make("_bn_scale", f"{value.name}:scale", [gamma, var], **attrs)


def _shift(value: Value, bias: tuple[Use, ...]) -> Value:
    _, gamma, beta, mean, var = value.inputs
    attrs = {k: value.attrs[k] for k in ("eps", "fix_gamma")}
    inputs = [beta, mean, gamma, var, *bias]
    return make("_bn_shift", f"{value.name}:shift", inputs, num_args=len(inputs), **attrs)
