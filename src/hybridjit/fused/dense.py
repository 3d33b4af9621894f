"""``_sg_mkldnn_fully_connected``: fully connected layer fused with an activation.

Weights are int8 with a range, or float32 and quantized row by row (``channel_wise_quantize``). The
result is float32 (``enable_float_output``), bytes of the calibrated range, or int32 sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .._core.types import FLOAT32, UNKNOWN, TensorType
from ..errors import MXNetError
from ..ir.node import Output
from ..ops.attrs import Attrs, Declared, declare
from ..ops.building import Builder, X
from ..ops.int8.ranges import (
    BYTES,
    CALIBRATED,
    INT8,
    INT32,
    UINT8,
    calibrated,
    dense_range,
    ends,
    layer_scale,
    magnitude,
    ranges,
    require_bytes,
    saturated,
    untrainable,
    with_range,
)
from ..ops.int8.sums import away_from_zero, multiplied, wrapped
from ..ops.record import OpDef
from ..ops.rules import Types, merged
from .by_kernels import as_bytes, ends_of, prepared, product_of_rows, scaled_rows
from .convolution import Folded, filter_scales
from .pattern import (
    Pattern,
    activated,
    activation_name,
    attributes,
    float_record,
    pattern_of,
    require_flags,
)

NAME = "_sg_mkldnn_fully_connected"
_ATTRS = (
    "quantized:bool=False enable_float_output:bool=False with_eltwise:bool=False "
    f"with_relu:bool=False channel_wise_quantize:bool?=None {CALIBRATED}"
)
_SUPPORTED = ("relu", "leaky", "elu", "gelu", "clip", "abs")
_COMPILED = ("relu", "leaky", "gelu", "clip")
_POSITIVE = ("relu", "leaky", "clip", "abs")  # results that MXNet announces as uint8
_LIMIT = 1 << 30  # largest bias in units of the sums


def fused_dense(text: Mapping[str, str], outputs: Sequence[Output]) -> OpDef:
    """Record of one node. Raises MXNetError for a subgraph that is not of the form."""
    pattern = pattern_of(NAME, outputs, "FullyConnected")
    attrs = attributes(text, _ATTRS, {"with_relu": "with_eltwise"})
    if pattern.norm is not None or pattern.has_sum or len(pattern.before) > 1:
        raise MXNetError(f"{NAME}: the subgraph must be a layer and at most 1 activation")
    require_flags(NAME, attrs, {"with_eltwise": bool(pattern.before)})
    if not attrs["quantized"]:
        return float_record(NAME, _ATTRS, pattern)
    return _quantized_record(pattern, attrs)


def _quantized_record(pattern: Pattern, attrs: Attrs) -> OpDef:
    for node in pattern.before:
        if activation_name(node) not in _SUPPORTED:
            raise MXNetError(
                f"{NAME}: activation {activation_name(node)} is not supported for bytes; "
                f"supported are {', '.join(_SUPPORTED)}"
            )
    names = pattern.names[:1] if attrs["channel_wise_quantize"] else pattern.names
    limits = [f"{end}_{name}" for name in names for end in ("min", "max")]
    outputs = ("output", "min_output", "max_output")
    return OpDef(
        name=NAME,
        inputs=(*pattern.names, *limits),
        attrs=declare(_ATTRS),
        infer=lambda ins, outs, **attrs: _infer(pattern, ins, outs, **attrs),
        ref=lambda *arrays, **attrs: _reference(pattern, arrays, **attrs),
        expand=lambda g, *ins, **attrs: _by_kernels(pattern, g, ins, **attrs),
        grad=untrainable(NAME),
        outputs=outputs[:1] if attrs["enable_float_output"] else outputs,
        subgraphs=(pattern.body.outputs,),
        doc="A quantized fully connected layer fused with an activation.",
    )


def announced_type(pattern: Pattern) -> np.dtype:
    """uint8 after an activation without negative results (as MXNet counts), else int8."""
    return UINT8 if any(activation_name(n) in _POSITIVE for n in pattern.before) else INT8


def _infer(
    pattern: Pattern,
    ins: Types,
    outs: Types,
    *,
    enable_float_output: bool,
    channel_wise_quantize: bool | None,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: Declared,
) -> tuple[Types, Types]:
    known = calibrated(min_calib_range, max_calib_range)
    if channel_wise_quantize and not (known or enable_float_output):
        raise MXNetError(
            f"{NAME}: channel_wise_quantize needs a calibrated range or a float32 result: "
            "calibrate the network"
        )
    count = len(pattern.names)
    require_bytes(f"{NAME}: data", ins[0], BYTES)
    weights = FLOAT32 if channel_wise_quantize else INT8
    for name, t in zip(pattern.names[1:], ins[1:count]):
        require_bytes(f"{NAME}: {name}", t, (weights,))
    plain = tuple(t.with_dtype(FLOAT32) for t in ins[:count])
    made = (outs[0].with_dtype(FLOAT32),) if outs else (UNKNOWN,)
    found, (out,) = pattern.body.types(plain, made)
    new = (found[0].with_dtype(ins[0].dtype), *(t.with_dtype(weights) for t in found[1:]))
    if enable_float_output:
        results: Types = (out.with_dtype(FLOAT32),)
    else:
        results = with_range(out.with_dtype(announced_type(pattern) if known else INT32))
    return (*new, *ranges(ins[count:])), merged(outs, results)


def _reference(
    pattern: Pattern,
    arrays: Sequence[np.ndarray],
    *,
    enable_float_output: bool,
    channel_wise_quantize: bool | None,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: Declared,
) -> np.ndarray | tuple[np.ndarray, ...]:
    count = len(pattern.names)
    x, weight, *biases = arrays[:count]
    limits = arrays[count:]
    scale = layer_scale(x.dtype, *limits[:2])
    bias = biases[0] if biases else None
    quantized = _by_rows if channel_wise_quantize else _by_range
    weight, scales, shift = quantized(weight, bias, scale, limits[2:])
    sums = multiplied(x, weight, pattern.layer.attrs["flatten"])
    if shift is not None:
        sums = sums + shift
    if enable_float_output:
        return activated(sums.astype(FLOAT32) * (np.float32(1) / scale / scales), pattern.before)
    known = calibrated(min_calib_range, max_calib_range)
    if known is None:
        unit = dense_range(x.dtype, limits[:2], limits[2:4])
        before = pattern.before
        made = np.rint(activated(sums.astype(FLOAT32), before)) if before else sums
        return (wrapped(made), *unit)
    return (
        _as_bytes(pattern, sums, scale, scales, layer_scale(announced_type(pattern), *known)),
        *ends(*known),
    )


def _as_bytes(
    pattern: Pattern, sums: np.ndarray, scale: np.float32, scales: np.ndarray, out: np.float32
) -> np.ndarray:
    """Bytes of the calibrated range; an activation is computed in float32 first."""
    dtype = announced_type(pattern)
    if not pattern.before:
        return saturated(sums.astype(FLOAT32) * (out / scale / scales), dtype)
    real = activated(sums.astype(FLOAT32) * (np.float32(1) / scale / scales), pattern.before)
    return saturated(real * out, dtype)


_Quantized = tuple[np.ndarray, np.ndarray, "np.ndarray | None"]


def _by_rows(
    weight: np.ndarray, bias: np.ndarray | None, scale: np.float32, limits: Sequence[np.ndarray]
) -> _Quantized:
    """int8 weights with a scale for each row, and the bias in units of the sums."""
    scales = filter_scales(Folded(weight, bias), scale, True)
    shift = None if bias is None else np.rint(bias * (scales * scale)).astype(np.int64)
    return saturated(weight * scales[:, None], INT8), scales, shift


def _by_range(
    weight: np.ndarray, bias: np.ndarray | None, scale: np.float32, limits: Sequence[np.ndarray]
) -> _Quantized:
    """int8 weights with their range, and the int8 bias in units of the sums.

    If the bias would exceed 2**30 units, the weights are reduced to smaller levels.
    """
    own = layer_scale(INT8, *limits[:2])
    if bias is None:
        return weight, np.full(1, own, FLOAT32), None
    unit = layer_scale(INT8, *limits[2:4])
    factor = scale * own / unit
    most = np.float32(_LIMIT - 1) / magnitude(*limits[2:4]) / unit
    if factor > most:
        reduced = most * unit / scale / own
        weight = away_from_zero(weight * reduced).astype(INT8)
        factor, own = most, own * reduced
    return weight, np.full(1, own, FLOAT32), away_from_zero(bias * factor)


def _by_kernels(
    pattern: Pattern,
    g: Builder[X],
    ins: Sequence[X],
    *,
    enable_float_output: bool,
    channel_wise_quantize: bool | None,
    min_calib_range: float | None,
    max_calib_range: float | None,
    **attrs: Declared,
) -> X | tuple[X, ...] | None:
    """sg_mkldnn_fully_connected(b, w)  =>  act(float(integer_dense(b, w)) * factor)"""
    known = calibrated(min_calib_range, max_calib_range)
    is_compiled = all(activation_name(node) in _COMPILED for node in pattern.before)
    if not (known or enable_float_output) or not is_compiled or (known and not magnitude(*known)):
        return None
    kind = g.type(ins[0]).dtype
    assert kind is not None
    dtype = announced_type(pattern)
    out = None if enable_float_output or not known else layer_scale(dtype, *known)
    quantized = _by_rows if channel_wise_quantize else _by_range
    at_once = out if not pattern.before else None
    op = _parameters_of(pattern, kind, quantized, at_once, len(ins) - 1)
    weight, bias, factors = g.outputs(op, *ins[1:], at="rows")
    sums = product_of_rows(g, ins[0], weight, bias, pattern)
    if sums is None:
        return None
    y = scaled_rows(g, sums, factors)
    for node in pattern.before:
        assert node.op is not None
        y = g.op(node.op, y, at="act", **node.attrs)
    if out is None or known is None:
        return y
    scale = 1.0 if not pattern.before else float(out)
    return as_bytes(g, y, dtype, scale), *ends_of(g, known)


def _parameters_of(
    pattern: Pattern,
    data: np.dtype,
    quantized: Callable[..., _Quantized],
    out: np.float32 | None,
    inputs: int,
) -> OpDef:
    """Weight, bias and the factor of each row."""
    rows, count = pattern.layer.attrs["num_hidden"], len(pattern.names) - 1

    def compute(weight: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
        bias, limits = (rest[0] if count > 1 else None), rest[count - 1 :]
        scale = layer_scale(data, *limits[:2])
        made, scales, shift = quantized(weight, bias, scale, limits[2:])
        whole = np.zeros(rows, INT32) if shift is None else shift.astype(INT32)
        factor = (np.float32(1) if out is None else out) / scale / scales
        return made, whole, np.broadcast_to(factor, (rows,)).astype(FLOAT32)

    def types(ins: Types) -> Types:
        row = (rows,)
        return ins[0].with_dtype(INT8), TensorType(row, INT32), TensorType(row, FLOAT32)

    return prepared("_int8_rows", compute, types, 3, inputs)
