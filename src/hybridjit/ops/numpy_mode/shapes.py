"""Reshaping and axis permutations of NumPy mode: 0 is a size, -1 is the inferred size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import INT64, Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..building import Builder, X
from ..gradient import none_at_all
from ..internal import PAD_AXES
from ..numbered import Numbered
from ..registry import lookup, register
from ..rules import Types, forward, normalized_axis
from ..tensor.joining import joined
from ..tensor.primitives import (
    broadcast,
    moving,
    narrow,
    permutation,
    reordering,
    reshape,
    transpose,
)
from ..tensor.reshape import completed
from .forms import ON_HOST, near, twin

twin("_np_copy", "_copy", "a")


def _filled_in(data: Shape, sizes: list[int], shown: Shape) -> Shape:
    """``sizes`` with its -1 replaced by the inferred size. Raises ShapeError."""
    if sizes.count(-1) > 1:
        raise ShapeError(f"a shape can have one -1 at most, got {shape_text(shown)}")
    if any(size < -1 for size in sizes):
        raise ShapeError(f"a shape cannot have sizes below -1, got {shape_text(shown)}")
    rest, total = product(tuple(s for s in sizes if s != -1)), product(data)
    if -1 in sizes:
        if not rest or total % rest:
            raise ShapeError(f"{total} elements do not fill {shape_text(shown)}")
        return tuple(total // rest if s == -1 else s for s in sizes)
    if rest != total:
        raise ShapeError(f"{total} elements {shape_text(data)} do not fill {shape_text(shown)}")
    return tuple(sizes)


def reshaped(data: Shape, newshape: Shape, order: str = "C") -> Shape:
    """Shape of the result of ``np.reshape``."""
    return _filled_in(data, list(newshape), newshape)


def _coded_sizes(data: Shape, codes: Shape) -> list[int]:
    sizes: list[int] = []
    cursor = position = 0
    while position < len(codes):
        code = codes[position]
        position += 1
        needed = {-2: 1, -3: 1, -5: 2, -6: 1}.get(code, 0)
        if cursor + needed > len(data):
            raise ShapeError(f"code {code} in {shape_text(codes)} needs more axes than remain")
        here = data[cursor : cursor + needed]
        if code == -3 and here != (1,):
            raise ShapeError(
                f"code -3 skips an axis of size 1, but axis {cursor} has size {here[0]}"
            )
        if code >= -1:
            sizes.append(code)
            cursor += 1
        elif code == -4:
            sizes += data[cursor:]
            cursor = len(data)
        elif code in (-2, -5):
            sizes.append(product(here))
            cursor += needed
        elif code == -3:
            cursor += 1
        elif code == -6:
            sizes += _halves(here[0], codes[position : position + 2], codes)
            position += 2
            cursor += 1
        else:
            raise ShapeError(f"reshape accepts the codes -1 to -6, got {code}")
    return sizes


def _halves(size: int, parts: Shape, codes: Shape) -> Shape:
    if len(parts) != 2 or parts.count(-1) > 1 or any(p < 1 and p != -1 for p in parts):
        raise ShapeError(f"code -6 needs two sizes, one of which may be -1: {shape_text(codes)}")
    known = product(tuple(p for p in parts if p != -1))
    if size % known or (-1 not in parts and known != size):
        raise ShapeError(f"{size} cannot be split into {parts[0]} x {parts[1]}")
    return tuple(size // known if p == -1 else p for p in parts)


def coded_shape(data: Shape, newshape: Shape, reverse: bool = False, order: str = "C") -> Shape:
    """Shape of the result of ``npx.reshape``, with its codes -1 to -6."""
    if reverse:
        return _filled_in(data, _coded_sizes(data[::-1], newshape[::-1])[::-1], newshape)
    return _filled_in(data, _coded_sizes(data, newshape), newshape)


ShapeOf = Callable[..., Shape]


def _reshaping(
    name: str, inputs: str, attrs: str, shape_of: ShapeOf, doc: str, aliases: str = ""
) -> None:
    """Register an operator that reshapes its operand.

    One unknown size of the operand is inferred from the result, as an RNN layer needs it.
    """
    of_result = forward(lambda data, **values: data.with_shape(shape_of(data.dims, **values)))

    def infer(ins: Types, outs: Types, **values: Any) -> tuple[Types, Types]:
        (data,), outs = of_result(ins, outs, **values)
        return ((completed(data, outs[0]) if outs else data),), outs

    def expand(g: Builder[X], data: X, **values: Any) -> X:
        """reshape, squeeze, ... of NumPy mode  =>  _reshape_to(x, sizes)"""
        return reshape(g, data, shape_of(g.type(data).dims, **values))

    register(
        name,
        inputs,
        attrs,
        infer=infer,
        ref=lambda data, **values: data.reshape(shape_of(data.shape, **values)).copy(),
        expand=expand,
        aliases=aliases,
        doc=doc,
    )


def _squeezed(data: Shape, axis: Shape | None) -> Shape:
    if axis is None:
        return tuple(size for size in data if size != 1)
    if not data and all(a in (0, -1) for a in axis):
        return ()
    gone = [normalized_axis(a, len(data)) for a in axis]
    if len(set(gone)) != len(gone):
        raise ShapeError(f"squeeze names an axis twice in {shape_text(axis)}")
    for a in gone:
        if data[a] != 1:
            raise ShapeError(f"squeeze takes axes of size 1, but axis {a} has size {data[a]}")
    return tuple(size for i, size in enumerate(data) if i not in gone)


_reshaping("_np_reshape", "a", "newshape:shape! order:string=C", reshaped, "Array reshaped.")
_reshaping(
    "_npx_reshape",
    "a",
    "newshape:shape! reverse:bool=False order:string=C",
    coded_shape,
    "Array reshaped; -1 to -6 are codes.",
    "_npi_reshape",
)
_reshaping("_np_squeeze", "a", "axis:shape?=None", _squeezed, "Array without axes of size 1.")


def _at_least(count: int) -> Callable[[Shape], Shape]:
    def shape_of(data: Shape) -> Shape:
        if len(data) >= count:
            return data
        if count == 3:
            return {0: (1, 1, 1), 1: (1, *data, 1)}.get(len(data), (*data, 1))
        return (1,) * (count - len(data)) + data

    return shape_of


def _atleast(count: int) -> None:
    shape_of = _at_least(count)

    def rule(*arys: TensorType, num_args: int) -> tuple[TensorType, ...]:
        return tuple(t.with_shape(shape_of(t.dims)) for t in arys)

    def expand(g: Builder[X], *arys: X, num_args: int) -> tuple[X, ...]:
        """atleast_nd(x, ...)  =>  _reshape_to of each"""
        return tuple(reshape(g, x, shape_of(g.type(x).dims), at=str(i)) for i, x in enumerate(arys))

    register(
        f"_np_atleast_{count}d",
        "arys...",
        "num_args:int[1,16384]!",
        infer=forward(rule),
        ref=lambda *arys, num_args: tuple(x.reshape(shape_of(x.shape)).copy() for x in arys),
        expand=expand,
        outputs=lambda num_args: Numbered("output", num_args),
        doc=f"Operands with at least {count} axes.",
    )


for _count in (1, 2, 3):
    _atleast(_count)


def _resized(g: Builder[X], a: X, *, new_shape: Shape) -> X:
    """resize(x, shape)  =>  take(x as a vector, 0 .. n - 1, mode=wrap); zeros of no elements"""
    t, count = g.type(a), product(new_shape)
    if not t.size:
        return g.op(lookup("_full"), shape=new_shape, dtype=t.dtype, value=0.0)
    flat = reshape(g, a, (t.size,), at="flat")
    if count > t.size:
        places = g.op(lookup("_npi_arange"), at="places", start=0.0, stop=count, dtype=INT64)
        flat = g.op(lookup("take"), flat, places, at="long", axis=0, mode="wrap")
    return reshape(g, narrow(g, flat, 0, 0, count, at="part"), new_shape)


register(
    "_npi_resize_fallback",
    "a",
    "new_shape:shape!",
    infer=forward(lambda a, new_shape: a.with_shape(new_shape)),
    ref=lambda a, new_shape: np.resize(a, new_shape),
    expand=_resized,
    doc="The elements repeated or cut to fill a shape.",
)


# Axis permutations


def _order(ndim: int, axes: Shape | None) -> Shape:
    if axes is None:
        return tuple(reversed(range(ndim)))
    return permutation(ndim, tuple(normalized_axis(a, ndim) for a in axes)) if ndim else ()


def _transposed(g: Builder[X], a: X, *, axes: Shape | None) -> X:
    """transpose(x) of NumPy mode  =>  transpose(x)"""
    return transpose(g, a, _order(g.type(a).ndim, axes))


reordering(
    "_np_transpose",
    "axes:shape?=None",
    _order,
    "Array with permuted axes, by default reversed.",
    expand=_transposed,
)


def moved(ndim: int, source: Shape, destination: Shape) -> Shape:
    """Axis permutation that moves ``source`` to ``destination``. Raises ShapeError."""
    if len(source) != len(destination):
        raise ShapeError(
            f"moveaxis needs as many destinations as sources, got {source} to {destination}"
        )
    from_, to = ([normalized_axis(a, ndim) for a in axes] for axes in (source, destination))
    if len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise ShapeError(f"moveaxis has an axis twice: {source} to {destination}")
    order = [axis for axis in range(ndim) if axis not in from_]
    for place, axis in sorted(zip(to, from_)):
        order.insert(place, axis)
    return tuple(order)


def _moved(g: Builder[X], data: X, **attrs: Any) -> X:
    """moveaxis(x)  =>  transpose(x)"""
    return transpose(g, data, moved(g.type(data).ndim, **attrs))


reordering("_np_moveaxis", "source:shape! destination:shape!", moved, "Axes moved.", expand=_moved)


def _flip_steps(ndim: int, axis: Shape | None) -> Shape:
    axis = tuple(range(ndim)) if axis is None else axis
    chosen = {normalized_axis(a, ndim) for a in axis}
    if len(chosen) < len(axis):
        raise AttributeValueError(f"attribute axis names an axis twice: {axis}")
    return tuple(-1 if i in chosen else 1 for i in range(ndim))


def _flipped(g: Builder[X], data: X, *, axis: Shape | None) -> X:
    """flip(x)  =>  slice(x) with step -1"""
    ndim = g.type(data).ndim
    if axis == () or not ndim:
        return data
    steps = _flip_steps(ndim, axis)
    none = (None,) * ndim
    return g.op(lookup("slice"), data, begin=none, end=none, step=steps)


def _same_shape(data: Shape, axis: Shape | None) -> Shape:
    _flip_steps(len(data), axis)
    return data


moving(
    "_npi_flip",
    "data",
    "axis:shape?=None",
    _same_shape,
    lambda data, axis: np.flip(data, axis) if axis != () else data,
    "Axes backwards.",
    expand=_flipped,
)


def _rolled_pairs(data: Shape, shift: Shape, axis: Shape | None) -> list[tuple[int, int]]:
    if axis is None:
        if len(shift) != 1:
            raise ShapeError(f"roll needs one shift if axis is None, got {shape_text(shift)}")
        return []
    shifts = shift * len(axis) if len(shift) == 1 else shift
    if len(shifts) != len(axis):
        raise ShapeError(f"roll needs a shift for each axis, got {shift} for {axis}")
    return [(normalized_axis(a, len(data)), s) for a, s in zip(axis, shifts)]


def _roll_one(g: Builder[X], x: X, axis: int, shift: int) -> X:
    size = g.type(x).dims[axis]
    cut = -shift % size
    if not cut:
        return x
    parts = [
        narrow(g, x, axis, cut, size - cut, at=f"rear{axis}"),
        narrow(g, x, axis, 0, cut, at=f"front{axis}"),
    ]
    return joined(g, parts, axis, at=f"rolled{axis}")


def _rolled(g: Builder[X], data: X, *, shift: Shape, axis: Shape | None) -> X:
    """roll(x)  =>  Concat of the end slice and the start slice along each axis"""
    dims = g.type(data).dims
    if axis is None:
        _rolled_pairs(dims, shift, axis)
        flat = reshape(g, data, (product(dims),), at="flat")
        return reshape(g, _roll_one(g, flat, 0, shift[0]), dims)
    made = data
    for place, amount in _rolled_pairs(dims, shift, axis):
        made = _roll_one(g, made, place, amount)
    return g.op(lookup("_copy"), made) if made is data else made


def _roll_shape(data: Shape, shift: Shape, axis: Shape | None) -> Shape:
    _rolled_pairs(data, shift, axis)
    return data


moving(
    "_np_roll",
    "data",
    "shift:shape~! axis:shape?=None",
    _roll_shape,
    lambda data, shift, axis: np.roll(
        data, shift[0] if len(shift) == 1 else shift, axis if axis is None else tuple(axis)
    ),
    "Elements shifted along axes; those shifted beyond the end reappear at the start.",
    expand=_rolled,
)


def _plane(ndim: int, axes: Shape | None) -> tuple[int, int]:
    given = (0, 1) if axes is None else axes
    if len(given) != 2:
        raise ShapeError(f"rot90 takes two axes, got {shape_text(given)}")
    a, b = (normalized_axis(axis, ndim) for axis in given)
    if a == b:
        raise ShapeError(f"rot90 takes two different axes, got {shape_text(given)}")
    return a, b


def _rotated_shape(data: Shape, k: int, axes: Shape | None) -> Shape:
    a, b = _plane(len(data), axes)
    sizes = list(data)
    if k % 2:
        sizes[a], sizes[b] = sizes[b], sizes[a]
    return tuple(sizes)


def _rotated(g: Builder[X], data: X, *, k: int, axes: Shape | None) -> X:
    """rot90(x)  =>  transpose and flip"""
    ndim = g.type(data).ndim
    a, b = _plane(ndim, axes)
    order = list(range(ndim))
    order[a], order[b] = order[b], order[a]
    flip = lookup("_npi_flip")
    turns = k % 4
    if turns == 0:
        return g.op(lookup("_copy"), data)
    if turns == 2:
        return g.op(flip, data, axis=(a, b))
    if turns == 1:
        return transpose(g, g.op(flip, data, at="flipped", axis=(b,)), tuple(order))
    return g.op(flip, transpose(g, data, tuple(order), at="turned"), axis=(b,))


moving(
    "_npi_rot90",
    "data",
    "k:int=1 axes:shape?=None",
    _rotated_shape,
    lambda data, k, axes: np.rot90(data, k, _plane(data.ndim, axes)),
    "Array rotated in a plane by 90 degrees, k times.",
    expand=_rotated,
)


# Diagonals and triangles


def _diagonal_shape(data: Shape, offset: int, axis1: int, axis2: int) -> Shape:
    a = normalized_axis(axis1, len(data), "axis1")
    b = normalized_axis(axis2, len(data), "axis2")
    if a == b:
        raise ShapeError(f"axis1 and axis2 both name axis {a}")
    rest = tuple(size for i, size in enumerate(data) if i not in (a, b))
    return (*rest, max(min(data[a] + min(offset, 0), data[b] - max(offset, 0)), 0))


def _diagonal(g: Builder[X], data: X, *, offset: int, axis1: int, axis2: int) -> X | None:
    """diagonal(x)  =>  diag(x)"""
    shape = _diagonal_shape(g.type(data).dims, offset, axis1, axis2)
    if 0 in shape:
        return None
    return g.op(lookup("diag"), data, k=offset, axis1=axis1, axis2=axis2)


moving(
    "_np_diagonal",
    "data",
    "offset:int=0 axis1:int=0 axis2:int=1",
    _diagonal_shape,
    lambda data, offset, axis1, axis2: np.diagonal(data, near(offset, data), axis1, axis2),
    "Diagonal of two axes, as the last axis.",
    expand=_diagonal,
    traits=ON_HOST,
)


def _diag_shape(data: Shape, k: int) -> Shape:
    if len(data) == 1:
        return (data[0] + abs(k),) * 2
    if len(data) != 2:
        raise ShapeError(f"diag needs a vector or a matrix, got {shape_text(data)}")
    return _diagonal_shape(data, k, 0, 1)


def _diag(g: Builder[X], data: X, *, k: int) -> X | None:
    """diag(x) of NumPy mode  =>  diag(x)"""
    shape = _diag_shape(g.type(data).dims, k)
    return None if 0 in shape else g.op(lookup("diag"), data, k=k)


moving(
    "_np_diag",
    "data",
    "k:int=0",
    _diag_shape,
    lambda data, k: np.diag(data, near(k, data) if data.ndim > 1 else k),
    "Diagonal of a matrix, or a matrix with a given diagonal.",
    expand=_diag,
    traits=ON_HOST,
)


def _diagflat(g: Builder[X], data: X, *, k: int) -> X:
    """diagflat(x)  =>  diag(x as a vector)"""
    return g.op(lookup("diag"), reshape(g, data, (g.type(data).size,), at="row"), k=k)


moving(
    "_np_diagflat",
    "data",
    "k:int=0",
    lambda data, k: (product(data) + abs(k),) * 2,
    lambda data, k: np.diagflat(data, k),
    "Matrix with the elements on a diagonal.",
    expand=_diagflat,
    traits=ON_HOST,
)


def _matrix_shape(data: Shape, k: int) -> Shape:
    if len(data) < 1:
        raise ShapeError("tril needs an array with axes, got a scalar")
    return data if len(data) > 1 else (data[0], data[0])


def _triangle(g: Builder[X], data: X, *, k: int) -> X | None:
    """tril(x)  =>  where(triangle of ones, x, zeros)"""
    dims = g.type(data).dims
    shape = _matrix_shape(dims, k)
    wide = broadcast(g, reshape(g, data, (1,) * (len(shape) - len(dims)) + dims), shape, at="wide")
    rows, columns = shape[-2:]
    mask = g.op(lookup("_npi_tri"), at="mask", N=rows, M=columns, k=k, dtype=np.dtype("bool"))
    mask = reshape(g, mask, (1,) * (len(shape) - 2) + (rows, columns), at="mask_axes")
    full = broadcast(g, mask, shape, at="mask_wide")
    return g.op(lookup("where"), full, wide, g.op(lookup("zeros_like"), wide, at="zeros"))


moving(
    "_npi_tril",
    "data",
    "k:int=0",
    _matrix_shape,
    lambda data, k: np.tril(data, k),
    "Lower triangle of matrices, zeros above it.",
    expand=_triangle,
)
register(
    "_npi_tri",
    "",
    "N:int! M:int! k:int=0 dtype:dtype=float32",
    infer=forward(lambda N, M, k, dtype: TensorType((N, M), dtype)),  # noqa: N803
    ref=lambda N, M, k, dtype: np.tri(N, M, k, dtype),  # noqa: N803
    grad=none_at_all,
    internal=True,
    doc="Ones in a lower triangle.",
)


# Repetition


def _wide_shape(array: Shape, shape: Shape) -> Shape:
    """``shape``, where -1 (or -2) means the operand's size. Raises ShapeError."""
    lead = len(shape) - len(array)
    if lead < 0:
        raise ShapeError(f"{shape_text(array)} cannot be broadcast to {shape_text(shape)}")
    sizes = (1,) * lead + array
    full = tuple(d if s in (-1, -2) else s for s, d in zip(shape, sizes))
    if any(d not in (1, s) for d, s in zip(sizes, full)):
        raise ShapeError(f"{shape_text(array)} cannot be broadcast to {shape_text(shape)}")
    return full


def _broadcast(g: Builder[X], array: X, *, shape: Shape) -> X:
    """broadcast_to(x) of NumPy mode  =>  broadcast_to(x with leading axes of size 1)"""
    dims = g.type(array).dims
    full = _wide_shape(dims, shape)
    under = reshape(g, array, (1,) * (len(full) - len(dims)) + dims, at="axes")
    return broadcast(g, under, full)


moving(
    "_npi_broadcast_to",
    "array",
    "shape:shape=()",
    _wide_shape,
    lambda array, shape: np.broadcast_to(array, _wide_shape(array.shape, shape)),
    "Array repeated along axes of size 1 and along new leading axes.",
    expand=_broadcast,
)


# Padding

_MODES = "constant|edge|maximum|minimum|reflect|symmetric"


def _pairs(pad_width: Shape, ndim: int) -> list[tuple[int, int]]:
    if len(pad_width) != 2 * ndim:
        raise ShapeError(f"pad_width needs a pair for each of {ndim} axes, got {pad_width}")
    if min(pad_width, default=0) < 0:
        raise AttributeValueError(f"pad_width cannot be negative, got {shape_text(pad_width)}")
    return list(zip(pad_width[::2], pad_width[1::2]))


def _padded_shape(
    data: Shape, pad_width: Shape, mode: str, constant_value: float, reflect_type: str
) -> Shape:
    if mode != "constant" and 0 in data:
        raise ShapeError(f"mode {mode} cannot pad an axis of size 0, got {shape_text(data)}")
    pairs = _pairs(pad_width, len(data))
    return tuple(size + low + high for size, (low, high) in zip(data, pairs))


def _pad(
    data: np.ndarray, pad_width: Shape, mode: str, constant_value: float, reflect_type: str
) -> np.ndarray:
    pairs = _pairs(pad_width, data.ndim)
    if mode == "constant":
        return np.pad(data, pairs, constant_values=data.dtype.type(constant_value))
    return np.pad(data, pairs, mode=mode)  # type: ignore[call-overload]


def _pad_axes(
    g: Builder[X],
    data: X,
    *,
    pad_width: Shape,
    mode: str,
    constant_value: float,
    reflect_type: str,
) -> X:
    """pad(x)  =>  _pad_axes(x with one more axis), or Concat of mirrored or extreme slices"""
    dims = g.type(data).dims
    pairs = _pairs(pad_width, len(dims))
    is_small = all(max(pair) < size for pair, size in zip(pairs, dims))
    if mode in ("constant", "edge") or (mode == "reflect" and is_small):
        return _bordered(g, data, pairs, mode, constant_value)
    made = data
    for axis, (low, high) in enumerate(pairs):
        if low or high:
            made = _axis_padded(g, made, axis, low, high, mode)
    return g.op(lookup("_copy"), data) if made is data else made


def _bordered(g: Builder[X], data: X, pairs: list[tuple[int, int]], mode: str, value: float) -> X:
    before, after = ((0, *side) for side in zip(*pairs)) if pairs else ((0,), (0,))
    row = reshape(g, data, (1, *g.type(data).dims), at="one")
    wide = g.op(PAD_AXES, row, at="wide", mode=mode, before=before, after=after, value=value)
    return reshape(g, wide, g.type(wide).dims[1:])


def _axis_padded(g: Builder[X], x: X, axis: int, low: int, high: int, mode: str) -> X:
    """One axis padded by repeated reflections, or by its maximum or minimum."""
    if mode in ("maximum", "minimum"):
        extreme = g.op(lookup(mode[:3]), x, at=f"extreme{axis}", axis=(axis,), keepdims=True)
        dims = g.type(x).dims
        sides = [
            broadcast(g, extreme, (*dims[:axis], n, *dims[axis + 1 :]), at=f"side{axis}_{n}")
            for n in (low, high)
            if n
        ]
        parts = [*(sides[:1] if low else []), x, *(sides[-1:] if high else [])]
        return joined(g, parts, axis, at=f"padded{axis}")
    edge = 0 if mode == "symmetric" or g.type(x).dims[axis] == 1 else 1
    while low or high:
        size = g.type(x).dims[axis]
        front, rear = (min(n, size - edge) for n in (low, high))
        parts = [x]
        if front:
            parts.insert(0, _mirrored(g, x, axis, edge, front))
        if rear:
            parts.append(_mirrored(g, x, axis, size - edge - rear, rear))
        x = joined(g, parts, axis, at=f"padded{axis}_{size}")
        low, high = low - front, high - rear
    return x


def _mirrored(g: Builder[X], x: X, axis: int, start: int, count: int) -> X:
    size = g.type(x).dims[axis]
    part = narrow(g, x, axis, start, count, at=f"part{axis}_{size}_{start}")
    return g.op(lookup("_npi_flip"), part, at=f"mirror{axis}_{size}_{start}", axis=(axis,))


moving(
    "_npi_pad",
    "data",
    f"pad_width:pairs! mode:{_MODES}=constant constant_value:double=0 reflect_type:string=even",
    _padded_shape,
    _pad,
    "Array padded by a constant, the edge, a reflection, or the maximum or minimum.",
    expand=_pad_axes,
)
