"""Readers of ONNX's bitwise operators on integers, by arithmetic that is exact below 2**53."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.narrow import NARROW
from ...formats.onnx.tensors import BFLOAT16, DTYPES, dtype_of
from ..importer import Importer, Value, as_supported
from ..use import Use
from .table import translates

_DOUBLE, _WHOLE = np.dtype("float64"), np.dtype("int64")


def _wide(g: Importer, x: Value) -> Value:
    return g.op("Cast", x, dtype=_DOUBLE, at="wide")


def _bits(g: Importer, x: Value) -> int:
    """Bits of an element of ``x`` in the model."""
    if x.stored in DTYPES:
        return DTYPES[x.stored].itemsize * 8
    return NARROW[x.stored].bits if x.stored in NARROW else g.dtype(x).itemsize * 8


def _is_signed(g: Importer, x: Value) -> bool:
    return (DTYPES[x.stored] if x.stored in DTYPES else g.dtype(x)).kind == "i"


@translates("BitShift")
def shift(g: Importer, use: Use, x: Value, y: Value) -> Value:
    """x shifted by y bits: multiplied or divided by 2 to the power y.

    Overflowing bits are lost; the result is 0 for y negative or at least the number of bits."""
    bits = _bits(g, x)
    wide = _wide(g, y)
    is_none = g.op("_lesser_scalar", wide, scalar=0.0, at="below")
    above = g.op("_minimum_scalar", wide, scalar=float(bits), at="above")
    away = g.op("_mul_scalar", is_none, scalar=2.0 * bits + 64, at="away")
    moved = g.op("elemwise_add", g.op("_maximum_scalar", above, scalar=0.0), away, at="all")
    places = g.op("_minimum_scalar", moved, scalar=float(bits), at="places")
    step = g.op("_rpower_scalar", places, scalar=2.0, at="step")
    if use.text("direction") == "LEFT":
        made = g.op("broadcast_mul", _wide(g, x), step, at="moved")
        made = _wrapped(g, made, bits, _is_signed(g, x)) if bits <= 32 else made
    else:
        made = g.op("floor", g.op("broadcast_div", _wide(g, x), step, at="moved"), at="whole")
    return g.op("Cast", made, dtype=g.dtype(x))


def _wrapped(g: Importer, x: Value, bits: int, is_signed: bool) -> Value:
    """Lowest bits of integers."""
    low = 2.0 ** (bits - 1) if is_signed else 0.0
    moved = g.op("_plus_scalar", x, scalar=low, at="up")
    rest = g.op("_mod_scalar", moved, scalar=2.0**bits, at="bits")
    return g.op("_minus_scalar", rest, scalar=low, at="down")


@translates("BitCast")
def bit_cast(g: Importer, use: Use, x: Value) -> Value:
    """Bits reinterpreted as another type of equal size, for constants only."""
    code = use.number("to")
    dtype = dtype_of(code, "it")
    own = DTYPES.get(x.stored, g.dtype(x))
    if code in NARROW or x.stored in (*NARROW, BFLOAT16) or code == BFLOAT16:
        raise MXNetError("only element types that NumPy has are supported")
    if own.itemsize != dtype.itemsize:
        raise MXNetError(
            f"{own} and {dtype} differ in size: {own.itemsize} and {dtype.itemsize} bytes"
        )
    made = g.known(x, "input").astype(own).view(dtype)
    return g.stored(g.constant(as_supported(made, str(use))), code)


_PAIRS = {"BitwiseAnd": "broadcast_mul", "BitwiseOr": "broadcast_maximum"}


@translates("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(g: Importer, use: Use, x: Value, y: Value) -> Value:
    """Bitwise operator; the highest bit of signed integers has a negative weight."""
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
    """-1 - x; for unsigned types the largest value minus x."""
    number = -1.0 if _is_signed(g, x) else 2.0 ** _bits(g, x) - 1
    wide = g.op("Cast", x, dtype=_WHOLE, at="wide")
    return g.op("Cast", g.op("_rminus_scalar", wide, scalar=number, at="not"), dtype=g.dtype(x))
