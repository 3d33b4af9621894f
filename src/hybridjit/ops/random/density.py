"""Probability densities, ``_random_pdf_*``: the counterparts of the random operators.

Input: samples of shape params.shape + (n,), then the parameters. Output: the density (or its
logarithm) at each sample. Each formula is the logarithm. Gamma's ``beta`` is a rate, but a scale in
sampling, as MXNet defines it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..._core.types import TensorType, shape_text
from ...errors import ShapeError
from ..casting import convert
from ..registry import register
from ..rules import forward, require_float, same_dtype
from ..signatures import Computation
from ..special import gammaln
from .density_rules import RULES


def _log_uniform(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Log density without a check of the bounds, as in MXNet."""
    return np.broadcast_to(-np.log(high - low), x.shape)


def _log_normal(x: np.ndarray, mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    return -0.5 * ((x - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)


def _log_gamma(x: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return alpha * np.log(beta) + (alpha - 1) * np.log(x) - beta * x - gammaln(alpha)


def _log_exponential(x: np.ndarray, lam: np.ndarray) -> np.ndarray:
    return np.log(lam) - lam * x


def _log_poisson(x: np.ndarray, lam: np.ndarray) -> np.ndarray:
    return x * np.log(lam) - lam - gammaln(x + 1)


def _log_negative_binomial(x: np.ndarray, k: np.ndarray, p: np.ndarray) -> np.ndarray:
    ways = gammaln(x + k) - gammaln(x + 1) - gammaln(k)
    return ways + k * np.log(p) + x * np.log1p(-p)


def _log_mean_negative_binomial(x: np.ndarray, mu: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return _log_negative_binomial(x, 1 / alpha, 1 / (1 + mu * alpha))


def _log_dirichlet(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Log density; the last axis contains the components of a sample."""
    constant = np.sum(gammaln(alpha), axis=-1) - gammaln(np.sum(alpha, axis=-1))
    return np.sum((alpha - 1) * np.log(x), axis=-1) - constant


def _density_type(own_axes: int) -> Callable[..., TensorType]:
    def rule(sample: TensorType, *params: TensorType, is_log: bool) -> TensorType:
        dtype = same_dtype(sample, *params)
        require_float("a density", sample)
        shape = params[0].dims
        batch = shape[: len(shape) - own_axes]
        fits = sample.ndim >= len(shape) and sample.dims[: len(batch)] == batch
        if not fits or sample.dims[sample.ndim - own_axes :] != shape[len(batch) :]:
            raise ShapeError(
                f"samples {shape_text(sample.dims)} do not match parameters {shape_text(shape)}"
            )
        if any(p.dims != shape for p in params):
            raise ShapeError(f"parameters differ: {', '.join(str(p) for p in params)}")
        return TensorType(sample.dims[: sample.ndim - own_axes], dtype)

    return rule


def _density(formula: Computation, own_axes: int) -> Callable[..., np.ndarray]:
    def ref(sample: np.ndarray, *params: np.ndarray, is_log: bool) -> np.ndarray:
        wide = []
        for p in params:
            batch = p.ndim - own_axes
            middle = (1,) * (sample.ndim - p.ndim)
            shape = p.shape[:batch] + middle + p.shape[batch:]
            wide.append(p.astype(np.float64).reshape(shape))
        log = formula(sample.astype(np.float64), *wide)
        return convert(np.asarray(log if is_log else np.exp(log)), sample.dtype)

    return ref


def _register(name: str, params: str, formula: Computation, own_axes: int = 0) -> None:
    register(
        f"_random_pdf_{name}",
        f"sample {params}",
        "is_log:bool=False",
        infer=forward(_density_type(own_axes)),
        ref=_density(formula, own_axes),
        grad=RULES[name].grad,
        expand=RULES[name].expand,
        aliases=f"random_pdf_{name}",
        doc=f"Density of the {name.replace('_', ' ')} distribution at the samples.",
        domain=(0.1, 0.9),
    )


_register("uniform", "low high", _log_uniform)
_register("normal", "mu sigma", _log_normal)
_register("gamma", "alpha beta", _log_gamma)
_register("exponential", "lam", _log_exponential)
_register("poisson", "lam", _log_poisson)
_register("negative_binomial", "k p", _log_negative_binomial)
_register("generalized_negative_binomial", "mu alpha", _log_mean_negative_binomial)
_register("dirichlet", "alpha", _log_dirichlet, own_axes=1)
