"""Readers of ONNX's operators on image regions."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ...ops.vision.boxes import suppress, to_corners
from ..importer import Importer, Value
from ..use import Use
from .table import translates


@translates("RoiAlign")
def roi_align(g: Importer, use: Use, x: Value, rois: Value, batches: Value) -> Value:
    """Means of samples in the bins of regions."""
    if use.text("mode", "avg") != "avg":
        raise MXNetError("mode 'max' is not supported, only means of samples")
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
    """Regions with image indices as their first column, as in MXNet's operators."""
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
    """Convolution with offset samples, weighted if there is a mask."""
    kernel = use.ints("kernel_shape") or g.shape(w)[2:]
    pads = use.ints("pads", (0,) * 4)
    if len(kernel) != 2 or pads[:2] != pads[2:]:
        raise MXNetError(
            f"pads {pads} of {len(kernel)} axes are not supported, only equal padding of two axes"
        )
    if mask is None:  # MXNet's operator without a mask does not pad with zeros
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
    """Image, class and index of each surviving box, for constant boxes only.

    The number of survivors depends on the values."""
    corners, found = g.known(boxes, "boxes"), g.known(scores, "scores")
    g.require_small(found.size * found.shape[-1])  # pairs, all of which may be compared
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
    """Boxes from any two opposite corners, as the corners of smallest and largest coordinates."""
    one, other = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=1)


def _survivors(boxes: np.ndarray, scores: np.ndarray, share: float, least: float) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    best = order[scores[order] > least]
    return [int(i) for i in best[suppress(boxes[best], None, share, strict=True)]]
