"""Boxes: overlap, suppression and decoding.

Input: rows with boxes of four values, corners (x1, y1, x2, y2) or centres (x, y, w, h). Output:
rows, or overlaps. Box arithmetic uses the data's precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..._core.types import TensorType, product, shape_text
from ...errors import AttributeValueError, ShapeError
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import convert, widened
from ..elementwise.binary import ADD, MINIMUM, MULTIPLY, SUBTRACT
from ..elementwise.unary import EXP
from ..gradient import none_at_all
from ..record import Eager, Samples, Traits
from ..registry import register
from ..rules import forward, require_float, same_dtype
from ..tensor.joining import CONCAT
from ..tensor.ordering import first_of
from ..tensor.primitives import narrow

# Pairs of boxes compared at a time, so that temporary arrays fit into the second-level cache.
PAIRS = 1 << 15


def to_corners(boxes: np.ndarray) -> np.ndarray:
    """(x, y, w, h) -> (x1, y1, x2, y2)."""
    centre, half = boxes[..., :2], boxes[..., 2:4] / 2
    return np.concatenate([centre - half, centre + half], axis=-1)


def to_centres(boxes: np.ndarray) -> np.ndarray:
    """(x1, y1, x2, y2) -> (x, y, w, h)."""
    low, size = boxes[..., :2], boxes[..., 2:4] - boxes[..., :2]
    return np.concatenate([low + size / 2, size], axis=-1)


def overlaps(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Intersection over union of corner boxes (..., 4), broadcasting; negative sizes count as 0."""
    x1, y1, x2, y2 = (lhs[..., i] for i in range(4))
    left, top, right, bottom = (rhs[..., i] for i in range(4))
    shared = _extent(np.maximum(x1, left), np.minimum(x2, right))
    shared *= _extent(np.maximum(y1, top), np.minimum(y2, bottom))
    union = _areas(lhs) + _areas(rhs)
    union -= shared
    share = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return share.astype(lhs.dtype, copy=False)


def _extent(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """From low to high, not below 0; in place of ``high``."""
    high = high - low if high.ndim == 0 else np.subtract(high, low, out=high)
    return np.maximum(high, 0)


def _areas(boxes: np.ndarray) -> np.ndarray:
    return product_of_sizes(np.maximum(boxes[..., 2:] - boxes[..., :2], 0))


def product_of_sizes(sizes: np.ndarray) -> np.ndarray:
    """Width times height; ``np.prod`` along an axis of two takes five times as long."""
    return sizes[..., 0] * sizes[..., 1]


def suppress(
    boxes: np.ndarray, ids: np.ndarray | None, threshold: float, strict: bool
) -> np.ndarray:
    """Mask of the corner boxes, best first, that survive greedy suppression.

    A box is suppressed by a better survivor with the same id (any id if ``ids`` is None) that
    overlaps it by more than the threshold, or by exactly the threshold unless ``strict``.
    """
    limit = boxes.dtype.type(threshold)

    def hits(own: np.ndarray, left: np.ndarray) -> np.ndarray:
        share = overlaps(boxes[own, None], boxes[left])
        hit = share > limit if strict else share >= limit
        return hit if ids is None else hit & (ids[own, None] == ids[left])

    return greedy_survivors(len(boxes), hits)


def greedy_survivors(
    count: int, hits: Callable[[np.ndarray, np.ndarray], np.ndarray], wanted: int | None = None
) -> np.ndarray:
    """Mask of the candidates, best first, that no better survivor hits.

    ``hits(own, left)`` returns for indices of candidates which of ``left`` each of ``own`` hits. It
    is called for many pairs at a time, and for no suppressed candidate. The search may stop once
    ``wanted`` survivors are found.
    """
    alive, left = np.zeros(count, bool), np.arange(count)
    while len(left) and (wanted is None or np.count_nonzero(alive) < wanted):
        own = left[: max(1, PAIRS // len(left))]
        fallen = np.zeros(len(left), bool)
        for i, hit in enumerate(hits(own, left)):
            if not fallen[i]:
                fallen[i + 1 :] |= hit[i + 1 :]
        alive[own] = ~fallen[: len(own)]
        left = left[len(own) :][~fallen[len(own) :]]
    return alive


def _check_column(name: str, first: int, count: int, width: int) -> None:
    if first < 0 or first + count > width:
        raise AttributeValueError(f"{name} {first} is out of range for rows of {width} values")


@forward
def _infer_nms(
    data: TensorType, *, coord_start: int, score_index: int, id_index: int, **attrs: AttrValue
) -> TensorType:
    """Like the data (..., rows, width)."""
    require_float("box_nms", data)
    if data.ndim < 2:
        raise ShapeError(f"box_nms needs (..., num_box, box_width), got {shape_text(data.shape)}")
    width = data.dims[-1]
    _check_column("coord_start", coord_start, 4, width)
    _check_column("score_index", score_index, 1, width)
    if id_index >= 0:
        _check_column("id_index", id_index, 1, width)
    return data


def _kept_rows(
    rows: np.ndarray,
    *,
    overlap_thresh: float,
    valid_thresh: float,
    topk: int,
    coord_start: int,
    score_index: int,
    id_index: int,
    background_id: int,
    force_suppress: bool,
    in_format: str,
    **attrs: AttrValue,
) -> np.ndarray:
    """Indices of surviving rows of one batch, best first. Ids are converted to int32."""
    scores = rows[:, score_index]
    valid = scores > scores.dtype.type(valid_thresh)
    if id_index >= 0:
        valid &= rows[:, id_index] != background_id
    order = np.flatnonzero(valid)
    best = order[first_of(-scores[order], topk if topk > 0 else len(order))]
    boxes = widened(rows[best, coord_start : coord_start + 4])
    corners = to_corners(boxes) if in_format == "center" else boxes
    is_any = force_suppress or id_index < 0
    ids = None if is_any else convert(rows[best, id_index], np.dtype(np.int32))
    return best[suppress(corners, ids, overlap_thresh, strict=True)]


def _nms_rows(
    rows: np.ndarray, *, in_format: str, out_format: str, coord_start: int, **attrs: Declared
) -> np.ndarray:
    """Survivors of one batch, best first, followed by rows of -1."""
    kept = rows[_kept_rows(rows, in_format=in_format, coord_start=coord_start, **attrs)]
    if in_format != out_format:
        columns = slice(coord_start, coord_start + 4)
        turn = to_corners if out_format == "corner" else to_centres
        kept[:, columns] = turn(widened(kept[:, columns]))
    out = np.full_like(rows, -1)
    out[: len(kept)] = kept
    return out


def _box_nms(data: np.ndarray, **attrs: Declared) -> np.ndarray:
    """Non-maximum suppression in each (rows, width) of the data; topk 0 copies the data."""
    if attrs["topk"] == 0 or data.size == 0:
        return data.copy()
    batches = data.reshape(product(data.shape[:-2]), *data.shape[-2:])
    return np.stack([_nms_rows(rows, **attrs) for rows in batches]).reshape(data.shape)


def _box_nms_back(head: np.ndarray, data: np.ndarray, **attrs: Declared) -> np.ndarray:
    """Gradient of the survivors, moved to their rows in the data."""
    if attrs["topk"] == 0 or data.size == 0:
        return head.copy()
    back = np.zeros_like(data)
    batches = (product(data.shape[:-2]), *data.shape[-2:])
    for to, d, rows in zip(*(x.reshape(batches) for x in (back, head, data))):
        kept = _kept_rows(rows, **attrs)
        to[kept] = d[: len(kept)]
    return back


def _grad_nms(g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared) -> X:
    return g.op(BOX_NMS_BACK, douts[0], ins[0], **attrs)


_NMS = (
    "overlap_thresh:float=0.5 valid_thresh:float=0 topk:int=-1 coord_start:int=2 "
    "score_index:int=1 id_index:int=-1 background_id:int=-1 force_suppress:bool=False "
    "in_format:center|corner=corner out_format:center|corner=corner"
)
BOX_NMS_BACK = register(
    "_box_nms_back",
    "head data",
    _NMS,
    internal=True,
    infer=forward(lambda head, data, **attrs: data),
    ref=_box_nms_back,
    doc="Gradient of suppression with respect to the data.",
)
register(
    "_contrib_box_nms",
    "data",
    _NMS,
    infer=_infer_nms,
    ref=_box_nms,
    grad=_grad_nms,
    kernel="suppress",
    traits=Traits(total_outputs=2, samples=Samples.ROWS, eager=Eager.EARLY),
    outputs=("output0",),
    aliases="_contrib_box_non_maximum_suppression",
    doc="Greedy non-maximum suppression: survivors first, then rows of -1.",
)


@forward
def _infer_decode(data: TensorType, anchors: TensorType, **attrs: AttrValue) -> TensorType:
    """Like the data (B, N, 4); anchors (1, N, 4) apply to every image."""
    same_dtype(data, anchors)
    require_float("box_decode", data)
    if data.ndim != 3 or data.dims[2] != 4:
        raise ShapeError(f"data should be (batch, boxes, 4), got {shape_text(data.shape)}")
    if anchors.dims != (1, data.dims[1], 4):
        raise ShapeError(f"anchors should be (1,{data.dims[1]},4), got {shape_text(anchors.shape)}")
    return data


def _box_decode(
    data: np.ndarray,
    anchors: np.ndarray,
    *,
    std0: float,
    std1: float,
    std2: float,
    std3: float,
    clip: float,
    format: str,
) -> np.ndarray:
    """Offsets times std, applied to the anchors, as corner boxes."""
    a = widened(anchors)
    a = to_centres(a) if format == "corner" else a
    offsets = widened(data) * np.array([std0, std1, std2, std3], a.dtype)
    centre = offsets[..., :2] * a[..., 2:] + a[..., :2]
    growth = np.minimum(offsets[..., 2:], a.dtype.type(clip)) if clip > 0 else offsets[..., 2:]
    half = np.exp(growth) * a[..., 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=-1).astype(data.dtype, copy=False)


def _decode_parts(
    g: Builder[X], data: X, anchors: X, *, clip: float, format: str, **stds: float
) -> X:
    """box_decode(x, anchors)  =>  pointwise on the four columns"""
    offsets = [narrow(g, data, 2, k, 1, at=f"offset{k}") for k in range(4)]
    own = [narrow(g, anchors, 2, k, 1, at=f"anchor{k}") for k in range(4)]
    if format == "corner":
        own = _centre_parts(g, own)
    sides = []
    for axis in (0, 1):
        at, size = "xy"[axis], own[axis + 2]
        move = g.op(MULTIPLY.scalar, offsets[axis], at=f"{at}_move", scalar=stds[f"std{axis}"])
        grow = g.op(
            MULTIPLY.scalar, offsets[axis + 2], at=f"{at}_grow", scalar=stds[f"std{axis + 2}"]
        )
        if clip > 0:
            grow = g.op(MINIMUM.scalar, grow, at=f"{at}_clipped", scalar=clip)
        shift = g.op(MULTIPLY.broadcasting, move, size, at=f"{at}_shift")
        centre = g.op(ADD.broadcasting, shift, own[axis], at=f"{at}_centre")
        factor = g.op(EXP, grow, at=f"{at}_factor")
        whole = g.op(MULTIPLY.broadcasting, factor, size, at=f"{at}_whole")
        half = g.op(MULTIPLY.scalar, whole, at=f"{at}_half", scalar=0.5)
        low = g.op(SUBTRACT.broadcasting, centre, half, at=f"{at}_low")
        sides.append((low, g.op(ADD.broadcasting, centre, half, at=f"{at}_high")))
    corners = [side[end] for end in (0, 1) for side in sides]
    return g.op(CONCAT, *corners, dim=2, num_args=4)


def _centre_parts(g: Builder[X], corners: Sequence[X]) -> list[X]:
    """Centre and size of corner boxes, column by column."""
    sizes = [g.op(SUBTRACT.broadcasting, corners[k + 2], corners[k], at=f"size{k}") for k in (0, 1)]
    halves = [g.op(MULTIPLY.scalar, s, at=f"half{k}", scalar=0.5) for k, s in enumerate(sizes)]
    centres = [
        g.op(ADD.broadcasting, corners[k], half, at=f"centre{k}") for k, half in enumerate(halves)
    ]
    return [*centres, *sizes]


BOX_DECODE = register(
    "_contrib_box_decode",
    "data anchors",
    "std0:float=1 std1:float=1 std2:float=1 std3:float=1 clip:float=-1 format:center|corner=center",
    infer=_infer_decode,
    ref=_box_decode,
    grad=none_at_all,
    expand=_decode_parts,
    traits=Traits(parts_in_floats=True),
    doc="Boxes from predicted offsets and anchors.",
)
