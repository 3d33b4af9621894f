"""Softmax and its relatives.

In: floating data, and for some the valid lengths or a label that inference does not read.
Out: exponentials that sum to 1 along an axis, or their logarithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..types import PartialShape, TensorType, merge, merge_shapes, product, shape_text
from .casting import widened
from .indexing import whole
from .registry import Kind, Types, register
from .rules import fill, forward, merged, normalized_axis, require_float, same_dtype

LEAST_PROBABILITY = 1e-8  # what softmax_cross_entropy takes the logarithm of, at least


def softmax_along(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x - max) / sum(exp(x - max)). A line of -inf alone gives NaN."""
    if x.size == 0:
        return x.copy()
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    e /= e.sum(axis=axis, keepdims=True)
    return e


def _log_softmax_along(x: np.ndarray, axis: int) -> np.ndarray:
    if x.size == 0:
        return x.copy()
    shifted = x - x.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def _infer_softmax(
    ins: Types,
    outs: Types,
    *,
    axis: int,
    dtype: np.dtype | None,
    use_length: bool | None = False,
    **attrs: Any,
) -> tuple[Types, Types]:
    """Shape of the data, dtype of the data or as asked; lengths have the data's other axes."""
    data = ins[0]
    require_float("softmax", data)
    if dtype is not None:
        require_float("attribute dtype of softmax", TensorType((), dtype))
    out = merged(outs, (data if dtype is None else data.with_dtype(dtype),))[0]
    data = fill(data, out.shape, out.dtype if dtype is None else data.dtype) if out.shape else data
    lengths = ins[1:]
    for t in lengths:
        if t.dtype is not None and t.dtype.kind not in "iu":
            raise DTypeError(f"length takes integer types, got {t.dtype.name}")
    if data.shape is not None:
        axis = normalized_axis(axis, len(data.shape))
        others = data.shape[:axis] + data.shape[axis + 1 :]
        lengths = tuple(_lengths(t, others) for t in lengths)
    return (data, *lengths), (out,)


def _lengths(t: TensorType, shape: PartialShape) -> TensorType:
    if t.shape is not None and len(t.shape) != len(shape):
        raise ShapeError(f"length has shape {shape_text(t.shape)}, data needs {shape_text(shape)}")
    return fill(t, shape, None)


def _scaled(x: np.ndarray, temperature: float | None, dtype: np.dtype | None) -> np.ndarray:
    """x / temperature in the wider of its type and ``dtype``, float32 at least."""
    x = widened(x)
    x = x if dtype is None else x.astype(np.result_type(x, dtype), copy=False)
    return x if temperature in (None, 1.0) else x / x.dtype.type(temperature)


def _within(length: np.ndarray, size: int, ndim: int, axis: int) -> np.ndarray:
    """Which positions along ``axis`` lie before ``length``, shaped to broadcast."""
    position = np.arange(size).reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])
    return position < np.expand_dims(length, axis)


def _softmax(
    data: np.ndarray,
    length: np.ndarray | None = None,
    *,
    axis: int,
    temperature: float | None,
    dtype: np.dtype | None,
    **attrs: Any,
) -> np.ndarray:
    """Softmax of data / temperature; positions from ``length`` on are exactly 0."""
    x = _scaled(data, temperature, dtype)
    if length is None:
        y = softmax_along(x, axis)
    else:
        valid = _within(length, x.shape[axis], x.ndim, axis)
        y = np.where(valid, softmax_along(np.where(valid, x, -np.inf), axis), 0)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmin(data: np.ndarray, *rest: np.ndarray, **attrs: Any) -> np.ndarray:
    return _softmax(-data, *rest, **attrs)


def _log_softmax(
    data: np.ndarray,
    *,
    axis: int,
    temperature: float | None,
    dtype: np.dtype | None,
    **attrs: Any,
) -> np.ndarray:
    """x - max - log(sum(exp(x - max)))."""
    y = _log_softmax_along(_scaled(data, temperature, dtype), axis)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmax_inputs(*, use_length: bool | None, **attrs: Any) -> tuple[str, ...]:
    return ("data", "length") if use_length else ("data",)


_SOFTMAX = "axis:int=-1 temperature:double?=None dtype:dtype?=None use_length:bool=False"

register(
    "softmax",
    _softmax_inputs,
    _SOFTMAX,
    kind=Kind.SOFTMAX,
    infer=_infer_softmax,
    ref=_softmax,
    doc="Exponentials of data / temperature that sum to 1 along axis.",
)
register(
    "log_softmax",
    "data",
    _SOFTMAX,
    kind=Kind.SOFTMAX,
    infer=_infer_softmax,
    ref=_log_softmax,
    doc="Logarithm of softmax.",
)
register(
    "softmin",
    "data",
    _SOFTMAX,
    kind=Kind.SOFTMAX,
    infer=_infer_softmax,
    ref=_softmin,
    doc="softmax of the negated data.",
)


def _infer_softmax_activation(
    ins: Types, outs: Types, *, mode: str, **attrs: Any
) -> tuple[Types, Types]:
    data = merge(ins[0], outs[0]) if outs else ins[0]
    require_float("SoftmaxActivation", data)
    if data.shape is not None and mode == "channel" and len(data.shape) < 3:
        raise ShapeError(f"mode channel needs at least 3 dimensions, got {shape_text(data.shape)}")
    return (data,), merged(outs, (data,))


def _softmax_activation(data: np.ndarray, *, mode: str) -> np.ndarray:
    """Softmax over axis 1 in mode channel; over the last axis in mode instance.

    MXNet's text says that instance flattens each sample; 1.9.1 runs the last axis alone.
    """
    y = softmax_along(widened(data), 1 if mode == "channel" else -1)
    return y.astype(data.dtype, copy=False)


register(
    "SoftmaxActivation",
    "data",
    "mode:channel|instance=instance",
    kind=Kind.SOFTMAX,
    infer=_infer_softmax_activation,
    ref=_softmax_activation,
    doc="Softmax over the last axis, or over channels.",
)


def _infer_softmax_output(
    ins: Types, outs: Types, *, multi_output: bool, **attrs: Any
) -> tuple[Types, Types]:
    """Output like the data; the label has one number per distribution, or the data's shape."""
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
                f"label has shape {shape_text(label.shape)}, data needs {shape_text(per_line)}"
            )
    return (data, label), merged(outs, (data,))


def _label_shapes(shape: PartialShape, multi_output: bool) -> tuple[PartialShape, ...]:
    """What a label of SoftmaxOutput may look like; the first is what it is when nobody says."""
    if not multi_output:
        return shape[:-1], shape
    if len(shape) < 2:
        raise ShapeError(f"multi_output takes channels on axis 1, got data {shape_text(shape)}")
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
    **attrs: Any,
) -> np.ndarray:
    """Softmax over axis 1 (multi_output), the last axis (preserve_shape) or each whole sample."""
    x = widened(data)
    if not multi_output and not preserve_shape:
        x = x.reshape(x.shape[0], product(x.shape[1:])) if x.ndim > 1 else x
    y = softmax_along(x, 1 if multi_output else -1)
    return y.reshape(data.shape).astype(data.dtype, copy=False)


register(
    "SoftmaxOutput",
    "data label",
    "grad_scale:float=1 ignore_label:float=-1 multi_output:bool=False use_ignore:bool=False "
    "preserve_shape:bool=False normalization:batch|null|valid=null out_grad:bool=False "
    "smooth_alpha:float[0,1]=0",
    kind=Kind.SOFTMAX,
    infer=_infer_softmax_output,
    ref=_softmax_output,
    aliases="Softmax",
    doc="Softmax as the end of a training graph; inference does not read the label.",
)


@forward
def _infer_cross_entropy(data: TensorType, label: TensorType) -> TensorType:
    """One number for the whole batch."""
    dtype = same_dtype(data, label)
    require_float("softmax_cross_entropy", data)
    if data.ndim != 2 or label.dims != data.dims[:1]:
        raise ShapeError(
            "softmax_cross_entropy takes 2D data and a label per row, got "
            f"{shape_text(data.shape)} and {shape_text(label.shape)}"
        )
    return TensorType((1,), dtype)


def _cross_entropy(data: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Sum over rows of -log softmax at the label, which is clipped to the classes.

    A probability counts as LEAST_PROBABILITY at least, in the data's type.
    """
    if not data.size:
        return np.zeros(1, data.dtype)
    rows = np.arange(len(label))
    classes = np.clip(whole(label), 0, data.shape[1] - 1)
    picked = softmax_along(widened(data), 1)[rows, classes]
    picked = np.maximum(picked, data.dtype.type(LEAST_PROBABILITY))
    return -np.log(picked).sum(keepdims=True).astype(data.dtype)


register(
    "softmax_cross_entropy",
    "data label",
    kind=Kind.HOST,
    infer=_infer_cross_entropy,
    ref=_cross_entropy,
    doc="Sum over the batch of the cross entropy between softmax and label.",
)
