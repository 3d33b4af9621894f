"""Assignment through masks and index vectors, as operators that give the written array.

In: an array, a mask or index vectors, and the values for these places. Out: a copy with these
values, or with their sums.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, TensorType, is_known_shape, shape_text
from ...errors import DTypeError, ShapeError
from ..algebra import add, as_shape, zeros_like
from ..building import Builder, Many, Reached, X
from ..casting import convert
from ..gradient import none_at_all
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged
from ..tensor.by_index import ADD_AT, SCATTER_SET_ND
from ..tensor.primitives import reshape
from .forms import BOOL
from .pointwise import selected


def _masked_axes(data: Shape, mask: TensorType, start_axis: int) -> tuple[int, int]:
    """The axes of ``data`` that a mask covers. Raises ShapeError, DTypeError."""
    if mask.dtype not in (None, BOOL):
        raise DTypeError(f"a mask is bool, got {mask.dtype}")
    end = start_axis + mask.ndim
    if start_axis < 0 or data[start_axis:end] != mask.dims:
        raise ShapeError(
            f"a mask has the sizes of the array's axes from {start_axis} on: the mask is "
            f"{shape_text(mask.dims)}, the array {shape_text(data)}"
        )
    return start_axis, end


def _mask_types(ins: Types, outs: Types, *, start_axis: int, **value: float) -> tuple[Types, Types]:
    data, mask, *rest = ins
    if is_known_shape(data.shape) and is_known_shape(mask.shape):
        _masked_axes(data.dims, mask, start_axis)
    if rest and None not in (data.dtype, rest[0].dtype) and data.dtype != rest[0].dtype:
        raise DTypeError(f"the values are {rest[0].dtype}, the array is {data.dtype}: cast them")
    return ins, merged(outs, (data,))


def _mask_on(g: Builder[X], data: X, mask: X, start_axis: int) -> X:
    """The mask under the axes of the array."""
    wanted = g.type(data).dims
    start, end = _masked_axes(wanted, g.type(mask), start_axis)
    sizes = (1,) * start + wanted[start:end] + (1,) * (len(wanted) - end)
    return reshape(g, mask, sizes, at="mask_axes")


def _number_at_mask(g: Builder[X], data: X, mask: X, *, value: float, start_axis: int) -> X:
    """boolean_mask_assign_scalar(x, mask, value)  =>  where(mask, value, x)"""
    where = lookup("_npi_where_lscalar")
    return g.op(where, _mask_on(g, data, mask, start_axis), data, scalar=value)


register(
    "_npi_boolean_mask_assign_scalar",
    "data mask",
    "value:float=0 start_axis:int=0",
    infer=_mask_types,
    ref=lambda data, mask, value, start_axis: _assigned(
        data, mask, convert(np.asarray(value), data.dtype), start_axis
    ),
    expand=_number_at_mask,
    doc="The array with a number where the mask is true.",
)


def _place(mask: np.ndarray, start_axis: int) -> tuple[slice | np.ndarray, ...]:
    return (*(slice(None),) * start_axis, mask.astype(bool))


def _assigned(data: np.ndarray, mask: np.ndarray, value: np.ndarray, start_axis: int) -> np.ndarray:
    """Raises ShapeError where the values do not broadcast into the masked part."""
    made, place = np.array(data), _place(mask, start_axis)
    try:
        made[place] = value
    except ValueError:
        raise ShapeError(
            f"values of shape {shape_text(value.shape)} do not broadcast to the masked part "
            f"{shape_text(made[place].shape)}"
        ) from None
    return made


def _grad_assigned(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, start_axis: int
) -> tuple[Reached[X], ...]:
    data, mask, value = ins
    side = _mask_on(g, data, mask, start_axis)
    return (
        lambda: selected(g, side, zeros_like(g, douts[0]), douts[0]),
        None,
        lambda: g.op(_VALUES_AT, douts[0], mask, value, start_axis=start_axis),
    )


register(
    "_npi_boolean_mask_assign_tensor",
    "data mask value",
    "start_axis:int=0",
    infer=_mask_types,
    ref=lambda data, mask, value, start_axis: _assigned(data, mask, value, start_axis),
    grad=_grad_assigned,
    traits=Traits(stops=lambda attrs: (1,)),
    doc="The array with values where the mask is true, in order.",
)


def _values_at(
    data: np.ndarray, mask: np.ndarray, value: np.ndarray, *, start_axis: int
) -> np.ndarray:
    """The masked part of ``data``, summed to the shape of ``value``."""
    found = data[_place(mask, start_axis)]
    lead = found.ndim - value.ndim
    shape = (1,) * lead + value.shape
    axes = tuple(i for i, (a, b) in enumerate(zip(found.shape, shape)) if i < lead or a != b)
    return found.sum(axes).reshape(value.shape) if axes else found.reshape(value.shape)


def _grad_values_at(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, start_axis: int
) -> tuple[Reached[X], ...]:
    data, mask, _ = ins
    assign = lookup("_npi_boolean_mask_assign_tensor")
    return (
        lambda: g.op(assign, zeros_like(g, data), mask, douts[0], start_axis=start_axis),
        None,
        None,
    )


_VALUES_AT = register(
    "_values_at_mask",
    "data mask value",
    "start_axis:int=0",
    infer=forward(lambda data, mask, value, start_axis: value),
    ref=_values_at,
    grad=_grad_values_at,
    traits=Traits(stops=lambda attrs: (1, 2)),
    internal=True,
    doc="The gradient with respect to the values that a mask places.",
)


register(
    "_npi_share_memory",
    "a b",
    infer=forward(lambda a, b: TensorType((), BOOL)),
    ref=lambda a, b: np.asarray(np.shares_memory(a, b)),
    grad=none_at_all,
    doc="Whether two arrays have memory in common.",
)


def _at_vectors(g: Builder[X], a: X, ind: X, val: X) -> tuple[X, X]:
    """Index vectors with two axes, and one part of the values for each vector."""
    shape, given = g.type(a).dims, g.type(ind).dims
    vectors = given if len(given) == 2 else (1, *(given or (1,)))
    if len(vectors) != 2 or not 1 <= vectors[0] <= len(shape):
        raise ShapeError(
            f"ind has shape {shape_text(given)}, it must be (axes, N) with 1 <= axes <= "
            f"{len(shape)}, (N,) or () for an array of shape {shape_text(shape)}"
        )
    wanted = (vectors[1], *shape[vectors[0] :])
    wide = g.op(lookup("_npi_broadcast_to"), val, at="val_wide", shape=wanted)
    return as_shape(g, ind, vectors), g.op(lookup("Cast"), wide, at="val", dtype=g.type(a).dtype)


def _index_add(g: Builder[X], a: X, ind: X, val: X) -> X:
    """index_add(a, ind, val)  =>  a + zeros with val added at ind"""
    vectors, values = _at_vectors(g, a, ind, val)
    return add(g, a, g.op(ADD_AT, values, vectors, at="added", shape=g.type(a).dims))


def _index_update(g: Builder[X], a: X, ind: X, val: X) -> X:
    """index_update(a, ind, val)  =>  a with val written at ind"""
    vectors, values = _at_vectors(g, a, ind, val)
    return g.op(SCATTER_SET_ND, a, values, vectors, shape=g.type(a).dims)


register(
    "_npx_index_add",
    "a ind val",
    expand=_index_add,
    traits=Traits(stops=lambda attrs: (1,)),
    doc="The array with values added at index vectors; those of equal vectors are summed.",
)
register(
    "_npx_index_update",
    "a ind val",
    expand=_index_update,
    traits=Traits(stops=lambda attrs: (1,), parts_on_host=True),
    doc="The array with values written at index vectors; of equal vectors the last one wins.",
)
