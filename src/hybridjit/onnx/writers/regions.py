"""Writers of operators on image regions and sampling positions."""

from __future__ import annotations

import numpy as np

from ..._core.types import product
from ...errors import MXNetError
from ...ops.nn.window_geometry import Window, window_of
from ...ops.vision.deformable import TAP_GRID
from ..exporter import Exporter, Use, Value
from .table import writes


@writes("_contrib_ROIAlign")
def roi_align(g: Exporter, use: Use, x: Value, rois: Value) -> Value:
    """Means of samples in the bins of regions; their first column has image indices.

    A region with a negative index is skipped and gives zeros, which ONNX's operator does not allow.
    """
    attrs = use.attrs
    if attrs["position_sensitive"]:
        raise MXNetError("is position sensitive, which ONNX's RoiAlign does not support")
    height, width = attrs["pooled_size"]
    boxes = _columns(g, rois, 1, 5, "boxes")
    column = g.emit("Squeeze", _columns(g, rois, 0, 1, "column"), g.ints(1), at="number")
    number, zero = g.emit("Cast", column, at="batch", to=7), g.constant(np.array(0, np.int64))
    found = g.emit(
        "RoiAlign",
        *(x, boxes, g.emit("Max", number, zero, at="sample")),
        at="means",
        output_height=height,
        output_width=width,
        sampling_ratio=max(attrs["sample_ratio"], 0),
        spatial_scale=attrs["spatial_scale"],
        coordinate_transformation_mode="half_pixel" if attrs["aligned"] else "output_half_pixel",
    )
    is_out = g.emit("Less", number, zero, at="out")
    return g.emit(
        "Where", g.emit("Unsqueeze", is_out, g.ints(1, 2, 3), at="outs"), g.like(x, 0.0), found
    )


def _columns(g: Exporter, x: Value, begin: int, end: int, at: str) -> Value:
    return g.emit("Slice", x, g.ints(begin), g.ints(end), g.ints(-1), at=at)


@writes("_contrib_ModulatedDeformableConvolution", opset=19)
def modulated(
    g: Exporter, use: Use, x: Value, offset: Value, mask: Value, w: Value, b: Value | None = None
) -> Value:
    """Convolution with offset and weighted samples; cells outside of the image are zero."""
    return _deformable(g, use, x, w, offset, b, mask)


@writes("_contrib_DeformableConvolution", opset=19)
def deformable(
    g: Exporter, use: Use, x: Value, offset: Value, w: Value, b: Value | None = None
) -> Value:
    """Deformable convolution without a mask.

    Samples outside of the image are 0; those up to one cell beyond the last cells are equal to
    these. Positions are therefore clipped, or moved so far that ONNX's zero padding applies.
    """
    window, dtype = _window(use), g.dtype(x)
    batch, _, *sizes = g.shape(offset)
    pieces, taps = use.attrs["num_deformable_group"], product(window.kernel)
    told = {"kernel": window.kernel, "stride": window.stride, "dilate": window.dilate}
    grid = g.op(TAP_GRID, at="grid", size=tuple(sizes), dtype=dtype, pad=window.pad, **told)
    assert grid.array is not None
    start = g.constant(grid.array.reshape(1, 1, taps, 2, *sizes))
    borders = np.array(g.shape(x)[2:], dtype).reshape(2, 1, 1)
    each = g.ints(batch, pieces, taps, 2, *sizes)
    at = g.emit("Add", g.emit("Reshape", offset, each, at="offsets"), start, at="at")
    held = g.emit("Sub", g.emit("Min", at, g.constant(borders - 1), at="held"), start, at="moved")
    is_out = g.emit(
        "Or",
        *(g.emit("Less", at, g.like(x, 0.0), at="before"), _is_behind(g, at, borders)),
        at="out",
    )
    far = g.emit("Where", is_out, g.constant(-2 * grid.array.max() - borders), held, at="inside")
    return _deformable(g, use, x, w, g.emit("Reshape", far, g.ints(*g.shape(offset))), b)


def _is_behind(g: Exporter, at: Value, borders: np.ndarray) -> Value:
    return g.emit("GreaterOrEqual", at, g.constant(borders), at="behind")


def _window(use: Use) -> Window:
    return window_of(*(use.attrs[name] for name in ("kernel", "stride", "dilate", "pad")))


def _deformable(
    g: Exporter,
    use: Use,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None,
    mask: Value | None = None,
) -> Value:
    window = _window(use)
    return g.emit(
        "DeformConv",
        *(x, w, offset, b, mask),
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=window.pad * 2,
        group=use.attrs["num_group"],
        offset_group=use.attrs["num_deformable_group"],
    )


@writes("ROIPooling")
def roi_pool(g: Exporter, use: Use, x: Value, rois: Value) -> Value:
    """Maxima of the bins of regions."""
    attrs = use.attrs
    return g.emit(
        "MaxRoiPool",
        *(x, rois),
        pooled_shape=attrs["pooled_size"],
        spatial_scale=attrs["spatial_scale"],
    )


@writes("BilinearSampler")
def bilinear_sampler(g: Exporter, use: Use, x: Value, grid: Value) -> Value:
    """Samples at positions from -1 to 1, 0 outside."""
    places = g.emit("Transpose", grid, at="places", perm=(0, 2, 3, 1))
    return g.emit("GridSample", x, places, mode="bilinear", padding_mode="zeros", align_corners=1)


_CORNER = 4


@writes("_contrib_box_nms")
def box_nms(g: Exporter, use: Use, x: Value) -> Value:
    """Survivors first, then rows of -1, by NonMaxSuppression with scores for each class.

    The number of survivors depends on values: a mask is built by scattering ones, and rows are
    sorted by the remaining scores.
    """
    attrs = use.attrs
    shape = g.shape(x)
    count, width = shape[-2:]
    if attrs["in_format"] != attrs["out_format"] or attrs["topk"] == 0:
        raise MXNetError("converts the format of boxes, or does not suppress (topk 0)")
    rows = g.op("Reshape", x, shape=(-1, count, width), at="rows")
    scores = _valid_scores(g, use, rows)
    top = attrs["topk"] if 0 < attrs["topk"] < count else count
    scores, rows = _ordered(g, scores, rows, top, width, "before")
    kept = _kept(g, use, rows, scores, top)
    left = g.emit("Where", kept, scores, _lowest(g, x), at="left", type=scores.type)
    found, sorted_rows = _ordered(g, left, rows, top, width, "behind")
    is_there = g.emit("Greater", found, _lowest(g, x), at="there")
    column = g.emit("Unsqueeze", is_there, g.ints(2), at="survivors")
    made = g.emit("Where", column, sorted_rows, g.like(x, -1.0), at="kept_rows")
    if top < count:
        made = g.emit("Pad", made, g.ints(0, 0, 0, 0, count - top, 0), g.like(x, -1.0), at="rest")
    return g.emit("Reshape", made, g.ints(*shape))


def _lowest(g: Exporter, x: Value) -> Value:
    return g.like(x, float(np.finfo(g.dtype(x)).min))


def _column(g: Exporter, rows: Value, index: int, at: str) -> Value:
    """One column of each row."""
    part = g.emit("Gather", rows, g.constant(np.array(index, np.int64)), at=at, axis=2)
    shape = g.shape(rows)
    return Value(rows.type.with_shape(shape[:2]), None, part.name)


def _valid_scores(g: Exporter, use: Use, rows: Value) -> Value:
    """Scores; the lowest value for rows below the threshold or of the background class."""
    attrs = use.attrs
    scores = _column(g, rows, attrs["score_index"], "score")
    valid = g.emit("Greater", scores, g.like(rows, attrs["valid_thresh"]), at="valid")
    if attrs["id_index"] >= 0:
        ids = _column(g, rows, attrs["id_index"], "id")
        background = g.emit("Equal", ids, g.like(rows, attrs["background_id"]), at="background")
        valid = g.emit("And", valid, g.emit("Not", background, at="object"), at="counts")
    return g.emit("Where", valid, scores, _lowest(g, rows), at="scores", type=scores.type)


def _ordered(
    g: Exporter, scores: Value, rows: Value, count: int, width: int, at: str
) -> tuple[Value, Value]:
    """The ``count`` highest scores and their rows in order; among equal ones the first."""
    best_type = scores.type.with_shape((g.shape(scores)[0], count))
    types = (best_type, best_type.with_dtype(np.dtype("int64")))
    best, order = g.emits("TopK", scores, g.ints(count), at=at, types=types, axis=1)
    index = g.emit("Unsqueeze", order, g.ints(2), at=f"{at}_index")
    places = g.emit("Expand", index, g.ints(1, 1, width), at=f"{at}_places")
    type = rows.type.with_shape((g.shape(rows)[0], count, width))
    return best, g.emit("GatherElements", rows, places, at=f"{at}_rows", type=type, axis=1)


def _kept(g: Exporter, use: Use, rows: Value, scores: Value, count: int) -> Value:
    """Mask of the surviving rows, bools (batch, count)."""
    attrs = use.attrs
    boxes = g.emit(
        "Slice",
        *(rows, g.ints(attrs["coord_start"]), g.ints(attrs["coord_start"] + _CORNER), g.ints(2)),
        at="boxes",
        type=rows.type.with_shape((*g.shape(rows)[:2], _CORNER)),
    )
    classes = g.emit("Unsqueeze", scores, g.ints(1), at="class_scores")
    if attrs["id_index"] >= 0 and not attrs["force_suppress"]:
        classes = _class_scores(g, use, rows, classes)
    chosen = g.emit(
        "NonMaxSuppression",
        *(boxes, classes, g.ints(count)),
        g.constant(np.array([attrs["overlap_thresh"]], np.float32)),
        g.constant(np.array([np.nextafter(np.finfo(np.float32).min, np.float32(0))], np.float32)),
        at="chosen",
        center_point_box=int(attrs["in_format"] != "corner"),
    )
    places = g.emit("Gather", chosen, g.ints(0, 2), at="chosen_rows", axis=1)
    ones = g.emit("Gather", chosen, g.constant(np.array(1, np.int64)), at="zeros", axis=1)
    marks = g.emit("Add", ones, g.constant(np.array(1, np.int64)), at="marks")
    none = g.emit(
        "ConstantOfShape",
        g.emit("Shape", scores, at="shape"),
        at="none",
        value=np.zeros(1, np.int64),
    )
    marked = g.emit("ScatterND", none, places, marks, at="marked")
    return g.emit("Cast", marked, at="survives", to=9)


def _class_scores(g: Exporter, use: Use, rows: Value, scores: Value) -> Value:
    """Scores (batch, classes, boxes): a box has its score in its class and the lowest value in
    others."""
    ids = _column(g, rows, use.attrs["id_index"], "class")
    classes = g.emit("Unsqueeze", g.emit("Unique", ids, at="classes"), g.ints(0, 2), at="each")
    is_own = g.emit("Equal", g.emit("Unsqueeze", ids, g.ints(1), at="ids"), classes, at="own")
    return g.emit("Where", is_own, scores, _lowest(g, rows), at="scores_of_classes")
