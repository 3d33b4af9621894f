"""Training targets of detectors: anchors matched with labelled boxes, and their offsets.

Input: scores or overlaps of pairs, anchors, labels [class, x1, y1, x2, y2] whose rows end at the
first class of -1. Output: for each row its match, offsets to the match, and masks of valid rows.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import TensorType, merge, shape_text
from ...errors import AttributeValueError, MXNetError, ShapeError
from ..attrs import AttrValue, Declared
from ..casting import convert
from ..gradient import none_at_all
from ..record import Traits
from ..registry import register
from ..rules import Types, forward, require_float, same_dtype
from .boxes import overlaps, to_centres

_SMALLEST = 1e-6  # minimal overlap of a match


@forward
def _infer_matching(data: TensorType, **attrs: AttrValue) -> Types:
    """Rows (..., N) and columns (..., M)."""
    require_float("bipartite_matching", data)
    if data.ndim < 2:
        raise ShapeError(f"score matrix must have dim >= 2, got {shape_text(data.shape)}")
    lead, (rows, columns) = data.dims[:-2], data.dims[-2:]
    return data.with_shape((*lead, rows)), data.with_shape((*lead, columns))


def _match(
    scores: np.ndarray, is_ascend: bool, threshold: float, topk: int
) -> tuple[np.ndarray, np.ndarray]:
    """Greedy matching, best pair first. As in MXNet, one pair more than ``topk`` is matched."""
    rows, columns = (np.full(n, -1.0, scores.dtype) for n in scores.shape)
    found, most = 0, min(scores.shape)
    for place in np.argsort(scores.ravel() if is_ascend else -scores.ravel(), kind="stable"):
        row, column = divmod(int(place), scores.shape[1])
        if rows[row] >= 0 or columns[column] >= 0:
            continue
        score = scores[row, column]
        if not (score < threshold if is_ascend else score > threshold):
            break
        rows[row], columns[column] = column, row
        found += 1
        if 0 < topk < found or found == most:
            break
    return rows, columns


def _matching(data: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, np.ndarray]:
    """Match of each row and of each column of (..., N, M) scores; -1 for none."""
    lead, (rows, columns) = data.shape[:-2], data.shape[-2:]
    if data.size == 0:
        return np.full((*lead, rows), -1, data.dtype), np.full((*lead, columns), -1, data.dtype)
    pairs = [_match(scores, **attrs) for scores in data.reshape(-1, rows, columns)]
    first, second = (np.array(part, data.dtype) for part in zip(*pairs))
    return first.reshape(*lead, rows), second.reshape(*lead, columns)


# As for sign, MXNet's backward operator writes zeros, so the backward pass continues through it.
register(
    "_contrib_bipartite_matching",
    "data",
    "is_ascend:bool=False threshold:float! topk:int=-1",
    infer=_infer_matching,
    ref=_matching,
    grad=none_at_all,
    outputs=("output0", "output1"),
    traits=Traits(stops=lambda attrs: ()),
    doc="Matching of rows and columns, best score first, each used at most once.",
)


def _offsets(anchors: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Centres relative to the anchors' sizes, and logarithms of relative sizes: (..., 4)."""
    a, g = to_centres(anchors), to_centres(boxes)
    return np.concatenate(
        [(g[..., :2] - a[..., :2]) / a[..., 2:], np.log(g[..., 2:] / a[..., 2:])], axis=-1
    )


def _infer_encode(ins: Types, outs: Types) -> tuple[Types, Types]:
    """All dtypes are equal; means and stds have four elements; other shapes must be known."""
    dtype = same_dtype(*ins, *outs)
    four = TensorType((4,), dtype)
    found = *(t.with_dtype(dtype) for t in ins[:4]), *(merge(four, t) for t in ins[4:])
    return forward(_encode_types)(found, outs)


def _encode_types(
    samples: TensorType,
    matches: TensorType,
    anchors: TensorType,
    refs: TensorType,
    *numbers: TensorType,
) -> Types:
    """Offsets and masks (B, N, 4)."""
    require_float("box_encode", samples)
    shape = samples.dims
    if len(shape) != 2 or matches.dims != shape:
        raise ShapeError(f"samples and matches must be (B, N), got {samples} and {matches}")
    if anchors.dims not in ((1, shape[1], 4), (*shape, 4)):
        raise ShapeError(f"anchors must be (B, {shape[1]}, 4), got {shape_text(anchors.shape)}")
    if refs.ndim != 3 or refs.dims[::2] != (shape[0], 4):
        raise ShapeError(f"refs must be ({shape[0]}, M, 4), got {shape_text(refs.shape)}")
    result = samples.with_shape((*shape, 4))
    return result, result


def _centre_planes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres and sizes (2, ...) of boxes (4, ...): NumPy is slow along axes of four elements."""
    size = corners[2:] - corners[:2]
    return corners[:2] + size / 2, size


def _encode(
    samples: np.ndarray,
    matches: np.ndarray,
    anchors: np.ndarray,
    refs: np.ndarray,
    means: np.ndarray,
    stds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Normalized offsets from each anchor to its match where samples exceed 0.5; else zeros."""
    chosen = np.clip(convert(matches, np.dtype(np.int64)), 0, refs.shape[1] - 1)
    places = chosen + refs.shape[1] * np.arange(len(refs))[:, None]
    own, labelled = (boxes.transpose(2, 0, 1).copy() for boxes in (anchors, refs))
    boxes = labelled.reshape(4, -1).take(places, axis=1)
    planes, is_valid = np.empty((4, *samples.shape), samples.dtype), samples > 0.5
    (at, size), (to, wanted) = _centre_planes(own), _centre_planes(boxes)
    np.divide(to - at, size, out=planes[:2])
    np.log(wanted / size, out=planes[2:])
    planes -= means[:, None, None]
    planes /= stds[:, None, None]
    bits = planes.view(f"u{planes.itemsize}")
    bits &= -is_valid.astype(bits.dtype)  # a quarter of the time of ``where``
    masks = is_valid.astype(samples.dtype).repeat(4).reshape(*samples.shape, 4)
    return np.stack(list(planes), axis=-1), masks


register(
    "_contrib_box_encode",
    "samples matches anchors refs means stds",
    infer=_infer_encode,
    ref=_encode,
    grad=none_at_all,
    outputs=("output0", "output1"),
    doc="Offsets from anchors to their matched boxes, and a mask of the valid ones.",
)


@forward
def _infer_target(
    anchor: TensorType,
    label: TensorType,
    cls_pred: TensorType,
    *,
    variances: tuple[float, ...],
    **attrs: AttrValue,
) -> Types:
    """Offsets and masks (B, 4N), classes (B, N)."""
    require_float("MultiBoxTarget", anchor)
    same_dtype(anchor, label, cls_pred)
    if anchor.ndim != 3 or anchor.dims[0] != 1 or anchor.dims[2] != 4:
        raise ShapeError(f"anchors must be (1, N, 4), got {shape_text(anchor.shape)}")
    if label.ndim != 3 or label.dims[2] < 5:
        raise ShapeError(f"labels must be (B, M, 5 or more), got {shape_text(label.shape)}")
    count, batch = anchor.dims[1], label.dims[0]
    if cls_pred.ndim != 3 or cls_pred.dims[::2] != (batch, count):
        raise ShapeError(
            f"class predictions must be ({batch}, C, {count}), got {shape_text(cls_pred.shape)}"
        )
    if len(variances) != 4:
        raise AttributeValueError(f"variances must be four numbers, got {len(variances)}")
    wide = anchor.with_shape((batch, 4 * count))
    return wide, wide, anchor.with_shape((batch, count))


def _best_for_each_label(shared: np.ndarray) -> dict[int, int]:
    """Label of each matched anchor: repeatedly the pair of largest overlap, until each label is
    used."""
    found: dict[int, int] = {}
    left = shared.copy()
    for _ in range(shared.shape[1]):
        anchor, label = np.unravel_index(int(np.argmax(left)), left.shape)
        if left[anchor, label] <= _SMALLEST:
            break
        found[int(anchor)] = int(label)
        left[anchor, :] = left[:, label] = -1
    return found


def _hard_negatives(
    best: np.ndarray, scores: np.ndarray, positive: dict[int, int], ratio: float, threshold: float
) -> list[int]:
    """Anchors of small overlap with the least background score, ``ratio`` per positive."""
    wanted = int(min(len(positive) * ratio, len(best) - len(positive)))
    if wanted < 1:
        return []
    free = [i for i in range(len(best)) if i not in positive and best[i] < threshold]
    if len(free) < wanted:
        raise MXNetError(
            f"negative mining needs {wanted} anchors that overlap less than {threshold:g}, "
            f"but only {len(free)} exist"
        )
    odds = np.exp(scores - scores.max(axis=0))
    background = odds[0] / odds.sum(axis=0)
    return sorted(free, key=lambda i: background[i])[:wanted]


def _targets_of(
    anchors: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    *,
    overlap_threshold: float,
    ignore_label: float,
    negative_mining_ratio: float,
    negative_mining_thresh: float,
    variances: tuple[float, ...],
    **attrs: AttrValue,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets (N, 4), masks (N, 4) and classes (N,) of one image."""
    offsets, masks = np.zeros_like(anchors), np.zeros_like(anchors)
    classes = np.full(len(anchors), ignore_label, anchors.dtype)
    ends = np.flatnonzero(labels[:, 0] == -1)
    labels = labels[: ends[0]] if len(ends) else labels
    if not len(labels) or not len(anchors):
        return offsets, masks, classes
    shared = overlaps(anchors[:, None], labels[None, :, 1:5])
    positive = _best_for_each_label(shared)
    if overlap_threshold > 0:
        for anchor in np.flatnonzero(shared.max(axis=1) > overlap_threshold):
            positive.setdefault(int(anchor), int(shared[anchor].argmax()))
    if negative_mining_ratio > 0:
        negative = _hard_negatives(
            shared.max(axis=1), scores, positive, negative_mining_ratio, negative_mining_thresh
        )
        classes[negative] = 0
    else:
        classes[:] = 0
    at, chosen = list(positive), labels[list(positive.values())]
    masks[at], classes[at] = 1, chosen[:, 0] + 1
    offsets[at] = _offsets(anchors[at], chosen[:, 1:5]) / np.array(variances, anchors.dtype)
    return offsets, masks, classes


def _target(
    anchor: np.ndarray, label: np.ndarray, cls_pred: np.ndarray, **attrs: Declared
) -> tuple[np.ndarray, ...]:
    """Offsets of each anchor to its label, mask of anchors with a label, and class (0: none)."""
    batch, count = len(label), anchor.shape[1]
    offsets, masks = (np.zeros((batch, count, 4), anchor.dtype) for _ in range(2))
    classes = np.zeros((batch, count), anchor.dtype)
    for n, (boxes, scores) in enumerate(zip(label, cls_pred)):
        offsets[n], masks[n], classes[n] = _targets_of(anchor[0], boxes, scores, **attrs)
    return offsets.reshape(batch, 4 * count), masks.reshape(batch, 4 * count), classes


register(
    "_contrib_MultiBoxTarget",
    "anchor label cls_pred",
    "overlap_threshold:float=0.5 ignore_label:float=-1 negative_mining_ratio:float=-1 "
    "negative_mining_thresh:float=0.5 minimum_negative_samples:int=0 "
    "variances:floats=(0.1,0.1,0.2,0.2)",
    infer=_infer_target,
    ref=_target,
    grad=none_at_all,
    outputs=("loc_target", "loc_mask", "cls_target"),
    doc="Training targets of a single-shot detector at each anchor: offsets, their mask, classes.",
)
