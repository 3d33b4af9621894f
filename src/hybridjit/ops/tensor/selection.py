"""Selection by condition, replacement of slices, coordinates, and histograms.

``where`` accepts a condition of the data's shape, or one value for each row: see
:func:`condition_shape`; its scalar form has three aligned values.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.shapes import is_np_shape
from ..._core.types import INT64, UNKNOWN, TensorType, merge, shape_text
from ...errors import AttributeValueError, MXNetError, ShapeError
from ..algebra import as_shape, zeros_like
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..casting import convert, fresh, scalar_of
from ..elementwise.element_type import cast
from ..internal import constant_of_shape
from ..record import GradientStored, OpDef, Traits
from ..registry import register
from ..rules import Types, forward, normalized_axis, refuse_bool, same_dtype
from ..signatures import Reference
from .by_index import GATHER_ND, places_of
from .primitives import broadcast, reshape, sliced_shape, slices

Shape = tuple[int, ...]
_BOOL = np.dtype("bool")

# Selection by condition


def condition_shape(condition: Shape, data: Shape) -> Shape:
    """Shape with which a condition broadcasts against the data. Raises ShapeError."""
    if condition == data:
        return data
    if len(condition) == 1 and data and condition[0] == data[0]:
        return condition + (1,) * (len(data) - 1)
    raise ShapeError(
        f"condition {shape_text(condition)} must have the shape {shape_text(data)} of x, "
        "or its first size only"
    )


def _where_types(ins: Types, outs: Types) -> tuple[Types, Types]:
    """x, y and the result have equal types; the condition may have any dtype."""
    condition, x, y = ins
    result = UNKNOWN
    for t in (x, y, *outs):
        result = merge(result, t)
    if condition.is_known and result.is_known:
        condition_shape(condition.dims, result.dims)
    return (condition, result, result), (result,)


def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    truth = (condition != 0).reshape(condition_shape(condition.shape, x.shape))
    return np.asarray(np.where(truth, x, y), order="C")


def _aligned(g: Builder[X], condition: X, x: X, y: X) -> X | None:
    """where(c, x, y)  =>  where((c broadcast to x) != 0, x, y)"""
    t, whole = g.type(condition), g.type(x)
    truth = condition
    if t.shape != whole.shape:
        column = condition_shape(t.dims, whole.dims)
        truth = reshape(g, truth, column, at="condition_column")
        truth = broadcast(g, truth, whole.dims, at="condition")
    if t.dtype not in (whole.dtype, _BOOL):
        truth = cast(g, truth, _BOOL, at="condition_truth")
    return None if truth is condition else g.op(WHERE, truth, x, y)


WHERE = register(
    "where",
    "condition x y",
    infer=_where_types,
    ref=where,
    expand=_aligned,
    scalar=lambda b, condition, x, y: b.select(b.ne(condition, b.const(0.0)), x, y),
    aliases="_sparse_where",
    traits=Traits(gradient_stored=GradientStored.OPERAND, stops=lambda attrs: (0,)),
    doc="x where the condition is nonzero, else y; a 1-D condition selects rows.",
)


def _mask_type(data: TensorType, index: TensorType, *, axis: int) -> TensorType:
    """The number of selected rows depends on values: that size is unknown."""
    place = normalized_axis(axis, data.ndim)
    if index.dims != (data.dims[place],):
        raise ShapeError(
            f"index {shape_text(index.dims)} must be ({data.dims[place]},), as axis {place} of data"
        )
    return TensorType((*data.dims[:place], None, *data.dims[place + 1 :]), data.dtype)


def boolean_mask(data: np.ndarray, index: np.ndarray, *, axis: int) -> np.ndarray:
    return np.asarray(np.compress(index != 0, data, axis=axis), order="C")


def _grad_mask(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int
) -> tuple[Reached[X], ...]:
    """Gradient at selected rows, 0 at the others."""
    index, d = ins[1], douts[0]
    return lambda: g.op(MASK_BACK, d, index, axis=axis) if g.type(d).size else None, None


BOOLEAN_MASK: OpDef = register(
    "_contrib_boolean_mask",
    "data index",
    "axis:int=0",
    infer=forward(_mask_type),
    ref=boolean_mask,
    grad=_grad_mask,
    traits=Traits(sized_by_values=True),
    doc="Rows whose index is nonzero; their number depends on values.",
)


def _mask_back_type(head: TensorType, index: TensorType, *, axis: int) -> TensorType:
    place = normalized_axis(axis, head.ndim)
    return head.with_shape((*head.dims[:place], *index.dims, *head.dims[place + 1 :]))


def _mask_back(head: np.ndarray, index: np.ndarray, *, axis: int) -> np.ndarray:
    """Rows of ``head`` where ``index`` is nonzero, zeros elsewhere."""
    place = axis % head.ndim
    whole = np.zeros((*head.shape[:place], *index.shape, *head.shape[place + 1 :]), head.dtype)
    whole[(slice(None),) * place + (index != 0,)] = head
    return whole


MASK_BACK = register(
    "_mask_back",
    "head index",
    "axis:int!",
    internal=True,
    infer=forward(_mask_back_type),
    ref=_mask_back,
    grad=lambda g, ins, outs, douts, axis: (g.op(BOOLEAN_MASK, douts[0], ins[1], axis=axis), None),
    doc="Gradient of boolean_mask with respect to the data.",
)


# Replacement of slices


def _index_copy_type(old: TensorType, index: TensorType, new: TensorType) -> TensorType:
    needed = (*index.dims, *old.dims[1:])
    if index.ndim != 1 or new.dims != needed:
        raise ShapeError(f"new_tensor {shape_text(new.dims)} must be {shape_text(needed)}")
    return merge(old, TensorType(None, new.dtype))


def index_copy(old: np.ndarray, index: np.ndarray, new: np.ndarray) -> np.ndarray:
    result = fresh(old, old.dtype)
    result[places_of(index[None], old.shape)] = new
    return result


def _grad_index_copy(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]
) -> tuple[Reached[X], ...]:
    """Gradient 0 at replaced rows; each new row receives the gradient at its index."""
    _, index, new = ins
    d = douts[0]
    return (
        lambda: g.op(INDEX_COPY, d, index, zeros_like(g, new)),
        None,
        lambda: g.op(GATHER_ND, d, as_shape(g, index, (1, g.type(index).size))),
    )


INDEX_COPY = register(
    "_contrib_index_copy",
    "old_tensor index_vector new_tensor",
    kernel="scatter",
    infer=forward(_index_copy_type),
    ref=index_copy,
    grad=_grad_index_copy,
    doc="Array old_tensor with rows replaced by those of new_tensor.",
)


def _assign_types(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """The result has the first input's type; the assigned operand has the shape of the slice."""
    attrs.pop("scalar", None)
    dtype = same_dtype(*ins, *outs)
    lhs, *rhs = (t.with_dtype(dtype) for t in ins)
    lhs = merge(lhs, UNKNOWN if not outs else outs[0])
    if lhs.shape is not None:
        part = TensorType(sliced_shape(lhs.shape, **attrs), dtype)
        rhs = [merge(part, t) for t in rhs]
    return (lhs, *rhs), (lhs,)


def _assign(lhs: np.ndarray, rhs: np.ndarray, attrs: Attrs) -> np.ndarray:
    result = fresh(lhs, lhs.dtype)
    result[slices(lhs.shape, **attrs)] = rhs
    return result


def _slice_assign_scalar(lhs: np.ndarray, scalar: float, **attrs: AttrValue) -> np.ndarray:
    return _assign(lhs, scalar_of(scalar, lhs.dtype), attrs)


def _assigning(name: str, inputs: str, attrs: str, ref: Reference, alias: str) -> None:
    register(
        name,
        inputs,
        attrs + "begin:ints! end:ints! step:ints=()",
        infer=_assign_types,
        ref=ref,
        aliases=alias,
        doc="First input with a slice replaced.",
    )


_assigning(
    "_slice_assign",
    "lhs rhs",
    "",
    lambda lhs, rhs, **attrs: _assign(lhs, rhs, attrs),
    "_crop_assign",
)
_assigning(
    "_slice_assign_scalar",
    "data",
    "scalar:double=0 ",
    _slice_assign_scalar,
    "_crop_assign_scalar",
)


# Histograms


def _histogram_types(data: TensorType, *bins: TensorType, **attrs: Declared) -> Types:
    count = attrs["bin_cnt"]
    refuse_bool(data)
    if bins:
        if (count is None) != (attrs["range"] is None):
            raise AttributeValueError("bin_cnt and range must be given together")
        if bins[0].ndim != 1 or bins[0].size < 2:
            raise ShapeError(f"bins must be a vector of at least 2 edges, got {bins[0]}")
        count = bins[0].size - 1
    elif count < 1 or not _is_range(attrs["range"]):
        raise AttributeValueError(
            f"histogram needs bin_cnt >= 1 and a range of two ascending numbers, got {count} and "
            f"{attrs['range']}"
        )
    return TensorType((count,), INT64), TensorType((count + 1,), data.dtype)


def _is_range(range_: tuple[float, ...] | None) -> bool:
    if range_ is None or len(range_) != 2:
        return False
    return range_[0] <= range_[1] and math.isfinite(range_[1] - range_[0])


def histogram(
    data: np.ndarray, *bins: np.ndarray, **attrs: Declared
) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and edges in the data's dtype; the last bin includes its right edge."""
    values = data.ravel()
    if bins:
        if (bins[0][1:] < bins[0][:-1]).any():
            raise MXNetError("histogram needs ascending edges of bins")
        counts = np.histogram(values.astype(np.float64), bins[0].astype(np.float64))[0]
        return counts.astype(np.int64), bins[0].astype(data.dtype)
    low, high = attrs["range"]
    if low == high:  # widened as in MXNet and NumPy
        low, high = low - 0.5, high + 0.5
    count = attrs["bin_cnt"]
    edges = convert(low + np.arange(count + 1) * ((high - low) / count), data.dtype)
    values = values[(values >= low) & (values <= high)]
    place = ((values.astype(np.float64) - low) / (high - low) * count).astype(np.int64)
    place = np.minimum(place, count - 1)
    place -= values < edges[place]  # corrects rounding errors of the division
    place += (values >= edges[place + 1]) & (place + 1 < count)
    place = place[place >= 0]  # edges of a small dtype wrap: values below the first one are dropped
    return np.bincount(place, minlength=count).astype(np.int64), edges


register(
    "_histogram",
    lambda bin_cnt, **attrs: ("data", "bins") if bin_cnt is None else ("data",),
    "bin_cnt:int?=None range:floats?=None",
    infer=forward(_histogram_types),
    ref=histogram,
    traits=Traits(names_data=True),
    outputs=("output0", "output1"),
    doc="Number of elements in each bin, and the edges.",
)


# Coordinates


def _index_axes(data: Shape, axes: Shape | None) -> tuple[int, ...]:
    if not data and not is_np_shape():
        raise ShapeError("index_array needs an array with axes, got a scalar")
    return tuple(
        normalized_axis(a, len(data)) for a in (range(len(data)) if axes is None else axes)
    )


def index_array(data: np.ndarray, *, axes: Shape | None) -> np.ndarray:
    chosen = _index_axes(data.shape, axes)
    grid = np.indices(data.shape, np.int64)
    return np.ascontiguousarray(np.moveaxis(grid[list(chosen)], 0, -1))


register(
    "_contrib_index_array",
    "data",
    "axes:shape?=None",
    infer=forward(
        lambda data, axes: TensorType((*data.dims, len(_index_axes(data.dims, axes))), INT64)
    ),
    ref=index_array,
    expand=constant_of_shape("_contrib_index_array"),
    traits=Traits(reads_shape=True, names_data=True),
    doc="Coordinates of every element, as int64 along a last axis.",
)
