"""Readers of ONNX's reductions, argmax, sorting and cumulative sums."""

from __future__ import annotations

import math

import numpy as np

from ...ir.sized import is_symbolic
from ..importer import Importer, Value
from ..size_values import has_sizes
from ..use import Use
from .table import MICROSOFT, translates

_REDUCTIONS = {
    "ReduceL1": "sum",
    "ReduceL2": "sum",
    "ReduceLogSum": "sum",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum",
}
_BEFORE = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square"}
_BEHIND = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}
# First operator set in which the axes are an operand.
_AXES_GIVEN = {"ReduceSum": 13}


def axes_of(g: Importer, use: Use, x: Value, axes: Value | None, since: int) -> tuple[int, ...]:
    """Non-negative axes from an attribute or an operand; empty if absent."""
    given = use.ints("axes") if use.opset < since else () if axes is None else g.ints(axes, "axes")
    return tuple(sorted({axis % g.rank(x) for axis in given}))


@translates(*_REDUCTIONS)
def reduction(g: Importer, use: Use, x: Value, axes: Value | None = None) -> Value:
    """Reduction over given axes; over all or none if absent."""
    chosen = axes_of(g, use, x, axes, _AXES_GIVEN.get(use.op_type, 18))
    if not chosen and use.number("noop_with_empty_axes"):
        made = g.op(_BEFORE.get(use.op_type, "identity"), x)
        return g.op(_BEHIND[use.op_type], made) if use.op_type in _BEHIND else made
    return _reduced(g, use, x, chosen or tuple(range(g.rank(x))))


def _reduced(g: Importer, use: Use, x: Value, axes: tuple[int, ...]) -> Value:
    is_kept = bool(use.number("keepdims", 1))
    before, behind = _BEFORE.get(use.op_type), _BEHIND.get(use.op_type)
    if not axes:
        return g.op("identity", x)
    if use.op_type in _OF_NONE and _is_empty(x, axes):
        return _of_none(g, use, x, axes, _OF_NONE[use.op_type])
    x = g.op(before, x, at=before) if before else x
    at = "" if behind is None else "sum"
    made = g.op(_REDUCTIONS[use.op_type], x, axis=axes, keepdims=is_kept, at=at)
    if not is_kept and len(axes) == g.rank(x):
        made = g.scalar(made)
    return made if behind is None else g.op(behind, made)


_OF_NONE = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}


def _is_empty(x: Value, axes: tuple[int, ...]) -> bool:
    """Whether a reduced axis has size 0."""
    return x.type.shape is not None and any(x.type.shape[axis] == 0 for axis in axes)


def _of_none(g: Importer, use: Use, x: Value, axes: tuple[int, ...], number: float) -> Value:
    """Smallest or largest value of the dtype: result of a reduction of no elements."""
    dtype = g.dtype(x)
    bounds = {"b": (0, 1), "f": (-np.inf, np.inf)}.get(dtype.kind)
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    one = np.full(1, low if number < 0 else high, dtype)
    is_kept = use.number("keepdims", 1)
    sizes = [1 if i in axes else n for i, n in enumerate(g.shape(x)) if is_kept or i not in axes]
    return g.filled(tuple(sizes), one)


@translates("ReduceLogSumExp")
def log_sum_exp(g: Importer, use: Use, x: Value, axes: Value | None = None) -> Value:
    """log(sum(exp(x - max))) + max."""
    chosen = axes_of(g, use, x, axes, 18) or tuple(range(g.rank(x)))
    if _is_empty(x, chosen):
        return _of_none(g, use, x, chosen, _OF_NONE[use.op_type])
    largest = g.op("max", x, axis=chosen, keepdims=True, at="max")
    powers = g.op("exp", g.op("broadcast_sub", x, largest, at="less"), at="exp")
    total = g.op("log", g.op("sum", powers, axis=chosen, keepdims=True, at="sum"), at="log")
    made = g.op("broadcast_add", total, largest)
    if use.number("keepdims", 1):
        return made
    if len(chosen) == g.rank(x):
        return g.scalar(g.op("Reshape", made, shape=(-1,), at="flat"))
    return g.op("squeeze", made, axis=chosen, at="squeeze")


@translates("ArgMax", "ArgMin")
def argument(g: Importer, use: Use, x: Value) -> Value:
    """Index of the first or the last extremum along an axis."""
    name = "argmax" if use.op_type == "ArgMax" else "argmin"
    axis, is_kept = use.number("axis") % g.rank(x), bool(use.number("keepdims", 1))
    is_last = use.number("select_last_index")
    x = g.op("reverse", x, axis=(axis,), at="reverse") if is_last else x
    made = g.op(name, x, axis=axis, keepdims=is_kept, at="place")
    if is_last:
        made = g.op("_rminus_scalar", made, scalar=float(g.shape(x)[axis] - 1), at="from_front")
    return g.op("Cast", made, dtype=np.dtype("int64"))


@translates("TopK")
def top_k(g: Importer, use: Use, x: Value, k: Value | None = None) -> tuple[Value, Value]:
    """Largest or smallest elements of an axis, and their indices."""
    count = use.number("k") if use.opset < 10 else g.ints(k, "k")[0]
    axis, largest = use.number("axis", -1), bool(use.number("largest", 1))
    values, places = g.outputs(
        "topk",
        x,
        axis=axis,
        k=count,
        ret_typ="both",
        is_ascend=not largest,
        dtype=np.dtype("int64"),
    )
    return values, places


@translates("CumSum")
def cumulative(g: Importer, use: Use, x: Value, axis: Value) -> Value:
    """Cumulative sums; ``exclusive`` omits the element itself, ``reverse`` starts at the end."""
    along = g.ints(axis, "axis")[0] % g.rank(x)
    if use.number("reverse"):
        x = g.op("reverse", x, axis=(along,), at="reverse")
    total = g.op("_np_cumsum", x, axis=along, at="sum")
    if use.number("exclusive"):
        total = g.op("broadcast_sub", total, x, at="without")
    return g.op("reverse", total, axis=(along,)) if use.number("reverse") else total


@translates("CumProd")
def cumulative_product(g: Importer, use: Use, x: Value, axis: Value) -> Value:
    """Cumulative products with the attributes of ``CumSum``, by doubling distances."""
    along = g.ints(axis, "axis")[0] % g.rank(x)
    if use.number("reverse"):
        x = g.op("reverse", x, axis=(along,), at="reverse")
    if use.number("exclusive"):
        x = _moved(g, x, along, 1)
    distance = 1
    while distance < g.shape(x)[along]:
        x = g.op("broadcast_mul", x, _moved(g, x, along, distance), at="product")
        distance *= 2
    return g.op("reverse", x, axis=(along,)) if use.number("reverse") else g.op("identity", x)


def _moved(g: Importer, x: Value, axis: int, count: int) -> Value:
    """Elements shifted by ``count``, after ones."""
    sizes = list(g.shape(x))
    rest = g.op("slice_axis", x, axis=axis, begin=0, end=max(sizes[axis] - count, 0), at="rest")
    sizes[axis] = min(count, sizes[axis])
    ones = g.filled(tuple(sizes), np.ones(1, g.dtype(x)))
    if sizes[axis] == g.shape(x)[axis]:
        return ones
    return g.op("Concat", ones, rest, num_args=2, dim=axis, at="moved")


@translates("OneHot")
def one_hot(g: Importer, use: Use, indices: Value, depth: Value, values: Value) -> Value:
    """One-hot rows of ``off`` and ``on``; negative indices count from the end."""
    count = g.ints(depth, "depth")[0]
    off, on = g.known(values, "values").tolist()
    wide = g.op("Cast", indices, dtype=np.dtype("float32"), at="index")
    below = g.op("_lesser_scalar", wide, scalar=0.0, at="below")
    place = g.op("broadcast_add", wide, g.op("_mul_scalar", below, scalar=float(count)), at="place")
    hot = g.op(
        "one_hot",
        place,
        depth=count,
        on_value=float(on),
        off_value=float(off),
        dtype=g.dtype(values),
    )
    axis, rank = use.number("axis", -1) % (g.rank(indices) + 1), g.rank(indices)
    order = list(range(rank))
    order.insert(axis, rank)
    return hot if axis == rank else g.op("transpose", hot, axes=tuple(order), at="order")


@translates("Range", MICROSOFT + "Range")
def arange(g: Importer, use: Use, start: Value, limit: Value, delta: Value) -> Value:
    """Values from a start to a limit."""
    first, last, step = (
        g.ints(v, "a bound")[0] if _is_open(v) else g.known(v, "a bound").item()
        for v in (start, limit, delta)
    )
    if is_symbolic((first, last)) and step == 1:
        return counted(g, first, last)
    count, dtype = max(0, math.ceil((last - first) / step)), g.dtype(start)
    if count and not g.affords(count):  # the call makes the values
        return g.op("_arange", start=first, stop=first + count * step, step=step, dtype=dtype)
    g.require_small(count)
    return g.constant((first + np.arange(count) * step).astype(dtype))


def _is_open(x: Value) -> bool:
    return x.array is not None and has_sizes(x.array)


def counted(g: Importer, first: int, last: int) -> Value:
    """Integers from ``first`` to below ``last``, at least one of which is symbolic."""
    if last <= first:
        return g.constant(np.zeros(0, np.int64))
    return g.op("_arange", start=first, stop=last, dtype=np.dtype(np.int64))
