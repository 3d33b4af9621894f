"""Nibbles: dense layers with weights of 4 bits read them packed."""

from __future__ import annotations

from ..._core.types import FLOAT32
from ...ir.building import building
from ...ir.graph import Value
from ...ir.kinds import is_in
from ...ir.rewrite import Match, Replacement, rule
from ...ops.nibbles import NIBBLE_DENSE, WEIGHT_FROM_NIBBLES
from ...ops.nn.matrix_products import FULLY_CONNECTED
from ...ops.registry import lookup
from ...ops.tensor.primitives import reshape

_ADD = lookup("broadcast_add")


@rule("dense(x, nibbles w) + b  =>  nibble_dense(x, w) + b", FULLY_CONNECTED)
def multiplied_nibbles(value: Value, match: Match) -> Replacement:
    data, weight = value.inputs[0], value.inputs[1].value
    if weight.op is not WEIGHT_FROM_NIBBLES or data.type.ndim != 2 or not is_in(FLOAT32, value):
        return None
    g, bias = building(value), value.inputs[2:]
    at = "product" if bias else ""
    made = g.op(NIBBLE_DENSE, data, *weight.inputs, at=at, **weight.attrs)
    for use in bias:
        made = g.op(_ADD, made, reshape(g, use, (1, use.type.size), at="biases"))
    return made
