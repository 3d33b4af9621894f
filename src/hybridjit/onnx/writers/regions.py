"""Regions of pictures and places to sample at, as ONNX's."""

from __future__ import annotations

import numpy as np

from ...errors import MXNetError
from ..exporter import Exporter, Use, Value
from .table import writes


@writes("_contrib_ROIAlign")
def roi_align(g: Exporter, use: Use, x: Value, rois: Value) -> Value:
    """Means of samples in the bins of regions, whose first column numbers the samples."""
    attrs = use.attrs
    if attrs["position_sensitive"]:
        raise MXNetError("is position sensitive, which ONNX's RoiAlign is not")
    height, width = attrs["pooled_size"]
    boxes = _columns(g, rois, 1, 5, "boxes")
    number = g.emit("Squeeze", _columns(g, rois, 0, 1, "column"), g.ints(1), at="number")
    return g.emit(
        "RoiAlign",
        *(x, boxes, g.emit("Cast", number, at="batch", to=7)),
        output_height=height,
        output_width=width,
        sampling_ratio=max(attrs["sample_ratio"], 0),
        spatial_scale=attrs["spatial_scale"],
        coordinate_transformation_mode="half_pixel" if attrs["aligned"] else "output_half_pixel",
    )


def _columns(g: Exporter, x: Value, begin: int, end: int, at: str) -> Value:
    return g.emit("Slice", x, g.ints(begin), g.ints(end), g.ints(-1), at=at)


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
    """Samples at places from -1 to 1, 0 outside."""
    places = g.emit("Transpose", grid, at="places", perm=(0, 2, 3, 1))
    return g.emit("GridSample", x, places, mode="bilinear", padding_mode="zeros", align_corners=1)


_CORNER = 4


@writes("_contrib_box_nms")
def box_nms(g: Exporter, use: Use, x: Value) -> Value:
    """Survivors first and rows of -1 below, of NonMaxSuppression on boxes moved by their class.

    Which boxes survive depends on values, their number too: ones are put at their places, and the
    rows are sorted by what is left of their scores.
    """
    attrs = use.attrs
    shape = g.shape(x)
    count, width = shape[-2:]
    if attrs["in_format"] != attrs["out_format"] or attrs["topk"] == 0:
        raise MXNetError("gives boxes in another format, or leaves them as they are (topk 0)")
    rows = g.op("Reshape", x, shape=(-1, count, width), at="rows")
    scores = _valid_scores(g, use, rows)
    scores, rows = _ordered(g, scores, rows, count, width, "before")
    top = attrs["topk"] if 0 < attrs["topk"] < count else count
    if top < count:
        beyond = g.constant((np.arange(count) >= top).reshape(1, count))
        scores = g.emit("Where", beyond, _lowest(g, x), scores, at="best", type=scores.type)
    kept = _kept(g, use, rows, scores, count)
    left = g.emit("Where", kept, scores, _lowest(g, x), at="left", type=scores.type)
    found, sorted_rows = _ordered(g, left, rows, count, width, "behind")
    is_there = g.emit("Greater", found, _lowest(g, x), at="there")
    column = g.emit("Unsqueeze", is_there, g.ints(2), at="survivors")
    made = g.emit("Where", column, sorted_rows, g.like(x, -1.0), at="kept_rows")
    return g.emit("Reshape", made, g.ints(*shape))


def _lowest(g: Exporter, x: Value) -> Value:
    return g.like(x, float(np.finfo(g.dtype(x)).min))


def _column(g: Exporter, rows: Value, index: int, at: str) -> Value:
    """One number of each row."""
    part = g.emit("Gather", rows, g.constant(np.array(index, np.int64)), at=at, axis=2)
    shape = g.shape(rows)
    return Value(rows.type.with_shape(shape[:2]), None, part.name)


def _valid_scores(g: Exporter, use: Use, rows: Value) -> Value:
    """Scores, the lowest number for rows that are below the threshold or of the background."""
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
    """Scores and rows, the highest first; of equals the first."""
    types = (scores.type, scores.type.with_dtype(np.dtype("int64")))
    best, order = g.emits("TopK", scores, g.ints(count), at=at, types=types, axis=1)
    index = g.emit("Unsqueeze", order, g.ints(2), at=f"{at}_index")
    places = g.emit("Expand", index, g.ints(1, 1, width), at=f"{at}_places")
    moved = g.emit("GatherElements", rows, places, at=f"{at}_rows", type=rows.type, axis=1)
    return best, moved


def _kept(g: Exporter, use: Use, rows: Value, scores: Value, count: int) -> Value:
    """Which rows survive, as bools (batch, count)."""
    attrs = use.attrs
    boxes = g.emit(
        "Slice",
        *(rows, g.ints(attrs["coord_start"]), g.ints(attrs["coord_start"] + _CORNER), g.ints(2)),
        at="boxes",
        type=rows.type.with_shape((*g.shape(rows)[:2], _CORNER)),
    )
    is_corner = attrs["in_format"] == "corner"
    if attrs["id_index"] >= 0 and not attrs["force_suppress"]:
        boxes = _apart(g, use, rows, boxes, is_corner)
    classes = g.emit("Unsqueeze", scores, g.ints(1), at="class_scores")
    chosen = g.emit(
        "NonMaxSuppression",
        *(boxes, classes, g.ints(count)),
        g.constant(np.array([attrs["overlap_thresh"]], np.float32)),
        g.constant(np.array([np.nextafter(np.finfo(np.float32).min, np.float32(0))], np.float32)),
        at="chosen",
        center_point_box=int(not is_corner),
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


def _apart(g: Exporter, use: Use, rows: Value, boxes: Value, is_corner: bool) -> Value:
    """Boxes of each class far from those of all others: moved by the class times their reach."""
    ids = _column(g, rows, use.attrs["id_index"], "class")
    size = g.emit("Abs", boxes, at="reach", type=boxes.type)
    reach = g.emit("ReduceMax", size, at="farthest", keepdims=0)
    step = g.emit(
        "Add", g.emit("Mul", reach, g.like(rows, 4.0), at="far"), g.like(rows, 1.0), at="step"
    )
    moved = g.emit("Mul", ids, step, at="moved", type=ids.type)
    by = g.emit("Unsqueeze", moved, g.ints(2), at="by")
    if is_corner:
        return g.emit("Add", boxes, by, at="apart", type=boxes.type)
    centre = g.constant(np.array([1, 1, 0, 0]).astype(g.dtype(rows)))
    return g.emit(
        "Add", boxes, g.emit("Mul", by, centre, at="centres"), at="apart", type=boxes.type
    )
