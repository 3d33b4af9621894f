"""Gradients of the densities of :mod:`.density`, from their logarithms, on any builder.

A formula omits terms that depend on neither samples nor parameters. Samples that are counts have no
gradient, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..algebra import add, as_shape, div, fitted, mul, negated, scaled, shifted, sub, total
from ..building import Builder, Many, X
from ..gradient import Traced, Tracer, backpropagate
from ..registry import lookup
from ..signatures import Gradient

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


# By the operator's name without _random_pdf_
RULES: dict[str, Gradient] = {
    "uniform": _rule(_uniform),
    "normal": _rule(_normal),
    "gamma": _rule(_gamma),
    "exponential": _rule(_exponential),
    "poisson": _rule(_poisson, is_counted=True),
    "negative_binomial": _rule(_negative_binomial, is_counted=True),
    "generalized_negative_binomial": _rule(_mean_negative_binomial, is_counted=True),
    "dirichlet": _rule(_dirichlet, own_axes=1),
}
