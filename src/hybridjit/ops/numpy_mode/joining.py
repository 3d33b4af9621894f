"""Concatenation, splitting, insertion and deletion in NumPy mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.types import Shape, TensorType, product
from ...errors import DTypeError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..numbered import Numbered
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, forward, normalized_axis
from ..tensor.joining import concat_types, grad_concat, joined
from ..tensor.primitives import narrow, reshape
from .forms import ON_HOST, twin

twin("_npi_stack", "stack")


def _flat(g: Builder[X], parts: Sequence[X]) -> list[X]:
    return [reshape(g, x, (g.type(x).size,), at=f"flat{i}") for i, x in enumerate(parts)]


def _concatenated(g: Builder[X], *data: X, num_args: int, axis: int | None) -> X:
    """concatenate(x, ...)  =>  Concat, of flattened operands if axis is None"""
    if axis is None:
        return joined(g, _flat(g, data), 0)
    return g.op(lookup("Concat"), *data, num_args=num_args, dim=axis)


def _grad_concatenate(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int | None, **attrs: Any
) -> tuple[Reached[X], ...]:
    """Each operand's gradient is its slice of the output gradient."""
    if axis is not None:
        return grad_concat(g, ins, outs, douts, num_args=len(ins), dim=axis)
    found, start = [], 0
    for i, x in enumerate(ins):
        t = g.type(x)
        part = narrow(g, douts[0], 0, start, t.size, at=f"from{start}") if t.size else None
        found.append(None if part is None else reshape(g, part, t.dims, at=f"part{i}"))
        start += t.size
    return tuple(found)


def _concatenate_types(
    ins: Types, outs: Types, *, num_args: int, axis: int | None
) -> tuple[Types, Types]:
    if axis is not None:
        return concat_types(ins, outs, num_args=num_args, dim=axis)
    return _of_flat(ins, outs)


@forward
def _of_flat(*data: TensorType) -> TensorType:
    """Type rule for axis=None: operands are flattened."""
    if len({t.dtype for t in data}) > 1:
        raise DTypeError(f"concatenate takes one element type, got {', '.join(map(str, data))}")
    return data[0].with_shape((sum(t.size for t in data),))


def _concatenate(*data: np.ndarray, num_args: int, axis: int | None) -> np.ndarray:
    return np.asarray(np.concatenate(data, axis=axis), order="C")


register(
    "_npi_concatenate",
    "data...",
    "num_args:int[1,16384]! axis:int?=0 dim:int=1",
    infer=lambda ins, outs, dim, **attrs: _concatenate_types(ins, outs, **attrs),
    ref=lambda *data, dim, **attrs: _concatenate(*data, **attrs),
    expand=lambda g, *data, dim, **attrs: _concatenated(g, *data, **attrs),
    grad=_grad_concatenate,
    doc="Arrays joined along an axis; flattened arrays if axis is None.",
)


ShapeOf = Callable[[Shape], Shape]


def _stacking(name: str, shape_of: ShapeOf, axis_of: Callable[[int], int], doc: str) -> None:
    """Register a join whose operands are first reshaped to more axes."""

    def expand(g: Builder[X], *data: X, num_args: int, **attrs: Any) -> X:
        """hstack, vstack, ...  =>  Concat of reshaped operands"""
        shaped = [
            reshape(g, x, shape_of(g.type(x).dims), at=f"part{i}") for i, x in enumerate(data)
        ]
        axis = axis_of(g.type(shaped[0]).ndim)
        if len(shaped) == 1:
            return shaped[0]
        return g.op(lookup("Concat"), *shaped, num_args=len(shaped), dim=axis)

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Any
    ) -> tuple[Reached[X], ...]:
        """Each operand's gradient is its slice of the output gradient."""
        axis = axis_of(g.type(outs[0]).ndim)
        found: list[Any] = []
        start = 0
        for i, x in enumerate(ins):
            t = g.type(x)
            size = shape_of(t.dims)[axis]
            part = narrow(g, douts[0], axis, start, size, at=f"from{start}") if t.size else None
            found.append(None if part is None else reshape(g, part, t.dims, at=f"part{i}"))
            start += size
        return tuple(found)

    def ref(*data: np.ndarray, **attrs: Any) -> np.ndarray:
        return np.asarray(official(data), order="C")

    official = getattr(np, name)
    has_dim = name in ("hstack", "dstack")
    register(
        f"_npi_{name}",
        "data...",
        "num_args:int[1,16384]!" + (" dim:int=1 axis:int=0" if has_dim else ""),
        ref=ref,
        expand=expand,
        grad=grad,
        doc=doc,
    )


def _as_row(data: Shape) -> Shape:
    return (1,) * (2 - len(data)) + data


def _as_column(data: Shape) -> Shape:
    return data if len(data) >= 2 else (product(data), 1)


def _as_planes(data: Shape) -> Shape:
    return {0: (1, 1, 1), 1: (1, *data, 1)}.get(len(data), (*data, 1)) if len(data) < 3 else data


_stacking("vstack", _as_row, lambda ndim: 0, "Operands stacked as rows.")
_stacking(
    "hstack",
    lambda data: data or (1,),
    lambda ndim: 0 if ndim == 1 else 1,
    "Operands joined along axis 1; vectors along axis 0.",
)
_stacking("dstack", _as_planes, lambda ndim: 2, "Operands joined along the third axis.")
_stacking("column_stack", _as_column, lambda ndim: 1, "Vectors and matrices joined as columns.")


def _split_names(indices: Shape, sections: int, **attrs: Any) -> Numbered:
    return Numbered("output", sections or len(indices))


def _splitting(name: str, axis_of: Callable[[int], int]) -> None:
    def expand(g: Builder[X], data: X, *, axis: int, **attrs: Any) -> Any:
        """hsplit, dsplit  =>  _split_v2 along one axis"""
        made = g.outputs(lookup("_split_v2"), data, axis=axis_of(g.type(data).ndim), **attrs)
        return made if len(made) > 1 else made[0]

    register(
        f"_npi_{name}",
        "data",
        "indices:shape~! axis:int=1 squeeze_axis:bool=False sections:int[0,16384]=0",
        expand=expand,
        outputs=_split_names,
        doc="Split along one axis into equal slices, or at given indices.",
    )


def _second(ndim: int) -> int:
    return 0 if ndim == 1 else 1


_splitting("hsplit", _second)
_splitting("dsplit", lambda ndim: 2)


# Differences


def _diff_shape(a: Shape, n: int, axis: int) -> Shape:
    place = normalized_axis(axis, len(a))
    if n < 0:
        raise ShapeError(f"diff's order is not negative, got {n}")
    return tuple(max(d - n, 0) if i == place else d for i, d in enumerate(a))


def _diff_rule(a: TensorType, *, n: int, axis: int) -> TensorType:
    return a.with_shape(_diff_shape(a.dims, n, axis))


def _diffs(g: Builder[X], a: X, *, n: int, axis: int) -> X | None:
    """diff(x)  =>  x[1:] - x[:-1], n times"""
    dims = g.type(a).dims
    place = axis % len(dims)
    if n == 0:
        return g.op(lookup("_copy"), a)
    if g.type(a).dtype == np.dtype("bool"):
        return None
    if dims[place] <= n:
        return narrow(g, a, place, 0, 0)
    for i in range(n):
        size = g.type(a).dims[place] - 1
        rear = narrow(g, a, place, 1, size, at=f"rear{i}")
        front = narrow(g, a, place, 0, size, at=f"front{i}")
        a = g.op(lookup("broadcast_sub"), rear, front, at="" if i == n - 1 else f"diff{i}")
    return a


register(
    "_npi_diff",
    "a",
    "n:int=1 axis:int=-1",
    infer=forward(_diff_rule),
    ref=lambda a, n, axis: np.array(np.diff(a, n, axis)),
    expand=_diffs,
    traits=ON_HOST,
    doc="n-th differences of adjacent elements along an axis.",
)


def _ediff_inputs(
    to_begin_arr_given: bool, to_end_arr_given: bool, **attrs: AttrValue
) -> tuple[str, ...]:
    return ("input1", "input2", "input3")[: 1 + to_begin_arr_given + to_end_arr_given]


def _edges(
    g: Builder[X], more: Sequence[X], t: TensorType, attrs: dict[str, Declared]
) -> tuple[list[X], list[X]]:
    """Elements before the differences, and elements after them."""
    rest, sides = list(more), []
    for side in ("begin", "end"):
        number = attrs[f"to_{side}_scalar"]
        if attrs[f"to_{side}_arr_given"]:
            x = rest.pop(0)
            size = g.type(x).size
            sides.append([reshape(g, x, (size,), at=side)] if size else [])
        elif number is not None:
            sides.append([g.op(lookup("_full"), at=side, shape=(1,), dtype=t.dtype, value=number)])
        else:
            sides.append([])
    return sides[0], sides[1]


def _ediff(g: Builder[X], first: X, *more: X, **attrs: Any) -> X:
    """ediff1d(x)  =>  Concat of the edges and the differences of the flattened operand"""
    t = g.type(first)
    flat = reshape(g, first, (t.size,), at="flat")
    before, after = _edges(g, more, t, attrs)
    at = "diffs" if before or after else ""
    return joined(g, [*before, g.op(lookup("_npi_diff"), flat, at=at), *after], 0)


register(
    "_npi_ediff1d",
    _ediff_inputs,
    "to_begin_arr_given:bool=False to_end_arr_given:bool=False to_begin_scalar:double?=None"
    " to_end_scalar:double?=None",
    expand=_ediff,
    doc="Differences of adjacent elements of the flattened operand, with optional edges.",
)


# Insertion and deletion

_PLACE = "start:int?=None stop:int?=None step:int?=None int_ind:int?=None axis:int?=None"


def _line(data: Shape, axis: int | None) -> tuple[Shape, int]:
    if axis is None:
        return (product(data),), 0
    return data, normalized_axis(axis, len(data))


def _places(size: int, attrs: dict[str, Any], insert: bool = False) -> Any:
    """Index or slice that the attributes describe."""
    if attrs["int_ind"] is not None:
        index, last = attrs["int_ind"], size + insert
        if not -size <= index < last:
            raise IndexError(f"index {index} is out of bounds for an axis of size {size}")
        return index
    return slice(attrs["start"], attrs["stop"], attrs["step"])


def _deleted(arr: np.ndarray, *obj: np.ndarray, axis: int | None, **attrs: Any) -> np.ndarray:
    shape, place = _line(arr.shape, axis)
    line, size = arr.reshape(shape), shape[place]
    if obj:
        places = obj[0].astype(np.int64)
        inside = places[(places >= 0) & (places < size)]  # MXNet leaves out all others
        return np.asarray(np.delete(line, inside, place))
    return np.asarray(np.delete(line, _places(size, attrs), place))


def _deleted_type(arr: TensorType, *obj: TensorType, axis: int | None, **attrs: Any) -> TensorType:
    """The size along the axis is unknown: it depends on the values of ``obj``."""
    shape, place = _line(arr.dims, axis)
    if not obj:
        _places(shape[place], attrs)
    return arr.with_shape((*shape[:place], None, *shape[place + 1 :]))


def _inserted(
    arr: np.ndarray, more: Sequence[np.ndarray], val: float | None, axis: int | None, attrs: Any
) -> np.ndarray:
    shape, place = _line(arr.shape, axis)
    line, size = arr.reshape(shape), shape[place]
    values: Any = val if val is not None else more[0].astype(arr.dtype)
    if attrs["obj"] is not None:
        found: Any = attrs["obj"].astype(np.int64)
        if ((found < -size) | (found > size)).any():
            raise IndexError(f"an index is out of bounds for an axis of size {size}")
    else:
        found = _places(size, attrs, insert=True)
    try:
        return np.asarray(np.insert(line, found, values, place))
    except ValueError as error:
        raise ShapeError(f"insert: {error}") from None


def _insert_ref(with_indices: bool) -> Callable[..., np.ndarray]:
    def ref(
        arr: np.ndarray, *more: np.ndarray, val: float | None, axis: int | None, **attrs: Any
    ) -> np.ndarray:
        obj = more[-1] if with_indices else None
        values = more[:-1] if with_indices else more
        return _inserted(arr, values, val, axis, {**attrs, "obj": obj})

    return ref


def _insert_rule(with_indices: bool) -> Callable[..., TensorType]:
    ref = _insert_ref(with_indices)

    def rule(arr: TensorType, *more: TensorType, **attrs: Any) -> TensorType:
        """Result type of an insertion of zeros: it depends on the count of indices, not their
        values."""
        zeros = [np.zeros(t.dims, t.dtype) for t in (arr, *more)]
        return arr.with_shape(ref(*zeros, **attrs).shape)

    return rule


def _with_values(name: str) -> Callable[..., tuple[str, ...]]:
    def inputs(val: float | None, **attrs: Any) -> tuple[str, ...]:
        values = ("values",) if val is None else ()
        return ("arr", *values, *(("obj",) if name == "tensor" else ()))

    return inputs


for _name in ("scalar", "slice", "tensor"):
    register(
        f"_npi_insert_{_name}",
        _with_values(_name),
        f"val:double?=None {_PLACE}",
        infer=forward(_insert_rule(_name == "tensor")),
        ref=_insert_ref(_name == "tensor"),
        doc="Values inserted before given indices of an axis.",
    )


def _delete_inputs(start: int | None, stop: int | None, step: int | None, int_ind: int | None,
                   axis: int | None) -> tuple[str, ...]:  # fmt: skip
    named = [start, stop, step, int_ind]
    return ("arr",) if any(n is not None for n in named) else ("arr", "obj")


register(
    "_npi_delete",
    _delete_inputs,
    _PLACE,
    infer=forward(_deleted_type),
    ref=_deleted,
    traits=Traits(sized_by_values=True),
    doc="Array without the elements at given indices of an axis.",
)
