"""Bilinear samples of images at computed positions, and their gradients.

Input: images, and a row and a column for each sample. Output: the samples; with respect to images,
positions and masks, gradients, by machine code where it is there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import Shape
from .. import native
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..registry import register
from ..rules import forward

Sampler = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


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


def sample_clamped(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Samples outside [0, H) x [0, W) are 0; between the last cell and the border they clamp."""
    height, width = x.shape[1:]
    inside = (y >= 0) & (y < height) & (c >= 0) & (c < width)
    held = np.clip(y, 0, height - 1), np.clip(c, 0, width - 1)
    return np.where(inside, sample_zero_padded(x, *held), 0)


def sample_padded(x: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Samples outside (-1, H) x (-1, W), or at NaN, are 0; cells outside are zero."""
    height, width = x.shape[1:]
    inside = (y > -1) & (y < height) & (c > -1) & (c < width)
    return np.where(inside, sample_zero_padded(x, *(np.where(inside, at, 0) for at in (y, c))), 0)


def _sampled_inputs(*, is_masked: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "places", "mask") if is_masked else ("data", "places")


def _sample_cells(
    data: np.ndarray, places: np.ndarray, *mask: np.ndarray, is_held: bool, is_masked: bool
) -> np.ndarray:
    """Samples of each image (H, W, C) at rows places[0] and columns places[1], times the mask."""
    sampler = sample_clamped if is_held else sample_padded
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
