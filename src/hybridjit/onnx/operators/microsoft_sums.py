"""Sums and products of quantized values, equal to the bytes that ONNX Runtime computes.

Input: bytes of two operands, with one constant scale and zero point per tensor. Output: the result
in units of its scale, rounded once, also where it is halfway between two bytes. Operands with other
scales are dequantized first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...ops.quantized import BYTES, halves
from ..importer import Importer, Value
from ..use import Use
from .quantized import code_of, numbers, quantized, requantized, single
from .table import MICROSOFT, translates

_SINGLE = np.dtype("float32")
_LEAST = 2.0**-40  # quotients of scales, and their lower halves, are normal numbers


class _Side(NamedTuple):
    """A quantized operand, with its scale and its zero point."""

    x: Value
    scale: Value | None
    zero: Value | None


_Formula = Callable[[Importer, Sequence[Value], np.ndarray, np.ndarray], Value]


def _binary(op: str, formula: _Formula) -> Callable[..., Value]:
    def translation(g: Importer, use: Use, *operands: Value | None) -> Value:
        """Sum or product of quantized values, quantized."""
        a, a_scale, a_zero, b, b_scale, b_zero, scale, *rest = operands
        assert a is not None and b is not None and scale is not None
        zero = rest[0] if rest else None
        sides = [_Side(a, a_scale, a_zero), _Side(b, b_scale, b_zero), _Side(a, scale, zero)]
        if (known := _known(g, sides)) is not None:
            made = formula(g, (a, b), *known)
            return quantized(g, use, made, g.constant(np.ones(1, _SINGLE)), None, code_of(g, a))
        made = g.op(op, *(numbers(g, use, *side) for side in sides[:2]), at="number")
        return requantized(g, use, made, scale, zero, a)

    return translation


def _known(g: Importer, sides: Sequence[_Side]) -> tuple[np.ndarray, np.ndarray] | None:
    """float32 scales and zero points of bytes; None unless there is one constant per tensor."""
    parts = [v for side in sides for v in side[1:] if v is not None]
    if any(not v.is_constant or math.prod(g.shape(v)) != 1 for v in parts):
        return None
    if any(
        side.scale is None or side.x.is_constant or g.dtype(side.x) not in BYTES for side in sides
    ):
        return None
    scales = np.array([g.known(s.scale, "scale").reshape(()) for s in sides], _SINGLE)
    if not ((scales > _LEAST) & (scales < 1 / _LEAST)).all():
        return None
    points = [0 if s.zero is None else int(g.known(s.zero, "zero").reshape(())) for s in sides]
    return scales, np.array(points, _SINGLE)


def _sum(g: Importer, sides: Sequence[Value], scales: np.ndarray, zeros: np.ndarray) -> Value:
    """fma(a, s, fma(b, t, rest)), ONNX Runtime's order, with the zero points in the rest.

    An operand that has one element for each row of the other is added first.
    """
    ratios = scales[:2] / scales[2]
    terms = [*zip(sides, ratios, zeros)]
    if _has_one_column(g, sides[0]) and not _has_one_column(g, sides[1]):
        terms.reverse()
    (x, ratio, x_zero), (y, factor, y_zero) = terms
    less = _SINGLE.type(float(ratio) * float(x_zero) + float(factor * y_zero))
    rest = {"scale": float(factor), "offset": float(zeros[2] - less)}
    made = g.op("_scale_exactly", single(g, y), at="part", **rest)
    parts = [float(part[0]) for part in halves(ratio)]
    value = single(g, x)
    return _added(g, made, *(g.op("_mul_scalar", value, scalar=p, at="part") for p in parts))


def _has_one_column(g: Importer, x: Value) -> bool:
    return g.rank(x) == 0 or x.type.dims[-1] == 1


def _added(g: Importer, y: Value, high: Value, low: Value) -> Value:
    """y + (high + low), rounded once."""
    terms = [y, high, low]
    if y.type.shape is None or y.type.shape != high.type.shape:
        shape = np.broadcast_shapes(g.shape(y), g.shape(high))
        terms = [v if g.shape(v) == shape else _spread(g, v, shape) for v in terms]
    return g.op("_add_exactly", *terms, at="sum")


def _spread(g: Importer, x: Value, shape: tuple[int, ...]) -> Value:
    aligned = g.op("Reshape", x, shape=(1,) * (len(shape) - g.rank(x)) + g.shape(x), at="rank")
    return g.op("broadcast_to", aligned, shape=shape, at="spread")


def _product(g: Importer, sides: Sequence[Value], scales: np.ndarray, zeros: np.ndarray) -> Value:
    """(a - zero) * (b - zero) * scale + zero, as ONNX Runtime: the first product is exact."""
    centred = [
        g.op("_minus_scalar", single(g, x), scalar=float(zero), at="centred")
        for x, zero in zip(sides, zeros)
    ]
    ratio = scales[0] * scales[1] / scales[2]
    made = g.op("broadcast_mul", *centred, at="product")
    made = g.op("_mul_scalar", made, scalar=float(ratio), at="number")
    return g.op("_plus_scalar", made, scalar=float(zeros[2]), at="moved")


translates(MICROSOFT + "QLinearAdd")(_binary("broadcast_add", _sum))
translates(MICROSOFT + "QLinearMul")(_binary("broadcast_mul", _product))
