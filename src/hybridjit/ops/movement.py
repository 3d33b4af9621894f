"""Operators that move elements: axes reordered, blocks, borders, diagonals; and ``Cast``.

In: arrays of any type. Out: new C-contiguous arrays of the same type (``Cast`` aside). Joining
and repeating is ``joining``, cutting pieces out ``slicing``, another shape for the same bytes
``reshape``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import (
    UNKNOWN,
    PartialShape,
    TensorType,
    merge,
    merge_shapes,
    shape_text,
)
from .casting import convert, fresh
from .registry import Kind, register
from .rules import Types, forward, merged, normalized_axis, same_dtype

Shape = tuple[int, ...]


def moving(
    name: str,
    inputs: str,
    attrs: str,
    shape_of: Callable[..., PartialShape],
    ref: Callable[..., np.ndarray],
    doc: str,
    aliases: str = "",
    axiswise: bool = False,
) -> None:
    """Register an operator whose output shape follows from its inputs' shapes.

    ``axiswise``: it has one input, and ``shape_of`` takes unknown sizes too.
    """

    def partial(ins: Types, outs: Types, **values: Any) -> tuple[Types, Types]:
        (data,) = ins
        if data.shape is None:
            return ins, outs
        return ins, merged(outs, (data.with_shape(shape_of(data.shape, **values)),))

    def rule(first: TensorType, *rest: TensorType, **values: Any) -> TensorType:
        return first.with_shape(shape_of(first.dims, *(t.dims for t in rest), **values))

    def copied(*arrays: np.ndarray, **values: Any) -> np.ndarray:
        result = ref(*arrays, **values)
        is_new = result.base is None and result is not arrays[0]
        return np.asarray(result, order="C") if is_new else fresh(result, result.dtype)

    register(
        name,
        inputs,
        attrs,
        kind=Kind.MOVEMENT,
        infer=partial if axiswise else forward(rule),
        ref=copied,
        aliases=aliases,
        doc=doc,
    )


def in_range(axis: int, ndim: int) -> int:
    """``axis``, which may not be negative. Raises ShapeError."""
    if not 0 <= axis < ndim:
        raise ShapeError(f"axis {axis} is out of range 0 to {ndim - 1}")
    return axis


# Order of axes


def permutation(ndim: int, axes: Shape) -> Shape:
    """``axes`` checked; empty means reversed. Raises ShapeError."""
    order = axes or tuple(reversed(range(ndim)))
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"axes {shape_text(axes)} are no order of {ndim} axes")
    return order


def _swap(ndim: int, dim1: int, dim2: int) -> Shape:
    """The order that exchanges two axes. Raises ShapeError."""
    order = list(range(ndim))
    a, b = normalized_axis(dim1, ndim, "dim1"), normalized_axis(dim2, ndim, "dim2")
    order[a], order[b] = order[b], order[a]
    return tuple(order)


def _reorder(
    name: str, attrs: str, order_of: Callable[..., Shape], doc: str, aliases: str = ""
) -> None:
    """Register a change of the axes' order, whose shapes follow from each other both ways."""

    def infer(ins: Types, outs: Types, **values: Any) -> tuple[Types, Types]:
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

    register(
        name,
        "data",
        attrs,
        kind=Kind.MOVEMENT,
        infer=infer,
        ref=lambda data, **values: fresh(data.transpose(order_of(data.ndim, **values)), data.dtype),
        aliases=aliases,
        doc=doc,
    )


_reorder("transpose", "axes:shape=()", permutation, "Axes in another order; reversed by default.")
_reorder("SwapAxis", "dim1:int=0 dim2:int=0", _swap, "Two axes exchanged.", "swapaxes")


def _reversed_shape(data: Shape, axis: Shape) -> Shape:
    for a in axis:
        in_range(a, len(data))
    return data


def _reverse(data: np.ndarray, axis: Shape) -> np.ndarray:
    for a in axis:
        data = np.flip(data, a)
    return data


moving("reverse", "data", "axis:shape!", _reversed_shape, _reverse, "Axes backwards.", "flip")


# Blocks and borders


def _blocks(data: Shape, block_size: int) -> tuple[int, int, int, int]:
    if len(data) != 4:
        raise ShapeError(f"data has 4 axes (NCHW), got {len(data)}")
    if block_size < 1:
        raise AttributeValueError(f"block_size is positive, got {block_size}")
    n, c, h, w = data
    return n, c, h, w


def _deep_to_wide(data: Shape, block_size: int) -> Shape:
    n, c, h, w = _blocks(data, block_size)
    if c % block_size**2:
        raise ShapeError(f"{c} channels do not divide into blocks of {block_size**2}")
    return n, c // block_size**2, h * block_size, w * block_size


def _wide_to_deep(data: Shape, block_size: int) -> Shape:
    n, c, h, w = _blocks(data, block_size)
    if h % block_size or w % block_size:
        raise ShapeError(f"{h} x {w} does not divide into blocks of {block_size} x {block_size}")
    return n, c * block_size**2, h // block_size, w // block_size


def _depth_to_space(data: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = data.shape
    blocks = data.reshape(n, block_size, block_size, c // block_size**2, h, w)
    return blocks.transpose(0, 3, 4, 1, 5, 2).reshape(_deep_to_wide(data.shape, block_size))


def _space_to_depth(data: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = data.shape
    blocks = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(_wide_to_deep(data.shape, block_size))


moving(
    "depth_to_space",
    "data",
    "block_size:int!",
    _deep_to_wide,
    _depth_to_space,
    "Blocks of channels spread over height and width.",
)
moving(
    "space_to_depth",
    "data",
    "block_size:int!",
    _wide_to_deep,
    _space_to_depth,
    "Blocks of height and width gathered into channels.",
)


def _padded(data: Shape, mode: str, pad_width: Shape, constant_value: float) -> Shape:
    if len(data) not in (4, 5):
        raise ShapeError(f"Pad takes data of 4 or 5 axes, got {len(data)}")
    if len(pad_width) != 2 * len(data):
        raise ShapeError(
            f"pad_width has {len(pad_width)} numbers, {len(data)} axes take {2 * len(data)}"
        )
    if any(pad_width[:4]) or min(pad_width) < 0:
        raise ShapeError(
            f"pad_width begins with four zeros and has no negative number, "
            f"got {shape_text(pad_width)}"
        )
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    for size, pair in zip(data, pairs):
        if mode == "reflect" and max(pair) >= size and max(pair) > 0:
            raise ShapeError(f"reflect pads by less than the size {size}, got {max(pair)}")
        if mode == "edge" and size == 0 and max(pair) > 0:
            raise ShapeError(f"edge pads by {max(pair)}, but the axis has size 0")
    return tuple(size + before + after for size, (before, after) in zip(data, pairs))


def _pad(data: np.ndarray, mode: str, pad_width: Shape, constant_value: float) -> np.ndarray:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    if mode == "constant":
        return np.pad(data, pairs, constant_values=data.dtype.type(constant_value))
    return np.pad(data, pairs, mode=mode)  # type: ignore[call-overload]


moving(
    "Pad",
    "data",
    "mode:constant|edge|reflect! pad_width:shape! constant_value:double=0",
    _padded,
    _pad,
    "A border of one value, of the edge's, or of its mirror image.",
    aliases="pad",
)


def _diagonal(data: Shape, k: int, axis1: int, axis2: int) -> Shape:
    if len(data) == 1:
        return (data[0] + abs(k),) * 2
    a = normalized_axis(axis1, len(data), "axis1")
    b = normalized_axis(axis2, len(data), "axis2")
    if a == b:
        raise ShapeError(f"axis1 and axis2 both name axis {a}")
    rows, columns = data[a] + min(k, 0), data[b] - max(k, 0)
    if min(rows, columns) < 0:
        raise ShapeError(f"a {data[a]} x {data[b]} matrix has no diagonal {k}")
    rest = tuple(size for i, size in enumerate(data) if i not in (a, b))
    return (*rest, min(rows, columns))


def _diag(data: np.ndarray, k: int, axis1: int, axis2: int) -> np.ndarray:
    if data.ndim == 1:
        return np.diag(data, k)
    return np.diagonal(data, k, axis1, axis2)


moving(
    "diag",
    "data",
    "k:int=0 axis1:int=0 axis2:int=1",
    _diagonal,
    _diag,
    "A diagonal matrix from a vector, or the diagonal of two axes.",
)


# Element type


def _cast_types(ins: Types, outs: Types, *, dtype: np.dtype) -> tuple[Types, Types]:
    """The shape goes both ways; the result's dtype is given."""
    (data,), out = ins, outs[0] if outs else UNKNOWN
    shape = merge_shapes(data.shape, out.shape)
    return (data.with_shape(shape),), (merge(out, TensorType(shape, dtype)),)


def cast(data: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    return fresh(convert(data, dtype), dtype)


def _as_result_type(b: Any, x: Any, *, dtype: np.dtype) -> Any:
    """x: operands come to a formula in the result's type."""
    return x


register(
    "Cast",
    "data",
    "dtype:dtype!",
    kind=Kind.POINTWISE,
    infer=_cast_types,
    ref=cast,
    scalar=_as_result_type,
    aliases="cast",
    doc="Another element type, as C converts.",
)


def _is_mixed(dtype: np.dtype | None) -> bool:
    """Whether mixed precision changes the type: it leaves float64 and integers alone."""
    return dtype is not None and dtype.name in ("float16", "float32")


def _amp_types(ins: Types, outs: Types, *, dtype: np.dtype) -> tuple[Types, Types]:
    (data,) = ins
    if data.dtype is None:
        return ins, outs
    return _cast_types(ins, outs, dtype=dtype if _is_mixed(data.dtype) else data.dtype)


register(
    "amp_cast",
    "data",
    "dtype:dtype!",
    kind=Kind.POINTWISE,
    infer=_amp_types,
    scalar=_as_result_type,
    ref=lambda data, dtype: cast(data, dtype=dtype if _is_mixed(data.dtype) else data.dtype),
    doc="Cast of float16 and float32; other types stay.",
)


def _multicast_types(
    ins: Types, outs: Types, *, num_outputs: int, cast_narrow: bool
) -> tuple[Types, Types]:
    """float16 and float32 all become the wider (or narrower) of those that are there."""
    if any(t.dtype is None for t in ins):
        return ins, outs
    target = _common_float([t.dtype for t in ins if t.dtype], cast_narrow)
    found = tuple(t.with_dtype(target) if _is_mixed(t.dtype) else t for t in ins)
    return ins, tuple(merge(a, b) for a, b in zip(outs or found, found))


def _common_float(dtypes: list[np.dtype], narrow: bool) -> np.dtype | None:
    floats = sorted((d for d in dtypes if _is_mixed(d)), key=lambda d: d.itemsize)
    return (floats[0] if narrow else floats[-1]) if floats else None


def _multicast(*arrays: np.ndarray, num_outputs: int, cast_narrow: bool) -> tuple[np.ndarray, ...]:
    target = _common_float([a.dtype for a in arrays], cast_narrow)
    return tuple(
        cast(a, dtype=target if target is not None and _is_mixed(a.dtype) else a.dtype)
        for a in arrays
    )


def _numbered(prefix: str) -> Callable[..., tuple[str, ...]]:
    return lambda num_outputs, **attrs: tuple(f"{prefix}{i}" for i in range(num_outputs))


register(
    "amp_multicast",
    _numbered("data_"),
    "num_outputs:int! cast_narrow:bool=False",
    kind=Kind.HOST,
    infer=_multicast_types,
    ref=_multicast,
    outputs=_numbered("output"),
    doc="float16 and float32 cast to the wider of those that are there.",
)
