"""Operators that cut pieces out: the slice family, Crop, and the two splits.

In: one array (``slice_like`` and ``Crop`` look at a second one's shape). Out: copies of parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import UNKNOWN, PartialShape, TensorType, merge, shape_text
from .movement import moving
from .registry import Kind, register
from .rules import Types, forward, merged, normalized_axis, same_dtype

Shape = tuple[int, ...]
Marks = tuple["int | None", ...]


def _axis_slice(size: int | None, begin: int | None, end: int | None, step: int | None) -> slice:
    """One axis's part in NumPy's terms. Raises ShapeError when it is empty."""
    part = slice(begin, end, 1 if step is None else step)
    if size and not len(range(*part.indices(size))):
        raise ShapeError(f"slice {begin}:{end}:{step or 1} of an axis of size {size} is empty")
    return part


def slices(data: PartialShape, begin: Marks, end: Marks, step: Marks) -> tuple[slice, ...]:
    """The parts that the attributes name, one for each leading axis. Raises ShapeError."""
    if len(begin) != len(end) or (step and len(step) != len(begin)):
        raise ShapeError(
            f"begin has {len(begin)} numbers, end {len(end)}, step {len(step)}: they must agree"
        )
    if len(begin) > len(data):
        raise ShapeError(f"slice names {len(begin)} axes, data {shape_text(data)} has {len(data)}")
    if 0 in step:
        raise AttributeValueError(f"a slice's step cannot be 0, got {shape_text(step)}")
    steps = step or (None,) * len(begin)
    return tuple(_axis_slice(*marks) for marks in zip(data, begin, end, steps))


def sliced(data: PartialShape, begin: Marks, end: Marks, step: Marks) -> PartialShape:
    """The shape of that slice; unknown sizes stay unknown."""
    parts = slices(data, begin, end, step)
    kept = tuple(
        None if size is None else len(range(*part.indices(size))) for part, size in zip(parts, data)
    )
    return kept + data[len(parts) :]


moving(
    "slice",
    "data",
    "begin:ints! end:ints! step:ints=()",
    sliced,
    lambda data, begin, end, step: data[slices(data.shape, begin, end, step)],
    "A part of each leading axis: begin, end and step as in Python.",
    aliases="crop _sparse_slice",
    axiswise=True,
)


def _axis_part(data: PartialShape, axis: int, begin: int, end: int | None) -> tuple[int, slice]:
    """slice_axis's axis and part; unlike ``slice`` nothing is clipped. Raises ShapeError."""
    place = normalized_axis(axis, len(data))
    size = data[place]
    assert size is not None
    first = begin + size if begin < 0 else begin
    last = size if end is None else end + size if end < 0 else end
    if not 0 <= first <= last <= size or (first == last and size):
        raise ShapeError(f"slice_axis {begin}:{end} does not lie within an axis of size {size}")
    return place, slice(first, last)


def _axis_sliced(data: PartialShape, axis: int, begin: int, end: int | None) -> PartialShape:
    if data[normalized_axis(axis, len(data))] is None:
        return data
    place, part = _axis_part(data, axis, begin, end)
    return (*data[:place], part.stop - part.start, *data[place + 1 :])


def _slice_axis(data: np.ndarray, axis: int, begin: int, end: int | None) -> np.ndarray:
    place, part = _axis_part(data.shape, axis, begin, end)
    return data[(slice(None),) * place + (part,)]


moving(
    "slice_axis",
    "data",
    "axis:int! begin:int! end:int?!",
    _axis_sliced,
    _slice_axis,
    "A part of one axis.",
    axiswise=True,
)


def _like(data: Shape, shape_like: Shape, axes: Shape | None) -> Shape:
    """The data's shape, cut on ``axes``: all of them for (), none for None, as in MXNet."""
    if axes is None:
        return data
    if not axes and len(data) != len(shape_like):
        raise ShapeError(
            f"slice_like without axes takes equal ranks, got {len(data)} and {len(shape_like)}"
        )
    sizes = list(data)
    for a in axes or range(len(data)):
        place = normalized_axis(a, len(data))  # in both: axes count from the data's end
        wanted = shape_like[normalized_axis(place, len(shape_like))]
        if wanted > data[place]:
            raise ShapeError(f"axis {place} of size {data[place]} cannot be cut to {wanted}")
        sizes[place] = wanted
    return tuple(sizes)


def _front(data: np.ndarray, shape: Shape) -> np.ndarray:
    return data[tuple(slice(size) for size in shape)]


def _like_types(ins: Types, outs: Types, **attrs: Any) -> tuple[Types, Types]:
    """The second input gives its shape only: it may have any dtype."""
    if not all(t.is_known for t in ins):
        return ins, outs
    shape = _like(ins[0].dims, ins[1].dims, **attrs)
    return ins, merged(outs, (ins[0].with_shape(shape),))


register(
    "slice_like",
    "data shape_like",
    "axes:shape?=()",
    kind=Kind.MOVEMENT,
    infer=_like_types,
    ref=lambda data, shape_like, axes: np.array(
        _front(data, _like(data.shape, shape_like.shape, axes)), order="C"
    ),
    doc="The front part of data, as large as shape_like on all axes or on some.",
)


# The legacy crop of images


def _window(
    shapes: tuple[Shape, ...], offset: Shape, h_w: Shape, center_crop: bool
) -> tuple[slice, slice]:
    """Rows and columns that Crop keeps. Raises ShapeError when they leave the image."""
    data = shapes[0]
    if len(data) != 4:
        raise ShapeError(f"Crop takes data of 4 axes (NCHW), got {len(data)}")
    wanted = shapes[1][2:] if len(shapes) > 1 else h_w
    if len(wanted) != 2 or len(offset) != 2:
        raise ShapeError(f"Crop takes two sizes, got {shape_text(wanted)} at {shape_text(offset)}")
    parts = []
    for size, cut, first in zip(data[2:], wanted, offset):
        start = (size - cut) // 2 if center_crop else first
        if cut < 1 or start < 0 or start + cut > size:
            raise ShapeError(f"Crop of {cut} from {start} on leaves an axis of size {size}")
        parts.append(slice(start, start + cut))
    return parts[0], parts[1]


def _crop_types(
    ins: Types, outs: Types, *, num_args: int, offset: Shape, h_w: Shape, center_crop: bool
) -> tuple[Types, Types]:
    if num_args not in (1, 2):
        raise AttributeValueError(f"Crop takes 1 or 2 inputs, got {num_args}")
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


register(
    "Crop",
    "data...",
    "num_args:int! offset:shape=(0,0) h_w:shape=(0,0) center_crop:bool=False",
    kind=Kind.MOVEMENT,
    infer=_crop_types,
    ref=crop,
    doc="A part of each NCHW image: h_w, or the second input's size, at offset or centred.",
)


# Splits: several outputs


def _output_names(count: int) -> tuple[str, ...]:
    return tuple(f"output{i}" for i in range(count))


def _without_axis(data: Shape, place: int, sizes: list[int], squeeze_axis: bool) -> list[Shape]:
    """The shapes of the pieces, of which ``squeeze_axis`` drops the axis of size 1."""
    if squeeze_axis and any(size != 1 for size in sizes):
        raise ShapeError(f"squeeze_axis takes pieces of size 1, got {shape_text(tuple(sizes))}")
    middle: list[Shape] = [() if squeeze_axis else (size,) for size in sizes]
    return [(*data[:place], *m, *data[place + 1 :]) or (1,) for m in middle]


def _equal_parts(size: int, count: int) -> int:
    if count < 1:
        raise AttributeValueError(f"a split makes at least 1 piece, got {count}")
    if size % count:
        raise ShapeError(f"an axis of size {size} does not divide into {count} equal pieces")
    return size // count


def _split_back(
    out: TensorType, num_outputs: int, place: int, squeeze_axis: bool
) -> PartialShape | None:
    """The whole's shape from that of one piece."""
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
    """Equal pieces of one axis; the whole follows from any piece, too."""
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
        raise ShapeError(f"squeeze_axis takes pieces of size 1, got {part}")
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


register(
    "SliceChannel",
    "data",
    "num_outputs:int! axis:int=1 squeeze_axis:bool=False",
    kind=Kind.MOVEMENT,
    infer=split_types,
    ref=split,
    outputs=lambda num_outputs, **attrs: _output_names(num_outputs),
    aliases="split",
    doc="Equal pieces of one axis.",
)


def _bounds(size: int, indices: Shape, sections: int) -> list[int]:
    """Where _split_v2's pieces begin, and the end. Raises ShapeError.

    Where ``sections`` does not divide the size, the first pieces are longer by one.
    """
    if sections > 0:
        part, longer = divmod(size, sections)
        return [i * part + min(i, longer) for i in range(sections + 1)]
    bounds = [*indices, size]
    if bounds[0] != 0 or any(a > b for a, b in zip(bounds, bounds[1:])):
        raise ShapeError(
            f"indices {shape_text(indices)} must begin at 0 and rise to at most the size {size}"
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


register(
    "_split_v2",
    "data",
    "indices:shape~! axis:int=1 squeeze_axis:bool=False sections:int=0",
    kind=Kind.MOVEMENT,
    infer=forward(_split_v2_type),
    ref=split_v2,
    outputs=lambda indices, sections, **attrs: _output_names(sections or len(indices)),
    doc="Pieces of one axis: equal sections, or from each index (the first is 0) to the next.",
)
