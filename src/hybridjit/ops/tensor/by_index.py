"""Selection by index: take, pick, gather_nd, scatter_nd, one_hot, and flat indices.

Input: data and indices. Indices may have any dtype and are truncated towards zero. Output: new
arrays of the data's dtype. ``selection`` contains selection by condition.
"""

from __future__ import annotations

import numpy as np

from ..._core.config import PREFIX, config
from ..._core.shapes import is_np_shape
from ..._core.symbolic import Size
from ..._core.types import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    TensorType,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import AttributeValueError, DTypeError, MXNetError, ShapeError
from ..algebra import add, as_shape, clipped, equals, in_dtype, remainder, zeros_like
from ..building import Builder, Many, Reached, X
from ..casting import convert, fresh, scalar_of, widened
from ..gradient import none_at_all
from ..record import OnStored, Samples, Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged, normalized_axis
from .primitives import broadcast, transpose

Shape = tuple[int, ...]

_COUNTED = 1 << 24  # float32 represents all integers up to this
_INT32_END = 1 << 31


def whole(indices: np.ndarray) -> np.ndarray:
    """Indices as int64; NaN and infinities become the smallest integer."""
    return convert(indices, INT64)


def rows_within(name: str, indices: np.ndarray, size: int, mode: str = "clip") -> np.ndarray:
    """Indices in [0, size) as int64: clipped or wrapped.

    Raises MXNetError for an index out of range if mode is ``raise``, and for one that would be
    clipped if HYBRIDJIT_CHECK is set.
    """
    index = whole(indices)
    if mode == "wrap":
        return np.mod(index, size)
    if mode == "raise" or config.check:
        require_in_range(name, index, size, "" if mode == "raise" else "clips")
        return index
    return np.clip(index, 0, size - 1)


def require_in_range(name: str, index: np.ndarray, size: int, otherwise: str = "") -> None:
    """Raise MXNetError for an index that is not in [0, size).

    name       the operator that reads the indices
    otherwise  the effect of such an index in an unchecked call: ``clips`` or ``ignores``
    """
    if index.size and not 0 <= index.min() <= index.max() < size:
        outside = index[(index < 0) | (index >= size)].flat[0]
        hint = f"; without {PREFIX}CHECK, MXNet's rule {otherwise} it" if otherwise else ""
        raise MXNetError(f"{name}: index {outside} is not in the range 0 to {size - 1}{hint}")


def _from_nothing(size: int, count: int) -> None:
    if size == 0 and count:
        raise ShapeError(f"{count} elements cannot be taken from an axis of size 0")


# A single index array along one axis


def _take_type(a: TensorType, indices: TensorType, *, axis: int, mode: str) -> TensorType:
    place = normalized_axis(axis, a.ndim)
    _from_nothing(a.dims[place], indices.size)
    return a.with_shape((*a.dims[:place], *indices.dims, *a.dims[place + 1 :]))


def take(a: np.ndarray, indices: np.ndarray, *, axis: int, mode: str) -> np.ndarray:
    """Rows along an axis. Raises as :func:`rows_within`."""
    index = rows_within("take", indices, a.shape[axis], mode)
    return np.asarray(np.take(a, index, axis=axis), order="C")


def within(g: Builder[X], indices: X, size: int, mode: str, dtype: np.dtype = INT64) -> X:
    """Integer indices in [0, size): clipped or wrapped."""
    index = g.op(lookup("Cast"), indices, at="index", dtype=dtype)
    if mode == "wrap":
        return remainder(g, index, size)
    return clipped(g, index, 0.0, size - 1)


def _grad_take(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int, mode: str
) -> tuple[Reached[X], ...]:
    """Add the gradient of each row of the result to the row it was read from."""
    sizes, count = g.type(ins[0]).dims, g.type(ins[1]).ndim
    place, ndim = axis % len(sizes), len(sizes) + count - 1
    if not g.type(ins[0]).size:
        return None, None

    def by_data() -> X:
        picked = range(place, place + count)
        order = (*picked, *(i for i in range(ndim) if i not in picked))
        index = within(g, ins[1], sizes[place], mode)
        index = as_shape(g, index, (1, *(g.type(index).dims or (1,))))
        rows = transpose(g, douts[0], order, at="rows")
        rows = rows if count else as_shape(g, rows, (1, *g.type(rows).dims))
        shape = (sizes[place], *sizes[:place], *sizes[place + 1 :])
        summed = g.op(ADD_AT, rows, index, at="summed", shape=shape)
        return transpose(g, summed, (*range(1, place + 1), 0, *range(place + 1, len(sizes))))

    return by_data, None


TAKE = register(
    "take",
    "a indices",
    "axis:int=0 mode:clip|raise|wrap=clip",
    kernel="gather",
    infer=forward(_take_type),
    ref=take,
    grad=_grad_take,
    traits=Traits(on_stored=OnStored.TAKEN),
    doc="Select rows along an axis by index.",
)


def _picked(data: Shape, axis: int | None, keepdims: bool) -> tuple[int, Shape, Shape]:
    """Non-negative axis, the output's shape, and the index's shape without that axis."""
    if axis is None:
        raise AttributeValueError("pick needs an axis, got None")
    place = normalized_axis(axis, len(data))
    rest = data[:place] + data[place + 1 :]
    kept = (*data[:place], 1, *data[place + 1 :])
    rest = rest or (() if is_np_shape() else (1,))
    return place, kept if keepdims else rest, rest


def _pick_types(
    ins: Types, outs: Types, *, axis: int | None, keepdims: bool, mode: str
) -> tuple[Types, Types]:
    data, index = ins
    if not data.is_known:
        return ins, outs
    place, shape, rest = _picked(data.dims, axis, keepdims)
    kept = (*data.dims[:place], 1, *data.dims[place + 1 :])
    if index.shape is None:
        index = index.with_shape(rest)
    elif None in index.shape:
        wanted = kept if len(index.shape) == len(kept) else rest
        index = index.with_shape(merge_shapes(index.shape, wanted))
    elif index.shape not in (kept, rest):
        hint = "; one-hot labels are not indices: use a loss with sparse_label=False, or argmax"
        hint = hint if index.shape == data.shape else ""
        raise ShapeError(f"index {shape_text(index.shape)} must be {shape_text(rest)}{hint}")
    _from_nothing(data.dims[place], product(rest))
    return (data, index), merged(outs, (data.with_shape(shape),))


def pick(
    data: np.ndarray, index: np.ndarray, *, axis: int | None, keepdims: bool, mode: str
) -> np.ndarray:
    place, shape, _ = _picked(data.shape, axis, keepdims)
    if product(shape) == 0:
        return np.empty(shape, data.dtype)
    one_each = (*data.shape[:place], 1, *data.shape[place + 1 :])
    number = convert(index, INT32)  # MXNet's pick takes a C int: 1e10 is its smallest value
    chosen = rows_within("pick", number, data.shape[place], mode).reshape(one_each)
    return np.asarray(np.take_along_axis(data, chosen, place).reshape(shape), order="C")


def _grad_pick(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    axis: int | None,
    keepdims: bool,
    mode: str,
) -> tuple[Reached[X], ...]:
    """Gradient at the element that was read, 0 at the others of its row."""
    t = g.type(ins[0])
    place, _, _ = _picked(t.dims, axis, keepdims)
    kept = (*t.dims[:place], 1, *t.dims[place + 1 :])
    if not t.size:
        return None, None

    def by_data() -> X:
        index = as_shape(g, within(g, ins[1], t.dims[place], mode, INT32), kept)
        d = broadcast(g, as_shape(g, douts[0], kept), t.dims, at="head")
        return g.op(lookup("where"), _is_at(g, index, place, t), d, zeros_like(g, d))

    return by_data, None


def _is_at(g: Builder[X], index: X, place: int, like: TensorType) -> X:
    """1 where the axis has the index ``index``, else 0; ``index`` has size 1 along the axis.

    Compares with a range if the dtype represents it, which avoids writing a one-hot array.
    """
    dims, depth = like.dims, like.dims[place]
    if like.dtype in (FLOAT32, FLOAT64) and depth <= _COUNTED:
        numbers = g.op(lookup("_arange"), at="numbers", start=0.0, stop=depth, dtype=like.dtype)
        sizes = tuple(depth if axis == place else 1 for axis in range(len(dims)))
        return equals(g, as_shape(g, numbers, sizes), in_dtype(g, index, like))
    hot = g.op(ONE_HOT, index, at="hot", depth=depth, dtype=like.dtype)
    last = len(dims)
    order = (*range(place), last, *range(place + 1, last), place)
    return as_shape(g, transpose(g, hot, order, at="chosen"), dims)


PICK = register(
    "pick",
    "data index",
    "axis:int?=-1 keepdims:bool=False mode:clip|wrap=clip",
    kernel="gather",
    infer=_pick_types,
    ref=pick,
    grad=_grad_pick,
    aliases="choose_element_0index",
    traits=Traits(samples=Samples.PICKED, stops=lambda attrs: (1,)),
    doc="Select one element of each row along an axis.",
)


def _batch_take_type(a: TensorType, indices: TensorType) -> TensorType:
    if a.ndim != 2 or indices.dims != a.dims[:1]:
        raise ShapeError(
            f"batch_take needs a matrix (N, M) and N indices, got {shape_text(a.dims)} and "
            f"{shape_text(indices.dims)}"
        )
    _from_nothing(a.dims[1], indices.size)
    return a.with_shape(indices.dims)


def _infer_batch_take(ins: Types, outs: Types) -> tuple[Types, Types]:
    a, indices = ins
    if indices.dtype is not None and indices.dtype != np.int32:
        raise DTypeError(f"batch_take needs int32 indices, got {indices.dtype}")
    return forward(_batch_take_type)((a, indices.with_dtype(np.dtype(np.int32))), outs)


BATCH_TAKE = register(
    "batch_take",
    "a indices",
    kernel="gather",
    infer=_infer_batch_take,
    ref=lambda a, indices: pick(a, indices, axis=1, keepdims=False, mode="clip"),
    doc="Select one element of each row.",
)


def _one_hot_type(
    indices: TensorType, *, depth: int, on_value: float, off_value: float, dtype: np.dtype
) -> TensorType:
    if depth < 0:
        raise AttributeValueError(f"one_hot's depth cannot be negative, got {depth}")
    return TensorType((*indices.dims, depth), dtype)


def one_hot(
    indices: np.ndarray, *, depth: int, on_value: float, off_value: float, dtype: np.dtype
) -> np.ndarray:
    hit = whole(indices)[..., None] == np.arange(depth)
    return np.where(hit, scalar_of(on_value, dtype), scalar_of(off_value, dtype))


ONE_HOT = register(
    "one_hot",
    "indices",
    "depth:int! on_value:double=1 off_value:double=0 dtype:dtype=float32",
    kernel="one_hot",
    infer=forward(_one_hot_type),
    ref=one_hot,
    grad=none_at_all,
    doc="One row per index: on_value at the index, off_value elsewhere or if out of range.",
)


# Index vectors: axis 0 of the indices enumerates the data's leading axes


def places_of(indices: np.ndarray, shape: Shape) -> tuple[np.ndarray, ...]:
    """Index arrays of the leading axes. Raises IndexError for an index out of range."""
    places = tuple(whole(indices))
    for axis, (place, size) in enumerate(zip(places, shape)):
        outside = (place < -size) | (place >= size)
        if outside.any():
            raise IndexError(
                f"index {place[outside].flat[0]} is out of bounds for axis {axis} with size {size}"
            )
    return places


def _rows_shape(what: str, shape: Shape, indices: TensorType) -> Shape:
    if indices.ndim < 2:
        raise ShapeError(f"{what} needs indices of at least 2 axes, got {indices.ndim}")
    if not 1 <= indices.dims[0] <= len(shape):
        raise ShapeError(f"{what}: {indices.dims[0]} indices for {len(shape)} axes")
    return indices.dims[1:] + shape[indices.dims[0] :]


def _grad_gather_nd(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]
) -> tuple[Reached[X], ...]:
    data, indices = ins
    return (lambda: g.op(ADD_AT, douts[0], indices, shape=g.type(data).dims)), None


GATHER_ND = register(
    "gather_nd",
    "data indices",
    kernel="gather",
    infer=forward(
        lambda data, indices: data.with_shape(_rows_shape("gather_nd", data.dims, indices))
    ),
    ref=lambda data, indices: fresh(data[places_of(indices, data.shape)], data.dtype),
    grad=_grad_gather_nd,
    traits=Traits(stops=lambda attrs: (1,)),
    doc="Select elements or rows of data at index vectors.",
)


def _scatter_type(data: TensorType, indices: TensorType, *, shape: Shape) -> TensorType:
    if not shape:
        raise ShapeError("scatter_nd cannot create an array of shape ()")
    needed = _rows_shape("scatter_nd", shape, indices)
    if data.dims != needed:
        raise ShapeError(
            f"scatter_nd's data has shape {shape_text(data.dims)}, it must be {shape_text(needed)}"
        )
    return data.with_shape(shape)


def scatter_nd(data: np.ndarray, indices: np.ndarray, *, shape: Shape) -> np.ndarray:
    """Zeros with data's elements at index vectors; of equal indices the last one wins."""
    result = np.zeros(shape, data.dtype)
    result[places_of(indices, shape)] = data
    return result


def _grad_scatter(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, shape: Shape
) -> tuple[Reached[X], ...]:
    """Gradient at each row's index, also if another row replaced it."""
    return (lambda: g.op(GATHER_ND, douts[0], ins[1])), None


SCATTER_ND = register(
    "scatter_nd",
    "data indices",
    "shape:shape!",
    kernel="scatter",
    infer=forward(_scatter_type),
    ref=scatter_nd,
    grad=_grad_scatter,
    traits=Traits(stops=lambda attrs: (1,)),
    doc="Zeros of a shape with data written at index vectors.",
)


def _set_type(lhs: TensorType, rhs: TensorType, indices: TensorType, *, shape: Shape) -> TensorType:
    if shape and shape != lhs.dims:
        raise ShapeError(f"shape must be that of the array {lhs}, got {shape_text(shape)}")
    _scatter_type(rhs, indices, shape=lhs.dims)
    return lhs


def _set_nd(lhs: np.ndarray, rhs: np.ndarray, indices: np.ndarray, *, shape: Shape) -> np.ndarray:
    made = np.array(lhs)
    made[places_of(indices, lhs.shape)] = rhs
    return made


def _grad_set(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, shape: Shape
) -> tuple[Reached[X], ...]:
    lhs, rhs, indices = ins

    def kept() -> X:
        return g.op(SCATTER_SET_ND, douts[0], zeros_like(g, rhs), indices, shape=shape)

    return kept, (lambda: g.op(GATHER_ND, douts[0], indices)), None


SCATTER_SET_ND = register(
    "_scatter_set_nd",
    "lhs rhs indices",
    "shape:shape=()",
    infer=forward(_set_type),
    ref=_set_nd,
    grad=_grad_set,
    traits=Traits(stops=lambda attrs: (2,)),
    doc="Array with data written at index vectors.",
)


def add_at(data: np.ndarray, indices: np.ndarray, *, shape: Shape) -> np.ndarray:
    """Zeros with data's rows added in order; float16 is accumulated in single precision."""
    places = places_of(indices, shape)
    lead, rest = shape[: len(places)], shape[len(places) :]
    flat = np.zeros(places[0].shape, np.int64)
    for place, size in zip(places, lead):
        flat = flat * size + place % size
    wide = widened(data)
    sums = np.zeros((product(lead), *((product(rest),) if rest else ())), wide.dtype)
    np.add.at(sums, flat.ravel(), wide.reshape(flat.size, *sums.shape[1:]))
    return sums.reshape(shape).astype(data.dtype, copy=False)


def sum_along(g: Builder[X], d: X, index: X, size: int) -> X:
    """Sum (rows, count) at integer indices of each row: (rows, size), zeros elsewhere."""
    rows, count = g.type(d).dims
    flat = add(g, index, as_shape(g, _starts(g, rows, size), (rows, 1)))
    sides = as_shape(g, d, (rows * count,)), as_shape(g, flat, (1, rows * count))
    return as_shape(g, g.op(ADD_AT, *sides, at="summed", shape=(rows * size,)), (rows, size))


def _starts(g: Builder[X], rows: int, size: int) -> X:
    """The index of the first element of each of ``rows`` rows; sizes may be symbolic."""
    if not isinstance(rows * size, Size):
        stop, step = float(rows * size), float(size)
        return g.op(lookup("_arange"), at="starts", start=0.0, stop=stop, step=step, dtype=INT64)
    most = rows if isinstance(rows, Size) else float(rows)
    numbers = g.op(lookup("_arange"), at="rows", start=0.0, stop=most, dtype=INT64)
    width = size if isinstance(size, Size) else float(size)
    factor = g.op(lookup("_full"), at="width", shape=(1,), dtype=INT64, value=width)
    return g.op(lookup("broadcast_mul"), numbers, factor, at="starts")


ADD_AT = register(
    "_add_at",
    "data indices",
    "shape:shape!",
    internal=True,
    kernel="scatter",
    infer=forward(_scatter_type),
    ref=add_at,
    grad=_grad_scatter,
    traits=Traits(in_single=True),
    doc="Zeros of a shape with data added at index vectors, which may be equal.",
)


def _ravel_type(data: TensorType, *, shape: Shape | None) -> TensorType:
    axes = len(shape or ())
    if data.ndim != 2 or data.dims[0] != axes:
        raise ShapeError(
            f"data must be ({axes}, N), one row per coordinate, got {shape_text(data.dims)}"
        )
    return data.with_shape(data.dims[1:])


def ravel_multi_index(data: np.ndarray, *, shape: Shape | None) -> np.ndarray:
    places, sizes = whole(data), shape or ()
    if not sizes:
        return np.zeros(data.shape[1:], data.dtype)
    flat = places[0]
    for size, place in zip(sizes[1:], places[1:]):
        flat = flat * size + place
    return convert(flat, data.dtype)


def _short(indices: np.ndarray, size: int) -> np.ndarray:
    """Indices as int32 if they and ``size`` fit: NumPy divides twice as fast; else as int64."""
    if indices.size and size < _INT32_END:
        least, most = indices.min().item(), indices.max().item()
        if least >= -_INT32_END and most < _INT32_END:
            return indices.astype(np.int32)
    return whole(indices)


def unravel_index(data: np.ndarray, *, shape: Shape | None) -> np.ndarray:
    """Coordinates of flat indices, last axis fastest; the first coordinate is not bounded."""
    sizes = shape or ()
    rest = _short(data, max(sizes))
    out = np.empty((len(sizes), *data.shape), data.dtype)
    for axis in range(len(sizes) - 1, 0, -1):
        above = rest // sizes[axis]  # vectorised by NumPy, unlike the remainder
        out[axis] = rest - above * sizes[axis]
        rest = above
    out[0] = rest
    return out


def _unravel_type(data: TensorType, *, shape: Shape | None) -> TensorType:
    if not shape:
        raise AttributeValueError(f"unravel_index needs a shape, got {shape}")
    return data.with_shape((len(shape), *data.dims))


register(
    "_ravel_multi_index",
    "data",
    "shape:shape?=None",
    infer=forward(_ravel_type),
    ref=ravel_multi_index,
    grad=none_at_all,
    traits=Traits(names_data=True),
    aliases="ravel_multi_index",
    doc="Flat indices from coordinates (axes, n).",
)
register(
    "_unravel_index",
    "data",
    "shape:shape?=None",
    infer=forward(_unravel_type),
    ref=unravel_index,
    grad=none_at_all,
    traits=Traits(names_data=True),
    aliases="unravel_index",
    doc="Coordinates (axes, n) from flat indices.",
)
