"""``_sg_mkldnn_conv``: convolution fused with batch norm, a residual and activations.

The layer has float32 parameters in the file. Quantized, it folds the batch norm, quantizes the
weights per filter, and computes int32 sums of bytes, which it converts to bytes of the calibrated
range. MXNet saturates sums with a residual in the residual's type and reads their bits as the
announced type, and applies GELU to values in units of the result; files that need it get MXNet's
results and one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._core.types import FLOAT32, UNKNOWN, TensorType
from ..errors import MXNetError
from ..ir.node import Node, Output
from ..ops.attrs import Attrs, Declared, declare
from ..ops.building import Builder, X
from ..ops.elementwise.element_type import cast
from ..ops.int8.ranges import (
    BYTES,
    CALIBRATED,
    INT8,
    INT32,
    UINT8,
    Range,
    calibrated,
    ends,
    layer_scale,
    magnitude,
    ranges,
    require_bytes,
    saturated,
    sums_range,
    untrainable,
    whole_levels,
)
from ..ops.int8.sums import convolved, wrapped
from ..ops.quantized import halves, require_finite
from ..ops.record import OpDef
from ..ops.rules import Types, merged
from .by_kernels import (
    activated_values,
    as_bytes,
    ends_of,
    int32_bias,
    prepared,
    product_of_filters,
    scaled_sums,
    with_residual,
)
from .pattern import (
    Pattern,
    activated,
    activation_name,
    attributes,
    float_record,
    pattern_of,
    require_flags,
)

NAME = "_sg_mkldnn_conv"
_ATTRS = (
    "quantized:bool=False with_bn:bool=False with_act:bool=False with_sum:bool=False "
    "with_postsum_act:bool=False with_relu:bool=False with_postsum_relu:bool=False "
    f"{CALIBRATED}"
)
_RENAMED = {"with_relu": "with_act", "with_postsum_relu": "with_postsum_act"}  # of MXNet 1.5
_SUPPORTED = ("relu", "leaky", "gelu", "clip")
_AFTER_SUM = ("relu", "leaky", "clip")  # MXNet stops at GELU in this place
_LIMIT = np.float32(2**30)  # largest bias in units of the sums


def fused_convolution(text: Mapping[str, str], outputs: Sequence[Output]) -> OpDef:
    """Record of one node. Raises MXNetError for a subgraph that is not of the form."""
    pattern = pattern_of(NAME, outputs, "Convolution")
    attrs = attributes(text, _ATTRS, _RENAMED)
    activations = len(pattern.before) + len(pattern.after)
    if activations > 1:
        raise MXNetError(f"{NAME}: the subgraph has {activations} activations, at most 1 is fused")
    found = {"with_bn": pattern.norm is not None, "with_sum": pattern.has_sum}
    found |= {"with_act": bool(pattern.before), "with_postsum_act": bool(pattern.after)}
    require_flags(NAME, attrs, found)
    if attrs["quantized"]:
        return _quantized_record(pattern)
    return float_record(NAME, _ATTRS, pattern)


def _quantized_record(pattern: Pattern) -> OpDef:
    for nodes, supported, place in (
        (pattern.before, _SUPPORTED, ""),
        (pattern.after, _AFTER_SUM, " after a sum"),
    ):
        for node in nodes:
            if activation_name(node) not in supported:
                raise MXNetError(
                    f"{NAME}: activation {activation_name(node)}{place} is not supported for "
                    f"bytes; supported are {', '.join(supported)}"
                )
    limits = ["data_min", "data_max"] + ["sum_min", "sum_max"] * pattern.has_sum
    reference = _Reference(pattern)
    return OpDef(
        name=NAME,
        inputs=(*pattern.names, *limits),
        attrs=declare(_ATTRS),
        infer=lambda ins, outs, **attrs: _infer(pattern, ins, outs, **attrs),
        ref=reference,
        expand=lambda g, *ins, **attrs: _by_kernels(reference, g, ins, **attrs),
        grad=untrainable(NAME),
        outputs=("output", "output_min", "output_max"),
        subgraphs=(pattern.body.outputs,),
        doc="A quantized convolution fused with the operators after it.",
    )


def announced_type(pattern: Pattern) -> np.dtype:
    """uint8 if the last operator is relu or clip, else int8."""
    last = pattern.after if pattern.has_sum else pattern.before
    return UINT8 if any(_is_positive(node) for node in last) else INT8


def _is_positive(node: Node) -> bool:
    """Whether an activation has no negative results."""
    name = activation_name(node)
    return name in ("relu", "clip") or (name == "leaky" and node.attrs["slope"] == 0)


def _infer(
    pattern: Pattern,
    ins: Types,
    outs: Types,
    *,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: Declared,
) -> tuple[Types, Types]:
    """Types of the float32 graph, with bytes as data, residual and result."""
    count = len(pattern.names)
    bytes_at = {0, count - 1} if pattern.has_sum else {0}
    for i in sorted(bytes_at):
        require_bytes(f"{NAME}: {pattern.names[i]}", ins[i], BYTES)
    plain = tuple(
        t.with_dtype(FLOAT32) if i in bytes_at or t.dtype is None else t
        for i, t in enumerate(ins[:count])
    )
    made = (outs[0].with_dtype(FLOAT32),) if outs else (UNKNOWN,)
    found, (out,) = pattern.body.types(plain, made)
    new = (t.with_dtype(ins[i].dtype) if i in bytes_at else t for i, t in enumerate(found))
    known = calibrated(min_calib_range, max_calib_range)
    dtype = announced_type(pattern) if known else INT32
    results = (out.with_dtype(dtype), *(TensorType((1,), FLOAT32),) * 2)
    return (*new, *ranges(ins[count:])), merged(outs, results)


class Folded(NamedTuple):
    """Weight and bias with the batch norm folded in, float32."""

    weight: np.ndarray
    bias: np.ndarray | None


def folded(pattern: Pattern, operands: Mapping[str, np.ndarray]) -> Folded:
    """gamma / sqrt(var + eps) in float64, rounded once, times the weight; the shifted bias."""
    weight, bias = operands["weight"], operands.get("bias")
    if pattern.norm is None:
        return Folded(weight, bias)
    gamma, beta, mean, var = (operands[name] for name in ("gamma", "beta", "mean", "var"))
    if pattern.norm.attrs["fix_gamma"]:
        gamma = np.ones_like(gamma)
    root = np.sqrt(var.astype(np.float64) + pattern.norm.attrs["eps"])
    slope = (gamma / root).astype(FLOAT32)
    shift = beta - slope * mean if bias is None else beta + slope * (bias - mean)
    return Folded(weight * slope.reshape(-1, *(1,) * (weight.ndim - 1)), shift)


def filter_scales(layer: Folded, data_scale: np.float32, is_calibrated: bool) -> np.ndarray:
    """127.5 / max abs of each filter, or of all filters without calibration.

    It is lowered where the bias would exceed 2**30 units of the sums. Raises MXNetError for
    infinite and NaN numbers.
    """
    weight, bias = layer
    largest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    require_finite(largest)
    if bias is not None:
        require_finite(bias, "the bias")
    if not is_calibrated:
        return np.full(len(weight), layer_scale(INT8, largest.max(), 0), FLOAT32)
    scales = np.array([layer_scale(INT8, top, 0) for top in largest], FLOAT32)
    if bias is None:
        return scales
    most = _LIMIT / np.abs(np.where(bias == 0, 1, bias)) / data_scale
    return np.minimum(scales, np.where(bias == 0, np.inf, most)).astype(FLOAT32)


class _Reference:
    """The operator on arrays; warns once if a residual's type changes results."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._has_warned = False

    def __call__(self, *arrays: np.ndarray, **attrs: Declared) -> tuple[np.ndarray, ...]:
        pattern = self.pattern
        count = len(pattern.names)
        operands = dict(zip((n.lstrip("*") for n in pattern.names), arrays))
        limits = arrays[count:]
        known = calibrated(attrs["min_calib_range"], attrs["max_calib_range"])
        x = operands["data"]
        scale = layer_scale(x.dtype, *limits[:2])
        layer = folded(pattern, operands)
        scales = filter_scales(layer, scale, known is not None)
        self.warn_of_layer()
        sums = _sums(pattern.layer.attrs, x, layer, scales, scale)
        if known is None:
            return self._as_sums(sums, layer, scales[0] * scale, operands, limits)
        return (self._as_bytes(sums, scale, scales, known, operands, limits), *ends(*known))

    def _as_sums(
        self,
        sums: np.ndarray,
        layer: Folded,
        scale: np.float32,
        operands: Mapping[str, np.ndarray],
        limits: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, ...]:
        """int32 sums and their range, without calibration; MXNet omits clip then."""
        pattern, x = self.pattern, operands["data"]
        before = [node for node in pattern.before if activation_name(node) != "clip"]
        made = np.rint(activated(sums.astype(FLOAT32), before)) if before else sums
        if pattern.has_sum:
            z = operands["sum"].astype(FLOAT32)
            made = np.rint(
                made.astype(FLOAT32) + z * (scale / layer_scale(operands["sum"].dtype, *limits[2:]))
            )
            made = np.rint(activated(made, pattern.after))
        data_unit = magnitude(*limits[:2]) / whole_levels(x.dtype)
        weight_unit = np.abs(layer.weight).max() / np.float32(127)
        return (wrapped(made), *sums_range(data_unit, weight_unit))

    def _as_bytes(
        self,
        sums: np.ndarray,
        scale: np.float32,
        scales: np.ndarray,
        known: Range,
        operands: Mapping[str, np.ndarray],
        limits: Sequence[np.ndarray],
    ) -> np.ndarray:
        """rint(act(sum * (s_out / s_x / s_w) + z * (s_out / s_z))), saturated."""
        pattern, dtype = self.pattern, announced_type(self.pattern)
        out_scale = layer_scale(dtype, *known)
        along = (1, -1, *(1,) * (sums.ndim - 2))
        y = sums.astype(FLOAT32) * (out_scale / scale / scales).reshape(along)
        y = _bounded_below(y, pattern.before)
        if not pattern.has_sum:
            return saturated(y, dtype)
        z = operands["sum"]
        factor = out_scale / layer_scale(z.dtype, *limits[2:])
        wide = y.astype(np.float64) + z.astype(np.float64) * np.float64(factor)
        y = _bounded_below(
            wide.astype(FLOAT32), pattern.after
        )  # one rounding: a fused multiply-add
        self.warn_of_residual(z.dtype)
        return saturated(y, z.dtype).view(dtype)

    def warn_of_residual(self, found: np.dtype) -> None:
        """Warn if the residual's type is not that of the result."""
        dtype = announced_type(self.pattern)
        if found != dtype:
            self._warn(
                f"the residual is {found.name} and the result {dtype.name}; as in MXNet 1.9.1 the "
                f"sum saturates in {found.name}"
            )

    def warn_of_layer(self) -> None:
        """Warn of GELU in units of the result, and of groups of several filters."""
        attrs = self.pattern.layer.attrs
        if any(activation_name(node) == "gelu" for node in self.pattern.before):
            self._warn("as in MXNet 1.9.1 GELU is applied in units of the result, nearly a relu")
        if 1 < attrs["num_group"] < attrs["num_filter"]:
            self._warn("as in MXNet 1.9.1 all filters of a group have the scale of one")

    def _warn(self, reason: str) -> None:
        """Warn once that MXNet's result, which this operator has, is less accurate."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{NAME} of {self.pattern.layer.name}: {reason}, which costs accuracy. Quantize "
                "the float32 network here to avoid it",
                stacklevel=2,
            )


def _sums(
    attrs: Attrs, x: np.ndarray, layer: Folded, scales: np.ndarray, scale: np.float32
) -> np.ndarray:
    """Sums of bytes and quantized weights plus the bias in their units, as int64."""
    sums = convolved(x, quantized_weight(attrs["num_group"], layer.weight, scales), attrs)
    if layer.bias is not None:
        bias = np.rint(layer.bias * (scales * scale))
        sums = sums + bias.astype(np.int64).reshape(-1, *(1,) * (x.ndim - 2))
    return sums


def quantized_weight(groups: int, weight: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """int8 filters, each times its scale.

    With groups of several filters MXNet 1.9.1 multiplies all filters of group i by scale i.
    """
    if 1 < groups < len(weight):
        scales = np.repeat(scales[:groups], len(weight) // groups)
    return saturated(weight * scales.reshape(-1, *(1,) * (weight.ndim - 1)), INT8)


def _bounded_below(y: np.ndarray, nodes: Sequence[Node]) -> np.ndarray:
    """Activations in the units of the result; the upper bound of clip is that of the bytes."""
    for node in nodes:
        y = np.maximum(y, 0) if activation_name(node) == "clip" else activated(y, [node])
    return y


def _by_kernels(
    reference: _Reference,
    g: Builder[X],
    ins: Sequence[X],
    *,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: Declared,
) -> tuple[X, ...] | None:
    """sg_mkldnn_conv(b, w)  =>  to_bytes(act(float(integer_conv(b, int8(w))) * factor + z))"""
    pattern, known = reference.pattern, calibrated(min_calib_range, max_calib_range)
    if known is None or magnitude(*known) == 0:
        return None
    names = [name.lstrip("*") for name in pattern.names]
    operands, limits = dict(zip(names, ins)), ins[len(names) :]
    data, z = operands.pop("data"), operands.pop("sum", None)
    kind, residual = g.type(data).dtype, None if z is None else g.type(z).dtype
    op = _parameters_of(pattern, tuple(operands), kind, residual, known)
    weight, bias, factors, high, low = g.outputs(op, *operands.values(), *limits, at="filters")
    sums = product_of_filters(g, data, weight, bias, pattern)
    if sums is None:
        return None
    reference.warn_of_layer()
    y = activated_values(g, scaled_sums(g, sums, factors), pattern.before)
    dtype = announced_type(pattern)
    if z is None or residual is None:
        return as_bytes(g, y, dtype), *ends_of(g, known)
    reference.warn_of_residual(residual)
    y = activated_values(g, with_residual(g, y, z, high, low), pattern.after)
    made = as_bytes(g, y, residual)
    return cast(g, made, dtype, at="bits"), *ends_of(g, known)


def _parameters_of(
    pattern: Pattern,
    names: Sequence[str],
    data: np.dtype | None,
    residual: np.dtype | None,
    known: Range,
) -> OpDef:
    """Weight, bias, the factor of each filter and the two parts of the residual's factor."""
    assert data is not None
    filters = pattern.layer.attrs["num_filter"]

    def compute(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        operands, limits = dict(zip(names, arrays)), arrays[len(names) :]
        scale, out = layer_scale(data, *limits[:2]), layer_scale(announced_type(pattern), *known)
        layer = folded(pattern, operands)
        scales = filter_scales(layer, scale, True)
        weight = quantized_weight(pattern.layer.attrs["num_group"], layer.weight, scales)
        bias = int32_bias(layer.bias, scales * scale, filters)
        share = np.float32(0) if residual is None else out / layer_scale(residual, *limits[2:])
        return weight, bias, out / scale / scales, *halves(share)

    def types(ins: Types) -> Types:
        return (
            ins[0].with_dtype(INT8),
            TensorType((filters,), INT32),
            TensorType((filters,), FLOAT32),
            *(TensorType((1,), FLOAT32),) * 2,
        )

    inputs = len(names) + (2 if residual is None else 4)
    return prepared("_int8_filters", compute, types, 5, inputs)
