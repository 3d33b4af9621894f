"""Statistics of a network's float32 values: ranges, and histograms for thresholds by entropy.

Input: the values of layers, batch by batch. Output: a range for each name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from logging import Logger

import numpy as np

from ...errors import MXNetError
from ...gluon.statistics import BINS, Histogram, extended, histogram_of, threshold
from ...nd import NDArray

Range = tuple[float, float]


class _Collector:
    """The layers whose values are collected, and the logger."""

    def __init__(self, include_layer: Collection[str], logger: Logger | None) -> None:
        self.include_layer = include_layer
        self.logger = logger

    def collect(self, name: str, arr: NDArray) -> None:
        """Add an array to the statistics of the layer, if the layer is included."""
        if name not in self.include_layer:
            return
        values = arr.asnumpy()
        low, high = values.min(), values.max()
        self._add(name, values, low, high)
        if self.logger:
            self.logger.debug(
                "Collecting layer %s, shape %s, min_range=%f, max_range=%f",
                *(name, values.shape, low, high),
            )

    def _add(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        """To override: add values, the least and the greatest of which are ``low`` and ``high``."""
        raise NotImplementedError


class LayerOutputMinMaxCollector(_Collector):
    """Smallest and largest value of each layer, over all batches.

    Parameters
    ----------
    quantized_dtype : str
        Type of the bytes; not used, as in MXNet.
    include_layer : collection of str
        Names of the values to collect.
    logger : logging.Logger, optional
        Receives a line for each value at level debug.
    """

    def __init__(
        self,
        quantized_dtype: str,
        include_layer: Collection[str] = (),
        logger: Logger | None = None,
    ) -> None:
        super().__init__(include_layer, logger)
        self.min_max_dict: dict[str, Range] = {}
        self.quantized_dtype = quantized_dtype

    def _add(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        least, most = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = (min(least, low), max(most, high))


class LayerHistogramCollector(_Collector):
    """Histogram of each layer over all batches, symmetric around 0.

    Parameters
    ----------
    num_bins : int
        Number of bins of the first batch; later batches of larger values add bins at both ends.
    include_layer : collection of str
        Names of the values to collect.
    logger : logging.Logger, optional
        Receives a line for each value at level debug.
    """

    def __init__(
        self,
        num_bins: int = BINS,
        include_layer: Collection[str] = (),
        logger: Logger | None = None,
    ) -> None:
        super().__init__(include_layer, logger)
        self.hist_dict: dict[str, Histogram] = {}
        self.num_bins = num_bins

    def _add(self, name: str, values: np.ndarray, low: float, high: float) -> None:
        before = self.hist_dict.get(name)
        self.hist_dict[name] = (
            extended(Histogram(*before), values) if before else histogram_of(values, self.num_bins)
        )


def thresholds(
    histograms: Mapping[str, Histogram], quantized_dtype: str, logger: Logger | None = None
) -> dict[str, Range]:
    """Range of each layer whose quantized distribution diverges least from the histogram's.

    Values that are never negative have 511 levels from 0, unless the type is int8.
    """
    found: dict[str, Range] = {}
    for name, given in histograms.items():
        histogram = Histogram(*given)
        is_positive = histogram.low >= 0 and quantized_dtype in ("auto", "uint8")
        end, divergence = threshold(histogram, is_positive)
        found[name] = (0.0 if is_positive else -end, end)
        if logger:
            logger.debug(
                "layer=%s, min_val=%f, max_val=%f, th=%f, divergence=%f",
                *(name, histogram.low, histogram.high, end, divergence),
            )
    return found


def require_ranges(table: Mapping[str, Range], needed: Collection[str]) -> None:
    """Raise MXNetError for layers of the network that have no range, or a range that is empty."""
    missing = [name for name in needed if name not in table]
    if missing and len(missing) == len(set(needed)):
        raise MXNetError(
            f"the calibration table has none of the network's {len(missing)} values, such as "
            f"{missing[0]}: it belongs to another network; calibrate this one"
        )
    if missing:
        raise MXNetError(
            f"the calibration table misses {', '.join(missing[:8])}: calibrate again, or exclude "
            "the layers that read them"
        )
    for name in needed:
        low, high = (float(np.asarray(end).reshape(-1)[0]) for end in table[name])
        if not (np.isfinite(low) and np.isfinite(high)) or max(abs(low), abs(high)) == 0:
            raise MXNetError(
                f"the calibrated range of {name} is {low} to {high}; a range must be finite and "
                "not 0 alone: calibrate with other data, or exclude the layers that read it"
            )
