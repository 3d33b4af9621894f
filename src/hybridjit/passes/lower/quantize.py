"""Quantize: layers whose data have a range multiply bytes.

    conv(ranged(x), w) + b  =>  conv(from_bytes(to_bytes(x)), from_bytes(filter_bytes(w))) + b

Products of two matrices that have ranges multiply bytes as well. Data are uint8 from 0 if their
range begins there, else int8 of symmetric range; weights are int8, with one scale for each filter.
The pass ``lower-integers`` makes products of bytes of them.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32
from ...ir.building import building
from ...ir.graph import Graph, Use, Value
from ...ir.kinds import is_in
from ...ir.rewrite import Match, Replacement, rewrite, rule
from ...ops.internal import PAD_AXES
from ...ops.nn.convolution import CONVOLUTION
from ...ops.nn.matrix_products import BATCH_DOT, FULLY_CONNECTED
from ...ops.quantized import (
    FILTER_BYTES,
    FILTER_SCALE,
    FROM_BYTES,
    INT8,
    RANGED,
    TO_BYTES,
    UINT8,
    WEIGHT_FROM_BYTES,
)
from ...ops.tensor.primitives import RESHAPE_TO, SLICE, TRANSPOSE

_LEAST = float(np.finfo(np.float32).tiny)
_LAYERS = (CONVOLUTION, FULLY_CONNECTED)
_MOVES = (RESHAPE_TO, TRANSPOSE, SLICE, PAD_AXES)


def quantize(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The graph in which values with a range are dequantized bytes, and so are layers' weights."""
    if not any(value.op is RANGED for value in graph.values):
        return graph
    return rewrite(graph, (ranged, filters), fired)


@rule("ranged(x)  =>  from_bytes(to_bytes(x))", RANGED)
def ranged(value: Value, match: Match) -> Replacement:
    data = value.inputs[0]
    if data.type.dtype != FLOAT32 or not _feeds_layer(match.old, match):
        return None
    g = building(value)
    scale, dtype = scale_of(value.attrs["low"], value.attrs["high"])
    stored = g.op(TO_BYTES, data, at="bytes", scale=scale, zero=0, dtype=dtype, multiply=False)
    return g.op(FROM_BYTES, stored, scale=scale, zero=0)


def _feeds_layer(value: Value, match: Match) -> bool:
    """Whether a layer with fixed weights, or a product of matrices with ranges, reads the value,
    directly or through movements.
    """
    for reader in match.graph.uses.get(value, ()):
        if reader.op in _LAYERS:
            if reader.inputs[0].value is value and match.is_fixed(reader.inputs[1]):
                return True
        elif reader.op is BATCH_DOT:
            if all(_before_moves(use).op is RANGED for use in reader.inputs):
                return True
        elif reader.op in _MOVES and _feeds_layer(reader, match):
            return True
    return False


def scale_of(low: float, high: float) -> tuple[float, np.dtype]:
    """The scale and the element type of bytes for a range; scale 1 for a range of zero."""
    if low >= 0:
        return _scale(high / 255), UINT8
    return _scale(max(-low, high) / 127), INT8


def _scale(step: float) -> float:
    """The scale of a step: at least the smallest normal float32; 1 for a step of 0."""
    return max(step, _LEAST) if step else 1.0


@rule("layer(bytes, w)  =>  layer(bytes, from_bytes(filter_bytes(w)))", *_LAYERS)
def filters(value: Value, match: Match) -> Replacement:
    data, weight, *bias = value.inputs
    is_quantized = _before_moves(data).op is FROM_BYTES and match.is_fixed(match.old.inputs[1])
    if not is_quantized or weight.value.op is WEIGHT_FROM_BYTES or not is_in(FLOAT32, value):
        return None
    g = building(value)
    scale = g.op(FILTER_SCALE, weight, at="filter_scale")
    stored = g.op(FILTER_BYTES, weight, scale, at="filter_bytes")
    dequantized = g.op(WEIGHT_FROM_BYTES, stored, scale, at="filters", axis=0)
    assert value.op is not None
    return g.op(value.op, data, dequantized, *bias, **value.attrs)


def _before_moves(use: Use) -> Value:
    while use.value.op in _MOVES:
        use = use.value.inputs[0]
    return use.value
