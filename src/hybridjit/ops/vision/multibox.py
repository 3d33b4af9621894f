"""Anchors and detections of single-shot detectors.

Input: feature maps, or class scores, box offsets and anchors. Output: normalized corner anchors (1,
H * W * A, 4), or detections (B, N, 6) of id, score and box.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, X
from ..elementwise.binary import MAXIMUM
from ..gradient import none_at_all
from ..internal import constant_of_shape
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import forward, require_float, same_dtype
from ..tensor.by_index import PICK
from ..tensor.joining import CONCAT
from ..tensor.ordering import ARGMAX, first_of
from ..tensor.primitives import narrow, reshape
from ..tensor.selection import WHERE
from .boxes import BOX_DECODE, suppress, to_centres

LESSER_THAN = lookup("_lesser_scalar")
NOT_BELOW = lookup("_greater_equal_scalar")


@forward
def _infer_prior(
    data: TensorType,
    *,
    sizes: tuple[float, ...],
    ratios: tuple[float, ...],
    steps: tuple[float, ...],
    offsets: tuple[float, ...],
    **attrs: AttrValue,
) -> TensorType:
    """One anchor per size, and one more per ratio after the first, for every pixel."""
    require_float("MultiBoxPrior", data)
    if data.ndim != 4:
        raise ShapeError(f"Input data should be 4D: batch-channel-y-x, got {data.ndim}D")
    if not sizes or not ratios:
        raise AttributeValueError("sizes and ratios need at least one value each")
    if len(steps) != 2 or len(offsets) != 2:
        raise AttributeValueError(
            f"steps and offsets must be two numbers (y, x) each, got {len(steps)} and "
            f"{len(offsets)}"
        )
    height, width = data.dims[2:]
    return data.with_shape((1, height * width * (len(sizes) + len(ratios) - 1), 4))


def _halves(
    height: int, width: int, sizes: tuple[float, ...], ratios: tuple[float, ...]
) -> np.ndarray:
    """Half width and half height of the anchors of one pixel: (A, 2)."""
    pairs = [(s, ratios[0]) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]
    size, ratio = np.array(pairs, np.float32).T
    root = np.sqrt(ratio)
    return np.stack([size * np.float32(height) / np.float32(width) * root, size / root], 1) / 2


def _prior(
    data: np.ndarray,
    *,
    sizes: tuple[float, ...],
    ratios: tuple[float, ...],
    clip: bool,
    steps: tuple[float, ...],
    offsets: tuple[float, ...],
) -> np.ndarray:
    """Centres -+ half sizes; steps and offsets are (y, x)."""
    height, width = data.shape[2:]
    step = [s if s > 0 else 1 / max(n, 1) for s, n in zip(steps, (height, width))]
    y, x = (
        (np.arange(n, dtype=np.float32) + np.float32(o)) * np.float32(s)
        for n, o, s in zip((height, width), offsets, step)
    )
    halves = _halves(height, width, sizes, ratios)
    boxes = np.empty((height, width, len(halves), 4), np.float32)
    for axis, centre in enumerate((x[:, None], y[:, None, None])):
        half = halves[:, axis]
        boxes[..., axis], boxes[..., axis + 2] = centre - half, centre + half
    held = np.clip(boxes, 0, 1) if clip else boxes
    return held.reshape(1, -1, 4).astype(data.dtype, copy=False)


# As for sign, MXNet's backward operator writes zeros, so the backward pass continues through it.
register(
    "_contrib_MultiBoxPrior",
    "data",
    "sizes:floats=(1) ratios:floats=(1) clip:bool=False steps:floats=(-1,-1) "
    "offsets:floats=(0.5,0.5)",
    infer=_infer_prior,
    ref=_prior,
    grad=none_at_all,
    expand=constant_of_shape("_contrib_MultiBoxPrior"),
    traits=Traits(reads_shape=True, names_data=True, stops=lambda attrs: ()),
    doc="Anchors of every pixel of a feature map, as normalised corners.",
)


@forward
def _infer_detection(
    cls_prob: TensorType,
    loc_pred: TensorType,
    anchor: TensorType,
    *,
    variances: tuple[float, ...],
    **attrs: AttrValue,
) -> TensorType:
    """(B, N, 6) for cls_prob (B, C, N), loc_pred (B, 4N) and anchor (1, N, 4)."""
    same_dtype(cls_prob, loc_pred, anchor)
    require_float("MultiBoxDetection", cls_prob)
    if len(variances) != 4:
        raise AttributeValueError(f"variances must be four numbers, got {len(variances)}")
    if cls_prob.ndim != 3:
        raise ShapeError(f"cls_prob should be (batch, classes, anchors), got {cls_prob}")
    batch, _, count = cls_prob.dims
    for name, t, wanted in (
        ("loc_pred", loc_pred, (batch, 4 * count)),
        ("anchor", anchor, (1, count, 4)),
    ):
        if t.dims != wanted:
            raise ShapeError(
                f"{name} should be {shape_text(wanted)} for {count} anchors, got "
                f"{shape_text(t.shape)}"
            )
    return cls_prob.with_shape((batch, count, 6))


def _decoded(
    offsets: np.ndarray, anchors: np.ndarray, variances: tuple[float, ...], clip: bool
) -> np.ndarray:
    """Corner boxes from offsets (N, 4) relative to corner anchors."""
    a = to_centres(anchors)
    scaled = offsets * np.array(variances, offsets.dtype)
    centre = scaled[:, :2] * a[:, 2:] + a[:, :2]
    half = np.exp(scaled[:, 2:]) * a[:, 2:] / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return np.fmax(np.fmin(boxes, 1), 0) if clip else boxes  # NaN becomes 1


def _best_rows(
    rows: np.ndarray,
    *,
    threshold: float,
    nms_threshold: float,
    force_suppress: bool,
    nms_topk: int,
) -> np.ndarray:
    """Rows of one image above the threshold, best first, after suppression.

    Suppressed rows keep score and box and lose their id, and so do rows beyond nms_topk, which
    remain in the order of the anchors.
    """
    out = np.full_like(rows, -1)
    rows = rows[rows[:, 1] >= rows.dtype.type(threshold)]
    out[: len(rows)] = rows
    if not len(rows) or not 0 < nms_threshold <= 1:
        return out
    keep = min(nms_topk, len(rows)) if nms_topk > 0 else len(rows)
    top = rows[first_of(-rows[:, 1], keep)]
    alive = suppress(top[:, 2:], None if force_suppress else top[:, 0], nms_threshold, strict=False)
    top[~alive, 0] = -1
    out[:keep] = top
    out[keep:, 0] = -1
    return out


def _detections(rows: np.ndarray, **attrs: Declared) -> np.ndarray:
    return np.stack([_best_rows(batch, **attrs) for batch in rows]) if len(rows) else rows.copy()


DETECTIONS = register(
    "_detections",
    "rows",
    "threshold:float=0.01 nms_threshold:float=0.5 force_suppress:bool=False nms_topk:int=-1",
    internal=True,
    infer=forward(lambda rows, **attrs: rows),
    ref=_detections,
    grad=none_at_all,
    kernel="detect",
    traits=Traits(samples=Samples.FIRST),
    doc="Rows of id, score and box above the threshold, after suppression per class.",
)


def _rows(
    scores: np.ndarray,
    offsets: np.ndarray,
    anchors: np.ndarray,
    clip: bool,
    variances: tuple[float, ...],
) -> np.ndarray:
    """Rows of one image: best class except the first of each anchor, its score, its box."""
    if len(scores) < 2 or not scores.size:
        return np.full((scores.shape[1], 6), np.nan, scores.dtype)
    best = scores[1:].argmax(axis=0)
    score = scores[1:].max(axis=0)
    boxes = _decoded(offsets.reshape(-1, 4), anchors[0], variances, clip)
    rows = np.concatenate([best[:, None], score[:, None], boxes], axis=1)
    return rows.astype(scores.dtype, copy=False)


def _detection(
    cls_prob: np.ndarray,
    loc_pred: np.ndarray,
    anchor: np.ndarray,
    *,
    clip: bool,
    variances: tuple[float, ...],
    background_id: int,
    **attrs: AttrValue,
) -> np.ndarray:
    """Detections of each image. Class 0 is the background for any background_id, as in MXNet."""
    if not cls_prob.shape[0]:
        return np.empty((0, cls_prob.shape[2], 6), cls_prob.dtype)
    pairs = zip(cls_prob, loc_pred)
    rows = np.stack([_rows(s, o, anchor, clip, variances) for s, o in pairs])
    return _detections(rows, **attrs)


def _detection_parts(
    g: Builder[X],
    cls_prob: X,
    loc_pred: X,
    anchor: X,
    *,
    clip: bool,
    variances: tuple[float, ...],
    background_id: int,
    **attrs: Declared,
) -> X | None:
    """MultiBoxDetection(p, o, a)  =>  best of rows of classes, scores and decoded boxes"""
    batch, classes, count = g.type(cls_prob).dims
    if classes < 2 or not batch or not count:
        return None
    scores = narrow(g, cls_prob, 1, 1, classes - 1, at="scores")
    place = g.op(ARGMAX, scores, at="best", axis=1, keepdims=False)
    score = g.op(PICK, scores, place, at="score", axis=1)
    offsets = reshape(g, loc_pred, (batch, count, 4), at="offsets")
    stds: Attrs = {f"std{i}": number for i, number in enumerate(variances)}
    boxes = g.op(BOX_DECODE, offsets, anchor, at="boxes", format="corner", **stds)
    if clip:
        below = g.op(LESSER_THAN, boxes, at="below", scalar=1.0)
        ones = g.op(NOT_BELOW, below, at="ones", scalar=0.0)  # ones, separate for each sample
        inside = g.op(WHERE, below, boxes, ones, at="inside")  # NaN becomes 1
        boxes = g.op(MAXIMUM.scalar, inside, at="clipped", scalar=0.0)
    ids = reshape(g, place, (batch, count, 1), at="ids")
    column = reshape(g, score, (batch, count, 1), at="score_column")
    rows = g.op(CONCAT, ids, column, boxes, at="rows", num_args=3, dim=2)
    return g.op(DETECTIONS, rows, **attrs)


# As for sign, MXNet's backward operator writes zeros, so the backward pass continues through it.
register(
    "_contrib_MultiBoxDetection",
    "cls_prob loc_pred anchor",
    "clip:bool=True threshold:float=0.01 background_id:int=0 nms_threshold:float=0.5 "
    "force_suppress:bool=False variances:floats=(0.1,0.1,0.2,0.2) nms_topk:int=-1",
    infer=_infer_detection,
    ref=_detection,
    grad=none_at_all,
    expand=_detection_parts,
    traits=Traits(parts_in_floats=True, stops=lambda attrs: ()),
    doc="Detections from class scores, offsets and anchors, after suppression per class.",
)
