"""Sums of parts: sum over an axis that splits the channels -> sum of slices of the channels.

ResNeSt adds weighted groups of channels: it splits the channel axis in two and sums over the first
part. A tensor of five axes is not an image, so the channels-last region would end before the sum
and begin again after it.
"""

from __future__ import annotations

from ..._core.types import FLOAT32, Shape
from ...ir.building import building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.nn.convolution import CONVOLUTION
from ...ops.registry import lookup
from ...ops.rules import reduced_axes
from ...ops.tensor.primitives import RESHAPE_TO, narrow, reshape
from ...ops.tensor.reductions import SUM

# The maximal number of slices: each is read by a separate load.
_MOST = 4
_ADD, _PRODUCT = map(lookup, ("elemwise_add", "broadcast_mul"))


def sum_channel_groups(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Replace sums over groups of a convolution's channels by sums of slices."""
    if not any(value.op is CONVOLUTION for value in graph.values):
        return graph
    return rewrite(graph, (sum_of_parts,), fired)


@rule("sum(_reshape_to(x, (n, parts, c, ...)), 1)  =>  x[:, :c] + x[:, c:2c] + ...", SUM)
def sum_of_parts(value: Value, match: Match) -> Replacement:
    (data,) = value.inputs
    shape, attrs = data.type.dims, value.attrs
    axes = reduced_axes(len(shape), attrs["axis"], attrs["exclude"])
    if axes != (1,) or attrs["keepdims"] or len(shape) < 4 or not 1 < shape[1] <= _MOST:
        return None
    factors = _factors(data, match)
    if value.type.dtype != FLOAT32 or not any(_is_picture(use, shape) for use in factors):
        return None
    joined = [_joined(value, use, f"channels{i}") for i, use in enumerate(factors)]
    g = building(value)
    total, *terms = (_term(value, joined, number) for number in range(shape[1]))
    for number, term in enumerate(terms):
        total = g.op(_ADD, total, term, at=f"sum{number}")
    return total


def _factors(data: Use, match: Match) -> tuple[Use, ...]:
    """The operands of a product that only the sum reads; the value itself if it is not a
    product."""
    dims, inputs = data.type.dims, data.value.inputs
    if data.value.op is not _PRODUCT or not match.is_sole_use(0):
        return (data,)
    alike = all(len(u.type.dims) == len(dims) and u.type.dims[:3] == dims[:3] for u in inputs)
    return inputs if alike else (data,)


def _is_picture(use: Use, shape: Shape) -> bool:
    """Whether these are all channels of the result of a convolution, in groups."""
    value = use.value
    if value.op is not RESHAPE_TO or value.shape != shape:
        return False
    source = value.inputs[0]
    if source.type.dims != _of_channels(shape):
        return False
    layer = source.value
    while layer.inputs and layer.op is not None and layer.op.is_pointwise:
        layer = layer.inputs[0].value
    return layer.op is CONVOLUTION


def _of_channels(shape: Shape) -> Shape:
    return (shape[0], shape[1] * shape[2], *shape[3:])


def _joined(value: Value, use: Use, at: str) -> Use:
    """An operand with the channels in one axis: the unsplit value if it was split."""
    shape = _of_channels(use.type.dims)
    if use.value.op is RESHAPE_TO and use.value.inputs[0].type.dims == shape:
        return use.value.inputs[0]
    return reshape(building(value), use, shape, at=at)


def _term(value: Value, joined: list[Use], number: int) -> Use:
    """Slice ``number`` of the channels, or the product of both operands' slices."""
    g, size, end = building(value), value.shape[1], f"{number}"
    first, *rest = (
        narrow(g, use, 1, number * size, size, at=f"{'xw'[i]}{end}") for i, use in enumerate(joined)
    )
    return g.op(_PRODUCT, first, *rest, at=f"term{end}") if rest else first
