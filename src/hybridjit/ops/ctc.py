"""CTCLoss: minus the log probability of a label sequence, summed over all its alignments.

In: activations (T, N, C) before the softmax, labels (N, L), lengths if they are given, all rounded
and lengths held between 0 and T or L. Out: one loss for each of the N sequences.
A. Graves et al. 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

import numpy as np

from ..errors import MXNetError, ShapeError
from ..types import TensorType, shape_text
from .attrs import AttrValue
from .casting import convert
from .indexing import whole
from .record import Traits
from .registry import register
from .rules import Types, fill, merged, require_float


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


def _alignments(log: np.ndarray, classes: np.ndarray, blank: int) -> float:
    """Minus the log probability of ``classes`` under ``log`` (T, C); 0 if there is no way.

    Dynamic programming over blank, class, blank, ..., class, blank: from a place a step stays,
    goes on by one, or by two to another class over the blank between them.
    """
    path = np.full(2 * len(classes) + 1, blank)
    path[1::2] = classes
    skips = np.zeros(len(path), bool)
    skips[2:] = (path[2:] != blank) & (path[2:] != path[:-2])
    score = np.full(len(path), -np.inf)
    score[:2] = log[0, path[:2]]
    for row in log[1:]:
        one, two = np.full((2, len(path)), -np.inf)
        one[1:] = score[:-1]
        two[2:] = np.where(skips[2:], score[:-2], -np.inf)
        score = np.logaddexp(np.logaddexp(score, one), two) + row[path]
    total = np.logaddexp.reduce(score[-2:])
    return 0.0 if total == -np.inf else -total


def _nearest(numbers: np.ndarray) -> np.ndarray:
    """Labels and lengths as int64, rounded, halves away from zero; NaN is the smallest one."""
    if numbers.dtype.kind == "f":
        numbers = np.trunc(numbers + np.copysign(numbers.dtype.type(0.5), numbers))
    return whole(numbers)


def _held(lengths: np.ndarray, most: int) -> np.ndarray:
    """Lengths from 0 to ``most``."""
    return np.clip(_nearest(lengths), 0, most)


def ctc_loss(
    data: np.ndarray,
    label: np.ndarray,
    *lengths: np.ndarray,
    use_data_lengths: bool,
    use_label_lengths: bool,
    blank_label: str,
) -> np.ndarray:
    """The losses. Raises MXNetError for a class that the data does not have."""
    steps, count, classes = data.shape
    blank = 0 if blank_label == "first" else classes - 1
    log, labels = _log_softmax(data), _nearest(label)
    given = iter(lengths)
    ends = _held(next(given), steps) if use_data_lengths else np.full(count, steps)
    sizes = _held(next(given), label.shape[1]) if use_label_lengths else None
    losses = np.zeros(count)
    for n in range(count):
        padding = 0 if blank_label == "first" else -1
        row = _unpadded(labels[n], padding) if sizes is None else labels[n, : sizes[n]]
        outside = row[(row < 0) | (row >= classes)]
        if outside.size:
            raise MXNetError(f"label {outside[0]} names none of the {classes} classes")
        if ends[n] > 0:
            losses[n] = _alignments(log[: ends[n], n], row, blank)
    return convert(losses, data.dtype)


register(
    "CTCLoss",
    _input_names,
    "use_data_lengths:bool=False use_label_lengths:bool=False blank_label:first|last=first",
    infer=_ctc_types,
    ref=ctc_loss,
    traits=Traits(total_outputs=2),
    outputs=("output0",),
    aliases="_contrib_CTCLoss _contrib_ctc_loss ctc_loss",
    doc="Minus the log probability of each label sequence over all alignments.",
)
