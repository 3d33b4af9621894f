"""Deformable convolutions: every tap samples the data at a learned offset.

Input: data (N, C, H, W), offset (N, 2 * groups * taps, oh, ow) alternating dy and dx, for the
modulated variant mask (N, groups * taps, oh, ow), weight (F, C/g, kh, kw), bias. Output: (N, F, oh,
ow).
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, merge_shapes, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, X
from ..casting import widened
from ..elementwise.binary import ADD
from ..nn.convolution import check_groups, check_weight, conv_cost
from ..nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..nn.window_geometry import Window, check_rank, is_channel_last, window_of
from ..record import Traits
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float, same_dtype
from ..tensor.primitives import reshape, transpose
from .bilinear_samples import SAMPLE_CELLS_LAST, Sampler, sample_clamped, sample_padded


def _window(kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, layout: str | None) -> Window:
    window = window_of(kernel, stride, dilate, pad)
    if window.rank != 2:
        raise ShapeError(f"deformable convolution needs a 2D kernel, got {shape_text(kernel)}")
    if is_channel_last(layout, 2):
        raise AttributeValueError(f"deformable convolution needs layout NCHW, got {layout}")
    return window


def _inputs(*, no_bias: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "offset", "weight") if no_bias else ("data", "offset", "weight", "bias")


def _modulated_inputs(**attrs: Declared) -> tuple[str, ...]:
    data, offset, *rest = _inputs(**attrs)
    return (data, offset, "mask", *rest)


def _merge_named(
    name: str, t: TensorType, shape: PartialShape, dtype: np.dtype | None
) -> TensorType:
    try:
        return TensorType(merge_shapes(t.shape, shape), dtype)
    except ShapeError as error:
        raise ShapeError(f"{name}: {error}") from None


def _infer(
    ins: Types,
    outs: Types,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_filter: int,
    num_group: int,
    num_deformable_group: int,
    no_bias: bool,
    layout: str | None,
    **attrs: AttrValue,
) -> tuple[Types, Types]:
    """Sizes as in Convolution; offset (and mask) have two (one) channels per group and tap."""
    window = _window(kernel, stride, dilate, pad, layout)
    dtype = same_dtype(*ins, *outs)
    data = ins[0].with_dtype(dtype)
    require_float("deformable convolution", data)
    if data.shape is None:
        return ins, outs
    check_rank(data.shape, 2)
    batch, channels = data.shape[:2]
    check_groups(num_filter, num_group, channels)
    if num_deformable_group < 1 or (channels is not None and channels % num_deformable_group):
        raise ShapeError(
            f"num_deformable_group must divide the input channels, but {num_deformable_group} "
            f"does not divide {channels}"
        )
    sizes = window.out_sizes(data.shape[2:])
    taps = num_deformable_group * product(kernel)
    fields = ins[1 : len(ins) - (1 if no_bias else 2)]
    expected = [(batch, 2 * taps, *sizes), (batch, taps, *sizes)]
    new_fields = [
        _merge_named(name, t, shape, dtype)
        for name, t, shape in zip(("offset", "mask"), fields, expected)
    ]
    weight, *bias = ins[1 + len(fields) :]
    wanted = (num_filter, None if channels is None else channels // num_group, *kernel)
    check_weight(weight.shape, wanted, 1, num_group)
    new_bias = [fill(b, (num_filter,), dtype) for b in bias]
    ins = (data, *new_fields, fill(weight, wanted, dtype), *new_bias)
    return ins, merged(outs, (TensorType((batch, num_filter, *sizes), dtype),))


def _sampled_columns(
    x: np.ndarray, offset: np.ndarray, mask: np.ndarray | None, window: Window, sampler: Sampler
) -> np.ndarray:
    """Columns of one image (C, taps, oh * ow). offset is (groups, taps, 2, oh, ow)."""
    groups, taps, _, oh, ow = offset.shape
    per_group = x.shape[0] // groups
    base = np.mgrid[:oh, :ow].astype(x.dtype)
    columns = np.empty((groups, per_group, taps, oh, ow), x.dtype)
    for t, tap in enumerate(np.ndindex(*window.kernel)):
        grid = [
            base[i] * window.stride[i] - window.pad[i] + tap[i] * window.dilate[i] for i in range(2)
        ]
        for g in range(groups):
            at = grid[0] + offset[g, t, 0], grid[1] + offset[g, t, 1]
            values = sampler(x[g * per_group : (g + 1) * per_group], *at)
            columns[g, :, t] = values if mask is None else values * mask[g, t]
    return columns.reshape(x.shape[0], taps, oh * ow)


def _convolve(
    data: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray | None,
    sampler: Sampler,
    *,
    kernel: Shape,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    num_filter: int,
    num_group: int,
    num_deformable_group: int,
    **attrs: AttrValue,
) -> np.ndarray:
    window = window_of(kernel, stride, dilate, pad)
    oh, ow = offset.shape[2:]
    groups, taps = num_deformable_group, product(kernel)
    w = widened(weight).reshape(num_group, num_filter // num_group, -1)
    out = np.empty((len(data), num_filter, oh, ow), data.dtype)
    for n, x in enumerate(widened(data)):
        shifts = widened(offset[n]).reshape(groups, taps, 2, oh, ow)
        factors = None if mask is None else widened(mask[n]).reshape(groups, taps, oh, ow)
        columns = _sampled_columns(x, shifts, factors, window, sampler)
        out[n] = (w @ columns.reshape(num_group, -1, oh * ow)).reshape(num_filter, oh, ow)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _deformable(
    data: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    **attrs: Declared,
) -> np.ndarray:
    return _convolve(data, offset, None, weight, bias, sample_clamped, **attrs)


def _modulated(
    data: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    **attrs: Declared,
) -> np.ndarray:
    return _convolve(data, offset, mask, weight, bias, sample_padded, **attrs)


def _parts(g: Builder[X], data: X, offset: X, *weights: X, **attrs: AttrValue) -> X:
    """deformable convolution  =>  weights times samples at the taps' positions"""
    return _Parts(g, data, offset, None, weights, attrs).run()


def _modulated_parts(
    g: Builder[X], data: X, offset: X, mask: X, *weights: X, **attrs: AttrValue
) -> X:
    """deformable convolution  =>  weights times samples at the taps' positions"""
    return _Parts(g, data, offset, mask, weights, attrs).run()


class _Parts(Generic[X]):
    """Expansion of a deformable convolution: N images, P = oh * ow output positions."""

    def __init__(
        self,
        g: Builder[X],
        data: X,
        offset: X,
        mask: X | None,
        weights: tuple[X, ...],
        attrs: Attrs,
    ) -> None:
        self.g, self.attrs = g, attrs
        self.data, self.offset, self.mask = data, offset, mask
        self.weight, *self.bias = weights
        self.pieces, self.groups = attrs["num_deformable_group"], attrs["num_group"]
        self.size = g.type(offset).dims[2:]
        self.places, self.taps = product(self.size), product(attrs["kernel"])
        self.batch, self.channels, *self.sizes = g.type(data).dims

    def run(self) -> X:
        """Product with the layout (N, F, oh, ow)."""
        g, filters = self.g, self.attrs["num_filter"]
        rows = self._columns()
        y = self._dense(rows) if self.groups == 1 else self._grouped(rows)
        images = reshape(g, y, (self.batch, self.places, filters), at="images")
        first = transpose(g, images, (0, 2, 1), at="nchw")
        return reshape(g, first, (self.batch, filters, *self.size))

    def _split(self, x: X, sizes: Shape, at: str) -> X:
        """Images of ``x`` split into deformable groups, each as a separate image."""
        return reshape(self.g, x, (self.batch * self.pieces, *sizes), at=at)

    def _columns(self) -> X:
        """(N * P, taps * C): samples of each output position, tap by tap."""
        g, deep = self.g, self.channels // self.pieces
        cells = self._split(self.data, (deep, *self.sizes), "parts")
        inputs = [transpose(g, cells, (0, 2, 3, 1), at="nhwc"), self._samples_at()]
        if self.mask is not None:
            mask = self._split(self.mask, (self.taps, self.places), "mask")
            inputs.append(transpose(g, mask, (0, 2, 1), at="factors"))
        flags = {"is_held": self.mask is None, "is_masked": self.mask is not None}
        found = g.op(SAMPLE_CELLS_LAST, *inputs, at="samples", **flags)
        if self.pieces > 1:
            grouped = (self.batch, self.pieces, self.places, self.taps, deep)
            found = reshape(g, found, grouped, at="apart")
            found = transpose(g, found, (0, 2, 3, 1, 4), at="together")
        rows = (self.batch * self.places, self.taps * self.channels)
        return reshape(g, found, rows, at="rows")

    def _samples_at(self) -> X:
        """Rows and columns of the samples: (N * groups, 2, P, taps)."""
        g, window = self.g, {k: self.attrs[k] for k in ("kernel", "stride", "dilate", "pad")}
        dtype = g.type(self.data).dtype
        grid = g.op(TAP_GRID, at="grid", size=self.size, dtype=dtype, **window)
        grid = reshape(g, grid, (1, self.taps, 2, self.places), at="grids")
        offset = self._split(self.offset, (self.taps, 2, self.places), "offsets")
        moved = g.op(ADD.broadcasting, offset, grid, at="at")
        return transpose(g, moved, (0, 2, 3, 1), at="places")

    def _rows_of_weights(self) -> X:
        """(F, taps * C / groups), in the order of the columns."""
        g = self.g
        filters, deep = g.type(self.weight).dims[:2]
        flat = reshape(g, self.weight, (filters, deep, self.taps), at="weight_taps")
        transposed = transpose(g, flat, (0, 2, 1), at="weight_last")
        return reshape(g, transposed, (filters, self.taps * deep), at="weight_rows")

    def _dense(self, rows: X) -> X:
        attrs = {"num_hidden": self.attrs["num_filter"], "no_bias": not self.bias}
        inputs = (rows, self._rows_of_weights(), *self.bias)
        return self.g.op(FULLY_CONNECTED, *inputs, at="product", **attrs)

    def _grouped(self, rows: X) -> X:
        g, groups = self.g, self.groups
        count, filters = g.type(rows).dims[0], self.attrs["num_filter"] // groups
        deep = self.channels // groups
        split = reshape(g, rows, (count, self.taps, groups, deep), at="split")
        transposed = transpose(g, split, (2, 0, 1, 3), at="grouped")
        left = reshape(g, transposed, (groups, count, self.taps * deep), at="left")
        weights = self._rows_of_weights()
        right = reshape(g, weights, (groups, filters, self.taps * deep), at="right")
        each = g.op(BATCH_DOT, left, right, at="product", transpose_b=True)
        beside = transpose(g, each, (1, 0, 2), at="beside")
        y = reshape(g, beside, (count, groups * filters), at="joined")
        return g.op(ADD.broadcasting, y, self.bias[0], at="biased") if self.bias else y


_TRAITS = Traits(parts_in_floats=True, multiply_adds=conv_cost)
_ATTRS = (
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_filter:int! num_group:int=1 "
    "num_deformable_group:int=1 no_bias:bool=False "
)

register(
    "_contrib_DeformableConvolution",
    _inputs,
    _ATTRS + "layout:layout?=None",
    infer=_infer,
    ref=_deformable,
    expand=_parts,
    traits=_TRAITS,
    doc="Convolution whose taps sample at learned offsets.",
)
register(
    "_contrib_ModulatedDeformableConvolution",
    _modulated_inputs,
    _ATTRS + "im2col_step:int=64 layout:layout?=None",
    infer=_infer,
    ref=_modulated,
    expand=_modulated_parts,
    traits=_TRAITS,
    doc="Convolution whose taps sample at learned offsets and are scaled by a mask.",
)


def _tap_grid(
    *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, size: Shape, dtype: np.dtype
) -> np.ndarray:
    """Row and column of each tap at each output position: (taps, 2, oh * ow)."""
    window = window_of(kernel, stride, dilate, pad)
    taps = np.mgrid[: kernel[0], : kernel[1]].reshape(2, -1).T
    cells = np.mgrid[: size[0], : size[1]].reshape(2, -1)
    starts = cells * np.array([window.stride]).T - np.array([window.pad]).T
    return (taps[:, :, None] * np.array(window.dilate)[:, None] + starts).astype(dtype)


TAP_GRID = register(
    "_tap_grid",
    "",
    "kernel:shape! stride:shape! dilate:shape! pad:shape! size:shape! dtype:dtype!",
    internal=True,
    infer=forward(
        lambda kernel, size, dtype, **attrs: TensorType((product(kernel), 2, product(size)), dtype)
    ),
    ref=_tap_grid,
    doc="Positions of a convolution's taps; created by the compiler only.",
)
