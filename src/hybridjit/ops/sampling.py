"""``nd.random``'s and ``sym.random``'s functions, over the random operators.

In: a distribution's parameters, all numbers or all tensors. Out: samples from the operator of that
kind (``_random_normal`` or ``_sample_normal``), made by the namespace that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .registry import lookup


class Distributions:
    """The functions of one namespace.

    operators      its functions of operators, by name
    tensor         the type of its tensors
    default_shape  what numbers give when the caller names no shape; None leaves it open
    """

    def __init__(
        self,
        operators: Mapping[str, Callable[..., Any]],
        tensor: type,
        default_shape: tuple[int, ...] | None,
    ) -> None:
        self._operators = operators
        self._tensor = tensor
        self._default_shape = default_shape

    def uniform(
        self,
        low: Any = 0,
        high: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Uniform over [low, high)."""
        return self._draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def normal(
        self,
        loc: Any = 0,
        scale: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return self._draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)

    def randn(self, *shape: int, **kwargs: Any) -> Any:
        """Normal, with the shape as positional arguments."""
        return self.normal(shape=shape, **kwargs)

    def poisson(
        self,
        lam: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Poisson with mean ``lam``, as floating numbers."""
        return self._draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)

    def exponential(
        self,
        scale: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Exponential with mean ``scale``."""
        return self._draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)

    def gamma(
        self,
        alpha: Any = 1,
        beta: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Gamma with shape ``alpha`` and scale ``beta``."""
        return self._draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)

    def negative_binomial(
        self,
        k: Any = 1,
        p: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Failures before the ``k``-th success of probability ``p``, as floating numbers."""
        params = {"k": k, "p": p}
        return self._draw("negative_binomial", params, shape, dtype, ctx, out, kwargs)

    def generalized_negative_binomial(
        self,
        mu: Any = 1,
        alpha: Any = 1,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Poisson whose mean is gamma distributed: mean ``mu``, dispersion ``alpha``."""
        params = {"mu": mu, "alpha": alpha}
        return self._draw("generalized_negative_binomial", params, shape, dtype, ctx, out, kwargs)

    def randint(
        self,
        low: Any,
        high: Any,
        shape: Any = None,
        dtype: Any = None,
        ctx: Any = None,
        out: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Integers from ``low`` to below ``high``."""
        return self._draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def multinomial(
        self, data: Any, shape: Any = None, get_prob: bool = False, dtype: Any = "int32", **kw: Any
    ) -> Any:
        """Indices drawn with the probabilities in ``data``'s last axis."""
        given = _given(shape=shape, get_prob=get_prob, dtype=dtype, **kw)
        return self._operator("_sample_multinomial")(data, **given)

    def shuffle(self, data: Any, **kwargs: Any) -> Any:
        """The rows of ``data`` in random order."""
        return self._operator("_shuffle")(data, **kwargs)

    def _draw(
        self,
        word: str,
        params: dict[str, Any],
        shape: Any,
        dtype: Any,
        ctx: Any,
        out: Any,
        kwargs: dict[str, Any],
    ) -> Any:
        given = _given(shape=shape, dtype=dtype, ctx=ctx, out=out, **kwargs)
        are_tensors = {isinstance(value, self._tensor) for value in params.values()}
        if are_tensors == {True}:
            given.pop("ctx", None)
            return self._operator(f"_sample_{word}")(*params.values(), **given)
        if True in are_tensors:
            types = " and ".join(str(type(value)) for value in params.values())
            raise AssertionError(
                f"Distribution parameters must all have the same type, but got both {types}."
            )
        if shape is None and self._default_shape is not None:
            given["shape"] = self._default_shape if out is None else out.shape
        return self._operator(f"_random_{word}")(**params, **given)

    def _operator(self, name: str) -> Callable[..., Any]:
        """The namespace's function for an operator. Raises UnknownOpError if there is none."""
        lookup(name)
        return self._operators[name]


def _given(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
