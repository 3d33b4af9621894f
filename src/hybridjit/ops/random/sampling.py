"""Functions of ``nd.random`` and ``sym.random`` on the random operators.

Input: a distribution's parameters, all numbers or all tensors. Output: samples from the operator of
that kind (``_random_normal`` or ``_sample_normal``) in the calling namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ..._core.frames import public_methods
from ..._core.types import DType
from ...context import Context
from ..registry import lookup

Sizes = int | Sequence[int]


class _Tensor(Protocol):
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    def __rtruediv__(self, other: float, /) -> Any:
        """``other`` divided by each element."""


T = TypeVar("T", bound=_Tensor)


@public_methods
class Distributions(Generic[T]):
    """Functions of one namespace.

    operators      functions of the namespace, by operator name
    tensor         class of its tensors
    default_shape  shape for numeric parameters if none is passed; None leaves it unknown
    """

    def __init__(
        self,
        operators: Mapping[str, Callable[..., T]],
        tensor: type[T],
        default_shape: tuple[int, ...] | None,
    ) -> None:
        self._operators = operators
        self._tensor = tensor
        self._default_shape = default_shape

    def uniform(
        self,
        low: T | float = 0,
        high: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Uniform over [low, high)."""
        return self._draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def normal(
        self,
        loc: T | float = 0,
        scale: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        return self._draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)

    def randn(self, *shape: int, **kwargs: Any) -> T:
        """Normal, with the shape as positional arguments."""
        return self.normal(shape=shape, **kwargs)

    def poisson(
        self,
        lam: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Poisson with mean ``lam``, as floats."""
        return self._draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)

    def exponential(
        self,
        scale: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Exponential with mean ``scale``."""
        return self._draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)

    def gamma(
        self,
        alpha: T | float = 1,
        beta: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Gamma with shape ``alpha`` and scale ``beta``."""
        return self._draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)

    def negative_binomial(
        self,
        k: T | float = 1,
        p: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Failures before the ``k``-th success of probability ``p``, as floats."""
        params = {"k": k, "p": p}
        return self._draw("negative_binomial", params, shape, dtype, ctx, out, kwargs)

    def generalized_negative_binomial(
        self,
        mu: T | float = 1,
        alpha: T | float = 1,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Poisson with a gamma distributed mean: mean ``mu``, dispersion ``alpha``."""
        params = {"mu": mu, "alpha": alpha}
        return self._draw("generalized_negative_binomial", params, shape, dtype, ctx, out, kwargs)

    def randint(
        self,
        low: T | float,
        high: T | float,
        shape: Sizes | None = None,
        dtype: DType | None = None,
        ctx: Context | None = None,
        out: T | None = None,
        **kwargs: object,
    ) -> T:
        """Integers from ``low`` to below ``high``."""
        return self._draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)

    def multinomial(
        self,
        data: T,
        shape: Sizes | None = None,
        get_prob: bool = False,
        dtype: DType = "int32",
        **kw: object,
    ) -> T:
        """Indices drawn with the probabilities in ``data``'s last axis."""
        given = _given(shape=shape, get_prob=get_prob, dtype=dtype, **kw)
        return self._operator("_sample_multinomial")(data, **given)

    def shuffle(self, data: T, **kwargs: object) -> T:
        """Rows of ``data`` in random order."""
        return self._operator("_shuffle")(data, **kwargs)

    def _draw(
        self,
        word: str,
        params: Mapping[str, T | float],
        shape: Sizes | None,
        dtype: DType | None,
        ctx: Context | None,
        out: T | None,
        kwargs: Mapping[str, object],
    ) -> T:
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

    def _operator(self, name: str) -> Callable[..., T]:
        """The namespace's function for an operator. Raises UnknownOpError if there is none."""
        lookup(name)
        return self._operators[name]


def _given(**options: object) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}


_ARGUMENTS = {
    "low": ("number or array", "Least value."),
    "high": ("number or array", "Bound that is not drawn."),
    "loc": ("number or array", "Mean."),
    "scale": ("number or array", "Standard deviation, or the mean of ``exponential``."),
    "lam": ("number or array", "Mean."),
    "alpha": ("number or array", "Shape of the distribution, or its dispersion."),
    "beta": ("number or array", "Scale of the distribution."),
    "k": ("number or array", "Number of failures that end the trials."),
    "p": ("number or array", "Probability of a failure."),
    "mu": ("number or array", "Mean."),
    "data": ("array", "Probabilities along the last axis, or the rows that are shuffled."),
    "shape": ("int or tuple of int, optional", "Shape of the draws for each set of parameters."),
    "get_prob": ("bool", "Whether the logarithm of each draw's probability is returned too."),
    "dtype": ("str or dtype, optional", "Element type of the draws."),
    "ctx": ("Context, optional", "Context of the draws; by default the current one."),
    "out": ("array, optional", "Array that receives the draws."),
}
_RAISES = """Raises
------
AssertionError
    For parameters of different kinds: numbers and arrays.
MXNetError
    For parameters that the distribution excludes."""


def _describe(group: type) -> None:
    """Add the arguments to the docstrings of all functions of a group."""
    for name, function in vars(group).items():
        if name.startswith("_") or not function.__doc__:
            continue
        code = function.__wrapped__.__code__
        known = [n for n in code.co_varnames[1 : code.co_argcount] if n in _ARGUMENTS]
        rows = "".join("{} : {}\n    {}\n".format(n, *_ARGUMENTS[n]) for n in known)
        if rows:
            function.__doc__ += f"\n\nParameters\n----------\n{rows}\n{_RAISES}"


_describe(Distributions)
