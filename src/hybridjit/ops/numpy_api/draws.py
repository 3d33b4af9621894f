"""Functions of ``np.random`` and ``npx.random``."""

from __future__ import annotations

from typing import Any

import numpy as onp

from ...errors import MXNetError
from .frontend import NUMBERS, Group, context_of, dtype_name, sizes_of


def _size(size: Any) -> Any:
    return None if size is None else sizes_of(size)


class Draws(Group):
    """Distributions whose parameters are numbers or arrays."""

    def _draw(
        self,
        op: str,
        params: dict[str, Any],
        size: Any,
        dtype: Any = False,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Result of the operator; tensor parameters are operands, numbers are attributes."""
        tensors: list[Any] = []
        given: dict[str, Any] = {}
        for name, value in params.items():
            if isinstance(value, NUMBERS):
                given[name] = float(value)
            else:
                tensors.append(value)
                given[name] = None
        if dtype is not False:
            given["dtype"] = dtype_name(dtype)
        if out is not None and size is None:
            size = self._front.shape(out)
        return self._op(op, *tensors, size=_size(size), ctx=context_of(ctx), out=out, **given)

    def uniform(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Uniform over [low, high)."""
        return self._draw("_npi_uniform", {"low": low, "high": high}, size, dtype, ctx, out)

    def normal(
        self,
        loc: Any = 0.0,
        scale: Any = 1.0,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return self._draw("_npi_normal", {"loc": loc, "scale": scale}, size, dtype, ctx, out)

    def lognormal(
        self,
        mean: Any = 0.0,
        sigma: Any = 1.0,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Exponential of a normal draw."""
        drawn = self.normal(mean, sigma, size, dtype, ctx)
        return self._op("_npi_exp", drawn, out=out)

    def rand(self, *size: int, **kwargs: Any) -> Any:
        """Uniform over [0, 1), with the shape as positional arguments."""
        return self.uniform(0.0, 1.0, size, **kwargs)

    def randn(self, *size: int, **kwargs: Any) -> Any:
        """Normal, with the shape as positional arguments."""
        return self.normal(0.0, 1.0, size, **kwargs)

    def randint(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Integers from ``low`` to below ``high``."""
        if high is None:
            low, high = 0, low
        if out is not None and size is None:
            size = self._front.shape(out)
        drawn = self._op(
            "_random_randint",
            low=int(low),
            high=int(high),
            shape=(1,) if size is None else sizes_of(size),
            dtype="int64" if dtype is None else dtype_name(dtype),
            ctx=context_of(ctx),
            out=out,
        )
        return self._op("_np_reshape", drawn, newshape=()) if size is None else drawn

    def gamma(
        self,
        shape: Any,
        scale: Any = 1.0,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Gamma with a shape and a scale."""
        return self._draw("_npi_gamma", {"shape": shape, "scale": scale}, size, dtype, ctx, out)

    def beta(self, a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
        """Beta, computed from two gamma draws."""
        is_open = size is None and not all(isinstance(v, NUMBERS) for v in (a, b))
        if is_open and not self._front.is_symbolic:
            tensors = [v for v in (a, b) if not isinstance(v, NUMBERS)]
            size = onp.broadcast_shapes(*(self._front.shape(v) for v in tensors))
        x, y = (self.gamma(v, 1.0, size, "float64", ctx) for v in (a, b))
        return (x / (x + y)).astype("float32" if dtype is None else dtype)

    def chisquare(self, df: Any, size: Any = None, dtype: Any = None, ctx: Any = None) -> Any:
        """Chi-square with ``df`` degrees of freedom."""
        return self.gamma(df / 2, 2.0, size, dtype, ctx)

    def exponential(
        self, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None
    ) -> Any:
        """Exponential with mean ``scale``."""
        return self._draw("_npi_exponential", {"scale": scale}, size, False, ctx, out)

    def gumbel(
        self,
        loc: Any = 0.0,
        scale: Any = 1.0,
        size: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Gumbel."""
        return self._draw("_npi_gumbel", {"loc": loc, "scale": scale}, size, False, ctx, out)

    def logistic(
        self,
        loc: Any = 0.0,
        scale: Any = 1.0,
        size: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Logistic."""
        return self._draw("_npi_logistic", {"loc": loc, "scale": scale}, size, False, ctx, out)

    def rayleigh(self, scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
        """Rayleigh."""
        return self._draw("_npi_rayleigh", {"scale": scale}, size, False, ctx, out)

    def weibull(self, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
        """Weibull."""
        return self._draw("_npi_weibull", {"a": a}, size, False, ctx, out)

    def pareto(self, a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Any:
        """Pareto, starting at 0."""
        return self._draw("_npi_pareto", {"a": a}, size, False, ctx, out)

    def power(self, a: Any, size: Any = None) -> Any:
        """Density a x^(a - 1) on (0, 1]."""
        return self._draw("_npi_powerd", {"a": a}, size)

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Elements of an array, or integers below a number."""
        operands = [] if isinstance(a, (int, onp.integer)) else [a]
        if isinstance(a, (list, tuple, onp.ndarray)):
            raise MXNetError(f"choice needs an array of NumPy mode or an integer, got {a}")
        if p is not None:
            if not isinstance(p, self._front.tensor):
                raise AssertionError(f"p must be an array of NumPy mode, got {type(p)}")
            operands.append(p)
        return self._op(
            "_npi_choice",
            *operands,
            a=None if not isinstance(a, (int, onp.integer)) else int(a),
            size=() if size is None else sizes_of(size),
            replace=replace,
            weighted=p is not None,
            ctx=context_of(ctx),
            out=out,
        )

    def multinomial(self, n: int, pvals: Any, size: Any = None, **kwargs: Any) -> Any:
        """Count of each outcome in n trials."""
        if isinstance(pvals, (list, tuple)):
            odds = tuple(float(p) for p in pvals)
            return self._op("_npi_multinomial", n=n, pvals=odds, size=_size(size))
        if isinstance(pvals, onp.ndarray):
            raise ValueError("numpy ndarray is not supported!")
        return self._op("_npi_multinomial", pvals, n=n, pvals=None, size=_size(size))

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: Any = None, tol: Any = None
    ) -> Any:
        """Normal vectors with a mean and a covariance matrix."""
        if check_valid is not None or tol is not None:
            raise NotImplementedError("Parameter `check_valid` and `tol` are not supported")
        rows = self._op("_np_sum", cov, axis=(-1,), dtype=None, keepdims=False)
        zeros = [self._op("_npi_full_like", x, fill_value=0.0, dtype=None) for x in (rows, mean)]
        base = self._op("_npi_add", *zeros)
        noise = self._draw("_npi_normal_n", {"loc": base, "scale": 1.0}, size or (), "float32")
        column = self._op("expand_dims", noise, axis=-1)
        wide = self._op("Cast", cov, dtype="float32")
        spread = self._op("_npi_matmul", self._op("_npi_cholesky", wide), column)
        moved = self._op("_np_squeeze", spread, axis=(-1,))
        return self._op("Cast", self._op("_npi_add", moved, mean), dtype="float32")

    def shuffle(self, x: Any) -> None:
        """Shuffle the rows of the first axis in place."""
        self._op("_shuffle", x, out=x)


class Batches(Draws):
    """Functions of ``npx.random``."""

    def bernoulli(
        self,
        prob: Any = None,
        logit: Any = None,
        size: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
    ) -> Any:
        """Bernoulli draws by a probability, or by the sigmoid of a logit."""
        if (prob is None) == (logit is None):
            raise ValueError("Either `prob` or `logit` must be specified, but not both.")
        value = logit if prob is None else prob
        is_number = isinstance(value, NUMBERS)
        given: dict[str, Any] = {"prob": None, "logit": None}
        if is_number:
            given["logit" if prob is None else "prob"] = float(value)
        return self._op(
            "_npi_bernoulli",
            *([] if is_number else [value]),
            **given,
            size=_size(size),
            dtype=dtype_name(dtype),
            is_logit=prob is None,
            ctx=context_of(ctx),
            out=out,
        )

    def uniform_n(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        batch_shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
    ) -> Any:
        """Uniform draws, ``batch_shape`` for each element of the parameters."""
        return self._draw("_npi_uniform_n", {"low": low, "high": high}, batch_shape, dtype, ctx)

    def normal_n(
        self,
        loc: Any = 0.0,
        scale: Any = 1.0,
        batch_shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
    ) -> Any:
        """Normal draws, ``batch_shape`` for each element of the parameters."""
        return self._draw("_npi_normal_n", {"loc": loc, "scale": scale}, batch_shape, dtype, ctx)
