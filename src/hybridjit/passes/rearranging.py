"""Movement taken apart: tile, repeat, stack, splits, crops, blocks, flips as views and joins.

Everything becomes ``_reshape_to``, ``transpose``, ``slice``, ``broadcast_to`` and ``Concat``, of
which all but the last are views; a copy is left only where strides cannot say it. What has no
elements stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import Use, Value, make
from ..ir.rewrite import Match, Replacement, rule
from ..types import FLOAT32, product
from .moves import broadcast, cast, cut, reshaped, sliced, transposed

_BOOL, _HALF = np.dtype("bool"), np.dtype("float16")


def _is_empty(value: Value) -> bool:
    return any(t.size == 0 for t in (*value.types, *(u.type for u in value.inputs)))


@rule("tile(x), repeat(x)  =>  reshape(broadcast(reshape(x)))")
def repetition(value: Value, match: Match) -> Replacement:
    if not value.is_op("tile", "repeat") or _is_empty(value):
        return None
    data, attrs = value.inputs[0], value.attrs
    sizes = data.type.dims
    if value.is_op("tile"):
        rank = len(value.shape)
        sizes = (1,) * (rank - len(sizes)) + sizes
        counts = [full // size for full, size in zip(value.shape, sizes)]
        split = [n for size in sizes for n in (1, size)]
        spread = [n for count, size in zip(counts, sizes) for n in (count, size)]
    else:
        axis = attrs["axis"]
        sizes = (product(sizes),) if axis is None else sizes
        at = 0 if axis is None else axis % len(sizes)
        split = [*sizes[: at + 1], 1, *sizes[at + 1 :]]
        spread = [*sizes[: at + 1], attrs["repeats"], *sizes[at + 1 :]]
    wide = reshaped(data, tuple(split), f"{value.name}:split")
    return reshaped(
        broadcast(wide, tuple(spread), f"{value.name}:spread"),
        value.shape,
        value.name,
        value.source,
    )


@rule("stack(a, b, ...)  =>  Concat of each with a new axis")
def stacked(value: Value, match: Match) -> Replacement:
    if not value.is_op("stack") or _is_empty(value):
        return None
    axis = value.attrs["axis"] % len(value.shape)
    shape = tuple(1 if i == axis else size for i, size in enumerate(value.shape))
    parts = [reshaped(u, shape, f"{value.name}:{i}") for i, u in enumerate(value.inputs)]
    if len(parts) == 1:
        return parts[0]
    return Use(make("Concat", value.name, parts, value.source, num_args=len(parts), dim=axis))


@rule("_split_v2(x)  =>  a slice for each piece")
def split_pieces(value: Value, match: Match) -> Replacement:
    if not value.is_op("_split_v2") or _is_empty(value):
        return None
    data, attrs, start = value.inputs[0], value.attrs, 0
    axis = attrs["axis"] % data.type.ndim
    pieces = []
    for i, t in enumerate(value.types):
        size = 1 if attrs["squeeze_axis"] else t.dims[axis]
        piece = cut(data, axis, start, size, f"{value.name}:part{i}", value.source)
        pieces.append(reshaped(piece, t.dims, f"{value.name}:squeezed{i}"))
        start += size
    return tuple(pieces)


@rule("Crop(x)  =>  slice(x) of rows and columns")
def crop_to_slices(value: Value, match: Match) -> Replacement:
    if not value.is_op("Crop") or _is_empty(value):
        return None
    data, attrs = value.inputs[0], value.attrs
    for axis, offset in zip((2, 3), attrs["offset"]):
        size, wanted = data.type.dims[axis], value.shape[axis]
        start = (size - wanted) // 2 if attrs["center_crop"] else offset
        data = cut(data, axis, start, wanted, f"{value.name}:axis{axis}", value.source)
    return data


@rule("space_to_depth(x), depth_to_space(x)  =>  reshape(transpose(reshape(x)))")
def blocks(value: Value, match: Match) -> Replacement:
    if not value.is_op("space_to_depth", "depth_to_space") or _is_empty(value):
        return None
    data, block = value.inputs[0], value.attrs["block_size"]
    n, c, h, w = data.type.dims
    if value.is_op("space_to_depth"):
        split, order = (n, c, h // block, block, w // block, block), (0, 3, 5, 1, 2, 4)
    else:
        split, order = (n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
    parts = reshaped(data, split, f"{value.name}:split")
    turned = transposed(parts, order, f"{value.name}:turned")
    return reshaped(turned, value.shape, value.name, value.source)


@rule("reverse(x)  =>  slice(x) with step -1")
def backwards(value: Value, match: Match) -> Replacement:
    if not value.is_op("reverse") or _is_empty(value):
        return None
    data = value.inputs[0]
    times = value.attrs["axis"].count  # turned twice is not turned
    steps = tuple(-1 if times(i) % 2 else 1 for i in range(data.type.ndim))
    return sliced(data, (None,) * len(steps), (None,) * len(steps), steps, value.name, value.source)


@rule("diag(x)  =>  slice(x as rows of one) with step columns + 1")
def diagonal(value: Value, match: Match) -> Replacement:
    data, attrs = value.inputs[0] if value.inputs else None, value.attrs
    if not value.is_op("diag") or data is None or _is_empty(value) or data.type.ndim < 2:
        return None
    rank = data.type.ndim
    a, b = attrs["axis1"] % rank, attrs["axis2"] % rank
    order = (*(i for i in range(rank) if i not in (a, b)), a, b)
    turned = transposed(data, order, f"{value.name}:turned")
    *rest, rows, columns = turned.type.dims
    flat = reshaped(turned, (*rest, rows * columns), f"{value.name}:flat")
    start = attrs["k"] if attrs["k"] >= 0 else -attrs["k"] * columns
    stop = start + (value.shape[-1] - 1) * (columns + 1) + 1
    begin, end = (*(0 for _ in rest), start), (*rest, stop)
    return sliced(flat, begin, end, (*(1 for _ in rest), columns + 1), value.name, value.source)


@rule("where(c, x, y)  =>  where(c broadcast to x, as truth, x, y)")
def aligned_where(value: Value, match: Match) -> Replacement:
    if not value.is_op("where") or _is_empty(value):
        return None
    condition, *choices = value.inputs
    name, sizes = f"{value.name}:condition", condition.type.dims
    if sizes != value.shape:
        column = reshaped(condition, sizes[:1] + (1,) * (len(value.shape) - 1), f"{name}_column")
        condition = broadcast(column, value.shape, name)
    if condition.type.dtype not in (value.type.dtype, _BOOL):
        condition = Use(make("Cast", f"{name}_truth", [condition], dtype=_BOOL))
    if condition == value.inputs[0]:
        return None
    return Use(make("where", value.name, [condition, *choices], value.source))


@rule("Pad(x)  =>  _pad_axes(x)")
def pad_of_any_axes(value: Value, match: Match) -> Replacement:
    if not value.is_op("Pad") or _is_empty(value):
        return None
    widths = value.attrs["pad_width"]
    attrs: dict[str, Any] = {"mode": value.attrs["mode"], "value": value.attrs["constant_value"]}
    attrs |= {"before": widths[::2], "after": widths[1::2]}
    return Use(make("_pad_axes", value.name, value.inputs, value.source, **attrs))


# Operators whose references compute float16 in single precision and round the result once.
_IN_SINGLE = (
    *("Convolution", "Deconvolution", "FullyConnected", "dot", "batch_dot", "Pooling"),
    *("softmax", "log_softmax", "softmin", "SoftmaxActivation", "SoftmaxOutput"),
    *("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "L2Normalization", "LRN"),
)


@rule("op(float16 x)  =>  Cast(op(Cast(x, float32)), float16)")
def half_in_single(value: Value, match: Match) -> Replacement:
    types = (*value.types, *(u.type for u in value.inputs))
    if not value.is_op(*_IN_SINGLE) or value.type.dtype != _HALF or _is_empty(value):
        return None
    if not all(t.dtype in (_HALF, FLOAT32) for t in types):
        return None
    wide = [cast(u, FLOAT32, f"{value.name}:wide{i}") for i, u in enumerate(value.inputs)]
    assert value.op is not None
    result = make(value.op.name, f"{value.name}:single", wide, value.source, **value.attrs)
    return tuple(
        cast(Use(result, i), t.dtype, f"{value.name}:{i}" if i else value.name)
        for i, t in enumerate(value.types)
    )


@rule("argmax(x), argmin(x) of all  =>  argmax(x as one row)")
def place_in_a_row(value: Value, match: Match) -> Replacement:
    if not value.is_op("argmax", "argmin") or value.attrs["axis"] is not None or _is_empty(value):
        return None
    row = reshaped(value.inputs[0], (1, value.inputs[0].type.size), f"{value.name}:row")
    assert value.op is not None
    place = make(value.op.name, f"{value.name}:place", [row], value.source, axis=1)
    return reshaped(Use(place), value.shape, value.name)


@rule("amp_multicast(a, b, ...)  =>  Cast of each")
def separate_casts(value: Value, match: Match) -> Replacement:
    if not value.is_op("amp_multicast"):
        return None
    return tuple(
        cast(use, t.dtype, f"{value.name}:{i}")
        for i, (use, t) in enumerate(zip(value.inputs, value.types))
    )


REARRANGING = (
    repetition,
    stacked,
    split_pieces,
    crop_to_slices,
    blocks,
    backwards,
    diagonal,
    aligned_where,
    half_in_single,
    pad_of_any_axes,
    place_in_a_row,
    separate_casts,
)
