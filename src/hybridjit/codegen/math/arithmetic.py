"""Arithmetic, comparisons and bits of floats of either size: the basis of all float formulas.

The methods work on scalars and vectors; ``single`` (f32) and ``double`` (f64) add the functions.
"""

from __future__ import annotations

import numpy as np

from ...ops.casting import scalar_of
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.types import F32, F64, I32, I64, IntType, Type, Value, constant_of

_INTEGERS: dict[Type, IntType] = {F32: I32, F64: I64}
_WHOLE_FROM: dict[Type, float] = {I32: 2.0**23, I64: 2.0**52}


class Masks:
    """Operations on masks, for any element type."""

    b: ir.IRBuilder

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        return self.b.select(mask, x, y)

    def mask_and(self, m: Value, n: Value) -> Value:
        return self.b.and_(m, n)

    def mask_or(self, m: Value, n: Value) -> Value:
        return self.b.or_(m, n)

    def mask_not(self, m: Value) -> Value:
        return self.b.not_(m)


class FloatArithmetic(Masks):
    """Formulas on floats of the type of ``like``, or on the builder's full vectors.

    ``operand`` is the element type of the operator's operands, if another type is computed in: f16
    is computed in f32, integers in f64.
    """

    def __init__(
        self, builder: LoopBuilder, like: Value | None = None, operand: np.dtype | None = None
    ) -> None:
        self.lb = builder
        self.b = builder.b
        self._kind = like.type if like is not None else builder.vector_type()
        self._operand = operand

    # --- constants and arithmetic ---

    def const(self, value: float) -> Value:
        return constant_of(self._kind, float(value))

    def scalar(self, value: float) -> Value:
        """A scalar operand, rounded to the element type of the operands."""
        if self._operand is not None:
            value = scalar_of(value, self._operand).item()
        return self.const(value)

    def add(self, x: Value, y: Value) -> Value:
        return self.b.fadd(x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.b.fsub(x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.b.fmul(x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.b.fdiv(x, y)

    ratio = div  # for integers these are two functions

    def neg(self, x: Value) -> Value:
        return self.b.fneg(x)

    def abs(self, x: Value) -> Value:
        return self.lb.intrinsic("fabs", x)

    def sqrt(self, x: Value) -> Value:
        return self.lb.intrinsic("sqrt", x)

    def floor(self, x: Value) -> Value:
        if self.lb.target.has_rounding:
            return self.lb.intrinsic("floor", x)
        whole = self.trunc(x)
        return self.select(self.gt(whole, x), self.sub(whole, self.const(1.0)), whole)

    def ceil(self, x: Value) -> Value:
        if self.lb.target.has_rounding:
            return self.lb.intrinsic("ceil", x)
        whole = self.trunc(x)
        more = self._with_sign(self.add(whole, self.const(1.0)), x)  # keeps -0.0
        return self.select(self.lt(whole, x), more, whole)

    def trunc(self, x: Value) -> Value:
        if self.lb.target.has_rounding:
            return self.lb.intrinsic("trunc", x)
        # Beyond the mantissa's bits all floats are integers; below, adding that limit rounds.
        limit, size = self.const(_WHOLE_FROM[self._ints_element()]), self.abs(x)
        nearest = self.sub(self.add(size, limit), limit)
        low = self.select(self.gt(nearest, size), self.sub(nearest, self.const(1.0)), nearest)
        return self.select(self.lt(size, limit), self._with_sign(low, x), x)

    def round_even(self, x: Value) -> Value:
        """The nearest integer, ties to even."""
        if self.lb.target.has_rounding:
            return self.lb.intrinsic("roundeven", x)
        limit, size = self.const(_WHOLE_FROM[self._ints_element()]), self.abs(x)
        nearest = self.sub(self.add(size, limit), limit)
        return self.select(self.lt(size, limit), self._with_sign(nearest, x), x)

    def max(self, x: Value, y: Value) -> Value:
        """The larger; NaN if either is NaN."""
        larger = self.b.select(self.b.fcmp_ordered(">", x, y), x, y)
        return self.b.select(self.b.fcmp_unordered("uno", x, x), x, larger)

    def min(self, x: Value, y: Value) -> Value:
        """The smaller; NaN if either is NaN."""
        smaller = self.b.select(self.b.fcmp_ordered("<", x, y), x, y)
        return self.b.select(self.b.fcmp_unordered("uno", x, x), x, smaller)

    # --- masks ---

    def eq(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_ordered("==", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_unordered("!=", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_ordered("<", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_ordered("<=", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_ordered(">", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self.b.fcmp_ordered(">=", x, y)

    def below(self, x: Value, bound: float) -> Value:
        """x < bound; the bound is exact for integers, and rounded to the type for floats."""
        return self.lt(x, self.const(bound))

    def above(self, x: Value, bound: float) -> Value:
        """x > bound, as in :meth:`below`."""
        return self.gt(x, self.const(bound))

    def is_nan(self, x: Value) -> Value:
        return self.b.fcmp_unordered("uno", x, x)

    # --- bits ---

    def _ints(self) -> Type:
        kind = self._kind
        if isinstance(kind, ir.VectorType):
            return ir.VectorType(_INTEGERS[kind.element], kind.count)
        return _INTEGERS[kind]

    def _ints_element(self) -> Type:
        kind = self._ints()
        return kind.element if isinstance(kind, ir.VectorType) else kind

    def _int(self, value: int) -> Value:
        return constant_of(self._ints(), value)

    def _to_bits(self, x: Value) -> Value:
        return self.b.bitcast(x, self._ints())

    def _from_bits(self, n: Value) -> Value:
        return self.b.bitcast(n, self._kind)

    def _with_sign(self, size: Value, sign: Value) -> Value:
        """``size`` with the sign of ``sign``."""
        return self.lb.intrinsic("copysign", size, sign)

    # --- shared by the functions ---

    def _polynomial(self, x: Value, coefficients: list[float]) -> Value:
        """Horner's scheme, highest power first."""
        result = self.const(coefficients[0])
        for c in coefficients[1:]:
            result = self.lb.fma(result, x, self.const(c))
        return result

    def _nan_or(self, x: Value, result: Value) -> Value:
        return self.select(self.b.fcmp_unordered("uno", x, x), x, result)
