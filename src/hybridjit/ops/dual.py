"""Forward-mode derivatives of formulas: a scalar builder whose values have a tangent.

Input: a scalar builder. Output: another one with the same methods (see :class:`.scalars.Scalars`),
on which a formula computes its value and its directional derivative with respect to the operands'
tangents. A tangent of None is 0 everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .signatures import ScalarBuilder

Value = Any  # value of the underlying builder
Tangent = Any  # the same, or None


class Dual(NamedTuple):
    """Value and tangent."""

    value: Value
    tangent: Tangent = None


class DualScalars:
    """Methods of a scalar builder on :class:`Dual`, implemented by those of ``b``."""

    def __init__(self, b: ScalarBuilder[Value]) -> None:
        self.b = b

    def const(self, value: float) -> Dual:
        return Dual(self.b.const(value))

    def scalar(self, value: float) -> Dual:
        return Dual(self.b.scalar(value))

    def above(self, x: Dual, bound: float) -> Value:
        return self.b.above(x.value, bound)

    def below(self, x: Dual, bound: float) -> Value:
        return self.b.below(x.value, bound)

    def select(self, mask: Value, x: Dual, y: Dual) -> Dual:
        value = self.b.select(mask, x.value, y.value)
        return Dual(value, self._either(mask, x.tangent, y.tangent))

    def add(self, x: Dual, y: Dual) -> Dual:
        return Dual(self.b.add(x.value, y.value), self._sum(x.tangent, y.tangent))

    def sub(self, x: Dual, y: Dual) -> Dual:
        value = self.b.sub(x.value, y.value)
        if x.tangent is None or y.tangent is None:
            return Dual(value, self._sum(x.tangent, self._negated(y.tangent)))
        return Dual(value, self.b.sub(x.tangent, y.tangent))

    def mul(self, x: Dual, y: Dual) -> Dual:
        left, right = self._scaled(x.tangent, y.value), self._scaled(y.tangent, x.value)
        return Dual(self.b.mul(x.value, y.value), self._sum(left, right))

    def div(self, x: Dual, y: Dual) -> Dual:
        return self._quotient(self.b.div(x.value, y.value), x, y)

    def ratio(self, x: Dual, y: Dual) -> Dual:
        return self._quotient(self.b.ratio(x.value, y.value), x, y)

    def max(self, x: Dual, y: Dual) -> Dual:
        """Tangent of the larger operand, of the first for ties; 0 if one operand is NaN."""
        b = self.b
        first, second = b.ge(x.value, y.value), b.lt(x.value, y.value)
        return Dual(b.max(x.value, y.value), self._chosen(first, x, second, y))

    def min(self, x: Dual, y: Dual) -> Dual:
        """Tangent of the smaller operand, of the first for ties; 0 if one operand is NaN."""
        b = self.b
        first, second = b.le(x.value, y.value), b.gt(x.value, y.value)
        return Dual(b.min(x.value, y.value), self._chosen(first, x, second, y))

    def abs(self, x: Dual) -> Dual:
        """Sign times the tangent: 0 at 0 and at NaN."""
        b, zero = self.b, self.b.const(0.0)
        if x.tangent is None:
            return Dual(b.abs(x.value))
        falling = self._either(b.lt(x.value, zero), b.neg(x.tangent), None)
        return Dual(b.abs(x.value), b.select(b.gt(x.value, zero), x.tangent, falling))

    def power(self, x: Dual, y: Dual) -> Dual:
        b = self.b
        value = b.power(x.value, y.value)
        left = right = None
        if x.tangent is not None:
            slope = b.mul(y.value, b.power(x.value, b.sub(y.value, b.const(1.0))))
            left = b.mul(x.tangent, slope)
        if y.tangent is not None:
            right = b.mul(y.tangent, b.mul(value, b.log(x.value)))
        return Dual(value, self._sum(left, right))

    def hypot(self, x: Dual, y: Dual) -> Dual:
        b = self.b
        value = b.hypot(x.value, y.value)
        left = None if x.tangent is None else b.mul(x.tangent, b.div(x.value, value))
        right = None if y.tangent is None else b.mul(y.tangent, b.div(y.value, value))
        return Dual(value, self._sum(left, right))

    def mod(self, x: Dual, y: Dual) -> Dual:
        b = self.b
        right = None
        if y.tangent is not None:
            right = b.neg(b.mul(y.tangent, b.floor(b.div(x.value, y.value))))
        return Dual(b.mod(x.value, y.value), self._sum(x.tangent, right))

    def neg(self, x: Dual) -> Dual:
        return Dual(self.b.neg(x.value), self._negated(x.tangent))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Methods from tables: comparisons, step functions, functions of one value."""
        if name in _COMPARISONS:
            return lambda x, y: getattr(self.b, name)(x.value, y.value)
        if name in _ON_MASKS:
            return getattr(self.b, name)
        if name in _STEPS:
            return lambda x: Dual(getattr(self.b, name)(x.value))
        if name in _SLOPES:
            return lambda x: self._function(name, x)
        raise AttributeError(f"the scalar method {name} does not have a derivative")

    def _function(self, name: str, x: Dual) -> Dual:
        value = getattr(self.b, name)(x.value)
        if x.tangent is None:
            return Dual(value)
        return Dual(value, _SLOPES[name](self.b, x.tangent, x.value, value))

    def _quotient(self, value: Value, x: Dual, y: Dual) -> Dual:
        b = self.b
        left = None if x.tangent is None else b.div(x.tangent, y.value)
        right = None if y.tangent is None else b.mul(y.tangent, b.div(value, y.value))
        return Dual(value, self._sum(left, self._negated(right)))

    def _chosen(self, first: Value, x: Dual, second: Value, y: Dual) -> Tangent:
        return self._either(first, x.tangent, self._either(second, y.tangent, None))

    def _either(self, mask: Value, x: Tangent, y: Tangent) -> Tangent:
        if x is None and y is None:
            return None
        zero = self.b.const(0.0)
        return self.b.select(mask, zero if x is None else x, zero if y is None else y)

    def _sum(self, x: Tangent, y: Tangent) -> Tangent:
        if x is None or y is None:
            return y if x is None else x
        return self.b.add(x, y)

    def _scaled(self, tangent: Tangent, factor: Value) -> Tangent:
        return None if tangent is None else self.b.mul(tangent, factor)

    def _negated(self, tangent: Tangent) -> Tangent:
        return None if tangent is None else self.b.neg(tangent)


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_ON_MASKS = frozenset({"mask_and", "mask_or", "mask_not"})
_STEPS = frozenset({"floor", "ceil", "trunc", "round_even"})  # piecewise constant


def _over(factor: float) -> Callable[..., Value]:
    """t / (factor x)"""
    return lambda b, t, x, y: b.div(t, b.mul(x, b.const(factor)))


def _over_square(b: ScalarBuilder[Value], t: Value, x: Value) -> Value:
    """t / (1 + x x)"""
    return b.div(t, b.add(b.const(1.0), b.mul(x, x)))


def _over_root(b: ScalarBuilder[Value], t: Value, square: Value) -> Value:
    return b.div(t, b.sqrt(square))


def _one_minus(b: ScalarBuilder[Value], x: Value) -> Value:
    return b.sub(b.const(1.0), b.mul(x, x))


# Bernoulli's B_2k / 2k, highest first: the asymptotic series of digamma in 1 / x^2
_SERIES = (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
_SHIFT = 6  # the series has double precision from this x on


def digamma(b: ScalarBuilder[Value], x: Value) -> Value:
    """Derivative of log gamma, as a formula; infinite at 0, -1, -2, ..., -inf.

    psi(x) = psi(x + 1) - 1/x up to the range of the series, and the reflection psi(x) = psi(1 - x)
    - pi / tan(pi x) for negative x.
    """
    zero, one = b.const(0.0), b.const(1.0)
    is_low = b.le(x, zero)
    start = b.select(is_low, b.sub(one, x), x)
    total = zero
    for k in range(_SHIFT):
        total = b.sub(total, b.div(one, b.add(start, b.const(float(k)))))
    far = b.add(start, b.const(float(_SHIFT)))
    inverse = b.div(one, b.mul(far, far))
    series = zero
    for coefficient in _SERIES:
        series = b.mul(inverse, b.add(b.const(coefficient), series))
    total = b.add(total, b.sub(b.sub(b.log(far), b.div(b.const(0.5), far)), series))
    turn = b.mul(b.const(math.pi), b.sub(x, b.floor(x)))
    mirrored = b.sub(total, b.div(b.const(math.pi), b.tan(turn)))
    is_pole = b.eq(x, b.floor(x))
    return b.select(is_low, b.select(is_pole, b.const(math.inf), mirrored), total)


# name: (builder, tangent, operand, result) -> tangent of the result
_SLOPES: dict[str, Callable[[ScalarBuilder[Value], Value, Value, Value], Value]] = {
    "sqrt": lambda b, t, x, y: b.div(b.mul(t, b.const(0.5)), y),
    "cbrt": lambda b, t, x, y: b.div(t, b.mul(b.const(3.0), b.mul(y, y))),
    "exp": lambda b, t, x, y: b.mul(t, y),
    "expm1": lambda b, t, x, y: b.mul(t, b.add(y, b.const(1.0))),
    "log": lambda b, t, x, y: b.div(t, x),
    "log1p": lambda b, t, x, y: b.div(t, b.add(b.const(1.0), x)),
    "log2": _over(math.log(2.0)),
    "log10": _over(math.log(10.0)),
    "sin": lambda b, t, x, y: b.mul(t, b.cos(x)),
    "cos": lambda b, t, x, y: b.neg(b.mul(t, b.sin(x))),
    "tan": lambda b, t, x, y: b.mul(t, b.add(b.const(1.0), b.mul(y, y))),
    "arcsin": lambda b, t, x, y: _over_root(b, t, _one_minus(b, x)),
    "arccos": lambda b, t, x, y: b.neg(_over_root(b, t, _one_minus(b, x))),
    "arctan": lambda b, t, x, y: _over_square(b, t, x),
    "sinh": lambda b, t, x, y: b.mul(t, b.cosh(x)),
    "cosh": lambda b, t, x, y: b.mul(t, b.sinh(x)),
    "tanh": lambda b, t, x, y: b.mul(t, _one_minus(b, y)),
    "arcsinh": lambda b, t, x, y: _over_root(b, t, b.add(b.mul(x, x), b.const(1.0))),
    "arccosh": lambda b, t, x, y: _over_root(b, t, b.sub(b.mul(x, x), b.const(1.0))),
    "arctanh": lambda b, t, x, y: b.div(t, _one_minus(b, x)),
    "erf": lambda b, t, x, y: b.mul(
        b.mul(t, b.const(2 / math.sqrt(math.pi))), b.exp(b.neg(b.mul(x, x)))
    ),
    "erfinv": lambda b, t, x, y: b.mul(
        b.mul(t, b.const(math.sqrt(math.pi) / 2)), b.exp(b.mul(y, y))
    ),
    "gamma": lambda b, t, x, y: b.mul(t, b.mul(y, digamma(b, x))),
    "gammaln": lambda b, t, x, y: b.mul(t, digamma(b, x)),
}
