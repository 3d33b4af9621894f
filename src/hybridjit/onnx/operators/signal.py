"""Readers of ONNX's signal operators: Fourier transforms as products with constants, windows."""

from __future__ import annotations

import math

import numpy as np

from ...errors import MXNetError
from ...formats.onnx.tensors import dtype_of
from ..importer import Importer, Value
from ..use import Use
from .table import translates

_DOUBLE = np.dtype("float64")


@translates("DFT")
def fourier(
    g: Importer, use: Use, x: Value, length: Value | None = None, axis: Value | None = None
) -> Value:
    """Discrete Fourier transform along an axis; the last axis has real and imaginary parts."""
    if use.opset < 20:
        along = use.number("axis", 1)
    else:
        along = -2 if axis is None else g.ints(axis, "axis")[0]
    along %= g.rank(x)
    if along == g.rank(x) - 1:
        raise MXNetError("its axis is the last one, which has the real and imaginary parts")
    inverse, half = bool(use.number("inverse")), bool(use.number("onesided"))
    given = g.shape(x)[along]
    default = 2 * (given - 1) if inverse and half else given
    count = default if length is None else g.ints(length, "dft_length")[0]
    return _transformed(g, x, along, count, inverse, half)


def _transformed(g: Importer, x: Value, axis: int, count: int, inverse: bool, half: bool) -> Value:
    """Product with the matrix of all waves, in double precision."""
    shape, dtype = g.shape(x), g.dtype(x)
    if count < 1 or shape[-1] not in (1, 2):
        raise MXNetError(
            f"length {count} with {shape[-1]} parts is not supported: parts must be 1 or 2"
        )
    outer = [i for i in range(len(shape) - 1) if i != axis]
    order = (*outer, axis, len(shape) - 1)
    g.require_small(4 * shape[axis] * count)
    matrix = _inverse_half(shape[axis], count) if inverse and half else None
    if matrix is None:
        matrix = _waves(shape[axis], count, inverse, half, shape[-1])
    elif shape[-1] == 1:
        raise MXNetError("a one-sided inverse transform needs imaginary parts")
    rows, parts = matrix.shape[:2]
    turned = g.op("transpose", x, axes=order, at="order")
    wide = turned if dtype == _DOUBLE else g.op("Cast", turned, dtype=_DOUBLE, at="wide")
    flat = g.op("Reshape", wide, shape=(-1, shape[axis] * shape[-1]), at="flat")
    weight = g.constant(matrix.reshape(rows * parts, -1))
    made = g.op(
        "FullyConnected", flat, weight, num_hidden=rows * parts, no_bias=True, at="transform"
    )
    sizes = (*(shape[i] for i in outer), rows, parts)
    made = g.op("Reshape", made, shape=sizes, at="parts")
    made = made if dtype == _DOUBLE else g.op("Cast", made, dtype=dtype, at="rounded")
    return g.op("transpose", made, axes=tuple(int(i) for i in np.argsort(order)))


def _angles(count: int, rows: int, columns: int) -> np.ndarray:
    """2 pi k n / count, by the remainder: exact for large products."""
    products = np.arange(rows)[:, None] * np.arange(columns)[None] % count
    return 2 * np.pi * products / count


def _waves(given: int, count: int, inverse: bool, half: bool, parts: int) -> np.ndarray:
    """(rows, 2, positions, parts): contribution of each part of each position to each part of a
    row.

    Positions beyond ``count`` contribute 0.
    """
    angles = _angles(count, count // 2 + 1 if half else count, given)
    sign = 1 if inverse else -1
    cosine, sine = np.cos(angles), sign * np.sin(angles)
    blocks = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)
    blocks[:, :, count:] = 0
    return blocks[..., :parts] / (count if inverse else 1)


def _inverse_half(given: int, count: int) -> np.ndarray:
    """(count, 1, bins, 2): the real signal from the first half of its bins."""
    angles = _angles(count, count, given)
    bins = np.arange(given)
    twice = np.where((bins == 0) | (2 * bins == count), 1.0, 2.0) * (bins <= count // 2)
    return (np.stack([np.cos(angles), -np.sin(angles)], -1) * twice[:, None] / count)[:, None]


@translates("STFT")
def short_fourier(
    g: Importer,
    use: Use,
    x: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
) -> Value:
    """Fourier transforms of windowed frames of a signal."""
    hop = g.ints(step, "frame_step")[0]
    total = g.shape(x)[1]
    if length is not None:
        count = g.ints(length, "frame_length")[0]
    else:
        count = total if window is None else g.shape(window)[0]
    if hop < 1 or not 1 <= count <= total:
        raise MXNetError(
            f"frames of {count} samples with step {hop} do not fit into a signal of {total}"
        )
    frames = 1 + (total - count) // hop
    g.require_small(frames * count)
    places = np.arange(frames)[:, None] * hop + np.arange(count)[None]
    frames_ = g.op("take", x, g.constant(places.astype(np.int64)), axis=1, at="pieces")
    if window is not None:
        weights = g.op("Reshape", window, shape=(1, 1, count, 1), at="weights")
        frames_ = g.op("broadcast_mul", frames_, weights, at="weighted")
    return _transformed(g, frames_, 2, count, False, bool(use.number("onesided", 1)))


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@translates(*_WINDOWS)
def window(g: Importer, use: Use, size: Value) -> Value:
    """Sums of cosines over one period, which ends before or at the last position."""
    count = g.ints(size, "size")[0]
    g.require_small(max(count, 0))
    period = count if use.number("periodic", 1) else count - 1
    angle = 2 * np.pi * np.arange(count) / max(period, 1)
    level, once, twice = _WINDOWS[use.op_type]
    made = level - once * np.cos(angle) + twice * np.cos(2 * angle)
    return g.constant(made.astype(dtype_of(use.number("output_datatype", 1), "it")))


@translates("MelWeightMatrix")
def mel_weights(g: Importer, use: Use, *operands: Value) -> Value:
    """Weights of spectrum bins in bands that are triangles on the mel scale."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bands, count, rate, low, high = (
        g.known(x, name).item() for x, name in zip(operands, names, strict=True)
    )
    bands, rows = int(bands), int(count) // 2 + 1
    g.require_small(max(bands, 0) * max(rows, 0))
    low, high = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((int(count) + 1) * hertz // rate).astype(np.int64)
    places = np.arange(rows)
    made = [_triangle(places, *edges[i : i + 3]) for i in range(bands)]
    dtype = dtype_of(use.number("output_datatype", 1), "it")
    return g.constant(np.stack(made, 1).astype(dtype) if made else np.zeros((rows, 0), dtype))


def _triangle(places: np.ndarray, left: int, middle: int, right: int) -> np.ndarray:
    rising = (places - left) / max(middle - left, 1) if middle > left else places * 0.0 + 1
    falling = (right - places) / max(right - middle, 1)
    made = np.where((places >= left) & (places <= middle), rising, 0.0)
    return np.where((places >= middle) & (places < right), falling, made)
