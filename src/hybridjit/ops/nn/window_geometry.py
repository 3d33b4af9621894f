"""Window geometry of convolution and pooling: attribute checks, sizes and strided views.

Input: the attributes kernel, stride, dilate, pad and layout, and spatial sizes that may be unknown
(None). Output: a :class:`Window` with an integer per spatial axis, output sizes, and views of the
windows of an array.
"""

from __future__ import annotations

import numpy as np

from ..._core.frozen import dataclass
from ..._core.types import FLOAT64, PartialShape, Shape, TensorType, require_possible, shape_text
from ...errors import AttributeValueError, ShapeError
from ..rules import spatial

CHANNEL_FIRST = ("NCW", "NCHW", "NCDHW")
CHANNEL_LAST = ("NWC", "NHWC", "NDHWC")
_COLOURS = (1, 3, 4)  # usual numbers of channels of images
_LARGEST = 2**31 - 1  # limit of a window's attributes in MXNet


@dataclass(frozen=True)
class Window:
    """Sliding window: one integer per spatial axis in each field."""

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def spans(self) -> Shape:
        """Number of cells that the dilated kernel covers along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilate))

    def out_sizes(self, sizes: PartialShape) -> PartialShape:
        """floor((n + 2 pad - span) / stride) + 1 per axis; None remains None.

        Raises ShapeError if the kernel exceeds the padded input, or the input exceeds any memory.
        """
        require_cells(tuple(n and n + 2 * p for n, p in zip(sizes, self.pad)))
        return tuple(
            None if n is None else (self._room(i, n) // self.stride[i]) + 1
            for i, n in enumerate(sizes)
        )

    def _room(self, axis: int, size: int) -> int:
        padded, span = size + 2 * self.pad[axis], self.spans[axis]
        if span > padded:
            is_last = axis == self.rank - 1 and size in _COLOURS
            raise ShapeError(
                f"kernel size exceed input: the kernel covers {span} cells on spatial axis {axis},"
                f" but the input has {size}, or {padded} with padding"
                f"{channels_first(self.rank) if is_last else ''}"
            )
        return padded - span


def channels_first(rank: int) -> str:
    """The way out for data whose channels are the last axis, for a message."""
    axes = (0, rank + 1, *range(1, rank + 1))
    return f"; if the data are {CHANNEL_LAST[rank - 1]}, pass x.transpose({axes})"


def require_cells(sizes: PartialShape) -> None:
    """Raise ShapeError for an image that with its padding exceeds any memory."""
    require_possible([TensorType(sizes, FLOAT64)])


def window_of(kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Window:
    """Window for the attributes; empty stride, dilate, pad mean 1, 1, 0.

    Raises ShapeError for a wrong number of elements, AttributeValueError for one out of range.
    """
    rank = len(kernel)
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"kernel {shape_text(kernel)} has {rank} dimensions, but only 1, 2 and 3 are supported"
        )
    window = Window(
        kernel,
        spatial(stride, rank, 1, "stride"),
        spatial(dilate, rank, 1, "dilate"),
        spatial(pad, rank, 0, "pad"),
    )
    for what, values, least in (
        ("kernel", window.kernel, 1),
        ("stride", window.stride, 1),
        ("dilate", window.dilate, 1),
        ("pad", window.pad, 0),
    ):
        if any(value < least for value in values):
            raise AttributeValueError(
                f"{what} {shape_text(values)} must be at least {least} on every axis"
            )
        if any(value > _LARGEST for value in values):
            raise AttributeValueError(f"{what} {shape_text(values)} is above {_LARGEST}")
    return window


def is_channel_last(layout: str | None, rank: int) -> bool:
    """Whether channels are the last axis.

    Raises AttributeValueError for a layout that does not have ``rank`` spatial axes or is not one
    of MXNet's."""
    if layout is None or layout == CHANNEL_FIRST[rank - 1]:
        return False
    if layout == CHANNEL_LAST[rank - 1]:
        return True
    raise AttributeValueError(
        f"layout {layout} is not a layout for {rank} spatial axes: "
        f"{CHANNEL_FIRST[rank - 1]} or {CHANNEL_LAST[rank - 1]}"
    )


def check_rank(shape: PartialShape, rank: int) -> None:
    """Raise ShapeError unless ``shape`` has a batch, channels and ``rank`` spatial axes.

    Raises AttributeValueError for an unsupported rank.
    """
    if not 1 <= rank <= 3:
        raise AttributeValueError(f"a window must have 1 to 3 sizes, got {rank}")
    if len(shape) != rank + 2:
        axes = ("x", "y-x", "depth-y-x")[rank - 1]
        one = "; a batch of one is x.expand_dims(0)" if len(shape) == rank + 1 else ""
        raise ShapeError(
            f"Input data should be {rank + 2}D in batch-num_filter-{axes}, "
            f"got {shape_text(shape)}{one}"
        )


def split_axes(shape: PartialShape, last: bool) -> tuple[int | None, PartialShape]:
    """Channels and spatial sizes of a shape."""
    return (shape[-1], shape[1:-1]) if last else (shape[1], shape[2:])


def join_axes(
    batch: int | None, channels: int | None, sizes: PartialShape, last: bool
) -> PartialShape:
    """Inverse of :func:`split_axes`."""
    return (batch, *sizes, channels) if last else (batch, channels, *sizes)


def padded(x: np.ndarray, before: Shape, after: Shape, value: float) -> np.ndarray:
    """``x`` padded with constant cells along its trailing axes; unchanged without padding."""
    if not any(before) and not any(after):
        return x
    lead = x.ndim - len(before)
    full = x.shape[:lead] + tuple(n + b + a for n, b, a in zip(x.shape[lead:], before, after))
    require_possible([TensorType(full, x.dtype)])
    out = np.full(full, value, x.dtype)
    inner: tuple[slice, ...] = tuple(slice(b, b + n) for b, n in zip(before, x.shape[lead:]))
    out[(slice(None),) * lead + inner] = x
    return out


def windows(x: np.ndarray, window: Window) -> np.ndarray:
    """View of all windows of a padded ``x``: (..., *sizes) -> (..., *out sizes, *kernel)."""
    axes = tuple(range(x.ndim - window.rank, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, window.spans, axes)
    steps = tuple(slice(None, None, s) for s in window.stride)
    taps = tuple(slice(None, None, d) for d in window.dilate)
    lead: tuple[slice, ...] = (slice(None),) * (x.ndim - window.rank)
    return view[lead + steps + taps]


def tap_cells(starts: Shape, steps: Shape, counts: PartialShape) -> tuple[slice, ...]:
    """Index of (N, C, sizes...): ``counts`` cells from ``starts`` with ``steps`` on each axis."""
    known: Shape = counts  # type: ignore[assignment]
    cells = (slice(a, a + (n - 1) * s + 1, s) for a, s, n in zip(starts, steps, known))
    return (slice(None), slice(None), *cells)
