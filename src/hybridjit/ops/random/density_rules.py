"""Gradients and expansions of the densities of :mod:`.density`, from their logarithms, on any
builder.

A formula omits terms without a gradient: constants, and functions of counts alone, which have none
in MXNet. ``_REST`` has these terms for the expansions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..._core.types import FLOAT64, Shape
from ..algebra import (
    add,
    as_shape,
    div,
    fitted,
    in_dtype,
    mul,
    negated,
    scaled,
    shifted,
    sub,
    total,
    zeros_like,
)
from ..building import Builder, Many, X
from ..gradient import Traced, Tracer, backpropagate
from ..registry import lookup
from ..signatures import Expansion, Gradient

Formula = Callable[..., Any]


def _log(g: Builder[X], x: X) -> X:
    return g.op(lookup("log"), x, at="log")


def _gammaln(g: Builder[X], x: X) -> X:
    return g.op(lookup("gammaln"), x, at="gammaln")


def _uniform(g: Builder[X], x: X, low: X, high: X) -> X:
    return negated(g, _log(g, sub(g, high, low)))


def _normal(g: Builder[X], x: X, mu: X, sigma: X) -> X:
    off = div(g, sub(g, x, mu), sigma)
    return sub(g, scaled(g, mul(g, off, off), -0.5), _log(g, sigma))


def _gamma(g: Builder[X], x: X, alpha: X, beta: X) -> X:
    powers = add(g, mul(g, alpha, _log(g, beta)), mul(g, shifted(g, alpha, -1.0), _log(g, x)))
    return sub(g, powers, add(g, mul(g, beta, x), _gammaln(g, alpha)))


def _exponential(g: Builder[X], x: X, lam: X) -> X:
    return sub(g, _log(g, lam), mul(g, lam, x))


def _poisson(g: Builder[X], x: X, lam: X) -> X:
    return sub(g, mul(g, x, _log(g, lam)), lam)


def _negative_binomial(g: Builder[X], x: X, k: X, p: X) -> X:
    ways = sub(g, _gammaln(g, add(g, x, k)), _gammaln(g, k))
    misses = g.op(lookup("log1p"), negated(g, p), at="misses")
    return add(g, ways, add(g, mul(g, k, _log(g, p)), mul(g, x, misses)))


def _mean_negative_binomial(g: Builder[X], x: X, mu: X, alpha: X) -> X:
    one = g.op(lookup("reciprocal"), alpha, at="k")
    p = g.op(lookup("reciprocal"), shifted(g, mul(g, mu, alpha), 1.0), at="p")
    return _negative_binomial(g, x, one, p)


def _dirichlet(g: Builder[X], x: X, alpha: X) -> X:
    def sums(y: X) -> X:
        return total(g, y, (g.type(y).ndim - 1,))

    powers = sums(mul(g, shifted(g, alpha, -1.0), _log(g, x)))
    return add(g, powers, sub(g, _gammaln(g, sums(alpha)), sums(_gammaln(g, alpha))))


def _rule(formula: Formula, own_axes: int = 0, is_counted: bool = False) -> Gradient:
    """Gradient rule; the ``own_axes`` last axes contain the components of a sample."""

    def grad(
        g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, is_log: bool
    ) -> tuple[X | None, ...]:
        d = douts[0] if is_log else mul(g, douts[0], outs[0])
        tracer, traced = Tracer(g), [Traced(x) for x in ins]
        sample, *params = traced
        ndim = g.type(sample.value).ndim
        log = formula(tracer, sample, *[_lined_up(tracer, p, ndim, own_axes) for p in params])
        numbers = as_shape(g, d, (*g.type(d).dims, *(1,) * own_axes))
        heads = [(log, fitted(g, numbers, g.type(log.value)))]
        by_sample, *by_params = backpropagate(g, tracer.uses, heads, traced)
        return None if is_counted else by_sample, *by_params

    return grad


def _lined_up(g: Builder[X], param: X, ndim: int, own_axes: int) -> X:
    """Parameter with axes of size 1 added to match the samples' rank."""
    dims = g.type(param).dims
    batch = len(dims) - own_axes
    return as_shape(g, param, (*dims[:batch], *(1,) * (ndim - len(dims)), *dims[batch:]))


def _ways_of_count(g: Builder[X], x: X) -> X:
    """-log(x!)"""
    return negated(g, _gammaln(g, shifted(g, x, 1.0)))


_HALF_LOG_OF_TURN = 0.5 * math.log(2 * math.pi)
# The terms of a logarithm that its formula omits.
_REST: dict[Formula, Formula] = {
    _normal: lambda g, x: shifted(g, zeros_like(g, x), -_HALF_LOG_OF_TURN),
    _poisson: _ways_of_count,
    _negative_binomial: _ways_of_count,
    _mean_negative_binomial: _ways_of_count,
}


def _expansion(formula: Formula, own_axes: int) -> Expansion:
    """The density in double precision, from its logarithm.

    Its terms cancel: in single precision a density of counts around 100 is wrong by 5e-5.
    """

    def expand(g: Builder[X], *operands: X, is_log: bool) -> X:
        """density  =>  exp of its logarithm, in double precision"""
        own = g.type(operands[0])
        sample, *params = (in_dtype(g, x, own.with_dtype(FLOAT64)) for x in operands)
        log = formula(g, sample, *[_lined_up(g, p, own.ndim, own_axes) for p in params])
        if formula in _REST:
            log = add(g, log, _REST[formula](g, sample))
        number = log if is_log else g.op(lookup("exp"), log, at="exp")
        shape = own.dims[: own.ndim - own_axes]
        full = as_shape(g, number, shape) if own_axes else _over(g, number, shape)
        return in_dtype(g, full, own)

    return expand


def _over(g: Builder[X], number: X, shape: Shape) -> X:
    """``number`` broadcast to a shape."""
    if g.type(number).dims == shape:
        return number
    return g.op(lookup("broadcast_to"), number, at="over", shape=shape)


class Rules(NamedTuple):
    """The gradient rule of a density, and its expansion."""

    grad: Gradient
    expand: Expansion


def _rules(formula: Formula, own_axes: int = 0, is_counted: bool = False) -> Rules:
    return Rules(_rule(formula, own_axes, is_counted), _expansion(formula, own_axes))


# By the operator's name without _random_pdf_
RULES: dict[str, Rules] = {
    "uniform": _rules(_uniform),
    "normal": _rules(_normal),
    "gamma": _rules(_gamma),
    "exponential": _rules(_exponential),
    "poisson": _rules(_poisson, is_counted=True),
    "negative_binomial": _rules(_negative_binomial, is_counted=True),
    "generalized_negative_binomial": _rules(_mean_negative_binomial, is_counted=True),
    "dirichlet": _rules(_dirichlet, own_axes=1),
}
