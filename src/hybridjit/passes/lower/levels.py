"""Levels: the scale of bytes that a product's epilogue makes is divided out of its factors.

    quantize(float(sums) a + b, s)  =>  quantize(float(sums) (a / s) + b / s, 1)

The quotients are parameters, so that no division or product by 1 / s remains for each element.
Limits of the values that the limits of bytes imply are left out.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32
from ...ir.building import ValueBuilder, building
from ...ir.graph import Use, Value
from ...ir.rewrite import Match, Replacement, rule
from ...ops.elementwise.element_type import CAST
from ...ops.quantized import FROM_BYTES, INTEGER_CONVOLUTION, INTEGER_DENSE, TO_BYTES, limits
from ...ops.registry import lookup

_ADDITIONS = (lookup("broadcast_add"), lookup("elemwise_add"))
_MULTIPLY, _DIVIDE = lookup("broadcast_mul"), lookup("_div_scalar")
_SUBTRACT = lookup("broadcast_sub")
_RELU, _ACTIVATION, _CLIP = lookup("relu"), lookup("Activation"), lookup("clip")
# Scales by which no factor becomes infinite or denormal.
_LEAST, _MOST = 2.0**-60, 2.0**60


@rule("quantize(sums a + b, s)  =>  quantize(sums (a / s) + b / s, 1)", TO_BYTES)
def unit_levels(value: Value, match: Match) -> Replacement:
    attrs, scale = value.attrs, float(np.float32(value.attrs["scale"]))
    if attrs["multiply"] or scale == 1.0 or not _LEAST < scale < _MOST:
        return None
    g = building(value)
    levels = _Division(g, match, scale).of(match.old.inputs[0], value.inputs[0])
    return levels and g.op(TO_BYTES, levels, **{**attrs, "scale": 1.0})


@rule("quantize(relu(x))  =>  quantize(x), for bytes from 0", TO_BYTES)
def implied_limits(value: Value, match: Match) -> Replacement:
    source = value.inputs[0].value
    if not _is_implied(source, value):
        return None
    return building(value).op(TO_BYTES, source.inputs[0], **value.attrs)


def _is_implied(source: Value, value: Value) -> bool:
    """Whether values that ``source`` limits become the smallest or the largest byte anyway."""
    attrs = value.attrs
    scale, zero = float(np.float32(attrs["scale"])), attrs["zero"]
    least, most = limits(attrs["dtype"])

    def level(x: float) -> float:
        levels = x * scale if attrs["multiply"] else x / scale
        return float(np.rint(levels)) + float(zero)

    if _is_relu(source):
        return level(0.0) <= least
    if source.op is not _CLIP:
        return False
    low, high = source.attrs["a_min"], source.attrs["a_max"]
    return level(low) <= least and level(high) >= most


def _is_relu(value: Value) -> bool:
    return value.op is _RELU or value.op is _ACTIVATION and value.attrs["act_type"] == "relu"


class _Division:
    """Quotients of values of a product's epilogue by a positive number.

    They are found in the graph before the rewrite, in which readers are known, and in the rebuilt
    one at the same time.
    """

    def __init__(self, g: ValueBuilder, match: Match, scale: float) -> None:
        self.g, self.match, self.scale = g, match, scale

    def of(self, old: Use, use: Use) -> Use | None:
        """The quotient of a sum of products with parameters, one of them a product of bytes; None
        for other values, and for those with several readers.

        Sums of quantized values alone are left: they are often ties, which quotients would break.
        """
        return self._of(old, use) if self._has_sums(use.value) else None

    def _has_sums(self, value: Value) -> bool:
        if value.op is CAST:
            source = value.inputs[0].value
            if source.op is _SUBTRACT:  # zero points of the weight times sums of the data
                source = source.inputs[0].value
            return source.op in (INTEGER_CONVOLUTION, INTEGER_DENSE)
        is_known = value.op in (*_ADDITIONS, _MULTIPLY, _CLIP) or _is_relu(value)
        return is_known and any(self._has_sums(use.value) for use in value.inputs)

    def _of(self, old: Use, use: Use) -> Use | None:
        if use.type.dtype != FLOAT32:
            return None
        if self.match.is_fixed(old):
            return self.g.op(_DIVIDE, use, at="levels", scalar=self.scale)
        value, graph = use.value, self.match.graph
        if len(graph.uses.get(old.value, ())) > 1 or old.value in graph.output_values:
            return None
        if value.op is FROM_BYTES:
            attrs = {**value.attrs, "scale": value.attrs["scale"] / self.scale}
            return building(value).op(FROM_BYTES, *value.inputs, **attrs)
        sides = list(zip(old.value.inputs, value.inputs))
        if value.op in _ADDITIONS:
            return self._rebuilt(value, [self._of(*side) for side in sides])
        if value.op is _MULTIPLY:
            return self._product(value, sides)
        if value.op is _CLIP:
            attrs = {key: value.attrs[key] / self.scale for key in ("a_min", "a_max")}
            return self._rebuilt(value, [self._of(*sides[0])], **attrs)
        return self._rebuilt(value, [self._of(*sides[0])]) if _is_relu(value) else None

    def _product(self, value: Value, sides: list[tuple[Use, Use]]) -> Use | None:
        """x w  =>  x (w / s), for a parameter w"""
        for at, (old, use) in enumerate(sides):
            if self.match.is_fixed(old):
                factors = [use for _, use in sides]
                factors[at] = self.g.op(_DIVIDE, use, at="levels", scalar=self.scale)
                return self._rebuilt(value, list(factors))
        return None

    def _rebuilt(self, value: Value, inputs: list[Use | None], **attrs: float) -> Use | None:
        if any(use is None for use in inputs):
            return None
        assert value.op is not None
        return building(value).op(value.op, *inputs, **{**value.attrs, **attrs})  # type: ignore[arg-type]
