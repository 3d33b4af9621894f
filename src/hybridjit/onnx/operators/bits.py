"""ONNX's operators on the bits of whole numbers, by arithmetic that is exact below 2**53."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..importer import Importer, Value
from ..use import Use
from .table import translates

_DOUBLE, _WHOLE = np.dtype("float64"), np.dtype("int64")


def _wide(g: Importer, x: Value) -> Value:
    return g.op("Cast", x, dtype=_DOUBLE, at="wide")


@translates("BitShift")
def shift(g: Importer, use: Use, x: Value, y: Value) -> Value:
    """x times or by 2 to the y; what is shifted out of a byte is lost."""
    dtype = g.dtype(x)
    step = g.op("_rpower_scalar", _wide(g, y), scalar=2.0, at="step")
    if use.text("direction") == "LEFT":
        made = g.op("broadcast_mul", _wide(g, x), step, at="moved")
        if dtype.itemsize == 1:
            made = g.op("_mod_scalar", made, scalar=256.0, at="byte")
    else:
        made = g.op("floor", g.op("broadcast_div", _wide(g, x), step, at="moved"), at="whole")
    return g.op("Cast", made, dtype=dtype)


_PAIRS = {"BitwiseAnd": "broadcast_mul", "BitwiseOr": "broadcast_maximum"}


@translates("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(g: Importer, use: Use, x: Value, y: Value) -> Value:
    """Bit by bit; the highest bit of signed numbers counts below 0."""
    dtype = g.dtype(x)
    bits = {1: 8, 4: 32}.get(dtype.itemsize, 53)
    op = _PAIRS.get(use.op_type, "broadcast_not_equal")
    sides = [_wide(g, v) for v in (x, y)]
    parts = []
    for i in range(bits):
        pair = [_bit(g, side, i) for side in sides]
        weight = 2.0**i if i < bits - 1 or dtype.kind == "u" else -(2.0**i)
        parts.append(g.op("_mul_scalar", g.op(op, *pair, at="bit"), scalar=weight, at="part"))
    total = reduce(lambda a, b: g.op("broadcast_add", a, b, at="sum"), parts)
    return g.op("Cast", total, dtype=dtype)


def _bit(g: Importer, x: Value, number: int) -> Value:
    moved = g.op("floor", g.op("_div_scalar", x, scalar=2.0**number, at="moved"), at="whole")
    return g.op("_mod_scalar", moved, scalar=2.0, at="bit")


@translates("BitwiseNot")
def bitwise_not(g: Importer, use: Use, x: Value) -> Value:
    """-1 - x, and 255 - x of bytes without a sign."""
    number = 255.0 if g.dtype(x) == np.uint8 else -1.0
    wide = g.op("Cast", x, dtype=_WHOLE, at="wide")
    return g.op("Cast", g.op("_rminus_scalar", wide, scalar=number, at="not"), dtype=g.dtype(x))
