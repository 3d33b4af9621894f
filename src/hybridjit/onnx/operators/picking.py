"""ONNX's operators that pick elements by their numbers, or put them there."""

from __future__ import annotations

import math

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .table import translates


@translates("Gather")
def gather(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Parts along an axis by their numbers, which count from the end below 0."""
    axis = use.number("axis") % g.rank(x)
    if indices.array is not None:
        places = np.where(indices.array < 0, indices.array + g.shape(x)[axis], indices.array)
        if places.size and not 0 <= int(places.min()) <= int(places.max()) < g.shape(x)[axis]:
            raise MXNetError(f"an index is outside of the {g.shape(x)[axis]} along axis {axis}")
        if x.array is not None:
            return g.constant(np.take(x.array, places, axis))
        indices = g.constant(places)
    else:
        size = g.op("_lesser_scalar", indices, scalar=0.0, at="below")
        more = g.op("_mul_scalar", size, scalar=float(g.shape(x)[axis]), at="more")
        indices = g.op("broadcast_add", indices, more, at="place")
    if g.rank(indices) == 0:
        first = g.op("take", x, g.op("Reshape", indices, shape=(1,)), axis=axis, at="one")
        return g.op("squeeze", first, axis=(axis,)) if g.rank(x) > 1 else g.scalar(first)
    return g.op("take", x, indices, axis=axis)


@translates("GatherElements")
def gather_elements(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Of each line along an axis the elements at given places."""
    axis, shape = use.number("axis") % g.rank(x), g.shape(indices)
    g.require_small(math.prod(shape))
    places = [
        g.constant(
            np.broadcast_to(
                np.arange(n).reshape([-1 if i == d else 1 for i in range(len(shape))]), shape
            ).astype(np.int64)
        )
        for d, n in enumerate(shape)
    ]
    places[axis] = _from_the_end(g, indices, g.shape(x)[axis])
    stacked = g.op("stack", *places, axis=0, num_args=len(places), at="places")
    return g.op("gather_nd", x, stacked)


def _from_the_end(g: Importer, indices: Value, size: int) -> Value:
    """Indices in int64, of which those below 0 count from the end."""
    wide = g.op("Cast", indices, dtype=np.dtype("int64"), at="index")
    below = g.op("_lesser_scalar", wide, scalar=0.0, at="below")
    return g.op("broadcast_add", wide, g.op("_mul_scalar", below, scalar=float(size)), at="place")


@translates("GatherND")
def gather_nd(g: Importer, use: Use, x: Value, indices: Value) -> Value:
    """Parts by several numbers each, which stand along the last axis of the indices."""
    if use.number("batch_dims"):
        raise MXNetError("batch_dims: indices for each sample are not there")
    rank = g.rank(indices)
    order = (rank - 1, *range(rank - 1))
    moved = g.op(
        "transpose",
        g.op("Cast", indices, dtype=np.dtype("int64"), at="index"),
        axes=order,
        at="order",
    )
    if (moved.array is not None) and moved.array.size and moved.array.min() < 0:
        sizes = np.asarray(g.shape(x)[: len(moved.array)]).reshape(-1, *(1,) * (rank - 1))
        moved = g.constant(np.where(moved.array < 0, moved.array + sizes, moved.array))
    made = g.op("gather_nd", x, moved)
    return made


@translates("ScatterND")
def scatter_nd(g: Importer, use: Use, x: Value, indices: Value, updates: Value) -> Value:
    """The operand with other elements at some places, of constants alone."""
    if use.text("reduction", "none") != "none":
        raise MXNetError("reduction: elements are replaced here")
    made = g.known(x, "data").copy()
    places = np.moveaxis(g.known(indices, "indices"), -1, 0)
    made[tuple(places)] = g.known(updates, "updates")
    return g.constant(made)
