"""Convolution and its transpose.

In: data (N, C, spatial...), weight and bias, or their channel-last forms. Out: (N, F, spatial...).
The references unfold windows and multiply matrices; they choose no algorithm by size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import PartialShape, Shape, TensorType, product, shape_text
from .attrs import AttrValue
from .building import Builder, X
from .casting import widened
from .record import Samples, Traits
from .registry import register
from .rules import Types, fill, merged, require_float, same_dtype
from .windows import (
    Window,
    check_rank,
    is_channel_last,
    join_axes,
    padded,
    split_axes,
    window_of,
    windows,
)


def weight_and_bias(*, no_bias: bool, **attrs: AttrValue) -> tuple[str, ...]:
    """Input names of the layers that multiply by a weight."""
    return ("data", "weight") if no_bias else ("data", "weight", "bias")


def check_groups(num_filter: int, num_group: int, channels: int | None) -> None:
    """Raises unless groups divide both filters and input channels."""
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
    found: PartialShape | None, expected: PartialShape, axis: int, groups: int
) -> None:
    """Raises ShapeError, in words, when a weight does not fit the data or the attributes."""
    if found is None:
        return
    if len(found) != len(expected):
        raise ShapeError(f"weight should be {len(expected)}D, got {shape_text(found)}")
    if None not in (found[axis], expected[axis]) and found[axis] != expected[axis]:
        per_group = "" if groups == 1 else f" in {groups} groups"
        raise ShapeError(
            f"weight takes {found[axis] * groups} input channels, "  # type: ignore[operator]
            f"data has {expected[axis] * groups}{per_group}"  # type: ignore[operator]
        )
    if any(None not in (f, e) and f != e for f, e in zip(found, expected)):
        raise ShapeError(
            f"weight has shape {shape_text(found)}, "
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
    check_weight(ins[1].shape, expected, len(expected) - 1 if last else 1, num_group)
    new_ins = [data.with_shape(shape), fill(ins[1], expected, dtype)]
    new_ins += [fill(bias, (num_filter,), dtype) for bias in ins[2:]]
    out = join_axes(shape[0], num_filter, window.out_sizes(sizes), last)
    return tuple(new_ins), merged(outs, (TensorType(out, dtype),))


def _fitted(data: PartialShape, out: PartialShape, window: Window, last: bool) -> PartialShape:
    """``data`` with its unknown batch and, where the stride is 1, sizes taken from the output."""
    check_rank(out, window.rank)
    channels, sizes = split_axes(data, last)
    _, out_sizes = split_axes(out, last)
    found = [
        o - 1 + window.spans[i] - 2 * window.pad[i] if n is None and o and stride == 1 else n
        for i, (n, o, stride) in enumerate(zip(sizes, out_sizes, window.stride))
    ]
    batch = out[0] if data[0] is None else data[0]
    return join_axes(batch, channels, tuple(found), last)


def columns(x: np.ndarray, window: Window, groups: int) -> np.ndarray:
    """One padded sample (C, sizes...) unfolded: (groups, C/g * taps, number of windows)."""
    rank = window.rank
    view = windows(x, window)  # (C, *out, *kernel)
    order = (0, *range(1 + rank, 1 + 2 * rank), *range(1, 1 + rank))
    taps = x.shape[0] // groups * product(window.kernel)
    return view.transpose(order).reshape(groups, taps, product(view.shape[1 : 1 + rank]))


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
    """Cross-correlation, one sample at a time so that the columns of a batch never coexist."""
    window = window_of(kernel, stride, dilate, pad)
    last = is_channel_last(layout, window.rank)
    x, w = (np.moveaxis(a, -1, 1) if last else a for a in (data, weight))
    out_sizes = window.out_sizes(x.shape[2:])
    out = np.empty((x.shape[0], num_filter, *out_sizes), data.dtype)  # type: ignore[arg-type]
    w = widened(w).reshape(num_group, num_filter // num_group, -1)
    x = padded(widened(x), window.pad, window.pad, 0)
    shift = None if bias is None else widened(bias).reshape(num_group, -1, 1)
    for sample, target in zip(x, out):
        y = w @ columns(sample, window, num_group)
        target[...] = (y if shift is None else y + shift).reshape(target.shape)
    return np.ascontiguousarray(np.moveaxis(out, 1, -1)) if last else out


_CONVOLUTION = (
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_filter:int! num_group:int=1 "
    "no_bias:bool=False layout:layout?=None"
)


def conv_cost(ins: Types, outs: Types, *, no_bias: bool, **attrs: AttrValue) -> int:
    """Each output element reads one filter; the weight is the last input but the bias."""
    weight = ins[-1 if no_bias else -2]
    return outs[0].size * weight.size // weight.dims[0]


CONVOLUTION = register(
    "Convolution",
    weight_and_bias,
    _CONVOLUTION,
    kernel="conv",
    infer=_infer_convolution,
    ref=_convolution,
    traits=Traits(in_single=True, samples=Samples.FIRST, multiply_adds=conv_cost),
    doc="Cross-correlation with 1, 2 or 3 spatial axes; weight (num_filter, C/num_group, k...).",
)


def _newer(g: Builder[X], *inputs: X, **attrs: Any) -> X:
    """Convolution_v1(x, w)  =>  Convolution(x, w)"""
    return g.op(CONVOLUTION, *inputs, **attrs)


register(
    "Convolution_v1",
    weight_and_bias,
    _CONVOLUTION,
    infer=_infer_convolution,
    expand=_newer,
    traits=Traits(in_single=True, multiply_adds=conv_cost),
    doc="Convolution as old files name it.",
)
