"""Formulas of one element as ONNX nodes: the scalar builder's protocol on values of a file.

Input: the calls of an operator's ``scalar``. Output: nodes, with masks as bool tensors. As in the
reference, float16 is computed in single precision and integers in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..._core.types import TensorType
from ...errors import UnknownOpError
from ..exporter import Exporter, Use, Value


def by_formula(g: Exporter, use: Use, *operands: Value) -> Value:
    """Pointwise operator written by its formula."""
    dtype = g.dtype(operands[0])
    is_single = dtype.kind == "f" and dtype.itemsize < 8
    working = np.dtype("float32" if is_single else "float64")
    wide = [g.cast(x, working, "wide") for x in operands]
    assert use.op.scalar is not None
    made = use.op.scalar(Nodes(g, working), *wide, **use.attrs)
    result = use.types[0].dtype
    return g.cast(made, dtype if result is None else result, "")


def _calls(op_type: str) -> Callable[..., Value]:
    """Method that is one of ONNX's operators on numbers."""

    def method(self: Nodes, *values: Value) -> Value:
        return self.emit(op_type, *values)

    return method


def _tests(op_type: str) -> Callable[..., Value]:
    """Method whose result is a mask."""

    def method(self: Nodes, *values: Value) -> Value:
        return self.mask(op_type, *values)

    return method


def _absent(name: str) -> Callable[..., Value]:
    def method(self: Nodes, *values: Value) -> Value:
        raise UnknownOpError(f"computes {name}, which has no equivalent among ONNX's operators")

    return method


class Nodes:
    """All methods of scalar formulas, as nodes that compute in ``dtype``."""

    def __init__(self, g: Exporter, dtype: np.dtype) -> None:
        self.g = g
        self.dtype = dtype

    def emit(self, op_type: str, *values: Value) -> Value:
        """Node with a result of the formula's dtype."""
        type = TensorType(None, self.dtype)
        return self.g.emit(op_type, *values, at=op_type.lower(), type=type)

    def mask(self, op_type: str, *values: Value) -> Value:
        """Node with a bool result."""
        type = TensorType(None, np.dtype("bool"))
        return self.g.emit(op_type, *values, at=op_type.lower(), type=type)

    def const(self, value: float) -> Value:
        return self.g.constant(np.asarray(value, np.float64).astype(self.dtype))

    scalar = const

    def above(self, x: Value, bound: float) -> Value:
        return self.gt(x, self.const(bound))

    def below(self, x: Value, bound: float) -> Value:
        return self.lt(x, self.const(bound))

    add = _calls("Add")
    sub = _calls("Sub")
    mul = _calls("Mul")
    div = _calls("Div")
    ratio = _calls("Div")
    max = _calls("Max")
    min = _calls("Min")
    neg = _calls("Neg")
    abs = _calls("Abs")
    floor = _calls("Floor")
    ceil = _calls("Ceil")
    sqrt = _calls("Sqrt")
    exp = _calls("Exp")
    log = _calls("Log")
    tanh = _calls("Tanh")
    sin = _calls("Sin")
    cos = _calls("Cos")
    tan = _calls("Tan")
    arcsin = _calls("Asin")
    arccos = _calls("Acos")
    arctan = _calls("Atan")
    sinh = _calls("Sinh")
    cosh = _calls("Cosh")
    arcsinh = _calls("Asinh")
    arccosh = _calls("Acosh")
    arctanh = _calls("Atanh")
    power = _calls("Pow")
    erf = _calls("Erf")
    eq = _tests("Equal")
    lt = _tests("Less")
    le = _tests("LessOrEqual")
    gt = _tests("Greater")
    ge = _tests("GreaterOrEqual")
    mask_and = _tests("And")
    mask_or = _tests("Or")
    mask_not = _tests("Not")
    erfinv = _absent("the inverse of erf")
    gamma = _absent("the gamma function")
    gammaln = _absent("the logarithm of the gamma function")

    def ne(self, x: Value, y: Value) -> Value:
        return self.mask_not(self.eq(x, y))

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        return self.emit("Where", mask, x, y)

    def trunc(self, x: Value) -> Value:
        """Floor of positive values, ceiling of others."""
        return self.select(self.lt(x, self.const(0)), self.ceil(x), self.floor(x))

    def round_even(self, x: Value) -> Value:
        return self.emit("Round", x)

    def expm1(self, x: Value) -> Value:
        """2 sinh(x / 2) exp(x / 2), which avoids the cancellation of exp(x) - 1 near 0."""
        half = self.mul(x, self.const(0.5))
        return self.mul(self.mul(self.sinh(half), self.exp(half)), self.const(2))

    def log1p(self, x: Value) -> Value:
        """2 artanh(x / (x + 2)) near 0, else log(1 + x)."""
        near = self.lt(self.abs(x), self.const(0.5))
        inner = self.arctanh(self.div(x, self.add(x, self.const(2))))
        plain = self.log(self.add(x, self.const(1)))
        return self.select(near, self.mul(inner, self.const(2)), plain)

    def log2(self, x: Value) -> Value:
        return self.mul(self.log(x), self.const(1 / math.log(2)))

    def log10(self, x: Value) -> Value:
        return self.mul(self.log(x), self.const(1 / math.log(10)))

    def cbrt(self, x: Value) -> Value:
        root = self.power(self.abs(x), self.const(1 / 3))
        return self.mul(self.emit("Sign", x), root)

    def hypot(self, x: Value, y: Value) -> Value:
        return self.sqrt(self.add(self.mul(x, x), self.mul(y, y)))

    def mod(self, x: Value, y: Value) -> Value:
        """Remainder with the divisor's sign; 0 for a zero divisor."""
        rest = self.g.emit("Mod", x, y, at="rest", type=TensorType(None, self.dtype), fmod=1)
        zero = self.const(0)
        signs = self.mask("Xor", self.lt(x, zero), self.lt(y, zero))
        differ = self.mask_and(self.ne(rest, zero), signs)
        rest = self.select(differ, self.add(rest, y), rest)
        return self.select(self.eq(y, zero), zero, rest)
