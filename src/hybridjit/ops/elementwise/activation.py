"""Activations and other unary functions with attributes: clip, smooth_l1, ...

``LeakyReLU`` with ``prelu`` has a second input: gamma of C elements is along axis 1 of the data
(axis 0 of 1-D data), a matrix is along axes 0 and 1, a single element applies to all.
:func:`gamma_shape` implements that rule; its scalar form has two aligned values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..._core.types import PartialShape, product, shape_text
from ...errors import ShapeError
from .. import special
from ..attrs import AttrValue
from ..building import Builder, X
from ..casting import exactly, in_floating, scalar_of
from ..dual import Dual, DualScalars
from ..internal import PRELU
from ..record import OnStored, Traits
from ..registry import register
from ..rules import Types, same_dtype
from ..signatures import Formula, ScalarBuilder, V
from ..tensor.primitives import reshape
from .unary import (
    same_float,
    same_number,
    scalar_sigmoid,
    scalar_softsign,
    sigmoid,
    slope_of_sigmoid,
    slope_of_softsign,
    softsign,
)

# Klambauer et al. 2017, "Self-normalizing neural networks": the fixed point for mean 0, variance 1
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


def _softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)) without overflow; NaN remains."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _scalar_softplus(b: ScalarBuilder[V], x: V) -> V:
    return b.add(b.max(x, b.const(0.0)), b.log1p(b.exp(b.neg(b.abs(x)))))


def _scalar_positive(b: ScalarBuilder[V], x: V) -> V:
    zero = b.const(0.0)
    return b.select(b.gt(x, zero), x, zero)


def _positive(x: np.ndarray) -> np.ndarray:
    """``x`` where positive, else 0, also for NaN; takes a tenth of the time of ``np.where``."""
    y = np.asarray(np.fmax(x, 0))
    return np.abs(y, out=y)  # NumPy's fmax of 0 and -0.0 is either


# act_type: on arrays, on a scalar builder. Unlike the operator relu, relu of NaN is 0 here.
_ACTIVATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Formula]] = {
    "relu": (_positive, _scalar_positive),
    "sigmoid": (sigmoid, scalar_sigmoid),
    "tanh": (np.tanh, lambda b, x: b.tanh(x)),
    "softrelu": (_softplus, _scalar_softplus),
    "softsign": (softsign, scalar_softsign),
}


def _slope_of_softplus(b: ScalarBuilder[V], head: V, x: V) -> tuple[V, ...]:
    """head sigmoid(x): max and abs have kinks at 0, but their sum does not."""
    return (b.mul(head, scalar_sigmoid(b, x)),)


_SMOOTH = {
    "sigmoid": slope_of_sigmoid,
    "softrelu": _slope_of_softplus,
    "softsign": slope_of_softsign,
}


def _slope_of_activation(b: ScalarBuilder[V], head: V, x: V, *, act_type: str) -> tuple[V, ...]:
    if act_type in _SMOOTH:
        return _SMOOTH[act_type](b, head, x)
    return (_ACTIVATIONS[act_type][1](DualScalars(b), Dual(x, head)).tangent,)


@in_floating
def activation(x: np.ndarray, *, act_type: str) -> np.ndarray:
    return _ACTIVATIONS[act_type][0](x)


register(
    "Activation",
    "data",
    "act_type:relu|sigmoid|softrelu|softsign|tanh!",
    infer=same_float,
    ref=activation,
    scalar=lambda b, x, act_type: _ACTIVATIONS[act_type][1](b, x),
    slope=_slope_of_activation,
    traits=Traits(keeps_sign=lambda attrs: attrs["act_type"] == "relu"),
    doc="relu (NaN gives 0), sigmoid, softrelu = log(1 + exp(x)), softsign or tanh.",
)


def gamma_shape(data: PartialShape, gamma: tuple[int, ...]) -> tuple[int, ...]:
    """Shape with which prelu's gamma broadcasts against the data. Raises ShapeError."""
    axis = 1 if len(data) > 1 else 0
    if product(gamma) == 1:
        return (1,) * len(data)
    if len(gamma) == 2 <= len(data) and all(g in (1, d) for g, d in zip(gamma, data)):
        return gamma + (1,) * (len(data) - 2)
    if len(gamma) != 1 or gamma[0] != data[axis]:
        raise ShapeError(
            f"gamma {shape_text(gamma)} must be (1,), match axis {axis} of data {shape_text(data)} "
            "or, of two dimensions, its first two axes"
        )
    return tuple(gamma[0] if i == axis else 1 for i in range(len(data)))


def _leaky_types(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    (data,), outs = same_float(ins[:1], outs)
    if len(ins) == 1:
        return (data,), outs
    gamma = ins[1].with_dtype(same_dtype(data, ins[1]))
    if gamma.shape is None and data.shape:
        gamma = gamma.with_shape((data.shape[1] if len(data.shape) > 1 else data.shape[0],))
    if gamma.is_known and data.is_known:
        gamma_shape(data.dims, gamma.dims)
    return (data, gamma), outs


def _elu(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x > 0, x, x.dtype.type(slope) * np.expm1(x))


def _gelu(x: np.ndarray) -> np.ndarray:
    inner = special.erf(x.astype(np.float64) / math.sqrt(2.0)).astype(x.dtype)
    return x.dtype.type(0.5) * x * (1 + inner)


@in_floating
def leaky_relu(
    x: np.ndarray,
    *gamma: np.ndarray,
    act_type: str,
    slope: float,
    lower_bound: float,
    upper_bound: float,
) -> np.ndarray:
    number = x.dtype.type
    if act_type == "gelu":
        return _gelu(x)
    if act_type == "elu":
        return _elu(x, slope)
    if act_type == "selu":
        return number(SELU_SCALE) * _elu(x, SELU_ALPHA)
    if act_type == "prelu":
        return np.where(x > 0, x, x * gamma[0].reshape(gamma_shape(x.shape, gamma[0].shape)))
    factor = slope if act_type == "leaky" else (lower_bound + upper_bound) / 2
    return np.where(x > 0, x, x * number(factor))


def _scalar_leaky_relu(
    b: ScalarBuilder[V],
    x: V,
    *gamma: V,
    act_type: str,
    slope: float,
    lower_bound: float,
    upper_bound: float,
) -> V:
    if act_type == "gelu":
        inner = b.add(b.const(1.0), b.erf(b.mul(x, b.const(math.sqrt(0.5)))))
        return b.mul(b.mul(b.const(0.5), x), inner)
    if act_type in ("elu", "selu"):
        factor = b.const(slope if act_type == "elu" else SELU_ALPHA)
        bent = b.select(b.gt(x, b.const(0.0)), x, b.mul(factor, b.expm1(x)))
        return bent if act_type == "elu" else b.mul(b.const(SELU_SCALE), bent)
    mean_slope = slope if act_type == "leaky" else (lower_bound + upper_bound) / 2
    factor = gamma[0] if act_type == "prelu" else b.const(mean_slope)
    return b.select(b.gt(x, b.const(0.0)), x, b.mul(x, factor))


def _slope_of_leaky_relu(
    b: ScalarBuilder[V], head: V, x: V, *gamma: V, act_type: str, slope: float, **bounds: float
) -> tuple[V, ...]:
    """Slopes of leaky and elu: of the negative branch up to 0, 1 for positive x and NaN."""
    if act_type not in ("leaky", "elu"):
        duals = [Dual(x, head), *map(Dual, gamma)], [Dual(x), *(Dual(k, head) for k in gamma)]
        attrs: dict[str, Any] = {"act_type": act_type, "slope": slope, **bounds}
        sides = duals if gamma else duals[:1]
        return tuple(_scalar_leaky_relu(DualScalars(b), *s, **attrs).tangent for s in sides)
    bent = b.mul(head, b.const(slope))
    if act_type == "elu":
        bent = b.mul(bent, b.exp(x))
    return (b.select(b.le(x, b.const(0.0)), bent, head),)


def _aligned_prelu(
    g: Builder[X], data: X, *gamma: X, act_type: str, **attrs: AttrValue
) -> X | None:
    """LeakyReLU(x, gamma, prelu)  =>  _prelu(x, gamma on its axis)"""
    if act_type != "prelu":
        return None
    t = g.type(gamma[0])
    aligned = gamma[0]
    if t.size > 1:
        aligned = reshape(g, aligned, gamma_shape(g.type(data).dims, t.dims), at="gamma")
    return g.op(PRELU, data, aligned)


register(
    "LeakyReLU",
    lambda act_type, **attrs: ("data", "gamma") if act_type == "prelu" else ("data",),
    "act_type:elu|gelu|leaky|prelu|rrelu|selu=leaky slope:float=0.25"
    " lower_bound:float=0.125 upper_bound:float=0.334",
    infer=_leaky_types,
    ref=leaky_relu,
    scalar=_scalar_leaky_relu,
    slope=_slope_of_leaky_relu,
    expand=_aligned_prelu,
    traits=Traits(
        names_data=True,
        total_outputs=lambda act_type, **attrs: 2 if act_type == "rrelu" else 1,
        initial={"gamma": '["Constant", {"value": 0.25}]'},
    ),
    doc="x where positive, else slope*x, gamma*x or slope*(exp(x)-1); or gelu by erf.",
)


@in_floating
def hard_sigmoid(x: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
    number = x.dtype.type
    return np.maximum(np.minimum(x * number(alpha) + number(beta), number(1)), number(0))


def _scalar_hard_sigmoid(b: ScalarBuilder[V], x: V, *, alpha: float, beta: float) -> V:
    line = b.add(b.mul(x, b.const(alpha)), b.const(beta))
    return b.max(b.min(line, b.const(1.0)), b.const(0.0))


def _slope_of_hard_sigmoid(
    b: ScalarBuilder[V], head: V, x: V, *, alpha: float, beta: float
) -> tuple[V, ...]:
    """alpha between the bounds, 0 at the bounds."""
    zero, one = b.const(0.0), b.const(1.0)
    line = b.add(b.mul(x, b.const(alpha)), b.const(beta))
    inside = b.mask_and(b.gt(line, zero), b.lt(line, one))
    return (b.select(inside, b.mul(head, b.const(alpha)), zero),)


register(
    "hard_sigmoid",
    "data",
    "alpha:float=0.2 beta:float=0.5",
    infer=same_float,
    ref=hard_sigmoid,
    scalar=_scalar_hard_sigmoid,
    slope=_slope_of_hard_sigmoid,
    doc="max(0, min(1, alpha * x + beta)).",
)


@exactly
def clip(x: np.ndarray, *, a_min: float, a_max: float) -> np.ndarray:
    """x limited to [a_min, a_max]; the upper bound is compared first.

    Integers are compared with the bounds as floats and replaced by truncated bounds, so a bound out
    of the dtype's range has no effect.
    """
    low, high = scalar_of(a_min, x.dtype), scalar_of(a_max, x.dtype)
    is_float = x.dtype.kind == "f"
    wide = x if is_float else x.astype(np.float64)
    below = wide < (low if is_float else a_min)
    above = wide > (high if is_float else a_max)
    return np.where(above, high, np.where(below, low, x))


def _scalar_clip(b: ScalarBuilder[V], x: V, *, a_min: float, a_max: float) -> V:
    low, high = b.const(a_min), b.const(a_max)
    return b.select(b.above(x, a_max), high, b.select(b.below(x, a_min), low, x))


register(
    "clip",
    "data",
    "a_min:float! a_max:float!",
    infer=same_number,
    ref=clip,
    scalar=_scalar_clip,
    aliases="_sparse_clip",
    traits=Traits(on_stored=OnStored.EACH_OF_ZERO),
    doc="x limited to [a_min, a_max]; NaN remains NaN.",
)


@in_floating
def _smooth_l1(x: np.ndarray, scalar: np.ndarray) -> np.ndarray:
    number = x.dtype.type
    size, square = np.abs(x), scalar * scalar
    inverse = number(1) / square
    half = number(0.5)
    return np.where(size > inverse, size - half * inverse, half * x * x * square)


@wraps(_smooth_l1)
def smooth_l1(x: np.ndarray, *, scalar: float) -> np.ndarray:
    """smooth_l1; for integers the scalar is truncated."""
    return _smooth_l1(x, scalar_of(scalar, x.dtype))


def _scalar_smooth_l1(b: ScalarBuilder[V], x: V, *, scalar: float) -> V:
    number = b.scalar(scalar)
    half, square = b.const(0.5), b.mul(number, number)
    inverse = b.div(b.const(1.0), square)
    size = b.abs(x)
    bowl = b.mul(b.mul(b.mul(half, x), x), square)
    return b.select(b.gt(size, inverse), b.sub(size, b.mul(half, inverse)), bowl)


register(
    "smooth_l1",
    "data",
    "scalar:double=1",
    infer=same_number,
    ref=smooth_l1,
    scalar=_scalar_smooth_l1,
    doc="0.5 (s x)^2 where |x| <= 1/s^2, else |x| - 0.5/s^2.",
)


@in_floating
def quadratic(x: np.ndarray, *, a: float, b: float, c: float) -> np.ndarray:
    number = x.dtype.type
    return (number(a) * x + number(b)) * x + number(c)


def _scalar_quadratic(builder: ScalarBuilder[V], x: V, *, a: float, b: float, c: float) -> V:
    line = builder.add(builder.mul(builder.const(a), x), builder.const(b))
    return builder.add(builder.mul(line, x), builder.const(c))


register(
    "_contrib_quadratic",
    "data",
    "a:float=0 b:float=0 c:float=0",
    infer=same_number,
    ref=quadratic,
    scalar=_scalar_quadratic,
    traits=Traits(names_data=True, on_stored=OnStored.QUADRATIC),
    doc="a * x^2 + b * x + c.",
)
