"""On rows: f(reshape(product)) -> reshape(f(product)), and transposes of rows to shorter rows.

The kernel of a product can apply an epilogue before it stores, but only on the product's own shape:
two axes of a dense layer, three of ``batch_dot``. Dense layers and look-ups take rows in any order:
the batch and the steps of a recurrent layer are exchanged after a dense layer and before a look-up.
"""

from __future__ import annotations

from ..._core.types import Shape
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.nn.embedding_table import EMBEDDING
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.tensor.by_index import TAKE
from ...ops.tensor.primitives import RESHAPE_TO, TRANSPOSE, permutation, reshape, transpose


def hoist_pointwise(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Move pointwise operators to the rows of products, and transposes to shorter rows."""
    return rewrite(graph, (pointwise_on_rows, rows_behind_dense, rows_before_look_up), fired)


@rule("f(reshape(x), ...)  =>  reshape(f(x, ...)) behind a product: it ends its kernel")
def pointwise_on_rows(value: Value, match: Match) -> Replacement:
    """For operands with the result's shape, which are reshaped as x is, and single elements, as
    ONNX files have for the constants of a GELU. A product of one element may be one of these.
    """
    if value.op is None or not value.op.is_pointwise or len(value.types) > 1:
        return None
    whole = [use for use in value.inputs if use.type.dims == value.shape]
    shape = next((shape for use in whole if (shape := _shape_of_product(use))), None)
    if shape is None or not all(_is_whole_or_single(use, value.shape) for use in value.inputs):
        return None
    g = building(value)
    inputs = [_on_rows(g, use, value.shape, shape, i) for i, use in enumerate(value.inputs)]
    result = g.op(value.op, *inputs, at="on_rows", **value.attrs)
    return reshape(g, result, value.shape)


def _is_whole_or_single(use: Use, shape: Shape) -> bool:
    return use.type.dims == shape or _is_single(use)


def _is_single(use: Use) -> bool:
    """Whether an operand has one element, for all sizes."""
    return all(isinstance(size, int) and size == 1 for size in use.type.dims)


def _on_rows(g: ValueBuilder, use: Use, whole: Shape, shape: Shape, number: int) -> Use:
    """An operand of the shape ``whole`` in the shape of the rows; a single element as it is."""
    if use.type.dims != whole:
        return reshape(g, use, (1,), at=f"single{number}")
    if use.value.op is RESHAPE_TO and use.value.inputs[0].type.dims == shape:
        return use.value.inputs[0]
    return reshape(g, use, shape, at=f"rows{number}")


@rule(
    "dense(reshape(transpose(x)))  =>  transpose(dense(reshape(x))) where that moves less",
    FULLY_CONNECTED,
)
def rows_behind_dense(value: Value, match: Match) -> Replacement:
    """For a transpose whose rows have more elements than the layer has units."""
    if not match.is_sole_use(0):
        return None
    rows, *weights = value.inputs
    moved = _moved_rows(rows.value)
    reader = match.old.inputs[0].value
    if moved is None or len(match.graph.uses[reader.inputs[0].value]) > 1:
        return None
    columns, units = rows.type.dims[1], value.shape[1]
    if moved.shape[-1] != columns or units >= columns:
        return None
    g, before = building(value), moved.inputs[0]
    flat = reshape(g, before, rows.type.dims, at="rows")
    dense = g.op(FULLY_CONNECTED, flat, *weights, at="dense", **value.attrs)
    result = reshape(g, dense, (*before.type.dims[:-1], units), at="split")
    return reshape(g, transpose(g, result, moved.attrs["axes"], at="moved"), value.shape)


@rule("transpose(take(w, i))  =>  take(w, transpose(i)) where rows stay whole", TRANSPOSE)
def rows_before_look_up(value: Value, match: Match) -> Replacement:
    if not match.is_sole_use(0):
        return None
    look_up = value.inputs[0].value
    if look_up.op not in (TAKE, EMBEDDING) or look_up.attrs.get("axis", 0) != 0:
        return None
    place = 0 if look_up.op is EMBEDDING else 1
    index, axes = look_up.inputs[place], permutation(len(value.shape), value.attrs["axes"])
    count = index.type.ndim
    if axes[count:] != tuple(range(count, len(axes))):
        return None
    operands = list(look_up.inputs)
    operands[place] = transpose(building(value), index, axes[:count], at="index")
    return building(value).op(look_up.op, *operands, **look_up.attrs)


def _moved_rows(value: Value) -> Value | None:
    """The transpose that the value reshapes, if it keeps the last axis last."""
    if value.op is not RESHAPE_TO or value.inputs[0].value.op is not TRANSPOSE:
        return None
    moved = value.inputs[0].value
    last = len(moved.shape) - 1
    return moved if permutation(last + 1, moved.attrs["axes"])[-1] == last else None


def _shape_of_product(use: Use) -> Shape | None:
    """The shape of the product that ``use`` reshapes, directly or after pointwise operators."""
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
