"""Deformable convolutions: every tap samples the data at a learned offset.

Input: data (N, C, H, W), offset (N, 2 * groups * taps, oh, ow) alternating dy and dx, for the
modulated variant mask (N, groups * taps, oh, ow), weight (F, C/g, kh, kw), bias. Output: (N, F, oh,
ow).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import numpy as np

from ..._core.types import PartialShape, Shape, TensorType, merge_shapes, product, shape_text
from ...errors import AttributeValueError, ShapeError
from .. import native
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import widened
from ..elementwise.binary import ADD
from ..nn.convolution import check_groups, check_weight, conv_cost
from ..nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ..nn.window_geometry import Window, check_rank, is_channel_last, window_of
from ..record import Traits
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float, same_dtype
from ..tensor.primitives import reshape, transpose

Sampler = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


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


def _corners(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low = np.floor(at)
    return low.astype(np.int64), at - low


def _gather(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``x[:, y, c]``, with cells outside counting as 0."""
    height, width = x.shape[1:]
    if x.size == 0:
        return np.zeros((len(x), *y.shape), x.dtype)
    inside = (y >= 0) & (y < height) & (c >= 0) & (c < width)
    cells = x[:, np.clip(y, 0, height - 1), np.clip(c, 0, width - 1)]
    return np.where(inside, cells, 0)


def sample_zero_padded(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Bilinear samples of (C, H, W) at rows y and columns c; cells outside are zero."""
    top, fy = _corners(y)
    left, fc = _corners(c)
    upper = _gather(x, top, left) * (1 - fc) + _gather(x, top, left + 1) * fc
    lower = _gather(x, top + 1, left) * (1 - fc) + _gather(x, top + 1, left + 1) * fc
    return upper * (1 - fy) + lower * fy


def _sample_clamped(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Samples outside [0, H) x [0, W) are 0; between the last cell and the border they clamp."""
    height, width = x.shape[1:]
    inside = (y >= 0) & (y < height) & (c >= 0) & (c < width)
    held = np.clip(y, 0, height - 1), np.clip(c, 0, width - 1)
    return np.where(inside, sample_zero_padded(x, *held), 0)


def _sample_padded(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Samples outside (-1, H) x (-1, W), or at NaN, are 0; cells outside are zero."""
    height, width = x.shape[1:]
    inside = (y > -1) & (y < height) & (c > -1) & (c < width)
    return np.where(inside, sample_zero_padded(x, *(np.where(inside, at, 0) for at in (y, c))), 0)


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
    return _convolve(data, offset, None, weight, bias, _sample_clamped, **attrs)


def _modulated(
    data: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    **attrs: Declared,
) -> np.ndarray:
    return _convolve(data, offset, mask, weight, bias, _sample_padded, **attrs)


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


def _sampled_inputs(*, is_masked: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "places", "mask") if is_masked else ("data", "places")


def _sample_cells(
    data: np.ndarray, places: np.ndarray, *mask: np.ndarray, is_held: bool, is_masked: bool
) -> np.ndarray:
    """Samples of each image (H, W, C) at rows places[0] and columns places[1], times the mask."""
    sampler = _sample_clamped if is_held else _sample_padded
    found = [sampler(np.moveaxis(x, 2, 0), *at) for x, at in zip(data, places)]
    y = np.moveaxis(np.stack(found), 1, 3)
    return np.ascontiguousarray(y * mask[0][..., None] if mask else y)


def _places_of(
    at: np.ndarray, sizes: Shape, is_held: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sampled rows and columns, mask of samples inside, and mask of those that depend on ``at``."""
    bounds = np.array(sizes).reshape(2, 1, 1)
    if is_held:
        inside = np.asarray(((at >= 0) & (at < bounds)).all(0))
        return np.clip(at, 0, bounds - 1), inside, inside & (at < bounds - 1)
    inside = np.asarray(((at > -1) & (at < bounds)).all(0))
    return np.where(inside, at, 0), inside, np.broadcast_to(inside, at.shape)


def _back_from_image(
    x: np.ndarray, at: np.ndarray, d: np.ndarray, is_held: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients with respect to an image and its positions, and the samples."""
    places, inside, moves = _places_of(at, x.shape[:2], is_held)
    low, share = _corners(places)
    of_x, of_at = np.zeros_like(x), np.zeros_like(at)
    samples = np.zeros_like(d)
    for corner in np.ndindex(2, 2):
        row, column = low[0] + corner[0], low[1] + corner[1]
        counts = inside & (row >= 0) & (row < x.shape[0]) & (column >= 0) & (column < x.shape[1])
        row, column = np.where(counts, row, 0), np.where(counts, column, 0)
        weights = [share[i] if corner[i] else 1 - share[i] for i in range(2)]
        cells = np.where(counts[..., None], x[row, column], 0)
        weight = np.where(counts, weights[0] * weights[1], 0)[..., None]
        np.add.at(of_x, (row, column), weight * d)
        samples += weight * cells
        products = (cells * d).sum(-1)
        for i in range(2):
            of_at[i] += products * weights[1 - i] * (1 if corner[i] else -1)
    return of_x, np.where(moves, of_at, 0), samples


def _back_from_samples(
    head: np.ndarray,
    data: np.ndarray,
    places: np.ndarray,
    *mask: np.ndarray,
    is_held: bool,
    is_masked: bool,
) -> tuple[np.ndarray, ...]:
    made = _back_by_routine(head, data, places, *mask, is_held=is_held)
    if made is not None:
        return made
    scaled = head * mask[0][..., None] if mask else head
    found = [_back_from_image(*of_image, is_held) for of_image in zip(data, places, scaled)]
    of_data, of_places, samples = (np.stack(side) for side in zip(*found))
    return (of_data, of_places, *([(head * samples).sum(-1)] if mask else []))


def _back_by_routine(
    head: np.ndarray, data: np.ndarray, places: np.ndarray, *mask: np.ndarray, is_held: bool
) -> tuple[np.ndarray, ...] | None:
    """The same by machine code; None where NumPy computes it."""
    sizes = data.shape[1:3]
    if not is_back_native(head, data):
        return None
    at, inside, moves = (np.stack(s) for s in zip(*(_places_of(p, sizes, is_held) for p in places)))
    low, share = _corners(at)
    shares = np.ascontiguousarray(np.moveaxis(share, 1, -1))
    factors = mask[0] if mask else np.ones(places[:, 0].shape, data.dtype)
    corners = corner_cells(low[:, 0], low[:, 1], sizes, inside)
    of_data, of_places, of_mask = bilinear_back(data, head, corners, shares, factors)
    of_places = np.where(moves, np.moveaxis(of_places, -1, 1), 0)
    return (of_data, of_places, of_mask) if mask else (of_data, of_places)


def is_back_native(head: np.ndarray, data: np.ndarray) -> bool:
    """Whether machine code computes gradients of samples: the sizes of one image decide."""
    if not data.size or not head.size or data.dtype.name not in ("float32", "float64"):
        return False
    return native.routine("bilinear_back", data.dtype.name, size=head[0].size) is not None


def corner_cells(
    top: np.ndarray, left: np.ndarray, sizes: Shape, counts: np.ndarray | None = None
) -> np.ndarray:
    """The cells (..., 4) of four corners as numbers in an image; -1 for those outside."""
    found = np.empty((*top.shape, 4), np.int64)
    for k, (i, j) in enumerate(np.ndindex(2, 2)):
        row, column = top + i, left + j
        inside = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
        inside = inside if counts is None else inside & counts
        found[..., k] = np.where(inside, row * sizes[1] + column, -1)
    return found


def bilinear_back(
    data: np.ndarray, head: np.ndarray, corners: np.ndarray, shares: np.ndarray, factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients with respect to images (N, H, W, C), to rows and columns (..., 2), and factors.

    The routine has to be there. The samples are those at the corners by their shares.
    """
    run = native.routine("bilinear_back", data.dtype.name)
    assert run is not None
    images = [np.ascontiguousarray(a, data.dtype) for a in (data, head)]
    weights = [np.ascontiguousarray(a, data.dtype) for a in (shares, factors)]
    operands = [*images, corners, *weights]
    results = [np.zeros(a.shape, data.dtype) for a in (data, shares, factors)]
    batch, channels = len(data), data.shape[-1]
    sizes = (data.size // (batch * channels), factors.size // batch)
    run([*operands, *results], [batch, *sizes, channels])
    return results[0], results[1], results[2]


def _back_inputs(**attrs: Declared) -> tuple[str, ...]:
    return ("head", *_sampled_inputs(**attrs))


def _back_outputs(**attrs: Declared) -> tuple[str, ...]:
    return tuple(f"d_{name}" for name in _sampled_inputs(**attrs))


BACK_FROM_SAMPLES = register(
    "_back_from_sample_cells",
    _back_inputs,
    "is_held:bool! is_masked:bool!",
    internal=True,
    infer=forward(lambda head, *operands, **attrs: operands),
    ref=_back_from_samples,
    outputs=_back_outputs,
    doc="Gradients of bilinear samples with respect to images, positions and masks.",
)


def _grad_samples(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> tuple[X, ...]:
    return g.outputs(BACK_FROM_SAMPLES, douts[0], *ins, at="dsamples", **attrs)


SAMPLE_CELLS_LAST = register(
    "_sample_cells_last",
    _sampled_inputs,
    "is_held:bool! is_masked:bool!",
    internal=True,
    kernel="sample",
    infer=forward(
        lambda data, places, *mask, **attrs: data.with_shape(
            (data.dims[0], *places.dims[2:], data.dims[3])
        )
    ),
    ref=_sample_cells,
    grad=_grad_samples,
    doc="Bilinear samples of images with channels last, at positions in cells.",
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
