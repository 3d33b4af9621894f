"""Softmax at the end of a training graph, and cross entropy.

Input: data and a label, which inference does not read. Output: probabilities, or one value for the
batch.
"""

from __future__ import annotations

import math

import numpy as np

from ..._core.config import config
from ..._core.recording import is_training
from ..._core.types import (
    INT32,
    PartialShape,
    Shape,
    TensorType,
    merge,
    merge_shapes,
    product,
    shape_text,
)
from ...errors import ShapeError
from ..algebra import div, in_dtype, in_single, mul, scaled, shifted, sub, total
from ..attrs import AttrValue
from ..building import Builder, Many, X
from ..casting import convert, widened
from ..elementwise.binary import MAXIMUM
from ..elementwise.unary import NEGATIVE
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, forward, merged, require_float, same_dtype
from ..tensor.by_index import PICK, require_in_range, rows_within, whole
from ..tensor.primitives import narrow, reshape, transpose
from ..tensor.reductions import SUM
from .softmax import LOG_SOFTMAX, SOFTMAX, softmax_along

LEAST_PROBABILITY = 1e-8  # minimal argument of softmax_cross_entropy's logarithm


def _infer_softmax_output(
    ins: Types, outs: Types, *, multi_output: bool, **attrs: AttrValue
) -> tuple[Types, Types]:
    """Output type of the data; the label has one element per distribution, or the data's shape."""
    dtype = same_dtype(*ins, *outs)
    data = (merge(ins[0], outs[0]) if outs else ins[0]).with_dtype(dtype)
    require_float("SoftmaxOutput", data)
    label = ins[1].with_dtype(dtype)
    if data.shape is not None:
        per_line, *others = _label_shapes(data.shape, multi_output)
        if label.shape is None or (None in label.shape and _fits(per_line, label.shape)):
            label = label.with_shape(merge_shapes(per_line, label.shape))
        elif None not in label.shape and not any(
            _fits(label.shape, s) for s in (per_line, *others)
        ):
            raise ShapeError(
                f"label has shape {shape_text(label.shape)}, but data needs {shape_text(per_line)}"
            )
    return (data, label), merged(outs, (data,))


def _label_shapes(shape: PartialShape, multi_output: bool) -> tuple[PartialShape, ...]:
    """Possible shapes of SoftmaxOutput's label; the first is the default."""
    if not multi_output:
        return shape[:-1], shape
    if len(shape) < 2:
        raise ShapeError(f"multi_output needs channels on axis 1, got data {shape_text(shape)}")
    batch, rest = shape[0], shape[2:]
    flat = None if None in rest else product(tuple(size for size in rest if size is not None))
    return (batch, flat), (batch, *rest), (batch, 1, *rest), shape


def _fits(found: PartialShape, wanted: PartialShape) -> bool:
    return len(found) == len(wanted) and all(w in (None, f) for f, w in zip(found, wanted))


def _softmax_output(
    data: np.ndarray,
    label: np.ndarray,
    *,
    multi_output: bool,
    preserve_shape: bool,
    use_ignore: bool,
    ignore_label: float,
    **attrs: AttrValue,
) -> np.ndarray:
    """Softmax over axis 1 (multi_output), the last axis (preserve_shape) or each whole sample."""
    if config.check and is_training() and label.shape != data.shape:
        classes = classes_of(data.shape, multi_output, preserve_shape)
        require_labels(label, classes=classes, use_ignore=use_ignore, ignore_label=ignore_label)
    x = widened(data)
    if not multi_output and not preserve_shape:
        x = x.reshape(x.shape[0], product(x.shape[1:])) if x.ndim > 1 else x
    y = softmax_along(x, 1 if multi_output else -1)
    return y.reshape(data.shape).astype(data.dtype, copy=False)


def classes_of(data: Shape, multi_output: bool, preserve_shape: bool) -> int:
    """The number of classes of SoftmaxOutput's data."""
    if multi_output:
        return data[1]
    return data[-1] if preserve_shape or len(data) < 2 else product(data[1:])


def require_labels(
    label: np.ndarray, *, classes: int, use_ignore: bool, ignore_label: float
) -> None:
    """Raise MXNetError for a label of SoftmaxOutput that is neither a class nor ``ignore_label``.

    SoftmaxOutput subtracts nothing for such a label.
    """
    index = whole(label)
    if use_ignore:
        index = index[index != int(ignore_label)]
    require_in_range("SoftmaxOutput", index, classes, "ignores")


def _output_as_softmax(
    g: Builder[X],
    data: X,
    label: X,
    *,
    multi_output: bool,
    preserve_shape: bool,
    **attrs: AttrValue,
) -> X | None:
    """SoftmaxOutput(x, label)  =>  softmax(x)"""
    shape = g.type(data).dims
    if preserve_shape or multi_output:
        return g.op(SOFTMAX, data, axis=1 if multi_output else -1)
    if len(shape) < 2:
        return None
    rows = reshape(g, data, (shape[0], product(shape[1:])), at="rows")
    return reshape(g, g.op(SOFTMAX, rows, at="softmax", axis=1), shape)


def _distributions(g: Builder[X], x: X, multi_output: bool, preserve_shape: bool) -> X:
    """(N, M, K): M distributions over K classes in each of N samples."""
    shape = g.type(x).dims
    if multi_output:
        sizes = (*shape[:2], product(shape[2:]))
        return transpose(g, reshape(g, x, sizes, at="flat"), (0, 2, 1), at="classes")
    if preserve_shape or len(shape) < 2:
        return reshape(g, x, (product(shape[:-1]), 1, shape[-1]), at="classes")
    return reshape(g, x, (shape[0], 1, product(shape[1:])), at="classes")


def _from_distributions(g: Builder[X], d: X, shape: Shape, multi_output: bool) -> X:
    if multi_output:
        d = transpose(g, d, (0, 2, 1), at="channels")
    return reshape(g, d, shape)


def _smoothed(g: Builder[X], hot: X, smooth_alpha: float, classes: int) -> X:
    """Target distribution: 1 - alpha for the class, alpha / (K - 1) for the others."""
    if not smooth_alpha:
        return hot
    other = smooth_alpha / (classes - 1)
    return shifted(g, scaled(g, hot, 1 - smooth_alpha - other), other)


def _over_valid(g: Builder[X], found: X, is_valid: X) -> X:
    """``found`` divided by the number of valid labels, at least 1."""
    valid = g.op(MAXIMUM.scalar, total(g, is_valid, (0,)), at="valid", scalar=1.0)
    return div(g, found, reshape(g, valid, (1, 1, 1), at="divisor"))


def _grad_softmax_output(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    grad_scale: float,
    ignore_label: float,
    multi_output: bool,
    use_ignore: bool,
    preserve_shape: bool,
    normalization: str,
    out_grad: bool,
    smooth_alpha: float,
) -> tuple[X, None]:
    """(softmax - label) grad_scale / d, ignoring the output gradient unless ``out_grad``.

    d is the number of outputs of a sample, of labels (batch), or of labels that are not ignored
    (valid). If there are more labels than distributions, the first ones are read and all are
    counted. A label of the data's shape is a distribution.
    """
    (data, label), y = ins, outs[0]
    t = g.type(data)
    if g.type(label).shape == t.shape:
        found = scaled(g, sub(g, y, label), grad_scale)
        return (mul(g, found, douts[0]) if out_grad else found), None
    p = _distributions(g, y, multi_output, preserve_shape)
    *lines, classes = g.type(p).dims
    count = g.type(label).size
    whole = g.op(lookup("trunc"), reshape(g, label, (count,), at="labels"), at="whole")
    index = narrow(g, whole, 0, 0, product(tuple(lines)), at="first")  # ignore further labels
    index = reshape(g, index, (*lines, 1), at="lines")
    hot = g.op(lookup("one_hot"), index, at="hot", depth=classes)
    hot = in_dtype(g, reshape(g, hot, (*lines, classes), at="target"), t)
    found = sub(g, p, _smoothed(g, hot, 0.0 if multi_output else smooth_alpha, classes))
    counts, ignored = lookup("_not_equal_scalar"), float(int(ignore_label))
    if use_ignore:
        found = mul(g, found, g.op(counts, index, at="kept", scalar=ignored))
    if normalization == "valid":
        found = _over_valid(g, found, g.op(counts, whole, at="counted", scalar=ignored))
    else:
        found = scaled(g, found, 1.0 / (count if normalization == "batch" else lines[1]))
    found = _from_distributions(g, scaled(g, found, grad_scale), t.dims, multi_output)
    return (mul(g, found, douts[0]) if out_grad else found), None


register(
    "SoftmaxOutput",
    "data label",
    "grad_scale:float=1 ignore_label:float=-1 multi_output:bool=False use_ignore:bool=False "
    "preserve_shape:bool=False normalization:batch|null|valid=null out_grad:bool=False "
    "smooth_alpha:float[0,1]=0",
    infer=_infer_softmax_output,
    ref=_softmax_output,
    expand=_output_as_softmax,
    grad=_grad_softmax_output,
    aliases="Softmax",
    traits=Traits(loss_head=True, ignores_head=lambda attrs: not attrs["out_grad"], in_single=True),
    doc="Softmax at the end of a training graph; inference does not read the label.",
)


@forward
def _infer_cross_entropy(data: TensorType, label: TensorType) -> TensorType:
    """Type of one value for the whole batch."""
    dtype = same_dtype(data, label)
    require_float("softmax_cross_entropy", data)
    if data.ndim != 2 or label.dims != data.dims[:1]:
        raise ShapeError(
            "softmax_cross_entropy needs 2D data and a label per row, got "
            f"{shape_text(data.shape)} and {shape_text(label.shape)}"
        )
    return TensorType((1,), dtype)


def _cross_entropy(data: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Sum over rows of -log softmax at the label, which is clipped to the classes.

    Probabilities are at least LEAST_PROBABILITY, in the data's dtype.
    """
    if not data.size:
        return np.zeros(1, data.dtype)
    rows = np.arange(len(label))
    number = convert(label, INT32)  # as pick, which computes it in compiled graphs
    classes = rows_within("softmax_cross_entropy", number, data.shape[1])
    picked = softmax_along(widened(data), 1)[rows, classes]
    picked = np.maximum(picked, data.dtype.type(LEAST_PROBABILITY))
    return -np.log(picked).sum(keepdims=True).astype(data.dtype)


def _cross_entropy_parts(g: Builder[X], data: X, label: X) -> X:
    """softmax_cross_entropy(x, label)  =>  -sum(max(pick(log_softmax(x), label), log(1e-8)))"""
    logs = g.op(LOG_SOFTMAX, data, at="logs", axis=1)
    picked = g.op(PICK, logs, label, at="picked", axis=1)
    held = g.op(MAXIMUM.scalar, picked, at="held", scalar=math.log(LEAST_PROBABILITY))
    return g.op(NEGATIVE, g.op(SUM, held, at="total"))


def _grad_cross_entropy(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X]
) -> tuple[X, None]:
    """(softmax - one_hot) times the output gradient; an invalid label subtracts 0."""
    data, label = ins
    t = g.type(data)
    p = g.op(SOFTMAX, in_single(g, data), at="softmax", axis=1)
    hot = g.op(lookup("one_hot"), label, at="hot", depth=t.dims[1])
    found = sub(g, p, in_dtype(g, hot, g.type(p)))
    return mul(g, found, in_single(g, reshape(g, douts[0], (1, 1), at="head"))), None


register(
    "softmax_cross_entropy",
    "data label",
    infer=_infer_cross_entropy,
    ref=_cross_entropy,
    expand=_cross_entropy_parts,
    grad=_grad_cross_entropy,
    traits=Traits(parts_in_floats=True),
    doc="Sum over the batch of the cross entropy between softmax and label.",
)
