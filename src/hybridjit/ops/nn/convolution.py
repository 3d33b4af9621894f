"""Convolution, and its gradients.

Input: data (N, C, spatial...), weight and bias, or their channel-last layouts. Output: (N, F,
spatial...). The references unfold windows and multiply matrices; they use one algorithm for all
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..algebra import total
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, Reached, X
from ..casting import widened
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import Types, fill, forward, merged, require_float, same_dtype
from .window_geometry import (
    Window,
    channels_first,
    check_rank,
    is_channel_last,
    join_axes,
    padded,
    split_axes,
    window_of,
    windows,
)


def weight_and_bias(*, no_bias: bool, **attrs: AttrValue) -> tuple[str, ...]:
    """Input names of the layers with weight and optional bias."""
    return ("data", "weight") if no_bias else ("data", "weight", "bias")


def check_groups(num_filter: int, num_group: int, channels: int | None) -> None:
    """Raise AttributeValueError or ShapeError unless groups divide both filters and input
    channels."""
    if num_filter < 1 or num_group < 1:
        raise AttributeValueError(
            f"num_filter and num_group must be at least 1, got {num_filter} and {num_group}"
        )
    if num_filter % num_group:
        raise ShapeError(
            f"num_group must divide num_filter, but {num_group} does not divide {num_filter}"
        )
    if channels is not None and channels % num_group:
        raise ShapeError(
            f"num_group must divide the input channels, but {num_group} does not divide {channels}"
        )


def check_weight(
    found: PartialShape | None,
    expected: PartialShape,
    axis: int,
    groups: int,
    data: PartialShape = (),
) -> None:
    """Raise ShapeError with a description if a weight does not match the data or the attributes.

    data  the shape of data whose channels are the second axis: the last one may have been meant
    """
    if found is None:
        return
    if len(found) != len(expected):
        raise ShapeError(f"weight should be {len(expected)}D, got {shape_text(found)}")
    if None not in (found[axis], expected[axis]) and found[axis] != expected[axis]:
        per_group = "" if groups == 1 else f" in {groups} groups"
        needed = found[axis] * groups  # type: ignore[operator]
        hint = channels_first(len(data) - 2) if data and data[-1] == needed else ""
        raise ShapeError(
            f"weight needs {needed} input channels, "
            f"but data has {expected[axis] * groups}{per_group}{hint}"  # type: ignore[operator]
        )
    if any(None not in (f, e) and f != e for f, e in zip(found, expected)):
        raise ShapeError(
            f"weight has shape {shape_text(found)}, but "
            f"the attributes and the data need {shape_text(expected)}"
        )


def _infer_convolution(
    ins: Types,
    outs: Types,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_filter: int,
    num_group: int,
    layout: str | None,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    """out = floor((in + 2 pad - dilate (kernel - 1) - 1) / stride) + 1; weight (F, C/g, k...)."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    dtype = same_dtype(*ins, *outs)
    data = ins[0].with_dtype(dtype)
    require_float("Convolution", data)
    if data.shape is None:
        return ins, outs
    check_rank(data.shape, window.rank)
    shape = data.shape
    if outs and outs[0].shape is not None and None in shape:
        shape = _fitted(shape, outs[0].shape, window, last)
    channels, sizes = split_axes(shape, last)
    check_groups(num_filter, num_group, channels)
    per_group = None if channels is None else channels // num_group
    expected = join_axes(num_filter, per_group, kernel, last)
    axis = len(expected) - 1 if last else 1
    check_weight(ins[1].shape, expected, axis, num_group, () if last else shape)
    new_ins = [data.with_shape(shape), fill(ins[1], expected, dtype)]
    new_ins += [fill(bias, (num_filter,), dtype) for bias in ins[2:]]
    out = join_axes(shape[0], num_filter, window.out_sizes(sizes), last)
    return tuple(new_ins), merged(outs, (TensorType(out, dtype),))


def _fitted(data: PartialShape, out: PartialShape, window: Window, last: bool) -> PartialShape:
    """``data`` with its unknown batch and, if the stride is 1, sizes inferred from the output."""
    check_rank(out, window.rank)
    channels, sizes = split_axes(data, last)
    _, out_sizes = split_axes(out, last)
    found = [
        o - 1 + window.spans[i] - 2 * window.pad[i] if n is None and o and stride == 1 else n
        for i, (n, o, stride) in enumerate(zip(sizes, out_sizes, window.stride))
    ]
    batch = out[0] if data[0] is None else data[0]
    return join_axes(batch, channels, tuple(found), last)


def columns(x: np.ndarray, window: Window, groups: int) -> Iterator[np.ndarray]:
    """Each padded sample of (N, C, sizes...) unfolded: (groups, C/g * taps, number of windows)."""
    rank = window.rank
    view = windows(x, window)  # (N, C, *out, *kernel)
    taps = x.shape[1] // groups * product(window.kernel)
    shape = (groups, taps, product(view.shape[2 : 2 + rank]))
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    return (sample.reshape(shape) for sample in view.transpose(order))


def _convolution(
    data: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_filter: int,
    num_group: int,
    layout: str | None,
    **attrs: AttrValue,
) -> np.ndarray:
    """Cross-correlation, sample by sample to limit the memory for columns."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    x, w = (np.moveaxis(a, -1, 1) if last else a for a in (data, weight))
    out_sizes = window.out_sizes(x.shape[2:])
    out = np.empty((x.shape[0], num_filter, *out_sizes), data.dtype)  # type: ignore[arg-type]
    w = widened(w).reshape(num_group, num_filter // num_group, -1)
    x = padded(widened(x), window.pad, window.pad, 0)
    shift = None if bias is None else widened(bias).reshape(num_group, -1, 1)
    for unfolded, target in zip(columns(x, window, num_group), out):
        y = target.reshape(*w.shape[:2], unfolded.shape[2])
        if shift is None:
            np.matmul(w, unfolded, out=y)
        else:
            y[...] = w @ unfolded + shift
    return np.ascontiguousarray(np.moveaxis(out, 1, -1)) if last else out


_CONVOLUTION = (
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_filter:int! num_group:int=1 "
    "no_bias:bool=False layout:layout?=None"
)


def conv_cost(ins: Types, outs: Types, *, no_bias: bool, **attrs: AttrValue) -> int:
    """Multiply-adds: each output element reads one filter; the weight is the last input but the
    bias."""
    weight = ins[-1 if no_bias else -2]
    return outs[0].size * weight.size // weight.dims[0]


def _by_weight(
    data: np.ndarray,
    head: np.ndarray,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_group: int,
    layout: str | None,
) -> np.ndarray:
    """Output gradient times the transposed columns per sample and group, summed over samples."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    x, d = (widened(np.moveaxis(a, -1, 1) if last else a) for a in (data, head))
    x = padded(x, window.pad, window.pad, 0)
    filters, deep = d.shape[1] // num_group, x.shape[1] // num_group
    found = np.zeros((num_group, filters, deep * product(kernel)), x.dtype)
    heads = d.reshape(len(d), num_group, filters, product(d.shape[2:]))
    for unfolded, of_sample in zip(columns(x, window, num_group), heads):
        found += of_sample @ unfolded.swapaxes(1, 2)
    weight = found.reshape(d.shape[1], deep, *kernel).astype(data.dtype, copy=False)
    return np.ascontiguousarray(np.moveaxis(weight, 1, -1)) if last else weight


@forward
def _infer_by_weight(
    data: TensorType,
    head: TensorType,
    *,
    num_group: int,
    layout: str | None,
    **attrs: Declared,
) -> TensorType:
    """Type of the weight of the convolution from ``data`` to a result like ``head``."""
    window = window_of(**attrs)
    last = is_channel_last(layout, window.rank)
    check_rank(data.dims, window.rank)
    channels, sizes = split_axes(data.dims, last)
    filters, found = split_axes(head.dims, last)
    check_groups(filters, num_group, channels)  # type: ignore[arg-type]
    wanted = join_axes(data.dims[0], filters, window.out_sizes(sizes), last)
    if head.dims != wanted:
        raise ShapeError(
            f"head has shape {shape_text(head.dims)}, but data needs {shape_text(wanted)}"
        )
    deep = channels // num_group  # type: ignore[operator]
    weight = join_axes(filters, deep, window.kernel, last)
    return TensorType(weight, same_dtype(data, head))


def _grad_by_weight(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[Reached[X], ...]:
    """The operator is linear in both operands: their gradients are convolutions."""
    (data, head), (d,) = ins, douts
    filters = split_axes(g.type(head).dims, is_channel_last(attrs["layout"], len(attrs["kernel"])))
    return (
        lambda: back_to_data(g, head, d, g.type(data), **attrs),
        lambda: g.op(
            CONVOLUTION, data, d, at="dhead", num_filter=filters[0], no_bias=True, **attrs
        ),
    )


CONVOLUTION_BY_WEIGHT = register(
    "_convolution_by_weight",
    "data head",
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_group:int=1 "
    "layout:layout?=None",
    internal=True,
    kernel="conv_weight",
    infer=_infer_by_weight,
    ref=_by_weight,
    grad=_grad_by_weight,
    traits=Traits(
        in_single=True,
        multiply_adds=lambda ins, outs, **attrs: outs[0].size * ins[1].size // outs[0].dims[0],
    ),
    doc="Gradient of a convolution with respect to its weight.",
)


def back_to_data(
    g: Builder[X],
    d: X,
    weight: X,
    data: TensorType,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_group: int,
    layout: str | None,
) -> X:
    """Gradient of a convolution with respect to its data: Deconvolution with the same weight.

    ``adj`` adds the cells after the last window, which are fewer than a stride.
    """
    window = window_of(kernel, stride, dilate, pad)
    channels, sizes = split_axes(data.dims, is_channel_last(layout, window.rank))
    counts = window.out_sizes(sizes)
    reach = zip(sizes, counts, window.stride, window.spans, window.pad)
    adj = tuple(n + 2 * p - span - (m - 1) * s for n, m, s, span, p in reach)  # type: ignore
    attrs: dict[str, Declared] = {
        "kernel": kernel,
        "stride": stride,
        "dilate": dilate,
        "pad": pad,
        "layout": layout,
    }
    attrs |= {"adj": adj, "num_filter": channels, "num_group": num_group, "no_bias": True}
    return g.op(lookup("Deconvolution"), d, weight, at="ddata", **attrs)


def bias_of(g: Builder[X], d: X, layout: str | None) -> X:
    """Gradient with respect to the bias: sum over all axes but the channels."""
    ndim = g.type(d).ndim
    channels = ndim - 1 if is_channel_last(layout, ndim - 2) else 1
    return total(g, d, tuple(i for i in range(ndim) if i != channels), keepdims=False)


def _grad_convolution(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    num_filter: int,
    no_bias: bool,
    **attrs: Declared,
) -> tuple[Reached[X], ...]:
    (data, weight, *_), (d,) = ins, douts
    found = (
        lambda: back_to_data(g, d, weight, g.type(data), **attrs),
        lambda: g.op(CONVOLUTION_BY_WEIGHT, data, d, at="dweight", **attrs),
        lambda: bias_of(g, d, attrs["layout"]),
    )
    return found[: len(ins)]


CONVOLUTION = register(
    "Convolution",
    weight_and_bias,
    _CONVOLUTION,
    kernel="conv",
    infer=_infer_convolution,
    ref=_convolution,
    grad=_grad_convolution,
    traits=Traits(in_single=True, samples=Samples.FIRST, multiply_adds=conv_cost),
    doc="Cross-correlation with 1, 2 or 3 spatial axes; weight (num_filter, C/num_group, k...).",
)


def _newer(g: Builder[X], *inputs: X, **attrs: Declared) -> X:
    """Convolution_v1(x, w)  =>  Convolution(x, w)"""
    return g.op(CONVOLUTION, *inputs, **attrs)


register(
    "Convolution_v1",
    weight_and_bias,
    _CONVOLUTION,
    infer=_infer_convolution,
    expand=_newer,
    traits=Traits(in_single=True, multiply_adds=conv_cost),
    doc="Convolution, with the name of old files.",
)
