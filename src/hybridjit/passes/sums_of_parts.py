"""Sums of parts: channels that are split in a few parts, which are added, stay channels.

ResNeSt adds what its groups of channels make, weighted: it splits the axis of channels in two and
sums over the first. A tensor of five axes is no picture, so the region with channels last would end
before it and begin again behind it.
"""

from __future__ import annotations

from ..ir.building import building
from ..ir.graph import Graph, Use, Value
from ..ir.rewrite import Match, Replacement, rewrite, rule
from ..ops.nn.convolution import CONVOLUTION
from ..ops.registry import lookup
from ..ops.rules import reduced_axes
from ..ops.tensor.primitives import RESHAPE_TO, narrow, reshape
from ..ops.tensor.reductions import SUM
from ..types import FLOAT32, Shape

# The most parts: each is read by a load of its own.
_MOST = 4
_ADD, _PRODUCT = map(lookup, ("elemwise_add", "broadcast_mul"))


def add_parts(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with no sum over parts of the channels of what a convolution makes."""
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
    """The operands of a product that only the sum reads; the value itself where it is none."""
    dims, inputs = data.type.dims, data.value.inputs
    if data.value.op is not _PRODUCT or not match.is_sole_use(0):
        return (data,)
    alike = all(len(u.type.dims) == len(dims) and u.type.dims[:3] == dims[:3] for u in inputs)
    return inputs if alike else (data,)


def _is_picture(use: Use, shape: Shape) -> bool:
    """Whether these are all channels of what a convolution makes, in parts."""
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
    """An operand with one axis of channels: what was split, if it had them."""
    shape = _of_channels(use.type.dims)
    if use.value.op is RESHAPE_TO and use.value.inputs[0].type.dims == shape:
        return use.value.inputs[0]
    return reshape(building(value), use, shape, at=at)


def _term(value: Value, joined: list[Use], number: int) -> Use:
    """Part ``number`` of the channels, or the product of both operands' parts."""
    g, size, end = building(value), value.shape[1], f"{number}"
    first, *rest = (
        narrow(g, use, 1, number * size, size, at=f"{'xw'[i]}{end}") for i, use in enumerate(joined)
    )
    return g.op(_PRODUCT, first, *rest, at=f"term{end}") if rest else first
