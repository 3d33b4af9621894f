"""Transposed convolution, and im2col and col2im, of which it consists.

Input: data (N, C, spatial...), weight (C, F/g, k...) and bias. Output: (N, F, spatial...): each
input cell adds its multiple of the kernel to the output.
"""

from __future__ import annotations

import numpy as np

from ..._core.symbolic import largest
from ..._core.types import PartialShape, Shape, TensorType, product, require_possible, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..casting import widened
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import Types, fill, forward, merged, require_float, same_dtype, spatial
from .convolution import (
    CONVOLUTION,
    CONVOLUTION_BY_WEIGHT,
    bias_of,
    check_groups,
    check_weight,
    weight_and_bias,
)
from .window_geometry import (
    Window,
    check_rank,
    is_channel_last,
    join_axes,
    padded,
    require_cells,
    split_axes,
    tap_cells,
    window_of,
)


def _output_axis(window: Window, axis: int, size: int, adj: int, target: int) -> tuple[int, int]:
    """Size of one output axis, and the number of leading cells cropped from the full scatter.

    full = stride (size - 1) + span, out = full - 2 pad + adj; a target (0: none) sets pad and adj.
    """
    stride, pad = window.stride[axis], window.pad[axis]
    full = stride * (size - 1) + window.spans[axis]
    if target:
        crop = full - target
        if crop < 0:
            raise ShapeError(
                f"too big target shape: spatial axis {axis} has {full} cells at most, but target "
                f"is {target}"
            )
        pad, adj = (crop + 1) // 2, crop % 2
    if not 0 <= adj < stride:
        raise ShapeError(f"adj must be smaller than stride, but {adj} is not less than {stride}")
    out = full - 2 * pad + adj
    if out < 1:
        raise ShapeError(f"pad {pad} removes all of {full} cells on spatial axis {axis}")
    return out, pad


def output_axes(
    window: Window, sizes: PartialShape, adj: Shape, target_shape: Shape
) -> list[tuple[int | None, int]]:
    """(output size, cropped leading cells) per spatial axis; an unknown size gives (None, 0)."""
    adj = spatial(adj, window.rank, 0, "adj")
    target = spatial(target_shape, window.rank, 0, "target_shape")
    return [
        (None, 0) if n is None else _output_axis(window, i, n, adj[i], target[i])
        for i, n in enumerate(sizes)
    ]


def _infer_deconvolution(
    ins: Types,
    outs: Types,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    adj: Shape,
    target_shape: Shape,
    num_filter: int,
    num_group: int,
    layout: str | None,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    """Sizes by :func:`_output_axis`; weight (C, num_filter / num_group, k...)."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    dtype = same_dtype(*ins, *outs)
    data = ins[0].with_dtype(dtype)
    require_float("Deconvolution", data)
    if data.shape is None:
        return ins, outs
    check_rank(data.shape, window.rank)
    channels, sizes = split_axes(data.shape, last)
    check_groups(num_filter, num_group, channels)
    expected = join_axes(channels, num_filter // num_group, kernel, last)
    check_weight(ins[1].shape, expected, 0, 1)
    new_ins = [data, fill(ins[1], expected, dtype)]
    new_ins += [fill(bias, (num_filter,), dtype) for bias in ins[2:]]
    out_sizes, crops = zip(*output_axes(window, sizes, adj, target_shape))
    require_cells(_room(window, sizes, out_sizes, crops))
    out = join_axes(data.shape[0], num_filter, out_sizes, last)
    return tuple(new_ins), merged(outs, (TensorType(out, dtype),))


def _room(
    window: Window, sizes: PartialShape, out: PartialShape, crop: Shape
) -> tuple[int | None, ...]:
    """Cells along each axis that the columns of all cells and the output require."""
    return tuple(
        None if n is None or o is None else largest((s * (n - 1) + w, c + o))
        for s, n, w, o, c in zip(window.stride, sizes, window.spans, out, crop)
    )


def scatter(cols: np.ndarray, window: Window, sizes: Shape, out: Shape, crop: Shape) -> np.ndarray:
    """Add columns (N, C, *kernel, *sizes) to (N, C, *out): cell i*stride + t*dilate - crop."""
    shape = (*cols.shape[:2], *_room(window, sizes, out, crop))
    require_possible([TensorType(shape, cols.dtype)])
    full = np.zeros(shape, cols.dtype)
    for tap in np.ndindex(*window.kernel):
        starts = tuple(t * d for t, d in zip(tap, window.dilate))
        of_tap = (slice(None), slice(None), *tap)
        full[tap_cells(starts, window.stride, sizes)] += cols[of_tap]
    return full[tap_cells(crop, (1,) * window.rank, out)]


def _deconvolution(
    data: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    adj: Shape,
    target_shape: Shape,
    num_filter: int,
    num_group: int,
    layout: str | None,
    **attrs: AttrValue,
) -> np.ndarray:
    """Scatter of the columns weight.T @ data."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    x, w = (widened(np.moveaxis(a, -1, 1) if last else a) for a in (data, weight))
    sizes = x.shape[2:]
    out, crop = zip(*output_axes(window, sizes, adj, target_shape))
    batch, channels = x.shape[0], x.shape[1] // num_group
    w = w.reshape(num_group, channels, num_filter // num_group * product(kernel))
    cols = w.swapaxes(1, 2) @ x.reshape(batch, num_group, channels, product(sizes))
    y = scatter(cols.reshape(batch, num_filter, *kernel, *sizes), window, sizes, out, crop)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * window.rank)
    return np.ascontiguousarray(np.moveaxis(y, 1, -1) if last else y, data.dtype)


def _grad_deconvolution(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    adj: Shape,
    target_shape: Shape,
    num_filter: int,
    no_bias: bool,
    **attrs: Declared,
) -> tuple[Reached[X], ...]:
    """Convolution with the same weight; for the weight as in convolution, with swapped operands."""
    (data, weight, *_), (d,) = ins, douts
    window = window_of(*(attrs[key] for key in ("kernel", "stride", "dilate", "pad")))
    last = is_channel_last(attrs["layout"], window.rank)
    channels, sizes = split_axes(g.type(data).dims, last)
    attrs["pad"] = tuple(pad for _, pad in output_axes(window, sizes, adj, target_shape))
    found = (
        lambda: g.op(
            CONVOLUTION, d, weight, at="ddata", num_filter=channels, no_bias=True, **attrs
        ),
        lambda: g.op(CONVOLUTION_BY_WEIGHT, d, data, at="dweight", **attrs),
        lambda: bias_of(g, d, attrs["layout"]),
    )
    return found[: len(ins)]


def _cost(ins: Types, outs: Types, **attrs: AttrValue) -> int:
    """Multiply-adds: each input element is multiplied by its channel's filters."""
    return ins[0].size * ins[1].size // ins[1].dims[0]


DECONVOLUTION = register(
    "Deconvolution",
    weight_and_bias,
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() adj:shape=() "
    "target_shape:shape~=() num_filter:int! num_group:int=1 no_bias:bool=True layout:layout?=None",
    kernel="deconv",
    infer=_infer_deconvolution,
    ref=_deconvolution,
    grad=_grad_deconvolution,
    traits=Traits(in_single=True, samples=Samples.FIRST, multiply_adds=_cost),
    doc="Transposed convolution; weight (C, num_filter/num_group, k...).",
)


@forward
def _infer_im2col(data: TensorType, **attrs: Declared) -> TensorType:
    """(N, C * taps, windows)."""
    window = window_of(**attrs)
    check_rank(data.dims, window.rank)
    count = product(window.out_sizes(data.dims[2:]))  # type: ignore[arg-type]
    return data.with_shape((data.dims[0], data.dims[1] * product(window.kernel), count))


def _im2col(data: np.ndarray, **attrs: Declared) -> np.ndarray:
    window = window_of(**attrs)
    x = padded(data, window.pad, window.pad, 0)
    sizes: Shape = window.out_sizes(data.shape[2:])  # type: ignore[assignment]
    out = np.empty((*x.shape[:2], *window.kernel, *sizes), x.dtype)
    for tap in np.ndindex(*window.kernel):  # tap by tap: a window is shorter than a line of them
        starts = tuple(t * d for t, d in zip(tap, window.dilate))
        of_tap = (slice(None), slice(None), *tap)
        out[of_tap] = x[tap_cells(starts, window.stride, sizes)]
    return out.reshape(x.shape[0], x.shape[1] * product(window.kernel), product(sizes))


@forward
def _infer_col2im(data: TensorType, *, output_size: Shape, **attrs: Declared) -> TensorType:
    """(N, C * taps, windows) -> (N, C, *output_size)."""
    window = window_of(**attrs)
    taps, count = product(window.kernel), _window_count(window, output_size)
    if data.ndim != 3 or data.dims[1] % taps or data.dims[2] != count:
        raise ShapeError(
            f"col2im needs (N, C * {taps}, {count}) for these attributes, "
            f"got {shape_text(data.shape)}"
        )
    return data.with_shape((data.dims[0], data.dims[1] // taps, *output_size))


def _window_count(window: Window, output_size: Shape) -> int:
    if len(output_size) != window.rank:
        raise AttributeValueError(
            f"output_size {shape_text(output_size)} needs {window.rank} elements"
        )
    return product(window.out_sizes(output_size))  # type: ignore[arg-type]


def _col2im(data: np.ndarray, *, output_size: Shape, **attrs: Declared) -> np.ndarray:
    window = window_of(**attrs)
    sizes: Shape = window.out_sizes(output_size)  # type: ignore[assignment]
    channels = data.shape[1] // product(window.kernel)
    cols = data.reshape(data.shape[0], channels, *window.kernel, *sizes)
    return scatter(cols, window, sizes, output_size, window.pad).copy()


def _grad_im2col(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> X:
    sizes = g.type(ins[0]).dims[2:]
    return g.op(lookup("col2im"), douts[0], at="ddata", output_size=sizes, **attrs)


def _grad_col2im(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    output_size: Shape,
    **attrs: AttrValue,
) -> X:
    return g.op(lookup("im2col"), douts[0], at="ddata", **attrs)


_WINDOW = "kernel:shape! stride:shape=() dilate:shape=() pad:shape=()"

register(
    "im2col",
    "data",
    _WINDOW,
    infer=_infer_im2col,
    ref=_im2col,
    grad=_grad_im2col,
    traits=Traits(names_data=True),
    doc="Windows as columns: (N, C * taps, number of windows).",
)
register(
    "col2im",
    "data",
    "output_size:shape! " + _WINDOW,
    infer=_infer_col2im,
    ref=_col2im,
    grad=_grad_col2im,
    traits=Traits(names_data=True),
    doc="Sum of columns at the cells of their windows: adjoint of im2col.",
)
