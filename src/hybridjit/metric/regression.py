"""Metrics of real values: absolute and squared errors, correlation."""

from __future__ import annotations

import numpy as np

from ..nd import NDArray
from .base import EvalMetric, Values, alias, check_label_shapes, register

Names = list[str] | None


class _Distance(EvalMetric):
    """Mean over batches of a function of the differences."""

    default_name = ""

    def __init__(
        self,
        name: str | None = None,
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        """Make the metric.

        Parameters
        ----------
        name : str, optional
            Name of the result; by default the lower-case name of the class.
        output_names : list of str, optional
            Outputs that are read by ``update_dict``; by default all.
        label_names : list of str, optional
            Labels that are read by ``update_dict``; by default all.
        """
        super().__init__(
            name or self.default_name, output_names, label_names, has_global_stats=True
        )

    def of(self, difference: np.ndarray) -> float:
        """Value of a batch. To override."""
        raise NotImplementedError(f"{type(self).__name__} does not define of")

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        return self.of(_column(label) - _column(pred)), 1


def _column(array: NDArray) -> np.ndarray:
    """Vector as a column, so that two vectors do not broadcast to a matrix."""
    values = array.asnumpy()
    return values.reshape(-1, 1) if values.ndim == 1 else values


@register
class MAE(_Distance):
    """Mean absolute error.

    Examples
    --------
    >>> metric = mx.metric.MAE()
    >>> metric.update([nd.array([1.0])], [nd.array([3.0])])
    >>> round(float(metric.get()[1]), 4)
    2.0
    """

    default_name = "mae"

    def of(self, difference: np.ndarray) -> float:
        return np.abs(difference).mean()


@register
class MSE(_Distance):
    """Mean squared error.

    Examples
    --------
    >>> metric = mx.metric.MSE()
    >>> metric.update([nd.array([1.0])], [nd.array([3.0])])
    >>> round(float(metric.get()[1]), 4)
    4.0
    """

    default_name = "mse"

    def of(self, difference: np.ndarray) -> float:
        return np.square(difference).mean()


@register
class RMSE(_Distance):
    """Root of the mean squared error; the mean of the roots of the batches.

    Examples
    --------
    >>> metric = mx.metric.RMSE()
    >>> metric.update([nd.array([1.0])], [nd.array([3.0])])
    >>> round(float(metric.get()[1]), 4)
    2.0
    """

    default_name = "rmse"

    def of(self, difference: np.ndarray) -> float:
        return np.sqrt(np.square(difference).mean())


@alias("pearsonr")
@register
class PearsonCorrelation(EvalMetric):
    """Correlation of labels and predictions.

    Parameters
    ----------
    name : str
        Name of the result.
    output_names : list of str, optional
        Outputs that are read by ``update_dict``; by default all.
    label_names : list of str, optional
        Labels that are read by ``update_dict``; by default all.
    average : str
        macro: mean over batches; micro: over all samples.

    Examples
    --------
    >>> metric = mx.metric.PearsonCorrelation()
    >>> metric.update([nd.array([1, 2, 3])], [nd.array([2, 4, 6])])
    >>> round(float(metric.get()[1]), 4)
    1.0
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        self._moments = _Moments()
        super().reset()

    def measure(self, label: NDArray, pred: NDArray) -> tuple[float, float]:
        check_label_shapes(label, pred, False, True)
        values = np.stack([a.asnumpy().ravel().astype(np.float64) for a in (label, pred)])
        if self.average == "macro":
            return np.corrcoef(*values)[0, 1], 1
        self._moments.add(values)
        return 0.0, 1

    def get(self) -> tuple[str | list[str], Values]:
        if self.average == "macro" or not self.num_inst:
            return super().get()
        return self.name, self._moments.correlation()


class _Moments:
    """Means and co-moments of two series that arrive in chunks."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = np.zeros(2)
        self.products = np.zeros((2, 2))  # sums of products of deviations from the mean

    def add(self, values: np.ndarray) -> None:
        """Merge ``values`` (2, n) by Chan, Golub and LeVeque's formula."""
        n = values.shape[1]
        mean = values.mean(1)
        deviation = values - mean[:, None]
        gap = mean - self.mean
        total = self.count + n
        self.products += deviation @ deviation.T + np.outer(gap, gap) * self.count * n / total
        self.mean += gap * n / total
        self.count = total

    def correlation(self) -> float:
        spread = np.sqrt(self.products[0, 0] * self.products[1, 1])
        return float(self.products[0, 1] / spread) if spread else float("nan")
