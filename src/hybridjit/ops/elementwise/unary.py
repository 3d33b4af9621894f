"""Unary functions: exp, floor, relu and others; input ``data``, no attributes.

Each function is defined twice on purpose: for NumPy arrays of any dtype, and for one element on a
scalar builder. An operator without the second form runs in NumPy only. Results have the operand's
dtype: float16 is computed in single precision, integers in double, then truncated.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from .. import special
from ..attrs import AttrValue
from ..casting import exactly, in_floating, on_integers
from ..record import PLAIN, Eager, GradientStored, OnStored, OpDef, Traits
from ..registry import register
from ..rules import Types, refuse_bool, require_float, same_type
from ..signatures import Formula, Reference, ScalarBuilder, V

DEGREES = 180.0 / math.pi


def same_number(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """Rule for equal numeric types of all inputs and outputs."""
    refuse_bool(*ins, *outs)
    return same_type(ins, outs)


def same_float(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    """Rule for equal floating types of all inputs and outputs."""
    for t in (*ins, *outs):
        require_float("this operator", t)
    return same_type(ins, outs)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def scalar_sigmoid(b: ScalarBuilder[V], x: V) -> V:
    one = b.const(1.0)
    return b.div(one, b.add(one, b.exp(b.neg(x))))


def tanh(x: np.ndarray) -> np.ndarray:
    """NumPy's tanh; from 15 on in double precision, because it is one unit too large there."""
    y = np.tanh(x)
    if y.dtype != np.float64:
        return y
    size = np.minimum(np.abs(x), 30)
    return np.where(size > 15, np.copysign(1 - 2 / (np.exp(2 * size) + 1), x), y)


def softsign(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.abs(x))


def scalar_softsign(b: ScalarBuilder[V], x: V) -> V:
    return b.div(x, b.add(b.const(1.0), b.abs(x)))


def indicator(b: ScalarBuilder[V], mask: V) -> V:
    """1 where the mask is true, else 0."""
    return b.select(mask, b.const(1.0), b.const(0.0))


@on_integers(np.copy)
def _round(x: np.ndarray) -> np.ndarray:
    """Nearest integer, ties away from zero. Adding 0.5 first would round 0.49999997 up."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _scalar_round(b: ScalarBuilder[V], x: V) -> V:
    zero, one = b.const(0.0), b.const(1.0)
    whole = b.trunc(x)
    away = b.add(whole, b.select(b.lt(x, zero), b.const(-1.0), one))
    rest = b.abs(b.sub(x, whole))
    return b.select(b.ge(b.add(rest, rest), one), away, whole)


@on_integers(np.copy)
def _rint(x: np.ndarray) -> np.ndarray:
    """Nearest integer, ties down."""
    low, high = np.floor(x), np.ceil(x)
    return np.where(x - low <= high - x, low, high)


def _scalar_rint(b: ScalarBuilder[V], x: V) -> V:
    low, high = b.floor(x), b.ceil(x)
    return b.select(b.le(b.sub(x, low), b.sub(high, x)), low, high)


@exactly
def _sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; 0 for NaN."""
    return (x > 0).astype(np.int8) - (x < 0).astype(np.int8)


def _scalar_sign(b: ScalarBuilder[V], x: V) -> V:
    zero = b.const(0.0)
    return b.select(b.gt(x, zero), b.const(1.0), b.select(b.lt(x, zero), b.const(-1.0), zero))


def unary(
    name: str,
    ref: Reference,
    scalar: Formula | None,
    doc: str,
    domain: tuple[float, float] = (-4.0, 4.0),
    aliases: str = "sparse",
    slope: Formula | None = None,
    traits: Traits = PLAIN,
) -> OpDef:
    """Register a unary function. ``aliases="sparse"`` adds MXNet's ``_sparse_<name>``.

    MXNet has such a name for functions that compute on the stored data of sparse arrays.
    """
    is_sparse = aliases == "sparse" or aliases.startswith("_sparse_")
    return register(
        name,
        "data",
        infer=same_number,
        ref=ref,
        scalar=scalar,
        slope=slope,
        domain=domain,
        aliases=f"_sparse_{name}" if aliases == "sparse" else aliases,
        traits=replace(traits, on_stored=OnStored.EACH_OF_ZERO) if is_sparse else traits,
        doc=doc,
    )


def slope_of_sigmoid(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """head y (1 - y): the derivative of the quotient is NaN if exp(-x) overflows."""
    y = scalar_sigmoid(b, x)
    return (b.mul(head, b.mul(y, b.sub(b.const(1.0), y))),)


def slope_of_softsign(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """head / (1 + |x|)^2, also for infinite x."""
    size = b.add(b.const(1.0), b.abs(x))
    return (b.div(head, b.mul(size, size)),)


def _slope_of_rsqrt(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """-head / (2 x sqrt(x)): -inf at both zeros."""
    return (b.div(b.mul(head, b.const(-0.5)), b.mul(x, b.sqrt(x))),)


def straight_through(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """Straight-through gradient of a step function."""
    return (head,)


def _slope_of_relu(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """0 at 0; NaN remains."""
    zero = b.const(0.0)
    return (b.select(b.gt(x, zero), head, b.select(b.le(x, zero), zero, x)),)


def times(factor: float) -> Formula:
    return lambda b, x: b.mul(x, b.const(factor))


_AS_HEAD = Traits(gradient_stored=GradientStored.HEAD)
_AS_OPERAND = Traits(gradient_stored=GradientStored.OPERAND)
# Computed in double precision by kernels, in single precision by NumPy.
_IN_NUMPY = Traits(eager=Eager.NUMPY)
_AS_BOTH = Traits(gradient_stored=GradientStored.BOTH)

# Exact in every dtype
RELU = unary(
    "relu",
    exactly(lambda x: np.maximum(x, 0)),
    lambda b, x: b.max(x, b.const(0.0)),
    "x where positive, else 0; NaN remains NaN.",
    slope=_slope_of_relu,
    traits=Traits(keeps_sign=lambda attrs: True, gradient_stored=GradientStored.BOTH),
)
ABS = unary("abs", exactly(np.abs), lambda b, x: b.abs(x), "Absolute value.", traits=_AS_BOTH)
NEGATIVE = unary(
    "negative",
    exactly(np.negative),
    lambda b, x: b.neg(x),
    "-x; unsigned integers wrap.",
    traits=_AS_HEAD,
)
SQUARE = unary("square", exactly(np.square), lambda b, x: b.mul(x, x), "x * x.", traits=_AS_BOTH)
# Its gradient is 0, which MXNet computes by a backward operator: the backward path continues.
SIGN = unary(
    "sign",
    _sign,
    _scalar_sign,
    "-1, 0 or 1; 0 for NaN.",
    traits=replace(_AS_BOTH, stops=lambda attrs: ()),
)
unary(
    "_contrib_sign_ste",
    _sign,
    _scalar_sign,
    "sign, by its training name.",
    aliases="_sparse__contrib_sign_ste",
    slope=straight_through,
    traits=_AS_HEAD,
)
unary(
    "logical_not",
    exactly(lambda x: x == 0),
    lambda b, x: indicator(b, b.eq(x, b.const(0.0))),
    "1 where x is 0, else 0.",
    aliases="",
)

# Rounding; integers do not change
unary(
    "floor",
    on_integers(np.copy)(np.floor),
    lambda b, x: b.floor(x),
    "Largest integer <= x.",
    traits=_AS_OPERAND,
)
unary(
    "ceil",
    on_integers(np.copy)(np.ceil),
    lambda b, x: b.ceil(x),
    "Smallest integer >= x.",
    traits=_AS_OPERAND,
)
unary(
    "trunc",
    on_integers(np.copy)(np.trunc),
    lambda b, x: b.trunc(x),
    "Integer part of x.",
    traits=_AS_OPERAND,
)
unary(
    "fix",
    on_integers(np.copy)(np.trunc),
    lambda b, x: b.trunc(x),
    "Round towards zero.",
    traits=_AS_OPERAND,
)
unary(
    "round",
    _round,
    _scalar_round,
    "Round to the nearest integer, ties away from zero.",
    traits=_AS_OPERAND,
)
unary(
    "_contrib_round_ste",
    _round,
    _scalar_round,
    "round, by its training name.",
    aliases="_sparse__contrib_round_ste",
    slope=straight_through,
    traits=_AS_HEAD,
)
unary("rint", _rint, _scalar_rint, "Round to the nearest integer, ties down.", traits=_AS_OPERAND)

# Exponentials and roots
SIGMOID = unary(
    "sigmoid",
    in_floating(sigmoid),
    scalar_sigmoid,
    "1 / (1 + exp(-x)).",
    slope=slope_of_sigmoid,
)
unary(
    "softsign",
    in_floating(softsign),
    scalar_softsign,
    "x / (1 + |x|).",
    aliases="",
    slope=slope_of_softsign,
)
unary("tanh", in_floating(tanh), lambda b, x: b.tanh(x), "Hyperbolic tangent.")
EXP = unary("exp", in_floating(np.exp), lambda b, x: b.exp(x), "exp(x).", traits=_AS_HEAD)
unary("expm1", in_floating(np.expm1), lambda b, x: b.expm1(x), "exp(x) - 1.")
unary("log", in_floating(np.log), lambda b, x: b.log(x), "Natural logarithm.", (0.05, 8))
unary(
    "log2",
    in_floating(np.log2),
    lambda b, x: b.log2(x),
    "Logarithm to base 2.",
    (0.05, 8),
)
unary(
    "log10",
    in_floating(np.log10),
    lambda b, x: b.log10(x),
    "Logarithm to base 10.",
    (0.05, 8),
)
unary("log1p", in_floating(np.log1p), lambda b, x: b.log1p(x), "log(1 + x).", (-0.9, 8))
SQRT = unary("sqrt", in_floating(np.sqrt), lambda b, x: b.sqrt(x), "Square root.", (0.05, 8))
RSQRT = unary(
    "rsqrt",
    in_floating(lambda x: 1 / np.sqrt(x)),
    lambda b, x: b.div(b.const(1.0), b.sqrt(x)),
    "1 / sqrt(x).",
    (0.05, 8),
    slope=_slope_of_rsqrt,
)
unary("cbrt", in_floating(np.cbrt), lambda b, x: b.cbrt(x), "Cube root.", traits=_IN_NUMPY)
unary(
    "rcbrt",
    in_floating(lambda x: 1 / np.cbrt(x)),
    lambda b, x: b.div(b.const(1.0), b.cbrt(x)),
    "1 / cbrt(x).",
    (0.05, 8),
    "",
    traits=_IN_NUMPY,
)
unary(
    "reciprocal",
    in_floating(lambda x: 1 / x),
    lambda b, x: b.div(b.const(1.0), x),
    "1 / x.",
    (0.05, 8),
    "",
)
unary("degrees", in_floating(lambda x: x * DEGREES), times(DEGREES), "Radians to degrees.")
unary("radians", in_floating(lambda x: x / DEGREES), times(1 / DEGREES), "Degrees to radians.")
unary("erf", in_floating(special.erf), lambda b, x: b.erf(x), "Error function.", aliases="")

# Trigonometry and special functions
unary("sin", in_floating(np.sin), lambda b, x: b.sin(x), "Sine.")
unary("cos", in_floating(np.cos), lambda b, x: b.cos(x), "Cosine.")
unary("tan", in_floating(np.tan), lambda b, x: b.tan(x), "Tangent.", (-1.2, 1.2))
unary("arcsin", in_floating(np.arcsin), lambda b, x: b.arcsin(x), "Inverse sine.", (-0.95, 0.95))
unary("arccos", in_floating(np.arccos), lambda b, x: b.arccos(x), "Inverse cosine.", (-0.95, 0.95))
unary("arctan", in_floating(np.arctan), lambda b, x: b.arctan(x), "Inverse tangent.")
unary("sinh", in_floating(np.sinh), lambda b, x: b.sinh(x), "Hyperbolic sine.", traits=_IN_NUMPY)
unary("cosh", in_floating(np.cosh), lambda b, x: b.cosh(x), "Hyperbolic cosine.", traits=_IN_NUMPY)
unary("arcsinh", in_floating(np.arcsinh), lambda b, x: b.arcsinh(x), "Inverse hyperbolic sine.")
unary(
    "arccosh",
    in_floating(np.arccosh),
    lambda b, x: b.arccosh(x),
    "Inverse hyperbolic cosine.",
    (1.1, 8),
)
unary(
    "arctanh",
    in_floating(np.arctanh),
    lambda b, x: b.arctanh(x),
    "Inverse hyperbolic tangent.",
    (-0.9, 0.9),
)
unary(
    "erfinv",
    in_floating(special.erfinv),
    lambda b, x: b.erfinv(x),
    "Inverse error function.",
    (-0.9, 0.9),
    "",
)
unary(
    "gamma",
    in_floating(special.gamma),
    lambda b, x: b.gamma(x),
    "The gamma function.",
    (0.2, 5),
)
unary(
    "gammaln",
    in_floating(special.gammaln),
    lambda b, x: b.gammaln(x),
    "log |gamma(x)|.",
    (0.2, 5),
)
