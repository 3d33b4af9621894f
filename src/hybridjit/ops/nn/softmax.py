"""Softmax and related operators.

Input: floating data, and for some valid lengths or a label that inference does not read. Output:
exponentials that sum to 1 along an axis, or their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.types import FLOAT32, FLOAT64, PartialShape, TensorType, merge, shape_text
from ...errors import DTypeError, ShapeError
from ..algebra import in_single, mul, negated, sub, total
from ..attrs import AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import widened
from ..elementwise.binary import DIVIDE
from ..elementwise.element_type import cast
from ..elementwise.unary import EXP
from ..record import OpDef, Samples, Traits
from ..registry import register
from ..rules import Types, fill, merged, normalized_axis, require_float
from ..signatures import Gradient


def softmax_along(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x - max) / sum(exp(x - max)). A line of only -inf results in NaN."""
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
    """Shape of the data, dtype of the data or the attribute; lengths have the data's other axes."""
    data = ins[0]
    require_float("softmax", data)
    if dtype is not None:
        require_float("attribute dtype of softmax", TensorType((), dtype))
    out = merged(outs, (data if dtype is None else data.with_dtype(dtype),))[0]
    data = fill(data, out.shape, out.dtype if dtype is None else data.dtype) if out.shape else data
    lengths = ins[1:]
    for t in lengths:
        if t.dtype is not None and t.dtype.kind not in "iu":
            raise DTypeError(f"length needs an integer type, got {t.dtype.name}")
    if data.shape is not None:
        if lengths and not data.shape:
            raise ShapeError(f"softmax with lengths needs data of at least one axis, got {data}")
        axis = normalized_axis(axis, len(data.shape) or 1)  # 0 or -1 for an array without axes
        others = data.shape[:axis] + data.shape[axis + 1 :]
        lengths = tuple(_lengths(t, others) for t in lengths)
    return (data, *lengths), (out,)


def _lengths(t: TensorType, shape: PartialShape) -> TensorType:
    if t.shape is not None and len(t.shape) != len(shape):
        raise ShapeError(
            f"length has shape {shape_text(t.shape)}, but data needs {shape_text(shape)}"
        )
    return fill(t, shape, None)


# The largest temperature by which a division of common data may overflow: data below 2**64.
_TINY = 2.0**-64


def is_divided_last(temperature: float | None) -> bool:
    """Whether data overflow when they are divided by the temperature: the maximum is subtracted
    first, as MXNet does for every temperature."""
    return temperature is not None and abs(temperature) < _TINY


def _scaled(
    x: np.ndarray,
    axis: int,
    temperature: float | None,
    dtype: np.dtype | None,
    valid: np.ndarray | None = None,
) -> np.ndarray:
    """x / temperature in the wider of its dtype and ``dtype``, at least float32.

    The maximum of a row, of its valid elements, may be subtracted: see :func:`is_divided_last`.
    """
    x = widened(x)
    x = x if dtype is None else x.astype(np.result_type(x, dtype), copy=False)
    x = x if valid is None else np.where(valid, x, -np.inf)
    if temperature in (None, 1.0):
        return x
    if is_divided_last(temperature) and x.size:
        x = x - x.max(axis=axis, keepdims=True)
    return x / x.dtype.type(temperature)


def _within(length: np.ndarray, size: int, ndim: int, axis: int) -> np.ndarray:
    """Mask of positions along ``axis`` before ``length``, shaped to broadcast."""
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
    valid = None if length is None else _within(length, data.shape[axis], data.ndim, axis)
    y = softmax_along(_scaled(data, axis, temperature, dtype, valid), axis)
    y = y if valid is None else np.where(valid, y, 0)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmin(data: np.ndarray, *rest: np.ndarray, **attrs: Declared) -> np.ndarray:
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
    y = _log_softmax_along(_scaled(data, axis, temperature, dtype), axis)
    return y.astype(data.dtype if dtype is None else dtype, copy=False)


def _softmax_inputs(*, use_length: bool | None, **attrs: AttrValue) -> tuple[str, ...]:
    return ("data", "length") if use_length else ("data",)


def _over(g: Builder[X], x: X, temperature: float | None) -> X:
    return x if temperature in (None, 1.0) else g.op(DIVIDE.scalar, x, scalar=temperature)


def _grad_softmax(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    axis: int,
    temperature: float | None,
    **attrs: AttrValue,
) -> tuple[X | None, ...]:
    """y (d - sum(d y)) / temperature; lengths have no gradient."""
    y, d = in_single(g, outs[0]), in_single(g, douts[0])
    along = _along(axis, g.type(y).ndim)
    centred = sub(g, d, total(g, mul(g, d, y), along))
    return _over(g, mul(g, y, centred), temperature), *[None] * (len(ins) - 1)


def _along(axis: int, ndim: int) -> tuple[int, ...]:
    """Axes of the sum; none for an array without axes."""
    return (axis % ndim,) if ndim else ()


def _grad_softmin(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], **attrs: Declared
) -> tuple[X | None, ...]:
    (found,) = _grad_softmax(g, ins, outs, douts, **attrs)
    return (None if found is None else negated(g, found),)


def _grad_log_softmax(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    axis: int,
    temperature: float | None,
    **attrs: AttrValue,
) -> X:
    """(d - exp(y) sum(d)) / temperature"""
    y, d = in_single(g, outs[0]), in_single(g, douts[0])
    along = _along(axis, g.type(y).ndim)
    share = mul(g, g.op(EXP, y, at="softmax"), total(g, d, along))
    return _over(g, sub(g, d, share), temperature)


def _kind(
    name: str,
    inputs: str | Callable[..., tuple[str, ...]],
    ref: Callable[..., np.ndarray],
    grad: Gradient,
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

        Computed in the wider of the two dtypes, at least single precision, and rounded once. The
        reference computes temperatures by which data overflow.
        """
        if is_divided_last(temperature):
            return None
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
        grad=grad,
        traits=traits,
        doc=doc,
    )
    return op


_TRAITS = Traits(in_single=True, names_data=True, samples=Samples.AXIS)
SOFTMAX = _kind(
    "softmax",
    _softmax_inputs,
    _softmax,
    _grad_softmax,
    _TRAITS,
    "Exponentials of data / temperature that sum to 1 along axis.",
)
LOG_SOFTMAX = _kind(
    "log_softmax", "data", _log_softmax, _grad_log_softmax, _TRAITS, "Logarithm of softmax."
)
SOFTMIN = _kind(
    "softmin",
    "data",
    _softmin,
    _grad_softmin,
    Traits(in_single=True),
    "Softmax of the negated data.",
)


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

    MXNet's documentation states that instance flattens each sample; 1.9.1 uses the last axis only.
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
