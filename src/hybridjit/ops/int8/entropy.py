"""Threshold of a histogram by the divergence of its quantized distribution.

The method is that of S. Migacz, "8-bit Inference with TensorRT" (2017), in the variant of MXNet:
for each range around the middle bin, its bins are merged to 255 levels, and the range with the
least Kullback-Leibler divergence is taken.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FLOAT32, shape_text
from ...errors import AttributeValueError, ShapeError
from ..registry import register
from ..rules import Types, fill, merged
from .ranges import RANGE, require_bytes, untrainable

_SMOOTH = np.float32(1e-4)


def _infer_entropy(ins: Types, outs: Types, *, num_quantized_bins: int) -> tuple[Types, Types]:
    if num_quantized_bins < 1:
        raise AttributeValueError(
            f"num_quantized_bins must be at least 1, got {num_quantized_bins}"
        )
    for name, t in zip(("hist", "hist_edges"), ins):
        require_bytes(name, t, (FLOAT32,))
    hist, edges = (t.with_dtype(FLOAT32) for t in ins)
    for name, t in (("hist", hist), ("hist_edges", edges)):
        if t.shape is not None and len(t.shape) != 1:
            raise ShapeError(f"{name} must have 1 axis, got {shape_text(t.shape)}")
    if hist.shape is not None and hist.shape[0] is not None:
        _require_bins(hist.shape[0], num_quantized_bins)
        edges = fill(edges, (hist.shape[0] + 1,), FLOAT32)
    elif edges.shape is not None and edges.shape[0] is not None:
        hist = fill(hist, (edges.shape[0] - 1,), FLOAT32)
    return (hist, edges), merged(outs, (RANGE, RANGE))


def _require_bins(bins: int, quantized: int) -> None:
    if bins % 2 == 0 or bins < quantized:
        raise ShapeError(
            f"hist must have an odd number of bins, at least num_quantized_bins = {quantized}, "
            f"got {bins}"
        )


def _smoothed(p: np.ndarray) -> np.ndarray | None:
    """Zeros as 1e-4 each, subtracted from the others; None if these are too few."""
    empty = p == 0
    count = np.count_nonzero(empty)
    if count == p.size:
        return None
    off = _SMOOTH * np.float32(count) / np.float32(p.size - count)
    return None if off >= 1 else p + np.where(empty, _SMOOTH, -off)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Kullback-Leibler divergence of two unnormalized distributions, inf if one is empty."""
    smooth = _smoothed(p), _smoothed(q)
    if smooth[0] is None or smooth[1] is None:
        return np.inf
    p, q = (x / _in_order(x) for x in (smooth[0], smooth[1]))
    return float(_in_order(p * np.log(p / q)))


def _in_order(x: np.ndarray) -> np.float32:
    """Sum of float32 values from first to last, rounded after each, as MXNet adds them."""
    return np.add.accumulate(x)[-1]


def _distributions(hist: np.ndarray, half: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins within ``half`` of the middle, with the tails at both ends; the same in ``levels``."""
    middle = hist.size // 2
    start, stop = middle - half, middle + half + 1
    inner = np.zeros(stop - start)
    inner[1:] = hist[start + 1 : stop]
    p = inner.astype(FLOAT32)
    p[0], p[-1] = hist[: start + 1].sum(), p[-1] + hist[stop:].sum()
    starts = np.arange(levels) * (inner.size // levels)
    sizes = np.diff(np.append(starts, inner.size))
    sums = np.add.reduceat(inner, starts)
    counts = np.add.reduceat(inner != 0, starts, dtype=np.int64)
    level = np.where(counts, sums / np.maximum(counts, 1), 0)
    return p, np.where(p != 0, np.repeat(level, sizes), 0).astype(FLOAT32)


def entropy_threshold(
    hist: np.ndarray, edges: np.ndarray, levels: int
) -> tuple[np.float32, np.float32]:
    """Threshold with the least divergence, and this divergence."""
    middle, best = hist.size // 2, (np.inf, np.float32(0))
    for half in range(levels // 2, middle + 1):
        found = _divergence(*_distributions(hist, half, levels))
        if found < best[0]:
            best = (found, edges[middle + half + 1])
    return best[1], np.float32(best[0])


def _entropy(
    hist: np.ndarray, hist_edges: np.ndarray, *, num_quantized_bins: int
) -> tuple[np.ndarray, np.ndarray]:
    threshold, divergence = entropy_threshold(hist, hist_edges, num_quantized_bins)
    return np.full(1, threshold, FLOAT32), np.full(1, divergence, FLOAT32)


CALIBRATE_ENTROPY = register(
    "_contrib_calibrate_entropy",
    "hist hist_edges",
    "num_quantized_bins:int=255",
    infer=_infer_entropy,
    ref=_entropy,
    grad=untrainable("_contrib_calibrate_entropy"),
    outputs=("threshold", "divergence"),
    doc="Threshold of a histogram that loses least in num_quantized_bins levels.",
)
