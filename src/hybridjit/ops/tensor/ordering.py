"""Sorting and extrema: argmax, argmin, topk, sort, argsort.

Input: numeric arrays. Output: indices as floats (argmax in the data's dtype, others in ``dtype``,
float32 by default) or the values. Of equal elements the first one comes first in both directions.
NaN counts as largest and smallest for argmax and argmin; its position in sorted order is undefined
in MXNet, here it comes last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, INT32, INT64, TensorType, product
from ...errors import ShapeError
from .. import native
from ..algebra import as_shape
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import convert
from ..elementwise.element_type import CAST
from ..gradient import none_at_all
from ..record import Eager, OpDef, Samples, Traits
from ..registry import register
from ..rules import Types, forward, normalized_axis, refuse_bool
from ..signatures import Arrays, Computation, Reference
from .by_index import sum_along
from .primitives import reshape, transpose

Shape = tuple[int, ...]

# Minimal length of a row that is processed by a separate call.
_LONG_ROW = 1024
# Maximal count for selection by machine code, and minimal ratio of row length to count: 8 for
# short lists, 16 for the others.
_MOST, _FEW, _LONG = 256, 32, 8
# Element types that machine code sorts, and those by which it sorts others: exact conversions.
SORTED = (FLOAT32, FLOAT64, INT32, INT64)
_SORTED_AS = {np.dtype("float16"): FLOAT32, np.dtype("uint8"): INT32, np.dtype("int8"): INT32}
_ARG = "axis:int?=None keepdims:bool=False"


def _arg_shape(data: TensorType, axis: int | None, keepdims: bool) -> Shape:
    if axis is None:
        shape: Shape = (1,) * data.ndim if keepdims else (1,)
        count = data.size
    else:
        place = normalized_axis(axis, data.ndim)
        count = data.dims[place]
        middle = (1,) if keepdims else ()
        shape = data.dims[:place] + middle + data.dims[place + 1 :] or (1,)
    if count == 0:
        raise ShapeError(f"0 elements do not have a maximum or minimum: data is {data}")
    return shape


def _arg_type(data: TensorType, *, axis: int | None, keepdims: bool) -> TensorType:
    refuse_bool(data)
    return data.with_shape(_arg_shape(data, axis, keepdims))


def _arg(find: Computation) -> Reference:
    def ref(data: np.ndarray, *, axis: int | None, keepdims: bool) -> np.ndarray:
        shape = _arg_type(TensorType(data.shape, data.dtype), axis=axis, keepdims=keepdims).dims
        return convert(np.asarray(find(data, axis=axis)).reshape(shape), data.dtype)

    return ref


def _place(name: str, find: Computation, doc: str) -> OpDef:
    def expand(g: Builder[X], data: X, *, axis: int | None, keepdims: bool) -> X | None:
        """argmax(x), argmin(x) of all  =>  argmax(flattened x)"""
        if axis is not None:
            return None
        t = g.type(data)
        row = reshape(g, data, (1, t.size), at="row")
        return reshape(g, g.op(op, row, at="place", axis=1), _arg_shape(t, axis, keepdims))

    op = register(
        name,
        "data",
        _ARG,
        kernel="reduce",
        infer=forward(_arg_type),
        ref=_arg(find),
        expand=expand,
        grad=none_at_all,
        traits=Traits(samples=Samples.AXIS, eager=Eager.NUMPY),
        doc=doc,
    )
    return op


ARGMAX = _place(
    "argmax", np.argmax, "Index of the first maximum along an axis, in the data's type."
)
ARGMIN = _place(
    "argmin", np.argmin, "Index of the first minimum along an axis, in the data's type."
)
ARGMAX_CHANNEL = register(
    "argmax_channel",
    "data",
    kernel="reduce",
    infer=forward(lambda data: _arg_type(data, axis=1, keepdims=False)),
    ref=lambda data: _arg(np.argmax)(data, axis=1, keepdims=False),
    doc="argmax along axis 1.",
)


def order(data: np.ndarray, axis: int, is_ascend: bool) -> np.ndarray:
    """Indices that sort along ``axis``; stable, NaN last."""
    if is_ascend:
        return np.argsort(data, axis=axis, kind="stable")
    if data.dtype.kind == "f":
        return np.argsort(-data, axis=axis, kind="stable")
    # Reversing the ascending order of the reversed array keeps the order of equal elements.
    backwards = np.argsort(np.flip(data, axis), axis=axis, kind="stable")
    return data.shape[axis] - 1 - np.flip(backwards, axis)


def first_of(keys: np.ndarray, count: int) -> np.ndarray:
    """Indices of the ``count`` smallest of a row of floats, sorted; stable, NaN last.

    Only these are sorted: finding 400 of 200,000 this way takes a tenth of the time.
    """
    if 0 < 4 * count < len(keys):
        limit = np.partition(keys, count - 1)[count - 1]
        chosen = np.flatnonzero(keys <= limit)
        if len(chosen) >= count:  # false for a limit of NaN
            return chosen[np.argsort(keys[chosen], kind="stable")[:count]]
    return np.argsort(keys, kind="stable")[:count]


def _best(data: np.ndarray, axis: int, is_ascend: bool, count: int) -> np.ndarray:
    """First ``count`` indices of :func:`order`."""
    size = data.shape[axis]
    selected = _selected(data, axis, is_ascend, count)
    if selected is not None:
        return selected
    if data.dtype.kind != "f" or size < _LONG_ROW or 4 * count >= size or not data.size:
        return np.take(order(data, axis, is_ascend), range(count), axis=axis)
    lines = np.moveaxis(data if is_ascend else -data, axis, -1)
    best = np.stack([first_of(line, count) for line in lines.reshape(-1, size)])
    return np.moveaxis(best.reshape(*lines.shape[:-1], count), -1, axis)


def _selected(data: np.ndarray, axis: int, is_ascend: bool, count: int) -> np.ndarray | None:
    """Indices selected by machine code; None if NumPy must select."""
    size = data.shape[axis]
    ratio = _LONG if count <= _FEW else 2 * _LONG
    dtype = _SORTED_AS.get(data.dtype, data.dtype)
    if dtype not in SORTED or not 0 < count <= _MOST or size < ratio * count:
        return None
    run = native.routine("select", count, is_ascend, dtype.name, size=data.size)
    if run is None:
        return None
    lines = np.ascontiguousarray(np.moveaxis(data, axis, -1), dtype)
    best = np.empty((*lines.shape[:-1], count), INT64)
    run([lines, np.empty(best.shape, dtype), best], [best.size // count, size])
    return np.moveaxis(best, -1, axis)


def _lined_up(shape: Shape, axis: int | None) -> tuple[Shape, int]:
    """Shape and axis of the sort; axis None flattens."""
    if axis is None:
        return (int(np.prod(shape)),), 0
    return shape, normalized_axis(axis, len(shape))


def _topk_shape(shape: Shape, axis: int | None, k: int, ret_typ: str) -> Shape:
    lined, place = _lined_up(shape, axis)
    size = lined[place]
    if k > size:
        raise ShapeError(f"cannot select the top {k} of {size} elements")
    if ret_typ == "mask":
        return shape
    return (*lined[:place], k if k > 0 else size, *lined[place + 1 :])


def _topk_types(
    data: TensorType,
    *,
    axis: int | None,
    k: int,
    ret_typ: str,
    is_ascend: bool,
    dtype: np.dtype,
) -> Types:
    refuse_bool(data)
    shape = _topk_shape(data.dims, axis, k, ret_typ)
    values, indices = TensorType(shape, data.dtype), TensorType(shape, dtype)
    if ret_typ == "both":
        return values, indices
    return (indices,) if ret_typ == "indices" else (values,)


def topk(
    data: np.ndarray,
    *,
    axis: int | None,
    k: int,
    ret_typ: str,
    is_ascend: bool,
    dtype: np.dtype,
) -> Arrays:
    """The k largest (or smallest) along an axis, best first: values, indices, or a mask."""
    lined, place = _lined_up(data.shape, axis)
    line = data.reshape(lined)
    count = k if k > 0 else lined[place]
    best = _best(line, place, is_ascend, count)
    if ret_typ == "mask":
        mask = np.zeros(lined, data.dtype)
        np.put_along_axis(mask, best, np.array(1, data.dtype), axis=place)
        return mask.reshape(data.shape)
    values = np.asarray(np.take_along_axis(line, best, axis=place), order="C")
    indices = convert(best, dtype)
    if ret_typ == "both":
        return values, indices
    return indices if ret_typ == "indices" else values


def _ordered_types(data: TensorType, *, k: int, is_ascend: bool) -> Types:
    rows = data.dims[0]
    return data.with_shape((rows, k)), TensorType((rows, k), INT64)


def _ordered(data: np.ndarray, *, k: int, is_ascend: bool) -> Arrays:
    """First ``k`` elements of each row in sorted order, and their indices."""
    best = _best(data, 1, is_ascend, k)
    return np.ascontiguousarray(np.take_along_axis(data, best, axis=1)), best.astype(np.int64)


ORDERED = register(
    "_ordered",
    "data",
    "k:int! is_ascend:bool!",
    internal=True,
    infer=forward(_ordered_types),
    ref=_ordered,
    grad=none_at_all,
    kernel="order",
    outputs=("values", "places"),
    doc="First elements of each row in stable sorted order, and their indices.",
)


def _in_order(
    g: Builder[X], data: X, axis: int | None, count: int, is_ascend: bool
) -> tuple[X, X] | None:
    """Values and indices (int64) of the first ``count`` along an axis; None without a kernel."""
    t = g.type(data)
    dtype = _SORTED_AS.get(t.dtype, t.dtype)
    if not t.size or dtype not in SORTED:
        return None
    lined, place = _lined_up(t.dims, axis)
    size, last = lined[place], len(lined) - 1
    order = (*(i for i in range(len(lined)) if i != place), place)
    lines = data if dtype == t.dtype else g.op(CAST, data, at="keys", dtype=dtype)
    lines = lines if axis is not None else reshape(g, lines, lined, at="flat")
    if place != last:
        lines = transpose(g, lines, order, at="lines")
    outer = tuple(lined[i] for i in order[:-1])
    rows = reshape(g, lines, (product(outer), size), at="rows")
    whole = ("values", "places")
    found = g.outputs(ORDERED, rows, at="order", k=count or size, is_ascend=is_ascend)
    shaped = [
        reshape(g, x, (*outer, count or size), at=f"{at}_shaped") for x, at in zip(found, whole)
    ]
    if place != last:
        back = tuple(map(order.index, range(len(order))))
        shaped = [transpose(g, x, back, at=f"{at}_back") for x, at in zip(shaped, whole)]
    values, places = shaped
    if dtype != t.dtype:
        values = g.op(CAST, values, at="values", dtype=t.dtype)
    return values, places


def _topk_parts(
    g: Builder[X],
    data: X,
    *,
    axis: int | None,
    k: int,
    ret_typ: str,
    is_ascend: bool,
    dtype: np.dtype,
) -> X | tuple[X, ...] | None:
    """topk(x)  =>  sorted rows, with transposes before and after"""
    if ret_typ == "mask":
        return None
    found = _in_order(g, data, axis, max(k, 0), is_ascend)
    if found is None:
        return None
    values, places = found
    if ret_typ == "value":
        return values
    numbers = places if dtype == INT64 else g.op(CAST, places, at="numbers", dtype=dtype)
    return numbers if ret_typ == "indices" else (values, numbers)


def _sort_parts(g: Builder[X], data: X, *, axis: int | None, is_ascend: bool) -> X | None:
    """sort(x)  =>  sorted rows, with transposes before and after"""
    found = _in_order(g, data, axis, 0, is_ascend)
    return None if found is None else found[0]


def _argsort_parts(
    g: Builder[X], data: X, *, axis: int | None, is_ascend: bool, dtype: np.dtype
) -> X | None:
    """argsort(x)  =>  indices of sorted rows, with transposes before and after"""
    found = _in_order(g, data, axis, 0, is_ascend)
    if found is None:
        return None
    return found[1] if dtype == INT64 else g.op(CAST, found[1], at="numbers", dtype=dtype)


def _scattered(
    g: Builder[X], ins: Sequence[X], d: X, *, axis: int | None, k: int, is_ascend: bool
) -> X:
    """Gradients of sorted values at the indices that they were read from."""
    t = g.type(ins[0])
    lined, place = _lined_up(t.dims, axis)
    found = g.op(
        TOPK, ins[0], at="places", axis=axis, k=k, ret_typ="indices", is_ascend=is_ascend,
        dtype=INT64,
    )  # fmt: skip
    order = (*(i for i in range(len(lined)) if i != place), place)
    rest = tuple(lined[i] for i in order)
    rows, size = product(rest[:-1]), rest[-1]
    count = g.type(d).dims[place]
    flat = as_shape(g, transpose(g, found, order, at="lines"), (rows, count))
    heads = as_shape(g, transpose(g, d, order, at="heads"), (rows, count))
    summed = sum_along(g, heads, flat, size)
    back = transpose(g, as_shape(g, summed, rest), tuple(map(order.index, range(len(order)))))
    return as_shape(g, back, t.dims)


def _grad_topk(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X | None],
    *,
    axis: int | None,
    k: int,
    ret_typ: str,
    is_ascend: bool,
    dtype: np.dtype,
) -> X | None:
    """Gradients of values at their indices; indices and masks have none."""
    if ret_typ not in ("value", "both") or douts[0] is None or not g.type(ins[0]).size:
        return None
    return _scattered(g, ins, douts[0], axis=axis, k=k, is_ascend=is_ascend)


def _grad_sort(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int | None, is_ascend: bool
) -> X | None:
    if not g.type(ins[0]).size:
        return None
    return _scattered(g, ins, douts[0], axis=axis, k=0, is_ascend=is_ascend)


def _topk_names(ret_typ: str, **attrs: AttrValue) -> tuple[str, ...]:
    if ret_typ == "both":
        return "output0", "output1"
    return ("output0",) if ret_typ == "value" else ("output",)


TOPK = register(
    "topk",
    "data",
    "axis:int?=-1 k:int=1 ret_typ:both|indices|mask|value=indices"
    " is_ascend:bool=False dtype:dtype=float32",
    infer=forward(_topk_types),
    ref=topk,
    grad=_grad_topk,
    expand=_topk_parts,
    traits=Traits(
        total_outputs=lambda ret_typ, **attrs: 2 if ret_typ == "value" else 1,
        unread=(1,),
        stops=lambda attrs: (0,) if attrs["ret_typ"] in ("indices", "mask") else (),
        eager=Eager.NUMPY,
    ),
    outputs=_topk_names,
    doc="The k largest or smallest elements along an axis: indices, values, both, or a mask.",
)


def _sorted_type(data: TensorType, *, axis: int | None, is_ascend: bool) -> TensorType:
    refuse_bool(data)
    return data.with_shape(_lined_up(data.dims, axis)[0])


def sort(data: np.ndarray, *, axis: int | None, is_ascend: bool) -> np.ndarray:
    lined, place = _lined_up(data.shape, axis)
    line = data.reshape(lined)
    found = np.take_along_axis(line, order(line, place, is_ascend), axis=place)
    return np.asarray(found, order="C")


def argsort(data: np.ndarray, *, axis: int | None, is_ascend: bool, dtype: np.dtype) -> np.ndarray:
    lined, place = _lined_up(data.shape, axis)
    return convert(order(data.reshape(lined), place, is_ascend), dtype)


register(
    "sort",
    "data",
    "axis:int?=-1 is_ascend:bool=True",
    infer=forward(_sorted_type),
    ref=sort,
    grad=_grad_sort,
    expand=_sort_parts,
    traits=Traits(total_outputs=2),
    outputs=("output0",),
    doc="Elements sorted along an axis; flattened if axis is None.",
)
register(
    "argsort",
    "data",
    "axis:int?=-1 is_ascend:bool=True dtype:dtype=float32",
    infer=forward(
        lambda data, axis, is_ascend, dtype: _sorted_type(
            data, axis=axis, is_ascend=is_ascend
        ).with_dtype(dtype)
    ),
    ref=argsort,
    grad=none_at_all,
    expand=_argsort_parts,
    doc="Indices that sort the elements along an axis; the sort is stable.",
)
