"""Parameters as records: type, size, histogram of values, steps that read them.

Input: arrays by name. Output: :class:`.schema.Parameter` records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._core.types import type_of
from .schema import Histogram, Parameter
from .texts import short_name

_BINS = 32
_MOST_NUMBERS = 1 << 16  # elements of one parameter for a histogram: 0.5 ms


def parameters(
    arrays: Mapping[str, np.ndarray], readers: Sequence[Mapping[str, Sequence[int]]]
) -> list[Parameter]:
    """A record for each array; ``readers`` lists, per part, the steps that read it, by name."""
    return [_parameter(name, array, readers) for name, array in arrays.items()]


def _parameter(
    name: str, array: np.ndarray, readers: Sequence[Mapping[str, Sequence[int]]]
) -> Parameter:
    return {
        "name": short_name(name),
        "type": str(type_of(array)),
        "bytes": array.nbytes,
        "steps": [list(steps.get(name, ())) for steps in readers],
        "histogram": histogram(array),
    }


def histogram(array: np.ndarray) -> Histogram | None:
    """Histogram of the finite values; for large arrays, of values at evenly spaced positions."""
    flat = array.reshape(-1)
    step = -(-flat.size // _MOST_NUMBERS)
    numbers = flat[:: max(1, step)].astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(finite.mean()), float(finite.std())
    if not np.isfinite([high - low, mean, deviation]).all():
        return None  # the range of these doubles overflows
    counts, _ = np.histogram(finite, _BINS, (low, high) if high > low else (low - 0.5, low + 0.5))
    return {
        "low": low,
        "high": high,
        "counts": counts.tolist(),
        "mean": mean,
        "deviation": deviation,
        "sampled": int(numbers.size),
        "not_finite": int(numbers.size - finite.size),
    }
