"""Rows: softmax and layer norm along the last axis read bytes in place of dequantized values.

softmax((x - z) s)  =>  byte_softmax(x, z, s)
"""

from __future__ import annotations

from ..._core.types import FLOAT32
from ...ir.building import building
from ...ir.graph import Value
from ...ir.kinds import is_in
from ...ir.rewrite import Match, Replacement, rule
from ...ops.byte_rows import BYTE_LAYER_NORM, BYTE_SOFTMAX
from ...ops.nn.normalization import LAYER_NORM
from ...ops.nn.softmax import SOFTMAX
from ...ops.quantized import FROM_BYTES


@rule("softmax((x - z) s)  =>  byte_softmax(x)", SOFTMAX)
def softmax_of_bytes(value: Value, match: Match) -> Replacement:
    if not _reads_rows(value) or len(value.inputs) > 1:
        return None
    source = value.inputs[0].value
    return building(value).op(BYTE_SOFTMAX, *source.inputs, **source.attrs)


@rule("layer_norm((x - z) s)  =>  byte_layer_norm(x)", LAYER_NORM)
def norm_of_bytes(value: Value, match: Match) -> Replacement:
    if not _reads_rows(value) or value.attrs["output_mean_var"]:
        return None
    data, *scales = value.inputs
    attrs = {"eps": value.attrs["eps"], **data.value.attrs}
    return building(value).op(BYTE_LAYER_NORM, *data.value.inputs, *scales, **attrs)


def _reads_rows(value: Value) -> bool:
    """Whether the data are dequantized bytes, and rows along the last axis become float32."""
    is_last = value.attrs["axis"] in (-1, value.type.ndim - 1)
    is_dequantized = value.inputs[0].value.op is FROM_BYTES and is_in(FLOAT32, value)
    return is_last and is_dequantized and bool(value.type.size)
