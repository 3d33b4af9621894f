"""On rows: pointwise operators move in front of the reshape behind a product.

A product's kernel ends in a store that can compute more first, but only on the product's own
shape: two axes of a dense layer, three of ``batch_dot``.
"""

from __future__ import annotations

from ..ir.building import building
from ..ir.graph import Graph, Use, Value
from ..ir.rewrite import Match, Replacement, rewrite, rule
from ..ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..ops.tensor.primitives import RESHAPE_TO, reshape
from ..types import Shape


def move_to_rows(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph with pointwise operators on the rows of products."""
    return rewrite(graph, (pointwise_on_rows,), fired)


@rule("f(reshape(x), ...)  =>  reshape(f(x, ...)) behind a product: it ends its kernel")
def pointwise_on_rows(value: Value, match: Match) -> Replacement:
    """For operands of the result's shape, which are reshaped as x is."""
    if value.op is None or not value.op.is_pointwise or len(value.types) > 1:
        return None
    shape = next((shape for use in value.inputs if (shape := _shape_of_product(use))), None)
    if shape is None or any(use.type.dims != value.shape for use in value.inputs):
        return None
    g = building(value)
    inputs = [
        use.value.inputs[0]
        if use.value.op is RESHAPE_TO and use.value.inputs[0].type.dims == shape
        else reshape(g, use, shape, at=f"rows{i}")
        for i, use in enumerate(value.inputs)
    ]
    result = g.op(value.op, *inputs, at="on_rows", **value.attrs)
    return reshape(g, result, value.shape)


def _shape_of_product(use: Use) -> Shape | None:
    """The shape of the product, or of what follows from one, that ``use`` is a reshape of."""
    if use.value.op is not RESHAPE_TO:
        return None
    source = use.value.inputs[0]
    while source.value.op is not None and source.value.op.is_pointwise:
        whole = [u for u in source.value.inputs if u.type.dims == source.type.dims]
        if not whole:
            return None
        source = whole[0]
    is_product = source.value.op in (FULLY_CONNECTED, BATCH_DOT)
    return use.value.inputs[0].type.dims if is_product else None
