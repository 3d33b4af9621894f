"""CTCLoss: negative log probability of a label sequence, summed over all its alignments.

Input: activations (T, N, C) before the softmax, labels (N, L), optional lengths, all rounded and
lengths limited to 0 to T or L. Output: one loss for each of the N sequences. A. Graves et al. 2006,
"Connectionist temporal classification".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import MXNetError, ShapeError
from .. import native
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import convert
from ..record import Traits
from ..registry import register
from ..rules import Types, fill, forward, merged, require_float
from ..tensor.by_index import whole

_ATTRS = "use_data_lengths:bool=False use_label_lengths:bool=False blank_label:first|last=first"


def _input_names(
    use_data_lengths: bool, use_label_lengths: bool, **attrs: AttrValue
) -> tuple[str, ...]:
    lengths = ("data_lengths",) * use_data_lengths + ("label_lengths",) * use_label_lengths
    return ("data", "label", *lengths)


def _ctc_types(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    data, label, *lengths = ins
    require_float("CTCLoss", data)
    if not data.is_known or label.shape is None or None in label.shape:
        return ins, outs
    if data.ndim != 3 or len(label.shape) != 2:
        raise ShapeError(
            f"CTCLoss needs data (T, N, C) and label (N, L), got {shape_text(data.dims)} and "
            f"{shape_text(label.shape)}"
        )
    steps, count, _ = data.dims
    if label.shape[0] != count:
        raise ShapeError(f"label has {label.shape[0]} sequences, but data has {count}")
    if label.shape[1] > steps:  # type: ignore[operator]
        raise ShapeError(f"label of {label.shape[1]} is longer than data of {steps} steps")
    label = label.with_dtype(label.dtype or data.dtype)
    known = [fill(t, (count,), t.dtype or data.dtype) for t in lengths]
    return (data, label, *known), merged(outs, (TensorType((count,), data.dtype),))


# Cost of machine code for a sequence, relative to one element of its data.
_WORTH = 64
# Path lengths are rounded up to a multiple of this, and as many states are added on both sides.
_MARGIN = 8
# Far below the logarithm of any value, so that exp(-inf - _FLOOR) is 0 and not NaN.
_FLOOR = -1e300


class _Paths(NamedTuple):
    """Paths of each sequence: blank, class, blank, ..., class, blank, padded with blanks.

    skips   0 if a state can be reached from two states before, else -inf
    ends    number of steps
    places  number of states
    """

    classes: np.ndarray
    skips: np.ndarray
    ends: np.ndarray
    places: np.ndarray


def _nearest(numbers: np.ndarray) -> np.ndarray:
    """Labels and lengths as int64, rounded, ties away from zero; NaN is the smallest integer."""
    if numbers.dtype.kind == "f":
        numbers = np.trunc(numbers + np.copysign(numbers.dtype.type(0.5), numbers))
    return whole(numbers)


def _held(lengths: np.ndarray, most: int) -> np.ndarray:
    """Lengths limited to 0 to ``most``."""
    return np.clip(_nearest(lengths), 0, most)


def _paths(
    data: np.ndarray,
    label: np.ndarray,
    lengths: Sequence[np.ndarray],
    use_data_lengths: bool,
    use_label_lengths: bool,
    blank_label: str,
) -> _Paths:
    """Paths of all sequences. Raises MXNetError for an invalid class."""
    steps, count, classes = data.shape
    labels, given = _nearest(label), iter(lengths)
    ends = _held(next(given), steps) if use_data_lengths else np.full(count, steps)
    most = labels.shape[1]
    if use_label_lengths:
        sizes = _held(next(given), most)
    else:
        is_padding = labels == (0 if blank_label == "first" else -1)
        sizes = np.where(is_padding.any(1), is_padding.argmax(1), most) if most else ends * 0
    is_label = np.arange(most) < sizes[:, None]
    outside = labels[is_label & ((labels < 0) | (labels >= classes))]
    if outside.size:
        raise MXNetError(f"label {outside[0]} is not one of the {classes} classes")
    blank = _blank(data, blank_label)
    width = -(-(2 * most + 1) // _MARGIN) * _MARGIN
    path = np.full((count, width), blank, np.int64)
    path[:, 1 : 2 * most : 2] = np.where(is_label, labels, blank)
    # Vectors of the backward recursion read two states beyond those of the last path.
    skips = np.full(count * width + _MARGIN, -np.inf)
    may_skip = (path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2])
    skips[: count * width].reshape(count, width)[:, 2:][may_skip] = 0
    return _Paths(path, skips, ends.astype(np.int64), (2 * sizes + 1).astype(np.int64))


def _blank(data: np.ndarray, blank_label: str) -> int:
    return 0 if blank_label == "first" else data.shape[2] - 1


def ctc_loss(
    data: np.ndarray, label: np.ndarray, *lengths: np.ndarray, blank_label: str, **uses: bool
) -> np.ndarray:
    """Losses. Raises MXNetError for an invalid class."""
    paths = _paths(data, label, lengths, blank_label=blank_label, **uses)
    return convert(_searched(data, paths, None)[0], data.dtype)


def _back_from_ctc(
    head: np.ndarray,
    data: np.ndarray,
    label: np.ndarray,
    *lengths: np.ndarray,
    blank_label: str,
    **uses: bool,
) -> np.ndarray:
    paths = _paths(data, label, lengths, blank_label=blank_label, **uses)
    return convert(_searched(data, paths, head)[1], data.dtype)


def _searched(
    data: np.ndarray, paths: _Paths, head: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Losses, and gradients if there is an output gradient; selected by the sizes of one
    sequence."""
    steps, _, classes = data.shape
    run = native.routine("ctc", head is not None, size=_WORTH * steps * classes)
    if run is None or not data.size:
        return _by_numpy(data.astype(np.float64), paths, head)
    return _by_routine(run, data.astype(np.float64, order="C"), paths, head)


def _by_routine(
    run: native.Routine, data: np.ndarray, paths: _Paths, head: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    (steps, count, classes), width = data.shape, paths.classes.shape[1]
    heads = np.zeros(0) if head is None else head.astype(np.float64, order="C")
    losses, gradients = np.zeros(count), np.zeros(0 if head is None else data.shape)
    pitch = width + 2 * _MARGIN
    sizes = ((steps + 3) * pitch, steps * (width + 2), classes, _MARGIN)
    scratch = np.full(sum(sizes), -np.inf)
    arrays = [data, *paths, heads, losses, gradients, scratch]
    run(arrays, [steps, count, classes, width, _MARGIN])
    return losses, gradients


# --- NumPy implementation, all sequences at once ---


def _by_numpy(
    data: np.ndarray, paths: _Paths, head: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    (steps, count, _), path = data.shape, paths.classes
    log = _log_softmax(data)
    rows = np.take_along_axis(log, path[None], axis=2)
    skips = paths.skips[: path.size].reshape(path.shape)
    there = _ways(rows, skips)
    every = np.arange(count)
    finals = there[np.maximum(paths.ends - 1, 0), every]
    last, before = finals[every, paths.places - 1], finals[every, paths.places - 2]
    total = _log_sum(last, np.where(paths.places > 1, before, -np.inf))
    is_lost = (total == -np.inf) | (paths.ends == 0)
    losses = np.where(is_lost, 0, -total)
    if head is None:
        return losses, losses
    found = np.exp(log)
    share = np.exp(there + _ways_back(rows, skips, paths) - total[:, None])
    is_place = np.arange(path.shape[1]) < paths.places[:, None]
    step, number, place = np.nonzero(np.broadcast_to(is_place, share.shape))
    np.subtract.at(found, (step, number, path[number, place]), share[step, number, place])
    is_step = (np.arange(steps)[:, None] < paths.ends) & ~is_lost
    return losses, np.where(is_step[..., None], head[:, None] * found, 0)


def _log_softmax(data: np.ndarray) -> np.ndarray:
    shifted = data - data.max(axis=-1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _log_sum(*terms: np.ndarray) -> np.ndarray:
    """Logarithm of a sum, from the logarithms of its terms."""
    most = np.maximum(np.maximum.reduce(terms), _FLOOR)
    return most + np.log(sum(np.exp(term - most) for term in terms))


def _ways(rows: np.ndarray, skips: np.ndarray) -> np.ndarray:
    """Log probability (T, N, W) of all paths to each state at each step.

    A step stays in a state, advances by one, or by two to another class over the blank between.
    """
    there = np.full(rows.shape, -np.inf)
    there[:1, :, :2] = rows[:1, :, :2]
    for t in range(1, len(rows)):
        one, two = np.full((2, *rows.shape[1:]), -np.inf)
        one[:, 1:], two[:, 2:] = there[t - 1, :, :-1], there[t - 1, :, :-2]
        there[t] = _log_sum(there[t - 1], one, two + skips) + rows[t]
    return there


def _ways_back(rows: np.ndarray, skips: np.ndarray, paths: _Paths) -> np.ndarray:
    """Log probability of all paths from each state after its step to the end."""
    rest = np.full(rows.shape, -np.inf)
    places = np.arange(rows.shape[2])
    is_end = (places < paths.places[:, None]) & (places >= paths.places[:, None] - 2)
    final = np.where(is_end, 0, -np.inf)
    onward = rest[0] if len(rest) else rest
    for t in range(len(rows) - 1, -1, -1):
        one, two = np.full((2, *rows.shape[1:]), -np.inf)
        one[:, :-1], two[:, :-2] = onward[:, 1:], onward[:, 2:] + skips[:, 2:]
        rest[t] = np.where((paths.ends == t + 1)[:, None], final, _log_sum(onward, one, two))
        onward = rest[t] + rows[t]
    return rest


def _back_names(**attrs: Declared) -> tuple[str, ...]:
    return ("head", *_input_names(**attrs))


BACK_FROM_CTC = register(
    "_back_from_ctc_loss",
    _back_names,
    _ATTRS,
    internal=True,
    infer=forward(lambda head, data, *rest, **attrs: data),
    ref=_back_from_ctc,
    doc="Gradient of CTCLoss with respect to the activations.",
)


def _grad_ctc(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> tuple[X | None, ...]:
    """Gradient of the activations; labels and lengths have none."""
    found = g.op(BACK_FROM_CTC, douts[0], *ins, at="ddata", **attrs)
    return found, *[None] * (len(ins) - 1)


register(
    "CTCLoss",
    _input_names,
    _ATTRS,
    infer=_ctc_types,
    ref=ctc_loss,
    grad=_grad_ctc,
    traits=Traits(total_outputs=2),
    outputs=("output0",),
    aliases="_contrib_CTCLoss _contrib_ctc_loss ctc_loss",
    doc="Negative log probability of each label sequence over all alignments.",
)
