"""Operators that slice: variants of ``slice``, Crop, and the two splits.

Input: one array (``slice_like`` and ``Crop`` read the shape of a second one). Output: copies of
slices.
"""

from __future__ import annotations

import numpy as np

from ..._core.shapes import is_np_shape
from ..._core.symbolic import is_surely_equal
from ..._core.types import UNKNOWN, PartialShape, Shape, TensorType, merge, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..gradient import given
from ..numbered import Numbered
from ..record import Traits
from ..registry import register
from ..rules import Types, forward, merged, normalized_axis, same_dtype
from .joining import joined
from .primitives import moving, narrow, part, reshape


def _axis_part(data: PartialShape, axis: int, begin: int, end: int | None) -> tuple[int, slice]:
    """Axis and slice of slice_axis; unlike ``slice`` nothing is clipped. Raises ShapeError."""
    place = normalized_axis(axis, len(data))
    size = data[place]
    assert size is not None
    first = begin + size if begin < 0 else begin
    last = size if end is None else end + size if end < 0 else end
    if not 0 <= first <= last <= size or (first == last and size):
        raise ShapeError(f"slice_axis {begin}:{end} is not inside an axis of size {size}")
    return place, slice(first, last)


def _axis_sliced(data: PartialShape, axis: int, begin: int, end: int | None) -> PartialShape:
    if data[normalized_axis(axis, len(data))] is None:
        return data
    place, part = _axis_part(data, axis, begin, end)
    return (*data[:place], part.stop - part.start, *data[place + 1 :])


def _axis_part_as_slice(g: Builder[X], data: X, *, axis: int, begin: int, end: int | None) -> X:
    """slice_axis(x)  =>  slice(x) with explicit bounds"""
    place, kept = _axis_part(g.type(data).dims, axis, begin, end)
    return narrow(g, data, place, kept.start, kept.stop - kept.start)


def _slice_axis(data: np.ndarray, axis: int, begin: int, end: int | None) -> np.ndarray:
    place, part = _axis_part(data.shape, axis, begin, end)
    return data[(slice(None),) * place + (part,)]


moving(
    "slice_axis",
    "data",
    "axis:int! begin:int! end:int?!",
    _axis_sliced,
    _slice_axis,
    "Slice of one axis.",
    axiswise=True,
    expand=_axis_part_as_slice,
)


def _like(data: Shape, shape_like: Shape, axes: Shape | None) -> Shape:
    """Shape of the data cut on ``axes``: all for (), none for None, as in MXNet."""
    if axes is None:
        return data
    if not axes and len(data) != len(shape_like):
        raise ShapeError(
            f"slice_like without axes needs equal ranks, got {len(data)} and {len(shape_like)}"
        )
    sizes = list(data)
    for a in axes or range(len(data)):
        place = normalized_axis(a, len(data))  # negative axes count from the end of the data's axes
        wanted = shape_like[normalized_axis(place, len(shape_like))]
        if wanted > data[place]:
            raise ShapeError(f"axis {place} of size {data[place]} cannot be cut to {wanted}")
        sizes[place] = wanted
    return tuple(sizes)


def _front(data: np.ndarray, shape: Shape) -> np.ndarray:
    return data[tuple(slice(size) for size in shape)]


def _like_types(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    """Rule that uses only the shape of the second input, which may have any dtype."""
    if not all(t.is_known for t in ins):
        return ins, outs
    shape = _like(ins[0].dims, ins[1].dims, **attrs)
    return ins, merged(outs, (ins[0].with_shape(shape),))


def _front_as_slice(g: Builder[X], data: X, shape_like: X, *, axes: Shape | None) -> X | None:
    """slice_like(x, y)  =>  slice(x) with explicit bounds"""
    sizes = g.type(data).dims
    shape = _like(sizes, g.type(shape_like).dims, axes)
    if 0 in shape:
        return None
    is_whole = all(map(is_surely_equal, shape, sizes))
    return data if is_whole else part(g, data, (0,) * len(shape), shape)


register(
    "slice_like",
    "data shape_like",
    "axes:shape?=()",
    infer=_like_types,
    ref=lambda data, shape_like, axes: np.array(
        _front(data, _like(data.shape, shape_like.shape, axes)), order="C"
    ),
    expand=_front_as_slice,
    doc="Leading slice of data with the size of shape_like along all axes or some.",
)


# Legacy crop of images


def _window(
    shapes: tuple[Shape, ...], offset: Shape, h_w: Shape, center_crop: bool
) -> tuple[slice, slice]:
    """Rows and columns of Crop. Raises ShapeError if they are not inside the image."""
    data = shapes[0]
    if len(data) != 4:
        raise ShapeError(f"Crop needs data of 4 axes (NCHW), got {len(data)}")
    wanted = shapes[1][2:] if len(shapes) > 1 else h_w
    if len(wanted) != 2 or len(offset) != 2:
        raise ShapeError(f"Crop needs two sizes, got {shape_text(wanted)} at {shape_text(offset)}")
    parts = []
    for size, kept, first in zip(data[2:], wanted, offset):
        start = (size - kept) // 2 if center_crop else first
        if kept < 1 or start < 0 or start + kept > size:
            raise ShapeError(f"Crop of {kept} from {start} is not inside an axis of size {size}")
        parts.append(slice(start, start + kept))
    return parts[0], parts[1]


def _crop_types(
    ins: Types, outs: Types, *, num_args: int, offset: Shape, h_w: Shape, center_crop: bool
) -> tuple[Types, Types]:
    if num_args not in (1, 2):
        raise AttributeValueError(f"Crop needs 1 or 2 inputs, got {num_args}")
    if not all(t.is_known for t in ins):
        return ins, outs
    rows, columns = _window(tuple(t.dims for t in ins), offset, h_w, center_crop)
    sizes = (rows.stop - rows.start, columns.stop - columns.start)
    return ins, merged(outs, (ins[0].with_shape(ins[0].dims[:2] + sizes),))


def crop(
    *arrays: np.ndarray, num_args: int, offset: Shape, h_w: Shape, center_crop: bool
) -> np.ndarray:
    rows, columns = _window(tuple(a.shape for a in arrays), offset, h_w, center_crop)
    return np.array(arrays[0][:, :, rows, columns], order="C")


def _crop_as_slices(
    g: Builder[X], data: X, *like: X, num_args: int, offset: Shape, h_w: Shape, center_crop: bool
) -> X:
    """Crop(x)  =>  slice(x) of rows and columns"""
    shapes = tuple(g.type(x).dims for x in (data, *like))
    for axis, kept in zip((2, 3), _window(shapes, offset, h_w, center_crop)):
        data = narrow(g, data, axis, kept.start, kept.stop - kept.start, at=f"axis{axis}")
    return data


register(
    "Crop",
    "data...",
    "num_args:int[1,16384]! offset:shape=(0,0) h_w:shape=(0,0) center_crop:bool=False",
    infer=_crop_types,
    ref=crop,
    expand=_crop_as_slices,
    doc="Crop of each NCHW image to h_w, or the second input's size, at offset or centred.",
)


# Splits, with several outputs


def _without_axis(data: Shape, place: int, sizes: list[int], squeeze_axis: bool) -> list[Shape]:
    """Shapes of the slices; ``squeeze_axis`` removes the axis of size 1."""
    if squeeze_axis and any(size != 1 for size in sizes):
        raise ShapeError(f"squeeze_axis needs slices of size 1, got {shape_text(tuple(sizes))}")
    middle: list[Shape] = [() if squeeze_axis else (size,) for size in sizes]
    return [(*data[:place], *m, *data[place + 1 :]) or (1,) for m in middle]


def _equal_parts(size: int, count: int) -> int:
    if count < 1:
        raise AttributeValueError(f"a split needs at least 1 output, got {count}")
    if size % count:
        raise ShapeError(f"an axis of size {size} is not divisible into {count} equal slices")
    return size // count


def _split_back(
    out: TensorType, num_outputs: int, place: int, squeeze_axis: bool
) -> PartialShape | None:
    """Shape of the operand from that of one slice."""
    if out.shape is None:
        return None
    if squeeze_axis:
        return (*out.shape[:place], num_outputs, *out.shape[place:])
    size = out.shape[place]
    whole = None if size is None else size * num_outputs
    return (*out.shape[:place], whole, *out.shape[place + 1 :])


def split_types(
    ins: Types, outs: Types, *, num_outputs: int, axis: int, squeeze_axis: bool
) -> tuple[Types, Types]:
    """Equal slices of one axis; the operand's type can be inferred from any of them."""
    (data,) = ins
    outs = outs or (UNKNOWN,) * num_outputs
    dtype = same_dtype(data, *outs)
    piece = UNKNOWN
    for t in outs:
        piece = merge(piece, t)
    ndim = len(data.shape) if data.shape is not None else None
    if ndim is None and piece.shape is not None:
        ndim = len(piece.shape) + squeeze_axis
    if ndim is None:
        return (data.with_dtype(dtype),), tuple(t.with_dtype(dtype) for t in outs)
    place = normalized_axis(axis, ndim)
    data = merge(data, TensorType(_split_back(piece, num_outputs, place, squeeze_axis), dtype))
    assert data.shape is not None
    size = data.shape[place]
    part = None if size is None else _equal_parts(size, num_outputs)
    if squeeze_axis and part not in (None, 1):
        raise ShapeError(f"squeeze_axis needs slices of size 1, got {part}")
    middle: PartialShape = () if squeeze_axis else (part,)
    shape = (*data.shape[:place], *middle, *data.shape[place + 1 :]) or (1,)
    return (data,), (merge(piece, TensorType(shape, dtype)),) * num_outputs


def _pieces(
    data: np.ndarray, place: int, bounds: list[int], squeeze_axis: bool
) -> tuple[np.ndarray, ...]:
    sizes = [last - first for first, last in zip(bounds, bounds[1:])]
    shapes = _without_axis(data.shape, place, sizes, squeeze_axis)
    front = (slice(None),) * place
    return tuple(
        np.array(data[front + (slice(first, last),)], order="C").reshape(shape)
        for first, last, shape in zip(bounds, bounds[1:], shapes)
    )


def split(
    data: np.ndarray, *, num_outputs: int, axis: int, squeeze_axis: bool
) -> tuple[np.ndarray, ...]:
    place = normalized_axis(axis, data.ndim)
    part = _equal_parts(data.shape[place], num_outputs)
    return _pieces(data, place, [i * part for i in range(num_outputs + 1)], squeeze_axis)


def _cut_into(
    g: Builder[X], data: X, place: int, bounds: list[int], squeeze_axis: bool
) -> tuple[X, ...]:
    """Slices between the bounds, without the axis of size 1 if ``squeeze_axis``."""
    sizes = [last - first for first, last in zip(bounds, bounds[1:])]
    shapes = _without_axis(g.type(data).dims, place, sizes, squeeze_axis)
    pieces = (
        narrow(g, data, place, first, size, at=f"part{i}")
        for i, (first, size) in enumerate(zip(bounds, sizes))
    )
    return tuple(
        reshape(g, piece, shape, at=f"squeezed{i}")
        for i, (piece, shape) in enumerate(zip(pieces, shapes))
    )


def _grad_split(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, axis: int, **attrs: AttrValue
) -> X | None:
    """Concatenated gradients of the slices, zeros for unused ones."""
    sizes = g.type(ins[0]).dims
    place = axis % len(sizes)
    before, after = sizes[:place], sizes[place + 1 :]
    rest, pieces = product(before + after), []
    for dout, out in zip(douts, outs):
        if size := g.type(out).size // (rest or 1):
            pieces.append(reshape(g, given(g, dout, out), (*before, size, *after)))
    return joined(g, pieces, place) if pieces else None


def _equal_slices(
    g: Builder[X], data: X, *, num_outputs: int, axis: int, squeeze_axis: bool
) -> tuple[X, ...]:
    """SliceChannel(x)  =>  slices of x with explicit bounds"""
    t = g.type(data)
    place = normalized_axis(axis, t.ndim)
    size = _equal_parts(t.dims[place], num_outputs)
    return _cut_into(g, data, place, [i * size for i in range(num_outputs + 1)], squeeze_axis)


SLICE_CHANNEL = register(
    "SliceChannel",
    "data",
    "num_outputs:int[1,16384]! axis:int=1 squeeze_axis:bool=False",
    infer=split_types,
    ref=split,
    expand=_equal_slices,
    grad=_grad_split,
    traits=Traits(names_data=True),
    outputs=lambda num_outputs, **attrs: Numbered("output", num_outputs),
    aliases="split",
    doc="Equal slices of an axis.",
)


def _bounds(size: int, indices: Shape, sections: int) -> list[int]:
    """Start indices of _split_v2's slices, and the end. Raises ShapeError.

    If ``sections`` does not divide the size, the first slices are longer by one.
    """
    if sections > 0:
        part, longer = divmod(size, sections)
        return [i * part + min(i, longer) for i in range(sections + 1)]
    if is_np_shape():  # an index beyond the end gives an empty slice
        indices = tuple(min(i, size) for i in indices)
    bounds = [*indices, size]
    if bounds[0] != 0 or any(a > b for a, b in zip(bounds, bounds[1:])):
        raise ShapeError(
            f"indices {shape_text(indices)} must begin at 0 and ascend to at most the size {size}"
        )
    return bounds


def _split_v2_type(
    data: TensorType, *, indices: Shape, axis: int, squeeze_axis: bool, sections: int
) -> Types:
    place = normalized_axis(axis, data.ndim)
    bounds = _bounds(data.dims[place], indices, sections)
    sizes = [b - a for a, b in zip(bounds, bounds[1:])]
    shapes = _without_axis(data.dims, place, sizes, squeeze_axis)
    return tuple(data.with_shape(shape) for shape in shapes)


def split_v2(
    data: np.ndarray, *, indices: Shape, axis: int, squeeze_axis: bool, sections: int
) -> tuple[np.ndarray, ...]:
    place = normalized_axis(axis, data.ndim)
    return _pieces(data, place, _bounds(data.shape[place], indices, sections), squeeze_axis)


def _slices_between(
    g: Builder[X], data: X, *, indices: Shape, axis: int, squeeze_axis: bool, sections: int
) -> tuple[X, ...] | None:
    """_split_v2(x)  =>  slices of x"""
    t = g.type(data)
    place = normalized_axis(axis, t.ndim)
    bounds = _bounds(t.dims[place], indices, sections)
    if any(first == last for first, last in zip(bounds, bounds[1:])):
        return None
    return _cut_into(g, data, place, bounds, squeeze_axis)


def _names_of_pieces(*, indices: Shape, sections: int, **attrs: object) -> Numbered:
    if not sections and not indices:
        raise AttributeValueError("sections of _split_v2 must be at least 1 without indices, got 0")
    return Numbered("output", sections or len(indices))


SPLIT_V2 = register(
    "_split_v2",
    "data",
    "indices:shape~! axis:int=1 squeeze_axis:bool=False sections:int[0,16384]=0",
    infer=forward(_split_v2_type),
    ref=split_v2,
    expand=_slices_between,
    grad=_grad_split,
    traits=Traits(names_data=True),
    outputs=_names_of_pieces,
    doc="Slices of one axis: equal sections, or from each index (the first is 0) to the next.",
)
