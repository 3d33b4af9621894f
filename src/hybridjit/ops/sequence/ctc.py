"""CTCLoss: minus the log probability of a label sequence, summed over all its alignments.

In: activations (T, N, C) before the softmax, labels (N, L), lengths if they are given, all rounded
and lengths held between 0 and T or L. Out: one loss for each of the N sequences.
A. Graves et al. 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import MXNetError, ShapeError
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
            f"CTCLoss takes data (T, N, C) and label (N, L), got {shape_text(data.dims)} and "
            f"{shape_text(label.shape)}"
        )
    steps, count, _ = data.dims
    if label.shape[0] != count:
        raise ShapeError(f"label has {label.shape[0]} sequences, data has {count}")
    if label.shape[1] > steps:  # type: ignore[operator]
        raise ShapeError(f"label of {label.shape[1]} is longer than data of {steps} steps")
    label = label.with_dtype(label.dtype or data.dtype)
    known = [fill(t, (count,), t.dtype or data.dtype) for t in lengths]
    return (data, label, *known), merged(outs, (TensorType((count,), data.dtype),))


def _log_softmax(data: np.ndarray) -> np.ndarray:
    shifted = data.astype(np.float64) - data.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _unpadded(row: np.ndarray, padding: int) -> np.ndarray:
    """The classes before the first padding."""
    ends = np.flatnonzero(row == padding)
    return row[: ends[0]] if ends.size else row


class _Path(NamedTuple):
    """blank, class, blank, ..., class, blank; and where a step may come from two places back."""

    classes: np.ndarray
    skips: np.ndarray


def _path(classes: np.ndarray, blank: int) -> _Path:
    path = np.full(2 * len(classes) + 1, blank)
    path[1::2] = classes
    skips = np.zeros(len(path), bool)
    skips[2:] = (path[2:] != blank) & (path[2:] != path[:-2])
    return _Path(path, skips)


def _scores(log: np.ndarray, path: _Path) -> np.ndarray:
    """The log probability (T, places) of all ways to each place at each step, under ``log`` (T, C).

    From a place a step stays, goes on by one, or by two to another class over the blank between.
    """
    rows = log[:, path.classes]
    scores = np.full(rows.shape, -np.inf)
    scores[0, :2] = rows[0, :2]
    for t in range(1, len(rows)):
        one, two = np.full((2, rows.shape[1]), -np.inf)
        one[1:] = scores[t - 1, :-1]
        two[2:] = np.where(path.skips[2:], scores[t - 1, :-2], -np.inf)
        scores[t] = np.logaddexp(np.logaddexp(scores[t - 1], one), two) + rows[t]
    return scores


def _alignments(log: np.ndarray, classes: np.ndarray, blank: int) -> float:
    """Minus the log probability of ``classes`` under ``log`` (T, C); 0 if there is no way."""
    total = np.logaddexp.reduce(_scores(log, _path(classes, blank))[-1, -2:])
    return 0.0 if total == -np.inf else -total


def _slopes(log: np.ndarray, classes: np.ndarray, blank: int) -> np.ndarray:
    """The gradient (T, C) of :func:`_alignments` by what ``log`` is the log_softmax of.

    The probability of each class less the share of the alignments that have it at that step. The
    ways from a place to the end are those of the path and the steps read backwards.
    """
    path = _path(classes, blank)
    back = _path(classes[::-1], blank)
    there, rest = _scores(log, path), _scores(log[::-1], back)[::-1, ::-1]
    total = np.logaddexp.reduce(there[-1, -2:])
    if total == -np.inf:
        return np.zeros_like(log)
    found = np.exp(log)
    share = np.exp(there + rest - log[:, path.classes] - total)
    for place, share_of in zip(path.classes, share.T):
        found[:, place] -= share_of
    return found


def _nearest(numbers: np.ndarray) -> np.ndarray:
    """Labels and lengths as int64, rounded, halves away from zero; NaN is the smallest one."""
    if numbers.dtype.kind == "f":
        numbers = np.trunc(numbers + np.copysign(numbers.dtype.type(0.5), numbers))
    return whole(numbers)


def _held(lengths: np.ndarray, most: int) -> np.ndarray:
    """Lengths from 0 to ``most``."""
    return np.clip(_nearest(lengths), 0, most)


def _sequences(
    data: np.ndarray,
    label: np.ndarray,
    lengths: Sequence[np.ndarray],
    use_data_lengths: bool,
    use_label_lengths: bool,
    blank_label: str,
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Number, steps and classes of each sequence that has steps.

    Raises MXNetError for a class that the data does not have.
    """
    steps, count, classes = data.shape
    labels, given = _nearest(label), iter(lengths)
    ends = _held(next(given), steps) if use_data_lengths else np.full(count, steps)
    sizes = _held(next(given), label.shape[1]) if use_label_lengths else None
    for n in range(count):
        padding = 0 if blank_label == "first" else -1
        row = _unpadded(labels[n], padding) if sizes is None else labels[n, : sizes[n]]
        outside = row[(row < 0) | (row >= classes)]
        if outside.size:
            raise MXNetError(f"label {outside[0]} names none of the {classes} classes")
        if ends[n] > 0:
            yield n, ends[n], row


def _blank(data: np.ndarray, blank_label: str) -> int:
    return 0 if blank_label == "first" else data.shape[2] - 1


def ctc_loss(
    data: np.ndarray, label: np.ndarray, *lengths: np.ndarray, blank_label: str, **uses: bool
) -> np.ndarray:
    """The losses. Raises MXNetError for a class that the data does not have."""
    log, losses = _log_softmax(data), np.zeros(data.shape[1])
    for n, end, row in _sequences(data, label, lengths, blank_label=blank_label, **uses):
        losses[n] = _alignments(log[:end, n], row, _blank(data, blank_label))
    return convert(losses, data.dtype)


def _back_from_ctc(
    head: np.ndarray,
    data: np.ndarray,
    label: np.ndarray,
    *lengths: np.ndarray,
    blank_label: str,
    **uses: bool,
) -> np.ndarray:
    log, found = _log_softmax(data), np.zeros(data.shape)
    for n, end, row in _sequences(data, label, lengths, blank_label=blank_label, **uses):
        found[:end, n] = head[n] * _slopes(log[:end, n], row, _blank(data, blank_label))
    return convert(found, data.dtype)


def _back_names(**attrs: Declared) -> tuple[str, ...]:
    return ("head", *_input_names(**attrs))


BACK_FROM_CTC = register(
    "_back_from_ctc_loss",
    _back_names,
    _ATTRS,
    internal=True,
    infer=forward(lambda head, data, *rest, **attrs: data),
    ref=_back_from_ctc,
    doc="What reaches the activations of CTCLoss.",
)


def _grad_ctc(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: AttrValue
) -> tuple[X | None, ...]:
    """Labels and lengths get nothing."""
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
    doc="Minus the log probability of each label sequence over all alignments.",
)
