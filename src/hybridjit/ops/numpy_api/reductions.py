"""Reductions, sorting and counting."""

from __future__ import annotations

from typing import Any

from ...errors import MXNetError
from .frontend import NUMBERS, Group, axes_of, dtype_name


class Reductions(Group):
    """Sums, means, extrema, order statistics."""

    def _reduce(self, op: str, a: Any, axis: Any, dtype: Any, keepdims: bool, out: Any) -> Any:
        given: dict[str, Any] = {} if dtype is None else {"dtype": dtype_name(dtype)}
        if axis is not None or self._front.is_symbolic:  # files name these; calls read fewer
            given["axis"] = axes_of(axis)
        if keepdims or self._front.is_symbolic:
            given["keepdims"] = keepdims
        return self._op(op, a, out=out, **given)

    def sum(
        self,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Sum over axes."""
        _refuse(initial, where)
        return self._reduce("_np_sum", a, axis, dtype, keepdims, out)

    def prod(
        self,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
    ) -> Any:
        """Product over axes."""
        _refuse(initial, None)
        return self._reduce("_np_prod", a, axis, dtype, keepdims, out)

    product = prod

    def mean(
        self, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        """Mean over axes; float32 for integers."""
        return self._reduce("_npi_mean", a, axis, dtype, keepdims, out)

    def _spread(
        self, op: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: int, keepdims: bool
    ) -> Any:
        wanted = dtype_name(dtype, None)
        return self._op(
            op, a, axis=axes_of(axis), dtype=wanted, ddof=ddof, keepdims=keepdims, out=out
        )

    def std(
        self,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """Standard deviation over axes."""
        return self._spread("_npi_std", a, axis, dtype, out, ddof, keepdims)

    def var(
        self,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """Variance over axes."""
        return self._spread("_npi_var", a, axis, dtype, out, ddof, keepdims)

    def _extreme(self, op: str, a: Any, axis: Any, keepdims: bool, out: Any) -> Any:
        return self._op(op, a, axis=axes_of(axis), keepdims=keepdims, out=out)

    def max(
        self,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Maximum over axes."""
        _refuse_more("max", kwargs)
        return self._extreme("_np_max", a, axis, keepdims, out)

    def min(
        self,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Minimum over axes."""
        _refuse_more("min", kwargs)
        return self._extreme("_np_min", a, axis, keepdims, out)

    amax, amin = max, min

    def all(
        self,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Whether all elements over axes are nonzero."""
        _refuse_more("all", kwargs)
        return self._extreme("_np_all", a, axis, keepdims, out)

    def any(
        self,
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Whether any element over axes is nonzero."""
        _refuse_more("any", kwargs)
        return self._extreme("_np_any", a, axis, keepdims, out)

    sometrue = any

    def argmax(self, a: Any, axis: Any = None, out: Any = None) -> Any:
        """Indices of the first maximum, as int64."""
        return self._op("_npi_argmax", a, axis=axis, keepdims=False, out=out)

    def argmin(self, a: Any, axis: Any = None, out: Any = None) -> Any:
        """Indices of the first minimum, as int64."""
        return self._op("_npi_argmin", a, axis=axis, keepdims=False, out=out)

    def cumsum(self, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Cumulative sums along an axis; of the flattened array if axis is None."""
        given = {"axis": axis, "dtype": dtype_name(dtype, None)}
        if dtype is None and not self._front.is_symbolic:
            del given["dtype"]
        return self._op("_np_cumsum", a, out=out, **given)

    def average(
        self,
        a: Any,
        axis: Any = None,
        weights: Any = None,
        returned: bool = False,
        out: Any = None,
    ) -> Any:
        """Weighted mean over axes; with ``returned`` also the sum of the weights."""
        operands = (a,) if weights is None else (a, weights)
        return self._op(
            "_npi_average",
            *operands,
            axis=axes_of(axis),
            returned=returned,
            weighted=weights is not None,
            out=out,
        )

    def sort(self, a: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
        """Sorted values along an axis."""
        _refuse_order(order)
        return self._op("sort", a, axis=axis, is_ascend=True)

    def argsort(self, a: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
        """Indices of the sorted values, as int64."""
        _refuse_order(order)
        return self._op("argsort", a, axis=axis, is_ascend=True, dtype="int64")

    def percentile(
        self,
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = None,
        interpolation: str = "linear",
        keepdims: bool = False,
    ) -> Any:
        """Percentiles over axes."""
        if overwrite_input is not None:
            raise NotImplementedError("overwrite_input is not supported yet")
        given = {"axis": axes_of(axis), "interpolation": interpolation, "keepdims": keepdims}
        if isinstance(q, NUMBERS):
            return self._op("_npi_percentile", a, q_scalar=float(q), out=out, **given)
        return self._op("_npi_percentile", a, q, q_scalar=None, out=out, **given)

    def quantile(
        self,
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = None,
        interpolation: str = "linear",
        keepdims: bool = False,
    ) -> Any:
        """Quantiles over axes: percentiles with q between 0 and 1."""
        if not isinstance(q, NUMBERS):  # float64 avoids rounding errors of positions
            q = self._op("Cast", q, dtype="float64")
        return self.percentile(a, q * 100, axis, out, overwrite_input, interpolation, keepdims)

    def unique(
        self,
        ar: Any,
        return_index: bool = False,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: Any = None,
    ) -> Any:
        """Sorted unique elements, and optionally their indices and counts."""
        made = self._op(
            "_npi_unique",
            ar,
            return_index=return_index,
            return_inverse=return_inverse,
            return_counts=return_counts,
            axis=axis,
        )
        return tuple(made) if isinstance(made, list) else made

    def nonzero(self, a: Any) -> Any:
        """Indices of the nonzero elements, one array for each axis."""
        rows = self._op("_npx_nonzero", a)
        columns = self._op("_np_transpose", rows)
        return tuple(columns[i] for i in range(len(columns)))

    def bincount(self, x: Any, weights: Any = None, minlength: int = 0) -> Any:
        """Count of each integer, or the sums of the weights."""
        operands = (x,) if weights is None else (x, weights)
        has_weights = weights is not None
        return self._op("_npi_bincount", *operands, minlength=minlength, has_weights=has_weights)

    def histogram(
        self,
        a: Any,
        bins: Any = 10,
        range: Any = None,
        normed: Any = None,
        weights: Any = None,
        density: Any = None,
    ) -> Any:
        """Counts in bins, and bin edges."""
        if normed or weights is not None or density:
            raise NotImplementedError("normed, weights and density are not supported yet")
        if isinstance(bins, NUMBERS):
            if range is None:
                raise NotImplementedError("automatic range is not supported yet...")
            return self._op("_histogram", a, bin_cnt=int(bins), range=tuple(range))
        if isinstance(bins, (list, tuple)):
            raise NotImplementedError("array_like bins is not supported yet...")
        return self._op("_histogram", a, bins)

    def trace(
        self, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None
    ) -> Any:
        """Sum of a diagonal."""
        return self._op("_np_trace", a, offset=offset, axis1=axis1, axis2=axis2, out=out)

    def polyval(self, p: Any, x: Any) -> Any:
        """Value of a polynomial at x; coefficients from the highest power down."""
        if isinstance(p, NUMBERS) and isinstance(x, NUMBERS):
            return p
        if not isinstance(p, self._front.tensor) or not isinstance(x, self._front.tensor):
            raise TypeError(f"polyval needs arrays, got {type(p)} and {type(x)}")
        return self._op("_npi_polyval", p, x)


def _refuse(initial: Any, where: Any) -> None:
    if initial is not None:
        raise MXNetError("initial is not supported yet: add it to the result")
    if where is not None:
        raise MXNetError("where is not supported: select the elements first")


def _refuse_more(name: str, given: dict[str, Any]) -> None:
    if given:
        raise MXNetError(
            f"{name} does not have the argument {', '.join(given)}: use astype before or after"
        )


def _refuse_order(order: Any) -> None:
    if order is not None:
        raise NotImplementedError("order is not supported: arrays do not have fields")
