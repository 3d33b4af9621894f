"""Softmax and its relatives.

In: floating data, and for some the valid lengths or a label that inference does not read.
Out: exponentials that sum to 1 along an axis, or their logarithms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..types import PartialShape, TensorType, shape_text
from .norm import wide
from .registry import Kind, Types, register
from .rules import fill, merged, normalized_axis, require_float


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
    if data.shape is not None:
        axis = normalized_axis(axis, len(data.shape))
        others = data.shape[:axis] + data.shape[axis + 1 :]
        lengths = tuple(_lengths(t, others) for t in lengths)
    return (data, *lengths), (out,)


def _lengths(t: TensorType, shape: PartialShape) -> TensorType:
    if t.dtype is not None and t.dtype.kind not in "iu":
        raise DTypeError(f"length takes integer types, got {t.dtype.name}")
    if t.shape is not None and len(t.shape) != len(shape):
        raise ShapeError(f"length has shape {shape_text(t.shape)}, data needs {shape_text(shape)}")
    return fill(t, shape, None)


def _scaled(x: np.ndarray, temperature: float | None) -> np.ndarray:
    x = wide(x)
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
    x = _scaled(data, temperature)
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
    y = _log_softmax_along(_scaled(data, temperature), axis)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmax_inputs(*, use_length: bool | None, **attrs: Any) -> tuple[str, ...]:
    return ("data", "length") if use_length else ("data",)


_SOFTMAX = "axis:int=-1 temperature:double?=None dtype:dtype?=None use_length:bool?=False"

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
