"""Writers of operators that select elements by index, and of sequence operators."""

from __future__ import annotations

import numpy as np

from ..exporter import Exporter, Use, Value
from .table import writes


def _within(g: Exporter, indices: Value, size: int, mode: str = "clip") -> Value:
    """Integer indices in [0, size): clipped, or modulo the size."""
    whole = g.cast(indices, "int64", "index")
    if whole.array is not None and whole.array.size:
        inside = 0 <= int(whole.array.min()) <= int(whole.array.max()) < size
        if inside:
            return whole
    if mode == "wrap":
        return g.emit(
            "Mod", whole, g.constant(np.array(size, np.int64)), at="within", type=whole.type
        )
    bounds = (g.constant(np.array(n, np.int64)) for n in (0, size - 1))
    return g.emit("Clip", whole, *bounds, at="within", type=whole.type)


@writes("take")
def take(g: Exporter, use: Use, x: Value, indices: Value) -> Value:
    """Slices along an axis by index."""
    axis = use.attrs["axis"] % g.rank(x)
    mode = use.attrs["mode"]
    if g.dtype(indices).kind == "b":
        indices = g.cast(indices, "int32", "number")
    places = _within(g, indices, g.size(x.type, axis), "clip" if mode == "raise" else mode)
    return g.emit("Gather", x, places, axis=axis)


@writes("Embedding", "_contrib_SparseEmbedding")
def embedding(g: Exporter, use: Use, indices: Value, weight: Value) -> Value:
    """Rows of a table."""
    places = _within(g, indices, g.size(weight.type, 0))
    return g.emit("Gather", weight, places, axis=0)


@writes("one_hot")
def one_hot(g: Exporter, use: Use, indices: Value) -> Value:
    """One-hot rows; negative indices, which ONNX counts from the end, give zeros as in MXNet."""
    attrs = use.attrs
    dtype = np.dtype(attrs["dtype"])
    values = np.array([attrs["off_value"], attrs["on_value"]]).astype(dtype)
    whole = g.cast(indices, "int64", "index")
    is_known = whole.array is not None and not (whole.array < 0).any()
    if not is_known:
        below = g.emit("Less", whole, g.constant(np.array(0, np.int64)), at="below")
        beyond = g.constant(np.array(attrs["depth"], np.int64))
        whole = g.emit("Where", below, beyond, whole, at="place", type=whole.type)
    depth = g.constant(np.array(attrs["depth"], np.int64))
    return g.emit("OneHot", whole, depth, g.constant(values), axis=-1)


@writes("pick")
def pick(g: Exporter, use: Use, x: Value, index: Value) -> Value:
    """One element of each line along an axis."""
    attrs, rank = use.attrs, g.rank(x)
    axis = attrs["axis"] % rank
    if g.rank(index) != rank:
        index = g.emit("Unsqueeze", index, g.ints(axis), at="column", type=index.type)
    places = _within(g, index, g.size(x.type, axis), attrs["mode"])
    wanted = use.types[0].shape or ()
    is_same = len(wanted) == rank
    made = g.emit("GatherElements", x, places, at="" if is_same else "picked", axis=axis)
    if is_same:
        return made
    return g.emit("Squeeze", made, g.ints(axis))


@writes("batch_take")
def batch_take(g: Exporter, use: Use, x: Value, index: Value) -> Value:
    """One element of each row."""
    places = _within(g, index, g.size(x.type, 1))
    column = g.emit("Unsqueeze", places, g.ints(1), at="column")
    return g.emit("Squeeze", g.emit("GatherElements", x, column, at="picked", axis=1), g.ints(1))


def _index_rows(g: Exporter, indices: Value) -> Value:
    """MXNet's indices, whose first axis enumerates the data's axes, as rows."""
    rank = g.rank(indices)
    whole = g.cast(indices, "int64", "index")
    return g.op("transpose", whole, axes=(*range(1, rank), 0), at="rows")


@writes("gather_nd")
def gather_nd(g: Exporter, use: Use, x: Value, indices: Value) -> Value:
    """Slices by their indices along the first axes."""
    return g.emit("GatherND", x, _index_rows(g, indices))


@writes("scatter_nd")
def scatter_nd(g: Exporter, use: Use, x: Value, indices: Value) -> Value:
    """Zeros with slices written at their indices."""
    zeros = g.constant(np.zeros(use.attrs["shape"], g.dtype(x)))
    return g.emit("ScatterND", zeros, _index_rows(g, indices), x)


@writes("_contrib_index_copy")
def index_copy(g: Exporter, use: Use, old: Value, index: Value, new: Value) -> Value:
    """Rows with some of them replaced."""
    rows = g.emit("Unsqueeze", g.cast(index, "int64", "index"), g.ints(1), at="rows")
    return g.emit("ScatterND", old, rows, new)


def _steps(g: Exporter, x: Value, axis: int, counts: Value) -> tuple[Value, Value]:
    """Indices of the steps and the lengths, shaped to broadcast over two axes."""
    size = g.size(x.type, axis)
    shape = (size, 1) if axis == 0 else (1, size)
    steps = g.constant(np.arange(size, dtype=np.int64).reshape(shape))
    lengths = g.emit("Unsqueeze", g.cast(counts, "int64", "length"), g.ints(axis), at="lengths")
    return steps, lengths


@writes("SequenceMask")
def sequence_mask(g: Exporter, use: Use, x: Value, *lengths: Value) -> Value:
    """A constant in every step after a sample's length."""
    if not lengths:
        return g.emit("Identity", x)
    steps, counts = _steps(g, x, use.attrs["axis"], lengths[0])
    inside = g.emit("Less", steps, counts, at="inside")
    if g.rank(x) > 2:
        inside = g.emit("Unsqueeze", inside, g.ints(*range(2, g.rank(x))), at="mask")
    return g.emit("Where", inside, x, g.like(x, use.attrs["value"]))


@writes("SequenceReverse")
def sequence_reverse(g: Exporter, use: Use, x: Value, *lengths: Value) -> Value:
    """First steps of each sample in reverse order."""
    if not lengths:
        last = -(1 << 63) + 1
        return g.emit("Slice", x, g.ints(-1), g.ints(last), g.ints(0), g.ints(-1))
    counts = g.cast(lengths[0], "int64", "length")
    return g.emit("ReverseSequence", x, counts, time_axis=0, batch_axis=1)


@writes("SequenceLast")
def sequence_last(g: Exporter, use: Use, x: Value, *lengths: Value) -> Value:
    """Last step of each sample."""
    axis = use.attrs["axis"]
    if not lengths:
        return g.emit("Gather", x, g.constant(np.array(-1, np.int64)), axis=axis)
    counts = g.cast(lengths[0], "int64", "length")
    one = g.constant(np.array(1, np.int64))
    bounds = (one, g.constant(np.array(g.size(x.type, axis), np.int64)))
    last = g.emit("Sub", g.emit("Clip", counts, *bounds, at="within"), one, at="last")
    rows = g.emit("Unsqueeze", last, g.ints(1), at="rows")
    if axis == 0:
        x = g.op("SwapAxis", x, dim1=0, dim2=1, at="samples")
    return g.emit("GatherND", x, rows, batch_dims=1)
