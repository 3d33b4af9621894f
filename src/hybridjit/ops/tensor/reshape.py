"""Operators that reshape: Reshape and related operators, and the shape itself.

Input: one array (``reshape_like`` reads the shape of a second one). Output: a copy with another
shape; ``shape_array`` and ``size_array`` return the sizes instead.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import (
    INT64,
    Shape,
    TensorType,
    is_known_shape,
    product,
    require_dims,
    shape_text,
)
from ...errors import ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, X
from ..gradient import none_at_all
from ..internal import constant_of_shape
from ..record import PLAIN, Traits
from ..registry import register
from ..rules import Types, forward, merged, normalized_axis, same_dtype
from ..signatures import Expansion, Reference
from .primitives import narrow, reshape


def _counted(what: str, data: Shape, shape: Shape) -> Shape:
    if product(data) != product(shape):
        raise ShapeError(
            f"{what} of {product(data)} elements {shape_text(data)} into {shape_text(shape)}: "
            f"that shape has {product(shape)}"
        )
    return shape


def _inferred(data: Shape, sizes: list[int], codes: Shape) -> Shape:
    """``sizes`` with its -1, if any, inferred from the element count.

    They may have fewer elements than the data, whose first ones are taken.
    """
    require_dims(len(sizes))
    if sizes.count(-1) > 1:
        raise ShapeError(f"Reshape to {shape_text(codes)} cannot infer two sizes")
    rest, total = product(tuple(s for s in sizes if s != -1)), product(data)
    if -1 not in sizes and 0 < rest < total:
        return tuple(sizes)
    if -1 not in sizes:
        return _counted("Reshape", data, tuple(sizes))
    if rest == 0 or rest > total > 0:
        raise ShapeError(
            f"Reshape of {total} elements into {shape_text(codes)}: that shape needs at least "
            f"{rest}"
        )
    return tuple(total // rest if s == -1 else s for s in sizes)


def _split(size: int, parts: Shape, shown: str) -> list[int]:
    """The two sizes of code -4, one of which may be -1."""
    if len(parts) != 2 or parts.count(-1) > 1 or any(p < 1 and p != -1 for p in parts):
        raise ShapeError(
            f"in {shown} code -4 needs two sizes, one of which may be -1, got {shape_text(parts)}"
        )
    known = product(tuple(p for p in parts if p != -1))
    if size % known or (-1 not in parts and known != size):
        raise ShapeError(f"Reshape cannot split {size} into {parts[0]} x {parts[1]}")
    return [size // known if p == -1 else p for p in parts]


def _sizes(data: Shape, codes: Shape, shown: str) -> list[int]:
    """Sizes for the codes, from left to right over the axes of ``data``; -1 is not inferred yet."""
    sizes: list[int] = []
    cursor = position = 0
    while position < len(codes):
        code = codes[position]
        position += 1
        needed = {0: 1, -3: 2, -4: 1}.get(code, 0)
        if needed and cursor + needed > len(data):
            raise ShapeError(
                f"in {shown} code {code} needs {needed} more axes, but data of {len(data)} axes "
                f"has "
                f"{max(len(data) - cursor, 0)} left"
            )
        if code > 0 or code == -1:
            sizes.append(code)
            cursor += 1
        elif code == -2:
            sizes += data[cursor:]
            cursor = len(data)
        elif code == -4:
            sizes += _split(data[cursor], codes[position : position + 2], shown)
            position += 2
            cursor += 1
        elif code in (0, -3):
            sizes.append(product(data[cursor : cursor + needed]))
            cursor += needed
        else:
            raise ShapeError(f"Reshape accepts the codes 0 to -4, got {code} in {shown}")
    return sizes


def reshaped(data: Shape, codes: Shape, reverse: bool = False) -> Shape:
    """Shape for Reshape's codes (0, -1, -2, -3, -4). Raises ShapeError."""
    shown = shape_text(codes)
    if reverse:
        sizes = _sizes(data[::-1], codes[::-1], shown)[::-1]
    else:
        sizes = _sizes(data, codes, shown)
    return _inferred(data, sizes, codes)


def _to_target(data: Shape, target: Shape, keep_highest: bool) -> Shape:
    """Shape of the legacy attribute: 0 is inferred; ``keep_highest`` keeps the data's first
    size."""
    sizes = [-1 if size == 0 else size for size in target]
    if keep_highest and not data:
        raise ShapeError("keep_highest keeps the first size, and a scalar has none")
    if keep_highest:
        sizes[0] = data[0]
    return _inferred(data, sizes, target)


def reshape_shape(
    data: Shape, shape: Shape, reverse: bool, target_shape: Shape, keep_highest: bool
) -> Shape:
    """Output shape of Reshape from all of its attributes. Raises ShapeError."""
    if shape:
        return reshaped(data, shape, reverse)
    if target_shape:
        return _to_target(data, target_shape, keep_highest)
    raise ShapeError(f"Reshape of {shape_text(data)} needs a shape, got ()")


def _reshape_types(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Forward; backward, one unknown size of the data is inferred from a known output."""
    (data,), out = ins, outs[0] if outs else TensorType(None, None)
    data = data.with_dtype(same_dtype(data, out))
    if is_known_shape(data.shape):
        shape = reshape_shape(data.dims, **attrs)
        return (data,), merged(outs, (TensorType(shape, data.dtype),))
    return (completed(data, out),), (out.with_dtype(data.dtype),)


def completed(data: TensorType, out: TensorType) -> TensorType:
    """``data`` with its only unknown size, if ``out`` has a known shape of as many elements."""
    if data.shape is None or not is_known_shape(out.shape) or data.shape.count(None) != 1:
        return data
    known = product(tuple(d for d in data.shape if d is not None))
    total = product(out.dims)
    if not known or total % known:
        return data
    return data.with_shape(tuple(total // known if d is None else d for d in data.shape))


ShapeRule = Callable[..., Shape]  # shape_of(*input shapes, **attrs)


def _reshaping(shape_of: ShapeRule) -> Reference:
    """Reference that copies the first array with the shape computed from all shapes."""

    def ref(*arrays: np.ndarray, **attrs: AttrValue) -> np.ndarray:
        shape = shape_of(*(a.shape for a in arrays), **attrs)
        return np.array(arrays[0], order="C").reshape(shape)

    return ref


def _literal(shape_of: ShapeRule) -> Expansion:
    """Expansion to a reshape to the shape computed from all shapes."""

    def expand(g: Builder[X], first: X, *rest: X, **attrs: AttrValue) -> X:
        """reshape by codes, Flatten, expand_dims, squeeze, ...  =>  _reshape_to(x, sizes)"""
        shapes = (g.type(x).dims for x in (first, *rest))
        return reshape(g, first, shape_of(*shapes, **attrs))

    return expand


def _first_elements(data: np.ndarray, **attrs: Declared) -> np.ndarray:
    shape = reshape_shape(data.shape, **attrs)
    return data.reshape(-1)[: product(shape)].reshape(shape).copy()


def _cut_and_reshaped(g: Builder[X], data: X, **attrs: Declared) -> X:
    """Reshape(x)  =>  _reshape_to(x, sizes), of a slice if the shape has fewer elements"""
    dims = g.type(data).dims
    shape = reshape_shape(dims, **attrs)
    if product(shape) < product(dims):
        row = reshape(g, data, (product(dims),), at="row")
        data = narrow(g, row, 0, 0, product(shape), at="first")
    return reshape(g, data, shape)


register(
    "Reshape",
    "data",
    "shape:shape=() reverse:bool=False target_shape:shape=() keep_highest:bool=False",
    infer=_reshape_types,
    ref=_first_elements,
    expand=_cut_and_reshaped,
    aliases="reshape",
    doc="Array reshaped, or its first elements; 0 and -1 to -4 are codes.",
)


def _simple(
    name: str,
    attrs: str,
    shape_of: ShapeRule,
    doc: str,
    aliases: str = "",
    traits: Traits = PLAIN,
) -> None:
    register(
        name,
        "data",
        attrs,
        ref=_reshaping(shape_of),
        expand=_literal(shape_of),
        traits=traits,
        aliases=aliases,
        doc=doc,
    )


def flattened(data: Shape) -> Shape:
    return (*data[:1], product(data[1:])) if data else (1, 1)


def expanded(data: Shape, axis: int) -> Shape:
    place = normalized_axis(axis, len(data) + 1)
    return (*data[:place], 1, *data[place:])


def squeezed(data: Shape, axis: Shape | None) -> Shape:
    """Shape without the given axes of size 1 (None: all of them); (1,) if none remains."""
    if axis is None:
        return tuple(size for size in data if size != 1) or (1,)
    gone = [normalized_axis(a, len(data)) for a in axis]
    if len(set(gone)) != len(gone):
        raise ShapeError(f"squeeze has an axis twice in {shape_text(axis)}")
    for a in gone:
        if data[a] != 1:
            raise ShapeError(f"squeeze needs axes of size 1, but axis {a} has size {data[a]}")
    return tuple(size for i, size in enumerate(data) if i not in gone) or (1,)


def _range(name: str, begin: int | None, end: int | None, ndim: int) -> tuple[int, int]:
    first = 0 if begin is None else begin + ndim if begin < 0 else begin
    last = ndim if end is None else end + ndim if end < 0 else end
    if not 0 <= first < last <= ndim:
        raise ShapeError(f"{name}_begin {begin} and {name}_end {end} do not select axes of {ndim}")
    return first, last


def like(
    lhs: Shape,
    rhs: Shape,
    lhs_begin: int | None,
    lhs_end: int | None,
    rhs_begin: int | None,
    rhs_end: int | None,
) -> Shape:
    """Shape of lhs with axes [lhs_begin, lhs_end) replaced by rhs's [rhs_begin, rhs_end)."""
    first, last = _range("lhs", lhs_begin, lhs_end, len(lhs))
    start, stop = _range("rhs", rhs_begin, rhs_end, len(rhs))
    return _counted("reshape_like", lhs, (*lhs[:first], *rhs[start:stop], *lhs[last:]))


_simple("Flatten", "", flattened, "(n, rest) from (n, ...).", "flatten")
_simple("expand_dims", "axis:int!", expanded, "Insert an axis of size 1.")
_simple(
    "squeeze",
    "axis:shape?=None",
    squeezed,
    "Remove axes of size 1.",
    traits=Traits(names_data=True),
)


def _like_types(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Rule that uses only the shape of rhs, which may have any dtype."""
    lhs, rhs = ins
    if is_known_shape(lhs.shape) and is_known_shape(rhs.shape):
        return ins, merged(outs, (lhs.with_shape(like(lhs.dims, rhs.dims, **attrs)),))
    return ins, outs


register(
    "reshape_like",
    "lhs rhs",
    "lhs_begin:int?=None lhs_end:int?=None rhs_begin:int?=None rhs_end:int?=None",
    infer=_like_types,
    ref=_reshaping(like),
    expand=_literal(like),
    traits=Traits(stops=lambda attrs: (1,)),
    doc="Array lhs reshaped to the shape of rhs, or of a range of its axes.",
)

register(
    "shape_array",
    "data",
    infer=forward(lambda data: TensorType((data.ndim,), INT64)),
    ref=lambda data: np.array(data.shape, INT64),
    expand=constant_of_shape("shape_array"),
    grad=none_at_all,
    traits=Traits(reads_shape=True),
    doc="Shape, as an int64 array.",
)
register(
    "size_array",
    "data",
    infer=forward(lambda data: TensorType((1,), INT64)),
    ref=lambda data: np.array([data.size], INT64),
    expand=constant_of_shape("size_array"),
    grad=none_at_all,
    traits=Traits(reads_shape=True),
    doc="Number of elements, as an int64 array of size 1.",
)
