"""Region proposals: anchors moved by predicted offsets, filtered and suppressed.

In: cls_prob (N, 2A, H, W) with the objects' scores behind the background's, bbox_pred
(N, 4A, H, W), im_info (N, 3) of height, width and scale. Out: (N * rpn_post_nms_top_n, 5) rows of
batch index and corners in whole pixels (a box one pixel wide has x1 = x2), and their scores.
"""

from __future__ import annotations

import numpy as np

from ...errors import AttributeValueError, ShapeError
from ...types import TensorType, shape_text
from ..attrs import AttrValue, Declared
from ..casting import bounded
from ..gradient import none_at_all
from ..record import Traits
from ..registry import register
from ..rules import Types, forward, require_float, same_dtype
from ..signatures import Arrays
from ..tensor.ordering import first_of
from .boxes import greedy_survivors, product_of_sizes

Numbers = tuple[float, ...]


def _kept(rpn_pre_nms_top_n: int, rpn_post_nms_top_n: int, count: int) -> tuple[int, int]:
    """How many boxes go into suppression; how many rows come out per image."""
    before = min(rpn_pre_nms_top_n, count) if rpn_pre_nms_top_n > 0 else count
    return before, rpn_post_nms_top_n


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
        raise ShapeError(f"Proposal takes maps of one cell or more, got {height} x {width}")
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
    height: int, width: int, stride: int, scales: Numbers, ratios: Numbers
) -> np.ndarray:
    """(H, W, A, 4)."""
    y, x = np.mgrid[:height, :width].astype(np.float32) * stride
    shift = np.stack([x, y, x, y], axis=-1)
    return shift[:, :, None] + _base_anchors(stride, scales, ratios)


def _moved(anchors: np.ndarray, offsets: np.ndarray, iou_loss: bool) -> np.ndarray:
    """Offsets added to the corners, or scaled by the anchor's size around its centre."""
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
        return ~(_overlap(boxes[own, None], boxes[left]) <= np.float32(threshold))

    return np.flatnonzero(greedy_survivors(len(boxes), hits, wanted))[:wanted]


def _propose(
    scores: np.ndarray,
    offsets: np.ndarray,
    info: np.ndarray,
    *,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    threshold: float,
    rpn_min_size: int,
    scales: Numbers,
    ratios: Numbers,
    feature_stride: int,
    iou_loss: bool,
    **attrs: AttrValue,
) -> tuple[np.ndarray, np.ndarray]:
    """One image: rows of corners, and scores. Survivors repeat until the rows are full."""
    count, height, width = scores.shape
    anchors = _all_anchors(height, width, feature_stride, scales, ratios)
    moves = offsets.reshape(count, 4, height, width).transpose(2, 3, 0, 1)
    image_height, image_width, scale = (float(v) for v in info)
    rows_inside, columns_inside = (
        int(bounded(v / info.dtype.type(feature_stride), 0, n))
        for v, n in zip(info, (height, width))
    )
    boxes = _moved(anchors, moves, iou_loss)
    boxes = np.clip(boxes, 0, np.array([image_width - 1, image_height - 1] * 2, np.float32))
    score = scores.transpose(1, 2, 0).copy()
    score[rows_inside:] = -1
    score[:, columns_inside:] = -1
    least = np.float32(rpn_min_size * scale)
    small = (boxes[..., 2:] - boxes[..., :2] + 1 < least).any(axis=-1)
    boxes[small] += np.array([-1, -1, 1, 1], np.float32) * least / 2
    score[small] = -1
    rows, flat = boxes.reshape(-1, 4), score.ravel()
    before, after = _kept(rpn_pre_nms_top_n, rpn_post_nms_top_n, len(flat))
    order = first_of(-flat, before)
    kept = order[_survivors(rows[order], threshold, min(after, before))]
    chosen = kept[np.arange(after) % len(kept)]
    return rows[chosen], flat[chosen]


def _proposals(
    cls_prob: np.ndarray,
    bbox_pred: np.ndarray,
    im_info: np.ndarray,
    *,
    output_score: bool,
    **attrs: Declared,
) -> Arrays:
    """Proposals of every image, one below the other."""
    foreground = cls_prob[:, cls_prob.shape[1] // 2 :]
    rows, scores = [], []
    for n, operands in enumerate(zip(foreground, bbox_pred, im_info)):
        boxes, score = _propose(*operands, **attrs)
        rows.append(np.concatenate([np.full((len(boxes), 1), n, boxes.dtype), boxes], axis=1))
        scores.append(score[:, None])
    joined = np.concatenate(rows or [np.empty((0, 5))]).astype(cls_prob.dtype, copy=False)
    if not output_score:
        return joined
    return joined, np.concatenate(scores or [np.empty((0, 1))]).astype(cls_prob.dtype, copy=False)


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
        traits=Traits(total_outputs=2),
        outputs=_outputs,
        doc="Regions that may hold an object, best first, after suppression.",
    )
