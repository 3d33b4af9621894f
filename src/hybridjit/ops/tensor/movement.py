"""Operators that move elements: swapped or reversed axes, blocks, padding, diagonals.

Input: arrays of any dtype. Output: new C-contiguous arrays of the same dtype. ``joining`` contains
concatenation and repetition, ``slicing`` slices, ``reshape`` reshapes, ``primitives`` the operators
that these expand to.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import Declared
from ..building import Builder, Many, X
from ..internal import PAD_AXES
from ..record import OpDef, Traits
from ..registry import register
from ..rules import forward, normalized_axis
from .primitives import in_range, moving, part, reordering, reshape, transpose

# Permutation of axes


def _swap(ndim: int, dim1: int, dim2: int) -> Shape:
    """Permutation that swaps two axes. Raises ShapeError."""
    order = list(range(ndim))
    a, b = normalized_axis(dim1, ndim, "dim1"), normalized_axis(dim2, ndim, "dim2")
    order[a], order[b] = order[b], order[a]
    return tuple(order)


def _swapped(g: Builder[X], data: X, *, dim1: int, dim2: int) -> X:
    """SwapAxis(x)  =>  transpose(x)"""
    return transpose(g, data, _swap(g.type(data).ndim, dim1, dim2))


reordering(
    "SwapAxis",
    "dim1:int=0 dim2:int=0",
    _swap,
    "Exchange two axes.",
    "swapaxes",
    expand=_swapped,
    traits=Traits(names_data=True),
)


def _reversed_shape(data: Shape, axis: Shape) -> Shape:
    for a in axis:
        in_range(a, len(data))
    return data


def _reverse(data: np.ndarray, axis: Shape) -> np.ndarray:
    for a in axis:
        data = np.flip(data, a)
    return data


def _backwards(g: Builder[X], data: X, *, axis: Shape) -> X:
    """reverse(x)  =>  slice(x) with step -1"""
    ndim = g.type(data).ndim
    steps = tuple(
        -1 if axis.count(i) % 2 else 1 for i in range(ndim)
    )  # reversing twice has no effect
    return part(g, data, (None,) * ndim, (None,) * ndim, steps)


REVERSE = moving(
    "reverse",
    "data",
    "axis:shape!",
    _reversed_shape,
    _reverse,
    "Reverse the order along axes.",
    "flip",
    expand=_backwards,
    traits=Traits(names_data=True),
)


# Blocks and padding


def _blocks(data: Shape, block_size: int) -> tuple[int, int, int, int]:
    if len(data) != 4:
        raise ShapeError(f"data must have 4 axes (NCHW), got {len(data)}")
    if block_size < 1:
        raise AttributeValueError(f"block_size must be positive, got {block_size}")
    n, c, h, w = data
    if 0 in (c, h, w):
        raise ShapeError(f"channels, height and width must be above 0, got {shape_text(data)}")
    return n, c, h, w


def _deep_to_wide(data: Shape, block_size: int) -> Shape:
    n, c, h, w = _blocks(data, block_size)
    if c % block_size**2:
        raise ShapeError(f"{c} channels are not divisible into blocks of {block_size**2}")
    return n, c // block_size**2, h * block_size, w * block_size


def _wide_to_deep(data: Shape, block_size: int) -> Shape:
    n, c, h, w = _blocks(data, block_size)
    if h % block_size or w % block_size:
        raise ShapeError(f"{h} x {w} is not divisible into blocks of {block_size} x {block_size}")
    return n, c * block_size**2, h // block_size, w // block_size


def _depth_to_space(data: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = data.shape
    blocks = data.reshape(n, block_size, block_size, c // block_size**2, h, w)
    return blocks.transpose(0, 3, 4, 1, 5, 2).reshape(_deep_to_wide(data.shape, block_size))


def _space_to_depth(data: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = data.shape
    blocks = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(_wide_to_deep(data.shape, block_size))


def _spread_blocks(g: Builder[X], data: X, *, block_size: int) -> X:
    """depth_to_space(x)  =>  reshape(transpose(reshape(x)))"""
    n, c, h, w = sizes = g.type(data).dims
    split = reshape(g, data, (n, block_size, block_size, c // block_size**2, h, w), at="split")
    transposed = transpose(g, split, (0, 3, 4, 1, 5, 2), at="turned")
    return reshape(g, transposed, _deep_to_wide(sizes, block_size))


def _gathered_blocks(g: Builder[X], data: X, *, block_size: int) -> X:
    """space_to_depth(x)  =>  reshape(transpose(reshape(x)))"""
    n, c, h, w = sizes = g.type(data).dims
    rows, columns = h // block_size, w // block_size
    split = reshape(g, data, (n, c, rows, block_size, columns, block_size), at="split")
    transposed = transpose(g, split, (0, 3, 5, 1, 2, 4), at="turned")
    return reshape(g, transposed, _wide_to_deep(sizes, block_size))


moving(
    "depth_to_space",
    "data",
    "block_size:int!",
    _deep_to_wide,
    _depth_to_space,
    "Move blocks of channels to height and width.",
    expand=_spread_blocks,
    traits=Traits(names_data=True),
)
moving(
    "space_to_depth",
    "data",
    "block_size:int!",
    _wide_to_deep,
    _space_to_depth,
    "Move blocks of height and width to channels.",
    expand=_gathered_blocks,
    traits=Traits(names_data=True),
)


def _padded(data: Shape, mode: str, pad_width: Shape, constant_value: float) -> Shape:
    if len(data) not in (4, 5):
        raise ShapeError(f"Pad needs data of 4 or 5 axes, got {len(data)}")
    if len(pad_width) != 2 * len(data):
        raise ShapeError(
            f"pad_width has {len(pad_width)} elements, but {len(data)} axes need {2 * len(data)}"
        )
    if any(pad_width[:4]) or min(pad_width) < 0:
        raise ShapeError(
            f"pad_width must begin with four zeros and cannot be negative, "
            f"got {shape_text(pad_width)}"
        )
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    for size, pair in zip(data, pairs):
        if mode == "reflect" and max(pair) >= size and max(pair) > 0:
            raise ShapeError(f"reflect must pad by less than the size {size}, got {max(pair)}")
        if mode == "edge" and size == 0 and max(pair) > 0:
            raise ShapeError(f"edge pads by {max(pair)}, but the axis has size 0")
    return tuple(size + before + after for size, (before, after) in zip(data, pairs))


def _pad_type(
    data: TensorType, *, mode: str, pad_width: Shape, constant_value: float
) -> TensorType:
    """Type of the padded data. Raises AttributeValueError for a value out of its dtype's range."""
    if mode == "constant" and data.dtype is not None and data.dtype.kind in "iu":
        limits = np.iinfo(data.dtype)
        is_held = math.isfinite(constant_value) and (
            limits.min <= math.trunc(constant_value) <= limits.max
        )
        if not is_held:
            raise AttributeValueError(
                f"constant_value is {constant_value:g}, but data is {data.dtype.name}, whose "
                f"values "
                f"are {limits.min} to {limits.max}: pad with one of them, or cast the data first"
            )
    return data.with_shape(_padded(data.dims, mode, pad_width, constant_value))


def _pad_of_any_axes(
    g: Builder[X], data: X, *, mode: str, pad_width: Shape, constant_value: float
) -> X:
    """Pad(x)  =>  _pad_axes(x)"""
    before, after = pad_width[::2], pad_width[1::2]
    return g.op(PAD_AXES, data, mode=mode, before=before, after=after, value=constant_value)


register(
    "Pad",
    "data",
    "mode:constant|edge|reflect! pad_width:shape! constant_value:double=0",
    infer=forward(_pad_type),
    expand=_pad_of_any_axes,
    aliases="pad",
    traits=Traits(names_data=True),
    doc="Padding by a constant, the edge, or a reflection.",
)


def _diagonal(data: Shape, k: int, axis1: int, axis2: int) -> Shape:
    if len(data) == 1:
        return (data[0] + abs(k),) * 2
    a = normalized_axis(axis1, len(data), "axis1")
    b = normalized_axis(axis2, len(data), "axis2")
    if a == b:
        raise ShapeError(f"axis1 and axis2 are both axis {a}")
    rows, columns = data[a] + min(k, 0), data[b] - max(k, 0)
    if min(rows, columns) < 0:
        raise ShapeError(f"a {data[a]} x {data[b]} matrix does not have a diagonal {k}")
    rest = tuple(size for i, size in enumerate(data) if i not in (a, b))
    return (*rest, min(rows, columns))


def _diag(data: np.ndarray, k: int, axis1: int, axis2: int) -> np.ndarray:
    if data.ndim == 1:
        return np.diag(data, k)
    return np.diagonal(data, k, axis1, axis2)


def _axes_last(ndim: int, axis1: int, axis2: int) -> Shape:
    """Permutation that moves these two axes to the end."""
    a, b = axis1 % ndim, axis2 % ndim
    return (*(i for i in range(ndim) if i not in (a, b)), a, b)


def _marks(rest: Shape, columns: int, length: int, k: int) -> tuple[Shape, Shape, Shape]:
    """Begin, end and step of a diagonal in flattened matrices."""
    start = k if k >= 0 else -k * columns
    stop = start + (length - 1) * (columns + 1) + 1
    return (*(0 for _ in rest), start), (*rest, stop), (*(1 for _ in rest), columns + 1)


def _diagonal_as_slice(g: Builder[X], data: X, *, k: int, axis1: int, axis2: int) -> X | None:
    """diag(x)  =>  slice(flattened x) with step columns + 1"""
    sizes = g.type(data).dims
    *_, length = (0,) if len(sizes) < 2 else _diagonal(sizes, k, axis1, axis2)
    if not length:
        return None
    transposed = transpose(g, data, _axes_last(len(sizes), axis1, axis2), at="turned")
    *rest, rows, columns = g.type(transposed).dims
    flat = reshape(g, transposed, (*rest, rows * columns), at="flat")
    return part(g, flat, *_marks(tuple(rest), columns, length, k))


def _grad_diag(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> X | None:
    """Diagonal of the gradient for a vector; the gradient on the diagonal for a matrix."""
    sizes, (d,) = g.type(ins[0]).dims, douts
    if len(sizes) == 1:
        return g.op(DIAG, d, k=attrs["k"])
    return g.op(ON_DIAGONAL, d, shape=sizes, **attrs) if g.type(d).size else None


def _on_diagonal(data: np.ndarray, shape: Shape, k: int, axis1: int, axis2: int) -> np.ndarray:
    whole = np.zeros(shape, data.dtype)
    place = np.diagonal(whole, k, axis1, axis2)
    place.flags.writeable = True
    place[...] = data
    return whole


def _matrix_shape(data: Shape, *, shape: Shape, k: int, axis1: int, axis2: int) -> PartialShape:
    if data != _diagonal(shape, k, axis1, axis2):
        raise ShapeError(f"{shape_text(data)} is not diagonal {k} of {shape_text(shape)}")
    return shape


DIAG: OpDef = moving(
    "diag",
    "data",
    "k:int=0 axis1:int=0 axis2:int=1",
    _diagonal,
    _diag,
    "A diagonal matrix from a vector, or the diagonal of two axes.",
    expand=_diagonal_as_slice,
    grad=_grad_diag,
    traits=Traits(names_data=True),
)


ON_DIAGONAL: OpDef = moving(
    "_on_diagonal",
    "data",
    "shape:shape! k:int! axis1:int! axis2:int!",
    _matrix_shape,
    _on_diagonal,
    "Zeros of a shape, with the data as a diagonal of two axes; the gradient of diag.",
    grad=lambda g, ins, outs, douts, shape, **attrs: g.op(DIAG, douts[0], **attrs),
    internal=True,
)
