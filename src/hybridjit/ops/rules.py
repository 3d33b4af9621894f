"""Type rules shared by many operators.

A rule has the signature ``rule(ins, outs, **attrs) -> (ins, outs)``: it receives the known parts of
the input and output types and returns completed types. :func:`forward` creates one from a function
of the input types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from .._core.symbolic import are_same
from .._core.types import (
    UNKNOWN,
    PartialShape,
    TensorType,
    merge,
    merge_dtypes,
    merge_shapes,
    shape_text,
)
from ..errors import DTypeError, ShapeError
from .attrs import AttrValue

Types = tuple[TensorType, ...]
ForwardRule = Callable[..., TensorType | Types]  # rule(*input types, **attrs)


def forward(rule: ForwardRule) -> Callable[..., tuple[Types, Types]]:
    """Type rule from ``rule(*input types, **attrs) -> output type or types``.

    Nothing is inferred until every input type is known.
    """

    @wraps(rule)
    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        if not all(t.is_known for t in ins):
            return ins, outs
        result = rule(*ins, **attrs)
        return ins, merged(outs, result if isinstance(result, tuple) else (result,))

    return infer


def of_one_dtype(rule: ForwardRule) -> Callable[..., tuple[Types, Types]]:
    """:func:`forward` for inputs of equal dtypes: a known one applies to all."""
    infer_known = forward(rule)

    @wraps(rule)
    def infer(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
        dtype = same_dtype(*ins)
        return infer_known(tuple(t.with_dtype(dtype) for t in ins), outs, **attrs)

    return infer


def merged(known: Types, found: Types) -> Types:
    """Previously known output types merged with inferred ones."""
    if not known:
        return found
    return tuple(merge(a, b) for a, b in zip(known, found))


def same_type(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """Rule for equal types of all inputs and outputs."""
    everything = UNKNOWN
    for t in (*ins, *outs):
        everything = merge(everything, t)
    return (everything,) * len(ins), (everything,) * max(len(outs), 1)


def same_dtype(*types: TensorType) -> np.dtype | None:
    """Common dtype of all operands. Raises DTypeError if they differ."""
    dtype = None
    for t in types:
        dtype = merge_dtypes(dtype, t.dtype)
    return dtype


def broadcast(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """NumPy's broadcasting for equal dtypes."""
    dtype = same_dtype(*ins, *outs)
    ins = tuple(t.with_dtype(dtype) for t in ins)
    shape: PartialShape | None = None
    if all(t.shape is not None for t in ins):
        a, b = (t.shape for t in ins)
        assert a is not None and b is not None
        shape = broadcast_shapes(a, b)
    return ins, merged(outs, (TensorType(shape, dtype),))


def broadcast_shapes(a: PartialShape, b: PartialShape) -> PartialShape:
    """Broadcast shape of ``a`` and ``b``; ranks may differ. Raises ShapeError."""
    rank = max(len(a), len(b))
    a_full = (1,) * (rank - len(a)) + tuple(a)
    b_full = (1,) * (rank - len(b)) + tuple(b)
    out: list[int | None] = []
    for x, y in zip(a_full, b_full):
        if are_same(x, 1) or are_same(x, y):  # these and the next add no guard
            out.append(y)
        elif are_same(y, 1):
            out.append(x)
        elif x == 1 or x == y:
            out.append(y)
        elif y == 1:
            out.append(x)
        elif x is None or y is None:
            out.append(y if x is None else x)
        else:
            raise ShapeError(
                "operands could not be broadcast together with shapes "
                f"{shape_text(a)} {shape_text(b)}"
            )
    return tuple(out)


def refuse_bool(*types: TensorType) -> None:
    """Raise DTypeError for a bool operand, which MXNet's arithmetic does not support."""
    if any(t.dtype is not None and t.dtype.kind == "b" for t in types):
        raise DTypeError("this operator takes numbers, got bool")


def require_float(what: str, t: TensorType) -> None:
    """Raise DTypeError unless ``t`` has a floating type."""
    if t.dtype is not None and t.dtype.kind != "f":
        raise DTypeError(f"{what} takes floating types, got {t.dtype.name}")


# For layers whose first argument is the number of channels in other libraries.
CHANNELS_FOLLOW = "; the number of channels follows from the data, or is in_channels"


def normalized_axis(axis: int, ndim: int, what: str = "axis", way: str = "") -> int:
    """Non-negative ``axis``. Raises ShapeError, whose message ends in ``way``, if it is out of
    range."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{what} {axis} is out of range for {ndim} dimensions{way}")
    return axis % ndim


def reduced_axes(
    ndim: int, axis: tuple[int, ...] | int | None, exclude: bool = False
) -> tuple[int, ...]:
    """Sorted axes of a reduction. None and () mean all, regardless of ``exclude``."""
    if axis is None or axis == ():
        return tuple(range(ndim))
    axes = (axis,) if isinstance(axis, int) else axis
    normal = [normalized_axis(a, ndim) for a in axes]
    if len(set(normal)) != len(normal):
        raise ShapeError(f"axes {shape_text(axes)} contain an axis twice")
    if exclude:
        return tuple(a for a in range(ndim) if a not in normal)
    return tuple(sorted(normal))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Shape after reducing ``axes``; a full reduction without keepdims gives (1,)."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes) or (1,)


def spatial(values: tuple[int, ...], count: int, default: int, what: str) -> tuple[int, ...]:
    """Attribute per spatial axis (stride, pad, ...); an empty one means the default."""
    if not values:
        return (default,) * count
    if len(values) != count:
        raise ShapeError(
            f"{what} {shape_text(values)} has {len(values)} elements, but needs {count}"
        )
    return values


def fill(t: TensorType, shape: PartialShape, dtype: np.dtype | None) -> TensorType:
    """``t`` completed with a shape and dtype that the operator requires."""
    return TensorType(merge_shapes(t.shape, shape), merge_dtypes(t.dtype, dtype))
