"""ONNX's operators of places and regions in pictures."""

from __future__ import annotations

import math

import numpy as np

from ...errors import MXNetError
from ...ops.vision.boxes import suppress, to_corners
from ..importer import Importer, Value
from ..use import Use
from .narrow import nearest_even
from .pointwise import to_shape
from .table import translates


@translates("AffineGrid")
def affine_grid(g: Importer, use: Use, theta: Value, size: Value) -> Value:
    """Places to sample at, of affine maps in two or three dimensions, the last axis first."""
    n, _, *sizes = g.ints(size, "size")
    count, rank = math.prod(sizes), len(sizes) + 1
    g.require_small(count * rank)
    corners = bool(use.number("align_corners"))
    axes = np.meshgrid(*(_places(size, corners) for size in sizes), indexing="ij")
    grid = np.stack([*axes[::-1], np.ones(sizes)], -1).reshape(1, -1, rank)
    base = to_shape(g, g.constant(grid.astype(g.dtype(theta))), (n, count, rank))
    made = g.op("batch_dot", base, theta, transpose_b=True, at="map")
    return g.op("Reshape", made, shape=(n, *sizes, len(sizes)))


def _places(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count)
    return (np.arange(count) * 2 + 1) / count - 1


@translates("RoiAlign")
def roi_align(g: Importer, use: Use, x: Value, rois: Value, batches: Value) -> Value:
    """Means of samples in the bins of regions."""
    if use.text("mode", "avg") != "avg":
        raise MXNetError("mode 'max': means of samples are there")
    rule = "half_pixel" if use.opset >= 16 else "output_half_pixel"
    return g.op(
        "_contrib_ROIAlign",
        *(x, _numbered(g, rois, batches)),
        pooled_size=(use.number("output_height", 1), use.number("output_width", 1)),
        spatial_scale=use.real("spatial_scale", 1.0),
        sample_ratio=use.number("sampling_ratio") or -1,
        aligned=use.text("coordinate_transformation_mode", rule) == "half_pixel",
    )


def _numbered(g: Importer, rois: Value, batches: Value) -> Value:
    """Regions behind the numbers of their samples, as MXNet's operators take them."""
    number = g.op("Cast", batches, dtype=g.dtype(rois), at="number")
    column = g.op("expand_dims", number, axis=1, at="column")
    return g.op("Concat", column, rois, num_args=2, dim=1, at="regions")


@translates("DeformConv")
def deformable(
    g: Importer,
    use: Use,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
) -> Value:
    """A convolution whose samples are moved, and weighted where there is a mask."""
    kernel = use.ints("kernel_shape") or g.shape(w)[2:]
    pads = use.ints("pads", (0,) * 4)
    if len(kernel) != 2 or pads[:2] != pads[2:]:
        raise MXNetError(f"pads {pads} of {len(kernel)} axes: as many on both sides of two")
    if mask is None:  # MXNet's own without one has no zeros around the picture
        taps = g.op("slice_axis", offset, axis=1, begin=0, end=g.shape(offset)[1] // 2, at="taps")
        mask = g.op("ones_like", taps, at="mask")
    return g.op(
        "_contrib_ModulatedDeformableConvolution",
        *((x, offset, mask, w) if b is None else (x, offset, mask, w, b)),
        kernel=kernel,
        stride=use.ints("strides", (1, 1)),
        dilate=use.ints("dilations", (1, 1)),
        pad=pads[:2],
        num_filter=g.shape(w)[0],
        num_group=use.number("group", 1),
        num_deformable_group=use.number("offset_group", 1),
        no_bias=b is None,
    )


@translates("MaxRoiPool")
def roi_pool(g: Importer, use: Use, x: Value, rois: Value) -> Value:
    """Maxima of the bins of regions."""
    size, scale = use.ints("pooled_shape"), use.real("spatial_scale", 1.0)
    return g.op("ROIPooling", x, rois, pooled_size=size, spatial_scale=scale)


@translates("GridSample")
def grid_sample(g: Importer, use: Use, x: Value, grid: Value) -> Value:
    """Samples of pictures at places from -1 to 1, with zeros, the edge or a mirror around them."""
    mode = use.text("mode", "bilinear" if use.opset < 20 else "linear")
    if mode not in ("bilinear", "linear", "nearest") or g.rank(x) != 4:
        raise MXNetError(f"mode '{mode}' of {g.rank(x)} axes: linear and nearest of pictures")
    corners, around = use.number("align_corners"), use.text("padding_mode", "zeros")
    sizes = g.shape(x)[:1:-1]
    places = g.op("transpose", grid, axes=(0, 3, 1, 2), at="places")
    if around == "reflection":
        places = _reflected(g, places)
    row = np.array(sizes, np.float64).reshape(1, 2, 1, 1)
    scale, shift = ((row - 1) / 2,) * 2 if corners else (row / 2, row / 2 - 0.5)
    pixel = _along(g, _along(g, places, scale, "broadcast_mul"), shift, "broadcast_add")
    if around != "zeros":
        low = g.op("_maximum_scalar", pixel, scalar=0.0, at="low")
        pixel = _along(g, low, row - 1, "broadcast_minimum")
    if mode == "nearest":
        pixel = nearest_even(g, pixel)
    half = np.maximum(row - 1, 1) / 2
    if (row == 1).any():
        raise MXNetError(
            f"a picture of {sizes[1]} x {sizes[0]} cells: 2 and more each way are there"
        )
    final = g.op("_minus_scalar", _along(g, pixel, 1 / half, "broadcast_mul"), scalar=1.0, at="at")
    return g.op("BilinearSampler", x, final)


def _along(g: Importer, x: Value, numbers: np.ndarray, op: str) -> Value:
    return g.op(op, x, g.constant(numbers.astype(g.dtype(x))), at="pixel")


def _reflected(g: Importer, x: Value) -> Value:
    """Places mirrored at -1 and 1 until they lie between them: 1 - |((x + 1) mod 4) - 2|."""
    turned = g.op("_mod_scalar", g.op("_plus_scalar", x, scalar=1.0), scalar=4.0, at="period")
    far = g.op("abs", g.op("_minus_scalar", turned, scalar=2.0, at="middle"), at="far")
    return g.op("_rminus_scalar", far, scalar=1.0, at="mirrored")


@translates("NonMaxSuppression")
def non_max_suppression(
    g: Importer,
    use: Use,
    boxes: Value,
    scores: Value,
    count: Value | None = None,
    overlap: Value | None = None,
    lowest: Value | None = None,
) -> Value:
    """Sample, class and number of each box that survives; of known boxes alone, since how many
    there are depends on them."""
    corners, found = g.known(boxes, "boxes"), g.known(scores, "scores")
    g.require_small(found.size * found.shape[-1])  # pairs, which may all be looked at
    if use.number("center_point_box"):
        corners = to_corners(corners)
    limit, share, least = (
        default if v is None else float(g.known(v, "limit").reshape(()))
        for v, default in ((count, 0), (overlap, 0.0), (lowest, -np.inf))
    )
    rows = [
        (n, c, i)
        for n in range(found.shape[0])
        for c in range(found.shape[1])
        for i in _survivors(_sides(corners[n]), found[n, c], share, least)[: int(limit)]
    ]
    return g.constant(np.array(rows, np.int64).reshape(-1, 3))


def _sides(boxes: np.ndarray) -> np.ndarray:
    """Boxes by any two opposite corners, as those of the smallest and the largest numbers."""
    one, other = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=1)


def _survivors(boxes: np.ndarray, scores: np.ndarray, share: float, least: float) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    best = order[scores[order] > least]
    return [int(i) for i in best[suppress(boxes[best], None, share, strict=True)]]
