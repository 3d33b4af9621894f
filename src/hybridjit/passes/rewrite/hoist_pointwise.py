"""On rows: f(reshape(product)) -> reshape(f(product)), and transposes of rows to shorter rows.

The kernel of a product can apply an epilogue before it stores, but only on the product's own shape:
two axes of a dense layer, three of ``batch_dot``, all pixels of a convolution. Dense layers and
look-ups take rows in any order: the batch and the steps of a recurrent layer are exchanged after a
dense layer and before a look-up.
"""

from __future__ import annotations

from typing import NamedTuple

from ..._core.types import Shape
from ...ir.building import ValueBuilder, building
from ...ir.graph import Graph, Use, Value
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.nn.convolution import CONVOLUTION
from ...ops.nn.embedding_table import EMBEDDING
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.nn.window_geometry import is_channel_last
from ...ops.quantized import FROM_BYTES, INTEGER_DENSE, TO_BYTES
from ...ops.tensor.by_index import TAKE
from ...ops.tensor.primitives import RESHAPE_TO, TRANSPOSE, permutation, reshape, transpose


def hoist_pointwise(graph: Graph, fired: list[str] | None = None) -> Graph:
    """Move pointwise operators to the rows of products, and transposes to shorter rows."""
    return rewrite(graph, (pointwise_on_rows, rows_behind_dense, rows_before_look_up), fired)


class _Product(NamedTuple):
    """A product's shape, and whether its data are, or its results become, bytes."""

    shape: Shape
    of_bytes: bool


@rule("f(reshape(x), ...)  =>  reshape(f(x, ...)) behind a product: it ends its kernel")
def pointwise_on_rows(value: Value, match: Match) -> Replacement:
    """For operands with the result's shape, which are reshaped as x is, and single elements, as
    ONNX files have for the constants of a GELU. A product of one element may be one of these. Of
    products of bytes also for rows and columns: their biases and zero points come after a reshape.
    """
    if value.op is None or not value.op.is_pointwise or len(value.types) > 1:
        return None
    whole = [use for use in value.inputs if use.type.dims == value.shape]
    product = next((found for use in whole if (found := _product_of(use))), None)
    if product is None:
        return None
    g, inputs = building(value), []
    for number, use in enumerate(value.inputs):
        shape = _shape_on_rows(use, value.shape, product)
        if shape is None:
            return None
        inputs.append(_on_rows(g, use, shape, number))
    result = g.op(value.op, *inputs, at="on_rows", **value.attrs)
    return reshape(g, result, value.shape)


def _shape_on_rows(use: Use, whole: Shape, product: _Product) -> Shape | None:
    """The shape on rows of an operand of the shape ``whole``, or of a single element for all sizes;
    after products of bytes, also of one element for each column or row.
    """
    dims, rows = use.type.dims, product.shape
    if dims == whole:
        return rows
    if all(isinstance(size, int) and size == 1 for size in dims):
        return (1,)
    if not (
        product.of_bytes and len(rows) == 2 and rows[1] == whole[-1] and dims[-1] in (1, whole[-1])
    ):
        return None
    if all(isinstance(size, int) and size == 1 for size in dims[:-1]):
        return 1, dims[-1]
    return (rows[0], dims[-1]) if dims[:-1] == whole[:-1] else None


def _on_rows(g: ValueBuilder, use: Use, shape: Shape, number: int) -> Use:
    if use.value.op is RESHAPE_TO and use.value.inputs[0].type.dims == shape:
        return use.value.inputs[0]
    return reshape(g, use, shape, at=f"{'single' if shape == (1,) else 'rows'}{number}")


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


def _multiplies_rows(value: Value) -> bool:
    """Whether it is a product, or a convolution whose channels are last."""
    if value.op is CONVOLUTION:
        return is_channel_last(value.attrs["layout"], len(value.attrs["kernel"]))
    return value.op in (FULLY_CONNECTED, BATCH_DOT, INTEGER_DENSE)


def _product_of(use: Use) -> _Product | None:
    """The product that ``use`` reshapes, directly or after pointwise operators."""
    if use.value.op is not RESHAPE_TO:
        return None
    source, of_bytes = use.value.inputs[0], False
    while source.value.op is not None and source.value.op.is_pointwise:
        of_bytes |= source.value.op in (TO_BYTES, FROM_BYTES)
        whole = [u for u in source.value.inputs if u.type.dims == source.type.dims]
        if not whole:
            return None
        source = whole[0]
    if not _multiplies_rows(source.value):
        return None
    shape = use.value.inputs[0].type.dims
    return _Product(shape, of_bytes or source.value.op is INTEGER_DENSE)
