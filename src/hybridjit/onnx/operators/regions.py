"""ONNX's operators of places and regions in pictures."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ..importer import Importer, Value
from ..use import Use
from .pointwise import to_shape
from .table import translates


@translates("AffineGrid")
def affine_grid(g: Importer, use: Use, theta: Value, size: Value) -> Value:
    """Places to sample at, of affine maps in two dimensions."""
    n, c, height, width = g.ints(size, "size")
    g.require_small(height * width * 3)
    corners = bool(use.number("align_corners"))
    ys, xs = (_places(count, corners) for count in (height, width))
    grid = np.stack([*np.meshgrid(xs, ys), np.ones((height, width))], -1).reshape(1, -1, 3)
    base = to_shape(g, g.constant(grid.astype(g.dtype(theta))), (n, height * width, 3))
    made = g.op("batch_dot", base, theta, transpose_b=True, at="map")
    return g.op("Reshape", made, shape=(n, height, width, 2))


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


@translates("MaxRoiPool")
def roi_pool(g: Importer, use: Use, x: Value, rois: Value) -> Value:
    """Maxima of the bins of regions."""
    size, scale = use.ints("pooled_shape"), use.real("spatial_scale", 1.0)
    return g.op("ROIPooling", x, rois, pooled_size=size, spatial_scale=scale)
