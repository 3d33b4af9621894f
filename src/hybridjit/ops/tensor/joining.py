"""Operators that enlarge arrays: Concat, stack, tile, repeat and the broadcast_* family.

Input: arrays of equal dtype. Output: a new C-contiguous array of that dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..._core.shapes import is_np_shape
from ..._core.types import (
    UNKNOWN,
    PartialShape,
    Shape,
    TensorType,
    merge,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import AttributeValueError, ShapeError
from ..building import Builder, Many, Reached, X
from ..record import OnStored, Samples, Traits
from ..registry import register
from ..rules import Types, merged, normalized_axis, same_dtype
from .primitives import broadcast, broadcast_shape, in_range, moving, narrow, reshape

# Joining


def _joined_axis(ins: Types, axis: int, extra: int = 0) -> int | None:
    """Non-negative axis, once the rank of any operand is known."""
    ranks = [len(t.shape) for t in ins if t.shape is not None]
    return normalized_axis(axis, ranks[0] + extra) if ranks else None


def _without(shape: PartialShape, axis: int) -> PartialShape:
    return tuple(None if i == axis else size for i, size in enumerate(shape))


def _with(shape: PartialShape, axis: int, size: int | None) -> PartialShape:
    return tuple(size if i == axis else d for i, d in enumerate(shape))


def concat_types(ins: Types, outs: Types, *, num_args: int, dim: int) -> tuple[Types, Types]:
    """Types equal except along ``dim``, where sizes add up; one unknown size is inferred."""
    if not ins:
        raise ShapeError(f"Concat needs at least one operand, got {num_args}")
    dtype = same_dtype(*ins, *outs)
    out = outs[0] if outs else UNKNOWN
    axis = _joined_axis((*ins, out), dim)
    if axis is None:
        return tuple(t.with_dtype(dtype) for t in ins), (out.with_dtype(dtype),)
    shared: PartialShape | None = None
    for t in (*ins, out):
        if t.shape is not None:
            shared = merge_shapes(shared, _without(t.shape, axis))
    assert shared is not None
    sizes = [None if t.shape is None else t.shape[axis] for t in ins]
    total = None if out.shape is None else out.shape[axis]
    if total is not None and sizes.count(None) == 1:
        missing = total - sum(s for s in sizes if s is not None)
        if missing < 0:
            raise ShapeError(f"Concat of {total} on axis {axis} has operands of {total - missing}")
        sizes[sizes.index(None)] = missing
    if None not in sizes:
        total = sum(s for s in sizes if s is not None)
    ins = tuple(TensorType(_with(shared, axis, size), dtype) for size in sizes)
    return ins, (merge(out, TensorType(_with(shared, axis, total), dtype)),)


def _concat(*arrays: np.ndarray, num_args: int, dim: int) -> np.ndarray:
    return np.asarray(np.concatenate(arrays, axis=dim), order="C")


def grad_concat(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, num_args: int, dim: int
) -> tuple[Reached[X], ...]:
    """Each operand's gradient is its slice of the output gradient."""
    (d,) = douts
    axis = dim % g.type(d).ndim
    sizes = [g.type(x).dims[axis] for x in ins]

    def part(start: int, size: int) -> Callable[[], X] | None:
        return (lambda: narrow(g, d, axis, start, size, at=f"from{start}")) if size else None

    return tuple(part(sum(sizes[:i]), size) for i, size in enumerate(sizes))


def _only(g: Builder[X], *inputs: X, num_args: int, dim: int) -> X | None:
    """Concat(x)  =>  x"""
    return inputs[0] if len(inputs) == 1 else None


CONCAT = register(
    "Concat",
    "data...",
    "num_args:int[1,16384]! dim:int=1",
    kernel="concat",
    infer=concat_types,
    ref=_concat,
    expand=_only,
    grad=grad_concat,
    traits=Traits(samples=Samples.JOINED, on_stored=OnStored.JOINED),
    aliases="concat _sparse_concat",
    doc="Concatenate arrays along axis dim.",
)


def joined(g: Builder[X], parts: Sequence[X], axis: int, at: str = "") -> X:
    """``parts`` concatenated along an axis; a single one unchanged."""
    if len(parts) == 1:
        return parts[0]
    return g.op(CONCAT, *parts, at=at, num_args=len(parts), dim=axis)


def _stack_types(ins: Types, outs: Types, *, num_args: int, axis: int) -> tuple[Types, Types]:
    if not ins:
        raise ShapeError(f"stack needs at least one operand, got {num_args}")
    each = UNKNOWN
    for t in ins:
        each = merge(each, t)
    if outs and each.dtype is None:
        each = each.with_dtype(outs[0].dtype)
    place = _joined_axis((each,), axis, 1)
    shape: PartialShape | None = None
    if place is not None and each.shape is not None:
        shape = (*each.shape[:place], len(ins), *each.shape[place:])
    return (each,) * len(ins), merged(outs, (TensorType(shape, each.dtype),))


def _stack(*arrays: np.ndarray, num_args: int, axis: int) -> np.ndarray:
    return np.asarray(np.stack(arrays, axis=axis), order="C")


def _stacked(g: Builder[X], *inputs: X, num_args: int, axis: int) -> X:
    """stack(a, b, ...)  =>  Concat of each with a new axis"""
    sizes = g.type(inputs[0]).dims
    axis %= len(sizes) + 1
    shape = (*sizes[:axis], 1, *sizes[axis:])
    return joined(g, [reshape(g, x, shape, at=str(i)) for i, x in enumerate(inputs)], axis)


STACK = register(
    "stack",
    "data...",
    "axis:int=0 num_args:int[1,16384]!",
    infer=_stack_types,
    ref=_stack,
    expand=_stacked,
    doc="Stack arrays of equal shape along a new axis.",
)


# Repeating


def _tiled(data: Shape, reps: Shape) -> Shape:
    least = 0 if is_np_shape() else 1
    if any(r < least for r in reps):
        raise AttributeValueError(f"tile's reps must be at least {least}, got {shape_text(reps)}")
    rank = max(len(data), len(reps))
    sizes = (1,) * (rank - len(data)) + data
    counts = (1,) * (rank - len(reps)) + reps
    return tuple(s * r for s, r in zip(sizes, counts))


def _repeated_whole(g: Builder[X], data: X, *, reps: Shape) -> X:
    """tile(x)  =>  reshape(broadcast(reshape(x)))"""
    sizes = g.type(data).dims
    shape = _tiled(sizes, reps)
    sizes = (1,) * (len(shape) - len(sizes)) + sizes
    split = tuple(n for size in sizes for n in (1, size))
    spread = tuple(n for full, size in zip(shape, sizes) for n in (full // size, size))
    wide = broadcast(g, reshape(g, data, split, at="split"), spread, at="spread")
    return reshape(g, wide, shape)


moving(
    "tile",
    "data",
    "reps:shape~!",
    _tiled,
    lambda data, reps: np.tile(data, reps),
    "Repeat the whole array along each axis.",
    expand=_repeated_whole,
    traits=Traits(names_data=True),
)


def _repeated(data: Shape, repeats: int, axis: int | None) -> Shape:
    if repeats < 0:
        raise AttributeValueError(f"repeats cannot be negative, got {repeats}")
    if axis is None:
        return (product(data) * repeats,)
    place = normalized_axis(axis, len(data))
    return tuple(s * repeats if i == place else s for i, s in enumerate(data))


def _repeated_each(g: Builder[X], data: X, *, repeats: int, axis: int | None) -> X | None:
    """repeat(x)  =>  reshape(broadcast(reshape(x)))"""
    if not repeats:
        return None
    sizes = g.type(data).dims
    shape = _repeated(sizes, repeats, axis)
    sizes = (product(sizes),) if axis is None else sizes
    end = 1 if axis is None else axis % len(sizes) + 1
    split, spread = ((*sizes[:end], n, *sizes[end:]) for n in (1, repeats))
    wide = broadcast(g, reshape(g, data, split, at="split"), spread, at="spread")
    return reshape(g, wide, shape)


moving(
    "repeat",
    "data",
    "repeats:int! axis:int?=None",
    _repeated,
    lambda data, repeats, axis: np.repeat(data, repeats, axis),
    "Repeat each element, or each row of an axis.",
    expand=_repeated_each,
    traits=Traits(names_data=True),
)


# Broadcasting


def _axes_broadcast(data: Shape, axis: Shape, size: Shape) -> Shape:
    if len(axis) != len(size):
        raise ShapeError(f"axis has {len(axis)} axes, but size has {len(size)} sizes")
    sizes = list(data)
    for a, n in zip(axis, size):
        if sizes[in_range(a, len(data))] != 1:
            raise ShapeError(f"axis {a} must have size 1 to be broadcast, but has {sizes[a]}")
        sizes[a] = n
    return tuple(sizes)


def _literal_axes(g: Builder[X], data: X, *, axis: Shape, size: Shape) -> X | None:
    """broadcast_axis(x)  =>  broadcast_to(x, sizes)"""
    shape = _axes_broadcast(g.type(data).dims, axis, size)
    return None if 0 in shape else broadcast(g, data, shape)


moving(
    "broadcast_axis",
    "data",
    "axis:shape~=() size:shape~=()",
    _axes_broadcast,
    lambda data, axis, size: np.broadcast_to(data, _axes_broadcast(data.shape, axis, size)),
    "Repeat axes of size 1 to the given sizes.",
    aliases="broadcast_axes",
    expand=_literal_axes,
)


def _like(lhs: Shape, rhs: Shape, lhs_axes: Shape | None, rhs_axes: Shape | None) -> Shape:
    if lhs_axes is None or rhs_axes is None:
        return broadcast_shape(lhs, rhs)
    if len(lhs_axes) != len(rhs_axes):
        raise ShapeError(f"lhs_axes has {len(lhs_axes)} axes, but rhs_axes has {len(rhs_axes)}")
    if not lhs_axes:
        raise ShapeError("lhs_axes and rhs_axes are empty: omit both for all axes")
    sizes = list(lhs)
    for a, b in zip(lhs_axes, rhs_axes):
        place = normalized_axis(a, len(lhs), "lhs_axes")
        size = rhs[normalized_axis(b, len(rhs), "rhs_axes")]
        if sizes[place] not in (1, size):
            raise ShapeError(f"axis {place} of size {sizes[place]} cannot be broadcast to {size}")
        sizes[place] = size
    return tuple(sizes)


def _literal_like(
    g: Builder[X], lhs: X, rhs: X, *, lhs_axes: Shape | None, rhs_axes: Shape | None
) -> X:
    """broadcast_like(x, y)  =>  broadcast_to(x, sizes)"""
    return broadcast(g, lhs, _like(g.type(lhs).dims, g.type(rhs).dims, lhs_axes, rhs_axes))


moving(
    "broadcast_like",
    "lhs rhs",
    "lhs_axes:shape?=None rhs_axes:shape?=None",
    _like,
    lambda lhs, rhs, lhs_axes, rhs_axes: np.broadcast_to(
        lhs, _like(lhs.shape, rhs.shape, lhs_axes, rhs_axes)
    ),
    "Array lhs broadcast to the shape of rhs, or to some of its axes.",
    expand=_literal_like,
    traits=Traits(stops=lambda attrs: (1,)),
)
