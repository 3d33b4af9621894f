"""Region proposals: anchors moved by predicted offsets, filtered and suppressed.

Input: cls_prob (N, 2A, H, W) with scores of background, then of objects, bbox_pred (N, 4A, H, W),
im_info (N, 3) of height, width and scale. Output: (N * rpn_post_nms_top_n, 5) rows of batch index
and corners in integer pixels (a box one pixel wide has x1 = x2), and their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from ..._core.types import FLOAT32, TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, X
from ..casting import bounded, widened
from ..elementwise.binary import (
    ADD,
    DIVIDE,
    EQUAL,
    LESSER,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    SUBTRACT,
    Forms,
)
from ..elementwise.element_type import cast
from ..elementwise.unary import EXP
from ..gradient import none_at_all
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, forward, require_float, same_dtype
from ..signatures import Arrays
from ..tensor.joining import CONCAT
from ..tensor.new_arrays import ARANGE
from ..tensor.ordering import first_of
from ..tensor.primitives import narrow, reshape, transpose
from ..tensor.selection import WHERE
from .boxes import greedy_survivors, product_of_sizes

NOT_BELOW = lookup("broadcast_greater_equal")

Numbers = tuple[float, ...]


class Limits(TypedDict):
    """Limits per image: boxes that are compared, result rows, and overlap of suppression."""

    before: int
    after: int
    threshold: float


@forward
def _infer_proposal(
    cls_prob: TensorType,
    bbox_pred: TensorType,
    im_info: TensorType,
    *,
    rpn_post_nms_top_n: int,
    scales: Numbers,
    ratios: Numbers,
    feature_stride: int,
    output_score: bool,
    **attrs: AttrValue,
) -> Types:
    """rpn_post_nms_top_n rows per image."""
    same_dtype(cls_prob, bbox_pred, im_info)
    require_float("Proposal", cls_prob)
    if min(rpn_post_nms_top_n, feature_stride, len(scales), len(ratios)) < 1:
        raise AttributeValueError(
            "rpn_post_nms_top_n, feature_stride and the numbers of scales and ratios must be at "
            "least 1"
        )
    anchors = len(scales) * len(ratios)
    if cls_prob.ndim != 4 or cls_prob.dims[1] != 2 * anchors:
        raise ShapeError(
            f"cls_prob should be (batch, {2 * anchors}, h, w) for {anchors} anchors, got "
            f"{shape_text(cls_prob.shape)}"
        )
    batch, _, height, width = cls_prob.dims
    if height * width == 0:
        raise ShapeError(f"Proposal needs maps of at least one cell, got {height} x {width}")
    for name, t, wanted in (
        ("bbox_pred", bbox_pred, (batch, 4 * anchors, height, width)),
        ("im_info", im_info, (batch, 3)),
    ):
        if t.dims != wanted:
            raise ShapeError(f"{name} should be {shape_text(wanted)}, got {shape_text(t.shape)}")
    rows = batch * rpn_post_nms_top_n
    boxes, scores = cls_prob.with_shape((rows, 5)), cls_prob.with_shape((rows, 1))
    return (boxes, scores) if output_score else (boxes,)


def _base_anchors(stride: int, scales: Numbers, ratios: Numbers) -> np.ndarray:
    """(A, 4): each ratio with each scale, around the centre of a cell of stride x stride."""
    centre = (stride - 1) / 2
    anchors = []
    for ratio in ratios:
        area = np.floor(np.float64(stride * stride) / ratio)
        width = np.floor(np.sqrt(area) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in scales:
            x, y = (width * scale - 1) / 2, (height * scale - 1) / 2
            anchors.append([centre - x, centre - y, centre + x, centre + y])
    return np.array(anchors, np.float32)


def _all_anchors(
    *, height: int, width: int, feature_stride: int, scales: Numbers, ratios: Numbers
) -> np.ndarray:
    """(1, H, W, A, 4) in single precision."""
    y, x = np.mgrid[:height, :width].astype(np.float32) * feature_stride
    shift = np.stack([x, y, x, y], axis=-1)
    return (shift[:, :, None] + _base_anchors(feature_stride, scales, ratios))[None]


ANCHORS = register(
    "_proposal_anchors",
    "",
    "height:int! width:int! feature_stride:int! scales:floats! ratios:floats!",
    internal=True,
    infer=forward(
        lambda *, height, width, scales, ratios, **attrs: TensorType(
            (1, height, width, len(scales) * len(ratios), 4), FLOAT32
        )
    ),
    ref=_all_anchors,
    grad=none_at_all,
    doc="Anchors of region proposals: corners at every position of a map.",
)


def _moved(anchors: np.ndarray, offsets: np.ndarray, iou_loss: bool) -> np.ndarray:
    """Add offsets to the corners, or scale by the anchor's size around its centre."""
    if iou_loss:
        return anchors + offsets
    size = anchors[..., 2:] - anchors[..., :2] + 1
    centre = anchors[..., :2] + (size - 1) / 2
    centre = offsets[..., :2] * size + centre
    half = (np.exp(offsets[..., 2:]) * size - 1) / 2
    return np.concatenate([centre - half, centre + half], axis=-1)


def _overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes that include both of their corner pixels."""
    low = np.maximum(box[..., :2], others[..., :2])
    high = np.minimum(box[..., 2:], others[..., 2:])
    shared = product_of_sizes(np.maximum(high - low + 1, 0))
    area, areas = (product_of_sizes(b[..., 2:] - b[..., :2] + 1) for b in (box, others))
    return shared / (area + areas - shared)


def _survivors(boxes: np.ndarray, threshold: float, wanted: int) -> np.ndarray:
    """Indices of boxes, best first, that no better survivor overlaps by more than threshold."""

    def hits(own: np.ndarray, left: np.ndarray) -> np.ndarray:
        return ~(_overlap(boxes[own, None], boxes[left]) <= boxes.dtype.type(threshold))

    return np.flatnonzero(greedy_survivors(len(boxes), hits, wanted))[:wanted]


def _best(
    rows: np.ndarray, *, before: int, after: int, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Survivors of every image, repeated until its rows are filled."""
    boxes = np.empty((len(rows), after, 5), rows.dtype)
    scores = np.empty((len(rows), after, 1), rows.dtype)
    for n, scored in enumerate(rows):
        order = first_of(-scored[:, 0], before)
        kept = order[_survivors(scored[order, 1:], threshold, min(before, after))]
        chosen = scored[kept[np.arange(after) % len(kept)]]
        boxes[n, :, 0], boxes[n, :, 1:], scores[n] = n, chosen[:, 1:], chosen[:, :1]
    return boxes.reshape(-1, 5), scores.reshape(-1, 1)


def _best_types(rows: TensorType, *, after: int, **attrs: AttrValue) -> Types:
    count = rows.dims[0] * after
    return rows.with_shape((count, 5)), rows.with_shape((count, 1))


BEST = register(
    "_proposals",
    "rows",
    "before:int! after:int! threshold:float!",
    internal=True,
    infer=forward(_best_types),
    ref=_best,
    grad=none_at_all,
    kernel="propose",
    outputs=("output", "score"),
    doc="Suppression of the ``before`` best rows of score and corners; ``after`` rows result.",
)


def _scored(
    scores: np.ndarray,
    offsets: np.ndarray,
    info: np.ndarray,
    *,
    rpn_min_size: int,
    scales: Numbers,
    ratios: Numbers,
    feature_stride: int,
    iou_loss: bool,
) -> np.ndarray:
    """(H * W * A, 5) rows of score and corners of one image; the score is -1 where invalid."""
    count, height, width = scores.shape
    sizes = {"height": height, "width": width, "feature_stride": feature_stride}
    anchors = _all_anchors(**sizes, scales=scales, ratios=ratios)[0].astype(offsets.dtype)
    moves = offsets.reshape(count, 4, height, width).transpose(2, 3, 0, 1)
    rows_inside, columns_inside = (
        int(v) for v in bounded(info[:2] / info.dtype.type(feature_stride), 0, max(height, width))
    )
    boxes = np.clip(_moved(anchors, moves, iou_loss), 0, info[[1, 0, 1, 0]] - 1)
    score = scores.transpose(1, 2, 0).copy()
    score[rows_inside:] = -1
    score[:, columns_inside:] = -1
    least = rpn_min_size * info[2]
    small = (boxes[..., 2:] - boxes[..., :2] + 1 < least).any(axis=-1)
    boxes[small] += np.array([-1, -1, 1, 1], info.dtype) * least / 2
    score[small] = -1
    return np.concatenate([score.reshape(-1, 1), boxes.reshape(-1, 4)], axis=1)


def _counts(
    rpn_pre_nms_top_n: int, rpn_post_nms_top_n: int, threshold: float, count: int
) -> Limits:
    """Limits for images of ``count`` boxes."""
    before = min(rpn_pre_nms_top_n, count) if rpn_pre_nms_top_n > 0 else count
    return Limits(before=before, after=rpn_post_nms_top_n, threshold=threshold)


def _proposals(
    cls_prob: np.ndarray,
    bbox_pred: np.ndarray,
    im_info: np.ndarray,
    *,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    threshold: float,
    output_score: bool,
    **attrs: Declared,
) -> Arrays:
    """Proposals of every image, concatenated."""
    probability, offsets, info = map(widened, (cls_prob, bbox_pred, im_info))
    foreground = probability[:, probability.shape[1] // 2 :]
    count = product(foreground.shape[1:])
    rows = [_scored(*operands, **attrs) for operands in zip(foreground, offsets, info)]
    scored = np.array(rows, probability.dtype).reshape(len(rows), count, 5)
    counts = _counts(rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold, count)
    boxes, scores = (x.astype(cls_prob.dtype, copy=False) for x in _best(scored, **counts))
    return (boxes, scores) if output_score else boxes


def _proposal_parts(
    g: Builder[X],
    cls_prob: X,
    bbox_pred: X,
    im_info: X,
    *,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    threshold: float,
    rpn_min_size: int,
    iou_loss: bool,
    output_score: bool,
    **anchors: Declared,
) -> X | tuple[X, ...]:
    """Proposal(p, o, i)  =>  best rows of scores and moved, clipped and filtered anchors

    Intermediate values have the layout (N, H, W, A, 1).
    """
    batch, channels, height, width = g.type(cls_prob).dims
    count, dtype = channels // 2, g.type(cls_prob).dtype
    given = g.op(ANCHORS, at="anchors", height=height, width=width, **anchors)
    own = _columns(g, cast(g, given, dtype, at="anchors_cast"), "anchor")
    moves = reshape(g, bbox_pred, (batch, count, 4, height, width), at="moves")
    offsets = _columns(g, transpose(g, moves, (0, 3, 4, 1, 2), at="offsets"), "offset")
    info = _columns(g, reshape(g, im_info, (batch, 1, 1, 1, 3), at="info"), "info")
    boxes = _moved_parts(g, own, offsets, iou_loss)
    boxes = [_clipped(g, x, info[1 - k % 2], f"corner{k}") for k, x in enumerate(boxes)]
    score = transpose(g, narrow(g, cls_prob, 1, count, count, at="front"), (0, 2, 3, 1), at="score")
    score = reshape(g, score, (batch, height, width, count, 1), at="score_column")
    stride = anchors["feature_stride"]
    inside = [_inside(g, info[k], stride, n, k) for k, n in enumerate((height, width))]
    least = g.op(MULTIPLY.scalar, info[2], at="least", scalar=rpn_min_size)
    boxes, large = _grown(g, boxes, least)
    counts = g.op(
        MULTIPLY.broadcasting, g.op(MULTIPLY.broadcasting, *inside, at="inside"), large, at="counts"
    )
    lowest = g.op(SUBTRACT.scalar, counts, at="lowest", scalar=1.0)
    score = g.op(WHERE, counts, score, lowest, at="counted")
    rows = g.op(CONCAT, score, *boxes, at="columns", num_args=5, dim=4)
    total = height * width * count
    rows = reshape(g, rows, (batch, total, 5), at="rows")
    limits = _counts(rpn_pre_nms_top_n, rpn_post_nms_top_n, threshold, total)
    found = g.outputs(BEST, rows, at="", **limits)
    return found if output_score else found[0]


def _columns(g: Builder[X], x: X, at: str) -> list[X]:
    """Slices of the last axis."""
    last = g.type(x).ndim - 1
    return [narrow(g, x, last, k, 1, at=f"{at}{k}") for k in range(g.type(x).dims[last])]


def _moved_parts(
    g: Builder[X], anchors: Sequence[X], offsets: Sequence[X], iou_loss: bool
) -> list[X]:
    """Corners of anchors moved by offsets, column by column."""
    if iou_loss:
        pairs = enumerate(zip(offsets, anchors))
        return [g.op(ADD.broadcasting, *pair, at=f"moved{k}") for k, pair in pairs]
    ends = []
    for axis in (0, 1):
        at = "xy"[axis]

        def scalar(op: Forms, x: X, number: float, name: str, at: str = at) -> X:
            return g.op(op.scalar, x, at=f"{at}_{name}", scalar=number)

        def pair(op: Forms, x: X, y: X, name: str, at: str = at) -> X:
            return g.op(op.broadcasting, x, y, at=f"{at}_{name}")

        length = pair(SUBTRACT, anchors[axis + 2], anchors[axis], "length")
        size = scalar(ADD, length, 1.0, "size")
        middle = scalar(MULTIPLY, scalar(SUBTRACT, size, 1.0, "whole"), 0.5, "middle")
        shift = pair(MULTIPLY, offsets[axis], size, "shift")
        centre = pair(ADD, shift, pair(ADD, anchors[axis], middle, "own"), "centre")
        factor = g.op(EXP, offsets[axis + 2], at=f"{at}_factor")
        spread = scalar(SUBTRACT, pair(MULTIPLY, factor, size, "scaled"), 1.0, "spread")
        half = scalar(MULTIPLY, spread, 0.5, "half")
        ends.append((pair(SUBTRACT, centre, half, "low"), pair(ADD, centre, half, "high")))
    return [side[end] for end in (0, 1) for side in ends]


def _clipped(g: Builder[X], x: X, size: X, at: str) -> X:
    """Coordinate of a corner, clipped to the image."""
    last = g.op(SUBTRACT.scalar, size, at=f"{at}_last", scalar=1.0)
    above = g.op(MAXIMUM.scalar, x, at=f"{at}_above", scalar=0.0)
    return g.op(MINIMUM.broadcasting, above, last, at=f"{at}_inside")


def _inside(g: Builder[X], size: X, stride: Declared, count: int, axis: int) -> X:
    """1 for the rows (or columns) of cells that start inside the image, else 0."""
    at = "yx"[axis]
    cells = g.op(DIVIDE.scalar, size, at=f"{at}_cells", scalar=stride)
    ends = g.op(ARANGE, at=f"{at}_ends", start=1, stop=count + 1, dtype=g.type(size).dtype)
    along = reshape(
        g, ends, (1, count, 1, 1, 1) if axis == 0 else (1, 1, count, 1, 1), f"{at}_along"
    )
    return g.op(NOT_BELOW, cells, along, at=f"{at}_inside")


def _grown(g: Builder[X], boxes: Sequence[X], least: X) -> tuple[list[X], X]:
    """Corners, enlarged for boxes that are too small, and a mask of the boxes that are not."""
    large = []
    for axis in (0, 1):
        at = "xy"[axis]
        length = g.op(SUBTRACT.broadcasting, boxes[axis + 2], boxes[axis], at=f"{at}_extent")
        size = g.op(ADD.scalar, length, at=f"{at}_pixels", scalar=1.0)
        large.append(g.op(LESSER.broadcasting, size, least, at=f"{at}_small"))
    small = g.op(MAXIMUM.broadcasting, *large, at="small")
    half = g.op(MULTIPLY.scalar, least, at="half_least", scalar=0.5)
    moved = [
        g.op((SUBTRACT if k < 2 else ADD).broadcasting, x, half, at=f"grown{k}")
        for k, x in enumerate(boxes)
    ]
    grown = [g.op(WHERE, small, *pair, at=f"box{k}") for k, pair in enumerate(zip(moved, boxes))]
    return grown, g.op(EQUAL.scalar, small, at="large", scalar=0.0)


def _outputs(*, output_score: bool, **attrs: AttrValue) -> tuple[str, ...]:
    return ("output", "score") if output_score else ("output",)


for _name in ("_contrib_Proposal", "_contrib_MultiProposal"):
    register(
        _name,
        "cls_prob bbox_pred im_info",
        "rpn_pre_nms_top_n:int=6000 rpn_post_nms_top_n:int=300 threshold:float=0.7 "
        "rpn_min_size:int=16 scales:floats=(4,8,16,32) ratios:floats=(0.5,1,2) "
        "feature_stride:int=16 output_score:bool=False iou_loss:bool=False",
        infer=_infer_proposal,
        ref=_proposals,
        grad=none_at_all,
        expand=_proposal_parts,
        traits=Traits(total_outputs=2, parts_in_floats=True),
        outputs=_outputs,
        doc="Regions that may hold an object, best first, after suppression.",
    )
