"""Quantized convolution and fully connected layer: int32 sums and their range."""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32, TensorType
from ...errors import DTypeError
from ..attrs import AttrValue, Declared
from ..nn.convolution import CONVOLUTION
from ..nn.matrix_products import FULLY_CONNECTED
from ..nn.window_geometry import is_channel_last
from ..registry import register
from ..rules import Types, merged
from .ranges import (
    INT8,
    INT32,
    UINT8,
    dense_range,
    levels,
    magnitude,
    ranges,
    require_bytes,
    scale_of,
    sums_range,
    untrainable,
    with_range,
)
from .sums import convolved, multiplied, wrapped

Result = tuple[np.ndarray, np.ndarray, np.ndarray]
_OUTPUTS = ("output", "min_output", "max_output")


def operand_names(*, no_bias: bool, **attrs: AttrValue) -> tuple[str, ...]:
    """Operands, then the ends of their ranges."""
    names = ("data", "weight") if no_bias else ("data", "weight", "bias")
    return (*names, *(f"{end}_{name}" for name in names for end in ("min", "max")))


def _infer_product(op_rule: Declared, what: str, data_types: tuple[np.dtype, ...]) -> Declared:
    """Type rule of a product of bytes from that of the float32 layer."""

    def infer(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
        count = len(ins) // 3
        require_bytes(f"{what}: data", ins[0], data_types)
        for name, t in zip(("weight", "bias"), ins[1:count]):
            require_bytes(f"{what}: {name}", t, (INT8,))
        plain = tuple(t.with_dtype(FLOAT32) for t in ins[:count])
        made = (outs[0].with_dtype(FLOAT32),) if outs else ()
        found_ins, found_outs = op_rule(plain, made, **attrs)
        data = found_ins[0].with_dtype(data_types[0] if len(data_types) == 1 else ins[0].dtype)
        rest = [t.with_dtype(INT8) for t in found_ins[1:]]
        out = found_outs[0].with_dtype(INT32) if found_outs else TensorType(None, INT32)
        return (data, *rest, *ranges(ins[count:])), merged(outs, with_range(out))

    return infer


def _convolution(
    data: np.ndarray, weight: np.ndarray, *rest: np.ndarray, **attrs: Declared
) -> Result:
    """int32 sums; the bias is added without a scale, as MXNet adds it."""
    bias, found = (None, rest) if attrs["no_bias"] else (rest[0], rest[1:])
    sums = convolved(data, weight, attrs)
    if bias is not None:
        sums += bias.astype(np.int64).reshape(-1, *(1,) * (data.ndim - 2))
    data_unit, weight_unit = (
        magnitude(*pair) / np.float32(127) for pair in (found[:2], found[2:4])
    )
    return (wrapped(sums), *sums_range(data_unit, weight_unit))


_PLAIN_LAYOUT = "channel-last layouts of int8 are not supported: use NCHW"


def _infer_convolution(ins: Types, outs: Types, **attrs: Declared) -> tuple[Types, Types]:
    if is_channel_last(attrs["layout"], len(attrs["kernel"])):
        raise DTypeError(_PLAIN_LAYOUT)
    return _CONVOLUTION_RULE(ins, outs, **attrs)


_CONVOLUTION_RULE = _infer_product(CONVOLUTION.infer, "quantized_conv", (UINT8,))

QUANTIZED_CONV = register(
    "_contrib_quantized_conv",
    operand_names,
    "kernel:shape! stride:shape=() dilate:shape=() pad:shape=() num_filter:int! num_group:int=1 "
    "no_bias:bool=False layout:layout?=None",
    infer=_infer_convolution,
    ref=_convolution,
    grad=untrainable("_contrib_quantized_conv"),
    outputs=_OUTPUTS,
    doc="Convolution of uint8 data with int8 weights: int32 sums and their range.",
)


def _dense(
    data: np.ndarray,
    weight: np.ndarray,
    *rest: np.ndarray,
    no_bias: bool,
    flatten: bool,
    **attrs: Declared,
) -> Result:
    """int32 sums; the int8 bias is rescaled to their unit and truncated."""
    bias, found = (None, rest) if no_bias else (rest[0], rest[1:])
    sums = multiplied(data, weight, flatten)
    if bias is not None:
        unit = scale_of(data.dtype, *found[:2]) * scale_of(INT8, *found[2:4])
        factor = unit * magnitude(*found[4:]) / levels(INT8)
        sums += np.trunc(bias * factor).astype(np.int64)
    return (wrapped(sums), *dense_range(data.dtype, found[:2], found[2:4]))


QUANTIZED_FULLY_CONNECTED = register(
    "_contrib_quantized_fully_connected",
    operand_names,
    "num_hidden:int! no_bias:bool=False flatten:bool=True",
    infer=_infer_product(FULLY_CONNECTED.infer, "quantized_fully_connected", (INT8, UINT8)),
    ref=_dense,
    grad=untrainable("_contrib_quantized_fully_connected"),
    outputs=_OUTPUTS,
    doc="Matrix product of bytes with int8 weights: int32 sums and their range.",
)
