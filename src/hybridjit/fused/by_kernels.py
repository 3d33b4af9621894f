"""Lowering of fused layers to products of bytes that kernels compute.

Input: a fused layer on graph values. Output: the same bytes by an integer product, whose weights,
bias and scales are computed once from the parameters, and by pointwise operators on its sums, which
become a part of its kernel. A residual is added with one rounding, as a fused multiply-add does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.types import FLOAT32
from ..ops.attrs import Declared
from ..ops.building import Builder, X
from ..ops.elementwise.element_type import CAST
from ..ops.int8.lowered import constant
from ..ops.int8.ranges import INT32, Range
from ..ops.quantized import (
    ADD_EXACTLY,
    FROM_BYTES,
    INTEGER_CONVOLUTION,
    INTEGER_DENSE,
    LONGEST_SUM,
    TO_BYTES,
)
from ..ops.record import OpDef
from ..ops.registry import lookup
from ..ops.rules import Types
from ..ops.tensor.primitives import reshape
from .pattern import Pattern, activation_name

_MOST = 2**31 - 1
_RELU, _MULTIPLY = lookup("relu"), lookup("broadcast_mul")


def prepared(
    name: str, ref: Callable[..., Any], types: Callable[[Types], Types], count: int, inputs: int
) -> OpDef:
    """An operator that computes ``count`` values from parameters and ranges, once if these are
    fixed."""
    return OpDef(
        name=name,
        inputs=tuple(f"arg{i}" for i in range(inputs)),
        attrs=(),
        infer=lambda ins, outs, **attrs: (ins, types(ins)),
        ref=lambda *arrays, **attrs: ref(*arrays),
        outputs=tuple(f"output{i}" for i in range(count)),
        internal=True,
        doc="Values that depend on parameters and calibrated ranges.",
    )


def int32_bias(bias: np.ndarray | None, scales: np.ndarray, count: int) -> np.ndarray:
    """The bias times ``scales``, in units of the sums, saturated to int32."""
    if bias is None:
        return np.zeros(count, INT32)
    return np.clip(np.nan_to_num(np.rint(bias * scales)), -_MOST - 1, _MOST).astype(INT32)


def scaled_sums(g: Builder[X], sums: X, factors: X) -> X:
    """int32 sums (N, F, ...) in float32, times a factor for each filter."""
    ndim, count = g.type(sums).ndim, g.type(factors).size
    across = reshape(g, factors, (1, count, *(1,) * (ndim - 2)), at="factors")
    return g.op(_MULTIPLY, g.op(CAST, sums, at="float", dtype=FLOAT32), across, at="scaled")


def scaled_rows(g: Builder[X], sums: X, factors: X) -> X:
    """int32 sums (..., F) in float32, times a factor for each row of the weight."""
    ndim, count = g.type(sums).ndim, g.type(factors).size
    across = reshape(g, factors, (*(1,) * (ndim - 1), count), at="factors")
    return g.op(_MULTIPLY, g.op(CAST, sums, at="float", dtype=FLOAT32), across, at="scaled")


def activated_values(g: Builder[X], y: X, nodes: Sequence[Any]) -> X:
    """Apply activations in units of the result; saturation to bytes is clip's upper bound."""
    for node in nodes:
        if activation_name(node) in ("relu", "clip"):
            y = g.op(_RELU, y, at="act")
        else:
            y = g.op(node.op, y, at="act", **node.attrs)
    return y


def with_residual(g: Builder[X], y: X, z: X, high: X, low: X) -> X:
    """y + z * (high + low), rounded once."""
    ones = (1,) * g.type(y).ndim
    values = g.op(FROM_BYTES, z, at="residual", scale=1.0)
    parts = (
        g.op(_MULTIPLY, values, reshape(g, part, ones, at=f"{word}_factor"), at=word)
        for word, part in (("high", high), ("low", low))
    )
    return g.op(ADD_EXACTLY, y, *parts, at="sum")


def as_bytes(g: Builder[X], y: X, dtype: np.dtype, scale: float = 1.0) -> X:
    """rint(y * scale), saturated."""
    return g.op(TO_BYTES, y, at="bytes", scale=scale, dtype=dtype, multiply=True)


def product_of_filters(g: Builder[X], data: X, weight: X, bias: X, pattern: Pattern) -> X | None:
    """int32 sums of the pattern's convolution; None if they could exceed int32."""
    attrs: dict[str, Declared] = dict(pattern.layer.attrs)
    t = g.type(weight)
    if t.size > LONGEST_SUM * t.dims[0]:
        return None
    attrs["no_bias"] = False
    return g.op(INTEGER_CONVOLUTION, data, weight, bias, at="sums", zero=0, **attrs)


def product_of_rows(g: Builder[X], data: X, weight: X, bias: X, pattern: Pattern) -> X | None:
    """int32 sums of the pattern's dense layer; None if they could exceed int32."""
    attrs: dict[str, Declared] = dict(pattern.layer.attrs)
    t = g.type(weight)
    if t.size > LONGEST_SUM * t.dims[0]:
        return None
    attrs["no_bias"] = False
    return g.op(INTEGER_DENSE, data, weight, bias, at="sums", zero=0, **attrs)


def ends_of(g: Builder[X], known: Range) -> tuple[X, X]:
    """A calibrated range as constants."""
    return constant(g, known[0], "low"), constant(g, known[1], "high")
