"""Array creation in NumPy mode; 0 is a size and () a shape, regardless of the thread's mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.types import FLOAT32, INT32, Shape, TensorType
from ...errors import AttributeValueError, DTypeError
from ..casting import convert, scalar_of
from ..gradient import none_at_all
from ..internal import constant_of_shape
from ..record import Traits
from ..registry import register
from ..rules import Types, forward, merged
from ..tensor.new_arrays import arange, given_shape, wanted_shape


def _filled(name: str, value: float, doc: str) -> None:
    def infer(ins: Types, outs: Types, *, shape: Shape, dtype: np.dtype) -> tuple[Types, Types]:
        return ins, merged(outs, (TensorType(wanted_shape(shape), dtype),))

    register(
        name,
        "",
        "shape:shape=() dtype:dtype=float32",
        infer=infer,
        ref=lambda shape, dtype: np.full(given_shape(shape), scalar_of(value, dtype)),
        doc=doc,
    )


_filled("_npi_zeros", 0.0, "Zeros.")
_filled("_npi_ones", 1.0, "Ones.")


def _identity_type(*, shape: Shape, dtype: np.dtype) -> TensorType:
    if len(shape) != 2 or shape[0] != shape[1] or min(shape) < 0:
        raise AttributeValueError(f"identity needs a square shape, got {shape}")
    return TensorType(shape, dtype)


register(
    "_npi_identity",
    "",
    "shape:shape=() dtype:dtype=float32",
    infer=forward(_identity_type),
    ref=lambda shape, dtype: np.eye(*shape, dtype=dtype),
    doc="Ones on the main diagonal, zeros elsewhere.",
)


def _full_like_type(
    ins: Types, outs: Types, *, fill_value: float, dtype: np.dtype | None
) -> tuple[Types, Types]:
    (a,) = ins
    return ins, merged(outs, (TensorType(a.shape, dtype or a.dtype),))


register(
    "_npi_full_like",
    "a",
    "fill_value:double! dtype:dtype?=None",
    infer=_full_like_type,
    ref=lambda a, fill_value, dtype: np.full(a.shape, scalar_of(fill_value, dtype or a.dtype)),
    expand=constant_of_shape("_npi_full_like"),
    grad=none_at_all,
    traits=Traits(reads_shape=True),
    doc="Array of the operand's shape filled with one value.",
)


def _range_type(
    *,
    start: float,
    stop: float | None,
    step: float,
    repeat: int,
    infer_range: bool,
    dtype: np.dtype,
) -> TensorType:
    return TensorType((_count(start, stop, step) * repeat,), dtype)


def _count(start: float, stop: float | None, step: float) -> int:
    """Number of elements; 0 if the step leads away from ``stop``."""
    first, last = (0.0, start) if stop is None else (start, stop)
    if step == 0:
        raise AttributeValueError("arange's step cannot be 0")
    if not all(map(math.isfinite, (first, last, step, (last - first) / step))):
        raise AttributeValueError(f"arange cannot go from {first:g} to {last:g} by {step:g}")
    return max(int(np.ceil((last - first) / step)), 0)


def _range(*, start: float, stop: float | None, step: float, **rest: Any) -> np.ndarray:
    if not _count(start, stop, step):
        return np.zeros(0, rest["dtype"])
    return arange(start=start, stop=stop, step=step, **rest)


register(
    "_npi_arange",
    "",
    "start:double! stop:double?=None step:double=1 repeat:int=1 infer_range:bool=False"
    " dtype:dtype=float32",
    infer=forward(_range_type),
    ref=_range,
    doc="start, start + step, ... before stop.",
)


def _not_negative(what: str, count: int) -> int:
    if count < 0:
        raise AttributeValueError(f"{what} is not negative, got {count}")
    return count


register(
    "_npi_logspace",
    "",
    "start:double! stop:double! num:int! endpoint:bool=True base:double=10 dtype:dtype=float32",
    infer=forward(lambda num, dtype, **attrs: TensorType((_not_negative("num", num),), dtype)),
    ref=lambda start, stop, num, endpoint, base, dtype: convert(
        np.logspace(start, stop, num, endpoint, base), dtype
    ),
    doc="Powers of a base with evenly spaced exponents.",
)


def _eye_shape(N: int, M: int | None) -> Shape:  # noqa: N803 (attribute names are MXNet's)
    return _not_negative("N", N), N if M is None else _not_negative("M", M)


register(
    "_npi_eye",
    "",
    "N:long! M:long?=None k:long=0 dtype:dtype=float32",
    infer=forward(lambda N, M, k, dtype: TensorType(_eye_shape(N, M), dtype)),  # noqa: N803
    ref=lambda N, M, k, dtype: np.eye(N, N if M is None else M, k, dtype),  # noqa: N803
    doc="Ones on one diagonal, zeros elsewhere.",
)


def _indices_type(dimensions: Shape, dtype: np.dtype | None) -> TensorType:
    kind = dtype or INT32
    if kind.kind == "b":
        raise DTypeError("indices are numbers, got dtype bool")
    return TensorType((len(dimensions), *dimensions), kind)


register(
    "_npi_indices",
    "",
    "dimensions:shape! dtype:dtype=int32",
    infer=forward(_indices_type),
    ref=lambda dimensions, dtype: np.indices(dimensions, dtype or INT32),
    doc="Coordinates of every element of a grid.",
)


def _window(name: str, function: Callable[[int], np.ndarray]) -> None:
    def infer(M: int | None, dtype: np.dtype) -> TensorType:  # noqa: N803
        return TensorType((max(M or 0, 0),), dtype or FLOAT32)

    register(
        f"_npi_{name}",
        "",
        "M:int?=None dtype:dtype=float32",
        infer=forward(infer),
        ref=lambda M, dtype: convert(function(max(M or 0, 0)), dtype or FLOAT32),  # noqa: N803
        doc=f"The {name} window of M samples.",
    )


_window("hanning", np.hanning)
_window("hamming", np.hamming)
_window("blackman", np.blackman)
