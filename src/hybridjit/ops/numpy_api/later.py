"""Functions of MXNet 2.0 that 1.9.1 does not have, over either front end."""

from __future__ import annotations

from typing import Any

from .frontend import Group, dtype_name


class LaterArrays(Group):
    """``mx.np``: functions made of those of 1.9.1, so that their gradients follow."""

    def triu(self, m: Any, k: int = 0) -> Any:
        """The array without the elements below a diagonal."""
        return self._op("_npi_subtract", m, self._op("_npi_tril", m, k=k - 1))

    def exp2(self, x: Any) -> Any:
        """2 to the power of each element."""
        return self._op("_npi_rpower_scalar", x, scalar=2.0)

    def fmax(self, x1: Any, x2: Any) -> Any:
        """The larger of two elements; NaN only where both are."""
        return self._of_numbers("_npi_maximum", x1, x2)

    def fmin(self, x1: Any, x2: Any) -> Any:
        """The smaller of two elements; NaN only where both are."""
        return self._of_numbers("_npi_minimum", x1, x2)

    def _of_numbers(self, op: str, x1: Any, x2: Any) -> Any:
        first, second = (self._op("_npi_isnan", x) for x in (x1, x2))
        both = self._op(op, x1, x2)
        return self._op("_npi_where", first, x2, self._op("_npi_where", second, x1, both))

    def logical_and(self, x1: Any, x2: Any) -> Any:
        """Whether both elements are not 0."""
        return self._op("_npi_bitwise_and", *map(self._truth, (x1, x2)))

    def logical_or(self, x1: Any, x2: Any) -> Any:
        """Whether one of two elements is not 0."""
        return self._op("_npi_bitwise_or", *map(self._truth, (x1, x2)))

    def logical_xor(self, x1: Any, x2: Any) -> Any:
        """Whether just one of two elements is not 0."""
        return self._op("_npi_bitwise_xor", *map(self._truth, (x1, x2)))

    def _truth(self, x: Any) -> Any:
        return self._op("Cast", x, dtype="bool")

    def median(self, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """The middle value over axes."""
        return self._op("_npi_percentile", a, q_scalar=50.0, axis=axis, keepdims=keepdims)


class LaterDraws(Group):
    """``mx.np.random``: draws made of those of 1.9.1."""

    def random(self, size: Any = ()) -> Any:
        """Uniform over [0, 1)."""
        return self._op("_npi_uniform", low=0.0, high=1.0, size=size)

    random_sample = random

    def standard_normal(self, size: Any = ()) -> Any:
        """Normal with mean 0 and deviation 1."""
        return self._op("_npi_normal", loc=0.0, scale=1.0, size=size)

    def laplace(self, loc: float = 0.0, scale: float = 1.0, size: Any = ()) -> Any:
        """Laplace: the difference of two exponential draws, moved by ``loc``."""
        one, other = (self._op("_npi_exponential", scale=scale, size=size) for _ in range(2))
        return self._op("_npi_add_scalar", self._op("_npi_subtract", one, other), scalar=loc)

    def permutation(self, x: Any) -> Any:
        """A shuffled copy of the rows, or of the integers below a number."""
        if isinstance(x, int):
            x = self._op("_npi_arange", start=0.0, stop=float(x), step=1.0, dtype="int64")
        return self._op("_shuffle", x)


class LaterBatches(Group):
    """``mx.npx.random``: draws of 1.9.1 under the names of 2.0."""

    def categorical(
        self, data: Any, shape: Any = (), get_prob: bool = False, dtype: Any = "int32"
    ) -> Any:
        """Indices drawn with the probabilities along the last axis, and their logarithms."""
        size = (shape,) if isinstance(shape, int) else tuple(shape or ())
        kind = dtype_name(dtype)
        return self._op("_sample_multinomial", data, shape=size, get_prob=get_prob, dtype=kind)


class LaterLayers(Group):
    """``mx.npx``: softmax where a mask is true."""

    def masked_softmax(self, data: Any, mask: Any, axis: int = -1, temperature: float = 1.0) -> Any:
        """Softmax over the elements whose mask is true; 0 elsewhere."""
        made = self._op("softmax", self._masked(data, mask), axis=axis, temperature=temperature)
        return self._op("_npi_where_rscalar", mask, made, scalar=0.0)

    def masked_log_softmax(
        self, data: Any, mask: Any, axis: int = -1, temperature: float = 1.0
    ) -> Any:
        """Logarithm of :meth:`masked_softmax`; minus infinity where the mask is false."""
        masked = self._masked(data, mask)
        made = self._op("log_softmax", masked, axis=axis, temperature=temperature)
        return self._op("_npi_where_rscalar", mask, made, scalar=float("-inf"))

    def _masked(self, data: Any, mask: Any) -> Any:
        return self._op("_npi_where_rscalar", mask, data, scalar=-1e30)
