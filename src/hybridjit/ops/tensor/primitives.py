"""The four primitive movement operators, helpers to apply them, and registration of others.

``_reshape_to``, ``transpose``, ``slice`` and ``broadcast_to`` are the primitives of all other
movement, except concatenation: kernels read through strides. The functions :func:`reshape` to
:func:`broadcast` apply them on any builder, and return the operand if nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.symbolic import count_of, indices, is_surely_equal
from ..._core.types import (
    UNKNOWN,
    PartialShape,
    Shape,
    TensorType,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import fresh
from ..record import PLAIN, OnStored, OpDef, Samples, Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged, same_dtype
from ..signatures import Expansion, Gradient

Marks = tuple["int | None", ...]


def moving(
    name: str,
    inputs: str,
    attrs: str,
    shape_of: Callable[..., PartialShape],
    ref: Callable[..., np.ndarray],
    doc: str,
    aliases: str = "",
    axiswise: bool = False,
    kernel: str = "",
    expand: Expansion | None = None,
    grad: Gradient | None = None,
    traits: Traits = PLAIN,
    internal: bool = False,
) -> OpDef:
    """Register an operator whose output shape depends on its inputs' shapes.

    ``axiswise``: it has one input, and ``shape_of`` accepts unknown sizes.
    """

    def partial(ins: Types, outs: Types, **values: AttrValue) -> tuple[Types, Types]:
        (data,) = ins
        if data.shape is None:
            return ins, outs
        return ins, merged(outs, (data.with_shape(shape_of(data.shape, **values)),))

    def rule(first: TensorType, *rest: TensorType, **values: AttrValue) -> TensorType:
        return first.with_shape(shape_of(first.dims, *(t.dims for t in rest), **values))

    def copied(*arrays: np.ndarray, **values: AttrValue) -> np.ndarray:
        result = ref(*arrays, **values)
        is_new = result.base is None and result is not arrays[0]
        return np.asarray(result, order="C") if is_new else fresh(result, result.dtype)

    return register(
        name,
        inputs,
        attrs,
        infer=partial if axiswise else forward(rule),
        ref=copied,
        expand=expand,
        grad=grad,
        kernel=kernel,
        aliases=aliases,
        internal=internal,
        traits=traits,
        doc=doc,
    )


def in_range(axis: int, ndim: int) -> int:
    """``axis``, which must be in [0, ndim). Raises ShapeError."""
    if not 0 <= axis < ndim:
        raise ShapeError(f"axis {axis} is out of range 0 to {ndim - 1}")
    return axis


# Reshape


def reshape_to(data: np.ndarray, *, shape: Shape) -> np.ndarray:
    return data.reshape(shape).copy()


def _reshape_to_type(data: TensorType, *, shape: Shape) -> TensorType:
    if data.size != product(shape):
        raise ShapeError(f"{data.size} elements do not match the shape {shape_text(shape)}")
    return data.with_shape(shape)


def _grad_reshape(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> X:
    return reshape(g, douts[0], g.type(ins[0]).dims)


RESHAPE_TO = register(
    "_reshape_to",
    "data",
    "shape:shape!",
    internal=True,
    kernel="view",
    infer=forward(_reshape_to_type),
    ref=reshape_to,
    grad=_grad_reshape,
    traits=Traits(samples=Samples.FIRST),
    doc="Array reshaped to exactly this shape, without codes.",
)


def reshape(g: Builder[X], x: X, shape: Shape, at: str = "") -> X:
    """``x`` reshaped; unchanged if it has this shape."""
    same_rank = len(g.type(x).dims) == len(
        shape
    )  # compared first: comparing symbolic sizes adds guards
    if same_rank and g.type(x).shape == shape:
        return x
    return g.op(RESHAPE_TO, x, at=at, shape=shape)


# Permutation of axes


def permutation(ndim: int, axes: Shape) -> Shape:
    """Checked ``axes``; empty means reversed. Raises ShapeError."""
    order = axes or tuple(reversed(range(ndim)))
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"axes {shape_text(axes)} are not a permutation of {ndim} axes")
    return order


def reordering(
    name: str,
    attrs: str,
    order_of: Callable[..., Shape],
    doc: str,
    aliases: str = "",
    **fields: Declared,
) -> OpDef:
    """Register a permutation of axes; shapes are inferred in both directions."""

    def infer(ins: Types, outs: Types, **values: AttrValue) -> tuple[Types, Types]:
        (data,), out = ins, outs[0] if outs else UNKNOWN
        dtype = same_dtype(data, out)
        known = out.shape if data.shape is None else data.shape
        if known is None:
            return (data.with_dtype(dtype),), (out.with_dtype(dtype),)
        order = order_of(len(known), **values)
        there: PartialShape = (None,) * len(order)
        if data.shape is not None:
            there = tuple(data.shape[a] for a in order)
        there = merge_shapes(out.shape, there) or ()
        back = tuple(there[order.index(a)] for a in range(len(order)))
        return (TensorType(back, dtype),), (TensorType(there, dtype),)

    return register(
        name,
        "data",
        attrs,
        infer=infer,
        ref=lambda data, **values: fresh(data.transpose(order_of(data.ndim, **values)), data.dtype),
        aliases=aliases,
        doc=doc,
        **fields,
    )


def _explicit(g: Builder[X], data: X, *, axes: Shape) -> X | None:
    """transpose(x, ())  =>  transpose(x, reversed axes)"""
    ndim = g.type(data).ndim
    return None if axes or not ndim else transpose(g, data, permutation(ndim, axes))


def _grad_transpose(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axes: Shape
) -> X:
    order = permutation(g.type(ins[0]).ndim, axes)
    return transpose(g, douts[0], tuple(order.index(axis) for axis in range(len(order))))


TRANSPOSE = reordering(
    "transpose",
    "axes:shape=()",
    permutation,
    "Array with permuted axes, by default reversed.",
    kernel="view",
    expand=_explicit,
    grad=_grad_transpose,
    traits=Traits(samples=Samples.REORDERED),
)


def transpose(g: Builder[X], x: X, axes: Shape, at: str = "") -> X:
    """``x`` with permuted axes; unchanged for the identity."""
    return x if axes == tuple(range(len(axes))) else g.op(TRANSPOSE, x, at=at, axes=axes)


# Slices


def slices(data: PartialShape, begin: Marks, end: Marks, step: Marks) -> tuple[slice, ...]:
    """Slices of the leading axes by the attributes; some may be empty.

    Raises ShapeError.
    """
    if len(begin) != len(end) or (step and len(step) != len(begin)):
        raise ShapeError(
            f"begin has {len(begin)} elements, end {len(end)}, step {len(step)}: they must be equal"
        )
    if len(begin) > len(data):
        raise ShapeError(
            f"slice has {len(begin)} axes, but data {shape_text(data)} has {len(data)}"
        )
    if 0 in step:
        raise AttributeValueError(f"a slice's step cannot be 0, got {shape_text(step)}")
    steps = step or (None,) * len(begin)
    return tuple(slice(b, e, 1 if s is None else s) for b, e, s in zip(begin, end, steps))


def sliced_shape(data: PartialShape, begin: Marks, end: Marks, step: Marks) -> PartialShape:
    """Shape of the slice; unknown sizes remain unknown."""
    parts = slices(data, begin, end, step)
    kept = tuple(
        None if size is None else count_of(*indices(part, size)) for part, size in zip(parts, data)
    )
    return kept + data[len(parts) :]


def _placed(data: np.ndarray, *, shape: Shape, begin: Marks, end: Marks, step: Marks) -> np.ndarray:
    whole = np.zeros(shape, data.dtype)
    whole[slices(shape, begin, end, step)] = data
    return whole


def _placed_shape(
    data: Shape, *, shape: Shape, begin: Marks, end: Marks, step: Marks
) -> PartialShape:
    if data != sliced_shape(shape, begin, end, step):
        raise ShapeError(f"{shape_text(data)} does not match that slice of {shape_text(shape)}")
    return shape


def _grad_place(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, shape: Shape, **marks: Declared
) -> X:
    return g.op(SLICE, douts[0], **marks)


def _as_border(
    g: Builder[X], data: X, *, shape: Shape, begin: Marks, end: Marks, step: Marks
) -> X | None:
    """_place(x) with steps of 1  =>  padding of x with zeros"""
    parts = slices(shape, begin, end, step)
    ranges = [indices(part, size) for part, size in zip(parts, shape)]
    if 0 in shape or 0 in g.type(data).dims or any(step != 1 for _, _, step in ranges):
        return None
    rest = (0,) * (len(shape) - len(ranges))
    before = (0, *(start for start, _, _ in ranges), *rest)
    after = (0, *(size - stop for (_, stop, _), size in zip(ranges, shape)), *rest)
    # The kernel does not pad the first axis.
    one = reshape(g, data, (1, *g.type(data).dims), at="one")
    pad = lookup("_pad_axes")
    wide = g.op(pad, one, at="wide", mode="constant", before=before, after=after)
    return reshape(g, wide, shape)


PLACE = moving(
    "_place",
    "data",
    "shape:shape! begin:ints! end:ints! step:ints=()",
    _placed_shape,
    _placed,
    "Zeros of a shape, with the data as the given slice.",
    expand=_as_border,
    grad=_grad_place,
    internal=True,
)


def _grad_slice(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **marks: Declared) -> X:
    return g.op(PLACE, douts[0], shape=g.type(ins[0]).dims, **marks)


SLICE: OpDef = moving(
    "slice",
    "data",
    "begin:ints! end:ints! step:ints=()",
    sliced_shape,
    lambda data, begin, end, step: data[slices(data.shape, begin, end, step)],
    "Slice of the leading axes: begin, end and step as in Python.",
    aliases="crop _sparse_slice",
    axiswise=True,
    kernel="view",
    grad=_grad_slice,
    traits=Traits(samples=Samples.CUT, on_stored=OnStored.CUT),
)


def part(g: Builder[X], x: X, begin: Marks, end: Marks, step: Marks = (), at: str = "") -> X:
    """Slice of every axis, as in Python; ``step`` is 1 by default."""
    return g.op(SLICE, x, at=at, begin=begin, end=end, step=step or (1,) * len(begin))


def narrow(g: Builder[X], x: X, axis: int, start: int, size: int, at: str = "") -> X:
    """``size`` elements of an axis from ``start``; unchanged if these are all."""
    sizes = g.type(x).dims
    if is_surely_equal(size, sizes[axis]):
        return x
    begin = tuple(start if i == axis else 0 for i in range(len(sizes)))
    end = tuple(start + size if i == axis else d for i, d in enumerate(sizes))
    return part(g, x, begin, end, at=at)


# Broadcast along axes of size 1


def broadcast_shape(data: Shape, shape: Shape) -> Shape:
    """``shape`` with 0 replaced by the data's size. Raises ShapeError."""
    if len(shape) != len(data):
        raise ShapeError(
            f"{shape_text(data)} has {len(data)} axes, but broadcast_to {shape_text(shape)} needs "
            f"an equal "
            "number"
        )
    full = tuple(s or d for s, d in zip(shape, data))
    if any(d not in (1, s) for d, s in zip(data, full)):
        raise ShapeError(f"{shape_text(data)} cannot be broadcast to {shape_text(shape)}")
    return full


BROADCAST_TO = moving(
    "broadcast_to",
    "data",
    "shape:shape=()",
    broadcast_shape,
    lambda data, shape: np.broadcast_to(data, broadcast_shape(data.shape, shape)),
    "Array with axes of size 1 repeated to a shape of the same rank; 0 keeps a size.",
    kernel="view",
    grad=lambda g, ins, outs, douts, **attrs: douts[0],
)


def broadcast(g: Builder[X], x: X, shape: Shape, at: str = "") -> X:
    """``x`` with axes of size 1 repeated; unchanged if it has this shape."""
    return x if g.type(x).shape == shape else g.op(BROADCAST_TO, x, at=at, shape=shape)
