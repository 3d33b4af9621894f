"""Writers of reductions and sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.tensors import CODES
from ...ops.rules import reduced_axes
from ..exporter import Exporter, Use, Value
from .table import writes

_REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "nansum": "ReduceSum",
    "nanprod": "ReduceProd",
}


@writes(*_REDUCTIONS)
def reduction(g: Exporter, use: Use, x: Value) -> Value:
    """Reduction over some axes or all; NaN counts as 0 or 1 in nansum and nanprod."""
    name = use.op.name
    if g.dtype(x).kind not in "fi" or (name == "mean" and g.dtype(x).kind != "f"):
        raise MXNetError(f"reduces {g.dtype(x).name}, which is supported for floats only")
    if name.startswith("nan"):
        x = _without_nan(g, x, 1.0 if name == "nanprod" else 0.0)
    return reduced(g, use, _REDUCTIONS[name], x, use.attrs["exclude"])


def _without_nan(g: Exporter, x: Value, number: float) -> Value:
    is_nan = g.emit("IsNaN", x, at="nan")
    return g.emit("Where", is_nan, g.like(x, number), x, at="numbers", type=x.type)


def reduced(g: Exporter, use: Use, op_type: str, x: Value, exclude: bool = False) -> Value:
    """Reduction that keeps its axes, removes them, or gives one element of shape (1,)."""
    axes = reduced_axes(g.rank(x), use.attrs["axis"], exclude)
    keeps = bool(use.attrs["keepdims"])
    is_whole = not keeps and len(axes) == g.rank(x)
    at = "all" if is_whole else ""
    kept = int(keeps or is_whole)
    if not axes:
        return g.emit("Identity", x)
    if op_type == "ReduceSum":
        made = g.emit(op_type, x, g.ints(*axes), at=at, keepdims=kept)
    else:
        made = g.emit(op_type, x, at=at, axes=axes, keepdims=kept)
    return g.emit("Reshape", made, g.ints(1)) if is_whole else made


@writes("norm")
def norm(g: Exporter, use: Use, x: Value) -> Value:
    """Sum of absolute values, or root of the sum of squares."""
    wanted = use.types[0].dtype
    x = x if wanted is None else g.cast(x, wanted, "wide")
    return reduced(g, use, "ReduceL1" if use.attrs["ord"] == 1 else "ReduceL2", x)


@writes("_mean_square_about")
def mean_square_about(g: Exporter, use: Use, x: Value, about: Value) -> Value:
    """Mean of squared differences."""
    distance = g.emit("Sub", x, about, at="distance", type=x.type)
    square = g.emit("Mul", distance, distance, at="square", type=x.type)
    return reduced(g, use, "ReduceMean", square)


@writes("_np_cumsum")
def cumsum(g: Exporter, use: Use, x: Value) -> Value:
    """Cumulative sums along an axis, or of all elements in order."""
    wanted = use.types[0].dtype
    x = x if wanted is None else g.cast(x, wanted, "wide")
    axis = use.attrs["axis"]
    if axis is None:
        x, axis = g.emit("Reshape", x, g.ints(-1), at="row"), 0
    return g.emit("CumSum", x, g.constant(np.array(axis, np.int64)))


@writes("argmax", "argmin", "argmax_channel")
def place(g: Exporter, use: Use, x: Value) -> Value:
    """Index of the first maximum or minimum, in the data's dtype."""
    axis = use.attrs["axis"] if use.op.name != "argmax_channel" else 1
    keeps = int(use.attrs.get("keepdims", False))
    op_type = "ArgMin" if use.op.name == "argmin" else "ArgMax"
    dtype = g.dtype(x)
    wanted = use.types[0].shape
    assert wanted is not None
    if axis is None:
        row = g.emit("Reshape", x, g.ints(-1), at="row")
        found = g.emit(op_type, row, at="place", axis=0, keepdims=1)
        return g.emit("Reshape", g.cast(found, dtype, "number"), g.ints(*(1,) * len(wanted)))
    found = g.emit(op_type, x, at="place", axis=axis, keepdims=keeps)
    if len(wanted) == g.rank(x) and not keeps:  # the only axis
        found = g.emit("Reshape", found, g.ints(1), at="one")
    return g.cast(found, dtype, "")


@writes("topk", "sort", "argsort")
def in_order(g: Exporter, use: Use, x: Value) -> Sequence[Value]:
    """Sorted order: values, indices, both, or a mask."""
    attrs, name = use.attrs, use.op.name
    kind = {"sort": "value", "argsort": "indices"}.get(name, attrs.get("ret_typ"))
    axis, whole = attrs["axis"], x
    if axis is None:
        x, axis = _row(g, x), 0
    axis %= g.rank(x)
    size = g.size(x.type, axis)
    count = attrs["k"] if name == "topk" and attrs["k"] > 0 else size
    values, places = g.emits(
        "TopK",
        *(x, g.ints(count)),
        at="order",
        types=(x.type.with_shape(None), x.type.with_shape(None)),
        axis=axis,
        largest=int(not attrs["is_ascend"]),
        sorted=1,
    )
    if kind == "mask":
        return [_mask(g, x, places, whole, axis, count)]
    found = [g.emit("Identity", values, at="values")] if kind in ("value", "both") else []
    if kind in ("indices", "both"):
        dtype = np.dtype(attrs["dtype"])
        found.append(g.emit("Cast", places, at="places", to=CODES[dtype]))
    return found


def _row(g: Exporter, x: Value) -> Value:
    return g.op("Reshape", x, shape=(-1,), at="row")


def _mask(g: Exporter, x: Value, places: Value, whole: Value, axis: int, count: int) -> Value:
    """1 at the indices, 0 elsewhere."""
    shape = g.shape(x)
    zeros = g.constant(np.zeros(shape, g.dtype(x)))
    ones = g.constant(np.ones((*shape[:axis], count, *shape[axis + 1 :]), g.dtype(x)))
    made = g.emit("ScatterElements", zeros, places, ones, at="mask", axis=axis)
    return g.emit("Reshape", made, g.ints(*g.shape(whole)))
