"""Statistics of values over batches: ends of ranges, and histograms with thresholds by entropy.

Input: arrays, one after the other. Output: a range for 8 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import FLOAT32
from ..ops.registry import lookup, run_ref

BINS = 8001
_LEVELS = 255


class Histogram(NamedTuple):
    """Counts of values in bins that are symmetric around 0, and the ends of the values.

    reach  the end of the last bin
    """

    counts: np.ndarray
    edges: np.ndarray
    low: float
    high: float
    reach: float


def histogram_of(values: np.ndarray, bins: int = BINS) -> Histogram:
    """The histogram of a first batch."""
    low, high = values.min(), values.max()
    reach = max(abs(low), abs(high))
    return Histogram(*np.histogram(values, bins, (-reach, reach)), low, high, reach)


def extended(before: Histogram, values: np.ndarray) -> Histogram:
    """A histogram with further values; bins of the former width are added if they are needed."""
    counts, edges, _, _, reach = before
    low, high = min(before.low, values.min()), max(before.high, values.max())
    most = max(abs(low), abs(high))
    if most <= reach:
        more, _ = np.histogram(values, len(counts), (-reach, reach))
        return Histogram(counts + more, edges, low, high, reach)
    width = 2 * reach / len(counts)
    added = int((most - reach) // width + 1)
    bins, reach = len(counts) + 2 * added, added * width + reach
    total, edges = np.histogram(values, bins, (-reach, reach))
    total[added : bins - added] += counts
    return Histogram(total, edges, low, high, reach)


def threshold(histogram: Histogram, is_positive: bool) -> tuple[float, float]:
    """The end of the range whose 8-bit distribution diverges least, and the divergence.

    Values that are never negative have 511 symmetric levels, which are 256 from 0.
    """
    levels = 2 * _LEVELS + 1 if is_positive else _LEVELS
    counts, edges = (np.asarray(x, FLOAT32) for x in histogram[:2])
    entropy = lookup("_contrib_calibrate_entropy")
    end, divergence = run_ref(entropy, [counts, edges], {"num_quantized_bins": levels})
    return float(end[0]), float(divergence[0])


class Ends:
    """The least and the greatest value of all arrays."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, values: np.ndarray) -> None:
        """Add an array."""
        if values.size:
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))

    def range(self) -> tuple[float, float]:
        """The range; that of zero without values."""
        return (self.low, self.high) if self.low <= self.high else (0.0, 0.0)


class Entropy(Ends):
    """The range that loses least of the distribution of all arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._histogram: Histogram | None = None

    def add(self, values: np.ndarray) -> None:
        """Add an array. The bins are those of the first array that is not zero."""
        super().add(values)
        if self._histogram is not None:
            self._histogram = extended(self._histogram, values)
        elif values.any():
            self._histogram = histogram_of(values)

    def range(self) -> tuple[float, float]:
        """The range: from 0 if no value is negative, else symmetric."""
        if self._histogram is None:
            return super().range()
        is_positive = self.low >= 0
        end, _ = threshold(self._histogram, is_positive)
        return (0.0 if is_positive else -end), end


STATISTICS = {"naive": Ends, "entropy": Entropy}
