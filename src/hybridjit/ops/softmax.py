"""Softmax and its relatives.

In: floating data, and for some the valid lengths or a label that inference does not read.
Out: exponentials that sum to 1 along an axis, or their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..types import (
    FLOAT32,
    FLOAT64,
    PartialShape,
    TensorType,
    merge,
    merge_shapes,
    product,
    shape_text,
)
from .arithmetic import DIVIDE, MAXIMUM
from .attrs import AttrValue
from .building import Builder, X
from .casting import widened
from .element_type import cast
from .indexing import PICK, whole
from .pointwise import NEGATIVE
from .record import OpDef, Samples, Traits
from .reduce import SUM
from .registry import register
from .rules import Types, fill, forward, merged, normalized_axis, require_float, same_dtype
from .views import reshape

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
    **attrs: AttrValue,
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
    **attrs: AttrValue,
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
    **attrs: AttrValue,
) -> np.ndarray:
    """x - max - log(sum(exp(x - max)))."""
    y = _log_softmax_along(_scaled(data, temperature, dtype), axis)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmax_inputs(*, use_length: bool | None, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "length") if use_length else ("data",)


def _kind(
    name: str,
    inputs: str | Callable[..., tuple[str, ...]],
    ref: Callable[..., np.ndarray],
    traits: Traits,
    doc: str,
) -> OpDef:
    """Register one of the three kinds of softmax."""

    def expand(
        g: Builder[X],
        data: X,
        *length: X,
        temperature: float | None,
        dtype: np.dtype | None,
        **attrs: AttrValue,
    ) -> X | None:
        """softmax(x, temperature, dtype)  =>  Cast(softmax(x / temperature), dtype)

        In the wider of the two types, in single precision at least, and rounded once.
        """
        given = g.type(data).dtype
        wanted = dtype or given
        if temperature in (None, 1.0) and wanted == given:
            return None
        x = cast(g, data, FLOAT64 if FLOAT64 in (given, wanted) else FLOAT32, at="wide")
        if temperature not in (None, 1.0):
            x = g.op(DIVIDE.scalar, x, at="scaled", scalar=temperature)
        return cast(g, g.op(op, x, *length, at="plain", **attrs), wanted)

    op = register(
        name,
        inputs,
        "axis:int=-1 temperature:double?=None dtype:dtype?=None use_length:bool=False",
        kernel="softmax",
        infer=_infer_softmax,
        ref=ref,
        expand=expand,
        traits=traits,
        doc=doc,
    )
    return op


_TRAITS = Traits(in_single=True, names_data=True, samples=Samples.AXIS)
SOFTMAX = _kind(
    "softmax",
    _softmax_inputs,
    _softmax,
    _TRAITS,
    "Exponentials of data / temperature that sum to 1 along axis.",
)
LOG_SOFTMAX = _kind("log_softmax", "data", _log_softmax, _TRAITS, "Logarithm of softmax.")
SOFTMIN = _kind("softmin", "data", _softmin, Traits(in_single=True), "softmax of the negated data.")


def _infer_softmax_activation(
    ins: Types, outs: Types, *, mode: str, **attrs: AttrValue
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


def _activation_as_softmax(g: Builder[X], data: X, *, mode: str) -> X:
    """SoftmaxActivation(x)  =>  softmax(x)"""
    return g.op(SOFTMAX, data, axis=1 if mode == "channel" else -1)


register(
    "SoftmaxActivation",
    "data",
    "mode:channel|instance=instance",
    infer=_infer_softmax_activation,
    ref=_softmax_activation,
    expand=_activation_as_softmax,
    traits=Traits(in_single=True),
    doc="Softmax over the last axis, or over channels.",
)


def _infer_softmax_output(
    ins: Types, outs: Types, *, multi_output: bool, **attrs: AttrValue
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
    **attrs: AttrValue,
) -> np.ndarray:
    """Softmax over axis 1 (multi_output), the last axis (preserve_shape) or each whole sample."""
    x = widened(data)
    if not multi_output and not preserve_shape:
        x = x.reshape(x.shape[0], product(x.shape[1:])) if x.ndim > 1 else x
    y = softmax_along(x, 1 if multi_output else -1)
    return y.reshape(data.shape).astype(data.dtype, copy=False)


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


register(
    "SoftmaxOutput",
    "data label",
    "grad_scale:float=1 ignore_label:float=-1 multi_output:bool=False use_ignore:bool=False "
    "preserve_shape:bool=False normalization:batch|null|valid=null out_grad:bool=False "
    "smooth_alpha:float[0,1]=0",
    infer=_infer_softmax_output,
    ref=_softmax_output,
    expand=_output_as_softmax,
    aliases="Softmax",
    traits=Traits(loss_head=True, ignores_head=True, in_single=True),
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


def _cross_entropy_parts(g: Builder[X], data: X, label: X) -> X:
    """softmax_cross_entropy(x, label)  =>  -sum(max(pick(log_softmax(x), label), log(1e-8)))"""
    logs = g.op(LOG_SOFTMAX, data, at="logs", axis=1)
    picked = g.op(PICK, logs, label, at="picked", axis=1)
    held = g.op(MAXIMUM.scalar, picked, at="held", scalar=math.log(LEAST_PROBABILITY))
    return g.op(NEGATIVE, g.op(SUM, held, at="total"))


register(
    "softmax_cross_entropy",
    "data label",
    infer=_infer_cross_entropy,
    ref=_cross_entropy,
    expand=_cross_entropy_parts,
    traits=Traits(parts_in_floats=True),
    doc="Sum over the batch of the cross entropy between softmax and label.",
)
