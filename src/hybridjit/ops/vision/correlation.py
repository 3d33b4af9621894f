"""Correlation of two feature maps over a neighbourhood of displacements.

Input: data1 and data2 (N, C, H, W). Output: (N, D * D, h, w), one channel per displacement, row by
row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import Attrs, AttrValue
from ..building import Builder, Many, X
from ..casting import widened
from ..nn.window_geometry import padded, require_cells, tap_cells
from ..record import Traits
from ..registry import register
from ..rules import forward, require_float, same_dtype


class _Geometry(NamedTuple):
    """radius: displacements to each side; border: cells that windows and displacements extend
    over."""

    radius: int
    border: int
    height: int
    width: int


def _geometry(
    height: int,
    width: int,
    *,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    pad_size: int,
    is_multiply: bool,
) -> _Geometry:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise AttributeValueError(f"kernel_size must be odd, got {kernel_size}")
    if min(stride1, stride2) < 1 or min(max_displacement, pad_size) < 0:
        raise AttributeValueError(
            "stride1 and stride2 must be at least 1, max_displacement and pad_size at least 0"
        )
    border = max_displacement + kernel_size // 2
    require_cells((height + 2 * pad_size, width + 2 * pad_size))
    sizes = [-(-(n + 2 * pad_size - 2 * border) // stride1) for n in (height, width)]
    if min(sizes) < 1:
        raise ShapeError(
            f"{height} x {width} with padding {pad_size} is smaller than the border {border}"
        )
    return _Geometry(max_displacement // stride2, border, *sizes)


@forward
def _infer_correlation(data1: TensorType, data2: TensorType, **attrs: int) -> TensorType:
    """(2 floor(max_displacement / stride2) + 1)^2 channels, ceil((padded - 2 border) / stride1)."""
    same_dtype(data1, data2)
    require_float("Correlation", data1)
    if data1.ndim != 4 or data1.dims != data2.dims:
        raise ShapeError(
            f"Correlation needs two 4D operands of equal shapes, got {shape_text(data1.shape)} and "
            f"{shape_text(data2.shape)}"
        )
    geometry = _geometry(*data1.dims[2:], **attrs)  # type: ignore[arg-type]
    channels = (2 * geometry.radius + 1) ** 2
    return data1.with_shape((data1.dims[0], channels, geometry.height, geometry.width))


def _window_means(
    a: np.ndarray, b: np.ndarray, kernel: int, geometry: _Geometry, stride: int, multiply: bool
) -> np.ndarray:
    """Mean over channels and the kernel of a * b or |a - b|, one value per window."""
    cells = a * b if multiply else np.abs(a - b)
    summed = cells.sum(axis=1)
    total = sum(
        summed[
            :,
            dy : dy + (geometry.height - 1) * stride + 1 : stride,
            dx : dx + (geometry.width - 1) * stride + 1 : stride,
        ]
        for dy in range(kernel)
        for dx in range(kernel)
    )
    return np.asarray(total / a.dtype.type(kernel * kernel * a.shape[1]))


class _Pairs(NamedTuple):
    """Padded operands: slice of the first, and for each displacement the slice of the second."""

    first: np.ndarray
    second: np.ndarray
    centre: tuple[slice, ...]
    moved: list[tuple[slice, ...]]


def _pairs(data1: np.ndarray, data2: np.ndarray, geometry: _Geometry, attrs: Attrs) -> _Pairs:
    pad, low, stride = attrs["pad_size"], attrs["max_displacement"], attrs["stride2"]
    a, b = (padded(widened(x), (pad, pad), (pad, pad), 0) for x in (data1, data2))
    height, width = (n - 2 * low for n in a.shape[2:])

    def place(dy: int, dx: int) -> tuple[slice, ...]:
        rows, columns = slice(low + dy, low + dy + height), slice(low + dx, low + dx + width)
        return slice(None), slice(None), rows, columns

    shifts = [d * stride for d in range(-geometry.radius, geometry.radius + 1)]
    return _Pairs(a, b, place(0, 0), [place(dy, dx) for dy in shifts for dx in shifts])


def _correlation(
    data1: np.ndarray,
    data2: np.ndarray,
    *,
    kernel_size: int,
    stride1: int,
    is_multiply: bool,
    **attrs: int,
) -> np.ndarray:
    """Displacements are multiples of stride2, from top left to bottom right."""
    attrs |= {"kernel_size": kernel_size, "stride1": stride1, "is_multiply": is_multiply}
    geometry = _geometry(*data1.shape[2:], **attrs)  # type: ignore[arg-type]
    a, b, centre, moved = _pairs(data1, data2, geometry, attrs)
    means = [
        _window_means(a[centre], b[place], kernel_size, geometry, stride1, is_multiply)
        for place in moved
    ]
    return np.stack(means, axis=1).astype(data1.dtype, copy=False)


def _back_from_correlation(
    head: np.ndarray,
    data1: np.ndarray,
    data2: np.ndarray,
    *,
    kernel_size: int,
    stride1: int,
    is_multiply: bool,
    **attrs: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of each cell: sum over the windows that contain it."""
    attrs |= {"kernel_size": kernel_size, "stride1": stride1, "is_multiply": is_multiply}
    geometry = _geometry(*data1.shape[2:], **attrs)  # type: ignore[arg-type]
    a, b, centre, moved = _pairs(data1, data2, geometry, attrs)
    of_a, of_b = np.zeros_like(a), np.zeros_like(b)
    share = widened(head) / a.dtype.type(kernel_size * kernel_size * a.shape[1])
    for number, place in enumerate(moved):
        x, y = a[centre], b[place]
        cells = np.zeros((len(x), 1, *x.shape[2:]), x.dtype)
        for start in np.ndindex(kernel_size, kernel_size):
            steps, counts = (stride1, stride1), (geometry.height, geometry.width)
            cells[tap_cells(start, steps, counts)] += share[:, number, None]
        if is_multiply:
            of_a[centre] += cells * y
            of_b[place] += cells * x
        else:
            slope = np.where(x >= y, cells, -cells)
            of_a[centre] += slope
            of_b[place] -= slope
    pad = attrs["pad_size"]
    inner = tap_cells((pad, pad), (1, 1), data1.shape[2:])
    found = (np.ascontiguousarray(d[inner], data1.dtype) for d in (of_a, of_b))
    return tuple(found)  # type: ignore[return-value]


_ATTRS = (
    "kernel_size:int=1 max_displacement:int=1 stride1:int=1 stride2:int=1 pad_size:int=0 "
    "is_multiply:bool=True"
)

BACK_FROM_CORRELATION = register(
    "_back_from_correlation",
    "head data1 data2",
    _ATTRS,
    internal=True,
    infer=forward(lambda head, data1, data2, **attrs: (data1, data2)),
    ref=_back_from_correlation,
    outputs=("d_data1", "d_data2"),
    doc="Gradients of Correlation with respect to the feature maps.",
)


def _grad_correlation(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> tuple[X, ...]:
    return g.outputs(BACK_FROM_CORRELATION, douts[0], *ins, at="dmaps", **attrs)


register(
    "Correlation",
    "data1 data2",
    _ATTRS,
    infer=_infer_correlation,
    ref=_correlation,
    grad=_grad_correlation,
    traits=Traits(total_outputs=3),
    doc="Correlation of patches of two feature maps over displacements.",
)
