"""Unary and binary functions.

Those of one operator are closures that shorten their errors themselves: eager calls of small arrays
save 0.1 us of 5 beside :func:`public` around a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from ..._core.frames import FAILURES, shortened
from .frontend import NUMBERS, Frontend, Group, check_keywords

_SAME = """exp expm1 log log2 log10 log1p sqrt cbrt square reciprocal sin cos tan arcsin arccos
arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil rint trunc fix degrees
radians negative sign isnan isinf isposinf isneginf isfinite logical_not bitwise_not
absolute"""
# Function -> operator, if their names differ.
_UNARY = {name: f"_npi_{name}" for name in _SAME.split()}
_UNARY.update(abs="_npi_absolute", fabs="_npi_absolute", invert="_npi_bitwise_not")
_UNARY.update(deg2rad="_npi_radians", rad2deg="_npi_degrees")

# Function -> operators of two tensors, of a tensor and a number, of a number and a tensor ("": the
# same).
_BINARY = {
    "add": ("_npi_add", "_npi_add_scalar", ""),
    "subtract": ("_npi_subtract", "_npi_subtract_scalar", "_npi_rsubtract_scalar"),
    "multiply": ("_npi_multiply", "_npi_multiply_scalar", ""),
    "divide": ("_npi_true_divide", "_npi_true_divide_scalar", "_npi_rtrue_divide_scalar"),
    "mod": ("_npi_mod", "_npi_mod_scalar", "_npi_rmod_scalar"),
    "power": ("_npi_power", "_npi_power_scalar", "_npi_rpower_scalar"),
    "maximum": ("_npi_maximum", "_npi_maximum_scalar", ""),
    "minimum": ("_npi_minimum", "_npi_minimum_scalar", ""),
    "hypot": ("_npi_hypot", "_npi_hypot_scalar", ""),
    "arctan2": ("_npi_arctan2", "_npi_arctan2_scalar", "_npi_rarctan2_scalar"),
    "copysign": ("_npi_copysign", "_npi_copysign_scalar", "_npi_rcopysign_scalar"),
    "ldexp": ("_npi_ldexp", "_npi_ldexp_scalar", "_npi_rldexp_scalar"),
    "lcm": ("_npi_lcm", "_npi_lcm_scalar", ""),
    "bitwise_and": ("_npi_bitwise_and", "_npi_bitwise_and_scalar", ""),
    "bitwise_or": ("_npi_bitwise_or", "_npi_bitwise_or_scalar", ""),
    "bitwise_xor": ("_npi_bitwise_xor", "_npi_bitwise_xor_scalar", ""),
    "equal": ("_npi_equal", "_npi_equal_scalar", ""),
    "not_equal": ("_npi_not_equal", "_npi_not_equal_scalar", ""),
    "less": ("_npi_less", "_npi_less_scalar", "_npi_greater_scalar"),
    "less_equal": ("_npi_less_equal", "_npi_less_equal_scalar", "_npi_greater_equal_scalar"),
    "greater": ("_npi_greater", "_npi_greater_scalar", "_npi_less_scalar"),
    "greater_equal": ("_npi_greater_equal", "_npi_greater_equal_scalar", "_npi_less_equal_scalar"),
}
_BINARY.update(true_divide=_BINARY["divide"], remainder=_BINARY["mod"])


def _unary(front: Frontend, name: str, op: str) -> Callable[..., Any]:
    official = getattr(onp, name)
    is_question = name.startswith("is") or name == "logical_not"
    is_float = name in ("floor", "ceil", "trunc")  # newer versions of NumPy keep bools
    tensor, on_own = front.tensor, front.on_own

    def function(x: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            if kwargs:
                check_keywords(name, kwargs)
            if isinstance(x, tensor):
                target = None if out is None else _out_of(front, out)
                if is_question and target is not None and target.dtype != onp.bool_:
                    raise TypeError(f"the result of {name} is bool, but out is {target.dtype}")
                return on_own(op, (x,), {}, target)
            if isinstance(x, NUMBERS):
                return official(onp.float16(x) if isinstance(x, bool) and is_float else x)
            raise _not_supported(front, op, x)
        except FAILURES as error:
            raise shortened(error)

    return _named(function, name, f"numpy.{name} of each element.")


def _named(function: Any, name: str, doc: str) -> Callable[..., Any]:
    function.__code__ = function.__code__.replace(co_name=name)  # for tracebacks
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function  # type: ignore[no-any-return]


def _out_of(front: Frontend, out: Any) -> Any:
    """Output array. Raises TypeError for an array of another kind."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if not isinstance(out, front.tensor):
        raise TypeError(f"out must be an ndarray of NumPy mode, got {type(out)}")
    return out


def _not_supported(front: Frontend, op: str, x: Any) -> TypeError:
    """Error for an operand that is neither a tensor nor a number."""
    if isinstance(x, front.other):
        front.check(op, x)
    return TypeError(f"type {type(x)} not supported")


def _binary(front: Frontend, name: str, ops: tuple[str, str, str]) -> Callable[..., Any]:
    of_two, behind, before = ops[0], ops[1], ops[2] or ops[1]
    tensor, on_own = front.tensor, front.on_own

    def function(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            if kwargs:
                check_keywords(name, kwargs)
            if out is not None:
                out = _out_of(front, out)
            if isinstance(x1, tensor):
                if isinstance(x2, tensor):
                    return on_own(of_two, (x1, x2), {}, out)
                if isinstance(x2, NUMBERS):
                    return _with_number(front, behind, x1, x2, out)
            elif isinstance(x1, NUMBERS) and isinstance(x2, tensor):
                return _with_number(front, before, x2, x1, out)
            return _of_numbers(front, name, of_two, x1, x2)
        except FAILURES as error:
            raise shortened(error)

    return _named(function, name, f"numpy.{name} of two arrays or numbers.")


def _with_number(front: Frontend, op: str, x: Any, scalar: Any, out: Any) -> Any:
    if front.is_symbolic:
        return front.op(op, x, scalar=float(scalar), is_int=True)
    return front.on_own(op, (x,), {"scalar": float(scalar)}, out)


def _of_numbers(front: Frontend, name: str, op: str, x1: Any, x2: Any) -> Any:
    """Official NumPy's result for two numbers. Raises TypeError for other operands."""
    for x in (x1, x2):
        if not isinstance(x, (front.tensor, *NUMBERS)):
            raise _not_supported(front, op, x)
    return getattr(onp, name)(x1, x2)


class Elementwise(Group):
    """Unary and binary functions, rounding, and selection."""

    def __init__(self, front: Frontend) -> None:
        super().__init__(front)
        for name, op in _UNARY.items():
            setattr(self, name, _unary(front, name, op))
        for name, ops in _BINARY.items():
            setattr(self, name, _binary(front, name, ops))

    def around(self, x: Any, decimals: int = 0, out: Any = None, **kwargs: Any) -> Any:
        """Elements rounded to decimals, ties to even."""
        check_keywords("around", kwargs)
        if isinstance(x, NUMBERS):
            return onp.around(x, decimals)
        if not isinstance(x, (self._front.tensor, self._front.other)):
            raise TypeError(f"type {type(x)} not supported")
        return self._op("_npi_around", x, decimals=decimals, out=out)

    round = around
    round_ = around

    def clip(self, a: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
        """Elements limited to an interval; one bound may be None."""
        if a_min is None and a_max is None:
            raise ValueError("array_clip: must set either max or min")
        if isinstance(a, NUMBERS):
            return onp.clip(a, a_min, a_max)
        low = -float("inf") if a_min is None else a_min
        high = float("inf") if a_max is None else a_max
        return self._op("clip", a, a_min=float(low), a_max=float(high), out=out)

    def nan_to_num(
        self,
        x: Any,
        copy: bool = True,
        nan: float = 0.0,
        posinf: float | None = None,
        neginf: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """NaN, inf and -inf replaced by numbers; in place if ``copy`` is False."""
        if isinstance(x, NUMBERS):
            return onp.nan_to_num(x, copy, nan, posinf, neginf)
        if not isinstance(x, (self._front.tensor, self._front.other)):
            raise TypeError(f"type {type(x)} not supported")
        target = None if copy else x
        return self._op(
            "_npi_nan_to_num", x, copy=copy, nan=nan, posinf=posinf, neginf=neginf, out=target
        )

    def where(self, condition: Any, x: Any = None, y: Any = None) -> Any:
        """x where the condition is nonzero, else y; without x and y the indices of nonzero
        elements."""
        if x is None and y is None:
            return self.nonzero(condition)  # type: ignore[attr-defined]
        if x is None or y is None:
            raise ValueError("either both or neither of x and y should be given")
        if isinstance(condition, NUMBERS):
            return x if condition else y
        x_is_number, y_is_number = isinstance(x, NUMBERS), isinstance(y, NUMBERS)
        if x_is_number and y_is_number:
            return self._op("_npi_where_scalar2", condition, x=float(x), y=float(y))
        if x_is_number:
            return self._op("_npi_where_lscalar", condition, y, scalar=float(x))
        if y_is_number:
            return self._op("_npi_where_rscalar", condition, x, scalar=float(y))
        return self._op("_npi_where", condition, x, y)
