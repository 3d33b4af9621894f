"""Statistical tests of random numbers, for tests of generators.

A generator is called with a number of samples and returns them as an array-like object. A
distribution is a list of buckets, values or ranges in ascending order, and the probability of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Generator: TypeAlias = "Callable[[int], ArrayLike]"
Range: TypeAlias = tuple[float, float]


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[Range], list[float]]:
    """``nbuckets`` ranges of equal probability by a quantile function, and their probabilities."""
    assert nbuckets > 0, f"nbuckets must be above 0, got {nbuckets}"
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:])), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of the samples is within three of its standard deviations of ``mu``."""
    mean = np.asarray(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the samples' variance is within three standard deviations of ``sigma`` squared."""
    variance = np.asarray(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * sigma**2 * math.sqrt(2 / (nsamples - 1)))


def chi_square_check(
    generator: Generator,
    buckets: Sequence[float] | Sequence[Range],
    probs: Sequence[float],
    nsamples: int = 1000000,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Chi-square test of samples against a distribution.

    Returns the p value, the number of samples in each bucket, and the expected numbers. Raises
    AssertionError for malformed buckets (see the module's description).
    """
    assert isinstance(buckets, list), f"buckets must be a list, got {type(buckets)}"
    assert len(probs) == len(buckets), f"{len(buckets)} buckets have {len(probs)} probabilities"
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    observed = _counts(np.asarray(generator(nsamples)), buckets)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return _chance_of_more(statistic, len(buckets) - 1), observed, expected


def _counts(samples: np.ndarray, buckets: Sequence[float] | Sequence[Range]) -> np.ndarray:
    """The number of samples in each bucket: equal to its value, or within its range."""
    edges = np.asarray(buckets, dtype=np.float32)
    if edges.ndim == 1:
        return np.array([(samples == bucket).sum() for bucket in buckets])
    edges = edges.reshape(-1)
    assert (edges[:-1] <= edges[1:]).all(), f"buckets must ascend, got {buckets}"
    places = np.searchsorted(edges, samples, side="right") // 2
    return np.bincount(places.reshape(-1), minlength=len(buckets))[: len(buckets)]


def _chance_of_more(statistic: float, freedom: int) -> float:
    """The probability that a chi-square variable of ``freedom`` degrees exceeds ``statistic``."""
    half = statistic / 2
    if half == 0:
        return 1.0
    powers = np.arange(freedom / 2 - 1, -0.25, -1.0)
    terms = (math.exp(p * math.log(half) - half - math.lgamma(p + 1)) for p in powers)
    return sum(terms) + (math.erfc(math.sqrt(half)) if freedom % 2 else 0.0)


def verify_generator(
    generator: Generator,
    buckets: Sequence[float] | Sequence[Range],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """The p values of ``nrepeat`` chi-square tests.

    Raises AssertionError if the fraction of them above ``alpha`` is less than ``success_rate``.
    """
    found = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    values = [p for p, _, _ in found]
    if sum(p > alpha for p in values) < nrepeat * success_rate:
        _, observed, expected = found[-1]
        raise AssertionError(
            f"Generator test fails, Chi-square p={values}, last observed {observed.tolist()} where "
            f"{expected.tolist()} were expected.\nbuckets={buckets}, probs={probs}"
        )
    return values
