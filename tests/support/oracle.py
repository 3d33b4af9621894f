"""The structured operators by their definitions: plain loops over tiny arrays, no tricks.

In: arrays and parsed attributes. Out: float64 arrays. Slow on purpose; nothing here may call the
references or NumPy's products and reductions over several axes at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

Cell = tuple[int, ...]


def cells(shape: Cell) -> Iterator[Cell]:
    """Every index of an array of this shape."""
    return product(*(range(n) for n in shape))


def inside(position: Cell, sizes: Cell) -> bool:
    return all(0 <= i < n for i, n in zip(position, sizes))


def _each(values: Cell, rank: int, default: int) -> Cell:
    return values or (default,) * rank


def convolution(
    data, weight, bias=None, *, kernel, stride, dilate, pad, num_filter, num_group, layout, **_
):
    """y[n,f,o] = b[f] + sum over c, t of x[n, c, o*stride + t*dilate - pad] * w[f, c, t]."""
    if layout and layout.endswith("C"):
        data, weight = np.moveaxis(data, -1, 1), np.moveaxis(weight, -1, 1)
    rank, sizes = len(kernel), data.shape[2:]
    stride, dilate, pad = _each(stride, rank, 1), _each(dilate, rank, 1), _each(pad, rank, 0)
    out_sizes = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(sizes, kernel, stride, dilate, pad)
    )
    out = np.zeros((data.shape[0], num_filter, *out_sizes))
    filters, channels = num_filter // num_group, data.shape[1] // num_group
    for n, f, *o in cells(out.shape):
        total = 0.0 if bias is None else float(bias[f])
        first = f // filters * channels
        for c, *t in cells((channels, *kernel)):
            at = tuple(oi * s + ti * d - p for oi, ti, s, d, p in zip(o, t, stride, dilate, pad))
            if inside(at, sizes):
                total += float(data[(n, first + c, *at)]) * float(weight[(f, c, *t)])
        out[(n, f, *o)] = total
    return np.moveaxis(out, 1, -1) if layout and layout.endswith("C") else out


def deconvolution(
    data, weight, bias=None, *, kernel, stride, dilate, pad, adj, target_shape, num_filter,
    num_group, layout, **_,
):  # fmt: skip
    """Every input cell adds x * w[t] to the output cell i*stride + t*dilate - pad."""
    last = bool(layout) and layout.endswith("C")
    if last:
        data, weight = np.moveaxis(data, -1, 1), np.moveaxis(weight, -1, 1)
    rank, sizes = len(kernel), data.shape[2:]
    stride, dilate = _each(stride, rank, 1), _each(dilate, rank, 1)
    pad, adj = _each(pad, rank, 0), _each(adj, rank, 0)
    full = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(sizes, kernel, stride, dilate)]
    if target_shape:
        crop = [f - t for f, t in zip(full, target_shape)]
        pad, adj = tuple(math.ceil(c / 2) for c in crop), tuple(c % 2 for c in crop)
    out_sizes = tuple(f - 2 * p + a for f, p, a in zip(full, pad, adj))
    out = np.zeros((data.shape[0], num_filter, *out_sizes))
    filters, channels = num_filter // num_group, data.shape[1] // num_group
    for n, c, *i in cells(data.shape):
        first = c // channels * filters
        for f, *t in cells((filters, *kernel)):
            at = tuple(ii * s + ti * d - p for ii, ti, s, d, p in zip(i, t, stride, dilate, pad))
            if inside(at, out_sizes):
                out[(n, first + f, *at)] += float(data[(n, c, *i)]) * float(weight[(c, f, *t)])
    for f in range(num_filter if bias is not None else 0):
        out[:, f] += float(bias[f])
    return np.moveaxis(out, 1, -1) if last else out


def _pool_one(values: list[float], clipped: int, attrs) -> float:
    """One window: its real cells, and how many cells it has within the padded input."""
    kind = attrs["pool_type"]
    if kind == "max":
        return max([v for v in values if v == v], default=-math.inf)
    if kind == "lp":
        p = attrs["p_value"]
        total = sum(v**p for v in values)
        return math.copysign(abs(total) ** (1 / p), total)
    if kind == "sum":
        return sum(values)
    count = len(values) if attrs["count_include_pad"] is False else clipped
    return sum(values) / count if count else 0.0


def pooling(data, *, kernel, stride, pad, pooling_convention, global_pool, layout, **attrs):
    """Window o covers [o*stride - pad, o*stride - pad + kernel); only real cells count for max."""
    last = bool(layout) and layout.endswith("C")
    data = np.moveaxis(data, -1, 1) if last else data
    rank, sizes = data.ndim - 2, data.shape[2:]
    if global_pool:
        kernel, stride, pad, pooling_convention = sizes, (), (), "valid"
    if pooling_convention == "same":
        pad = ()
    stride, pad = _each(stride, rank, 1), _each(pad, rank, 0)
    rounding = math.ceil if pooling_convention == "full" else math.floor
    out_sizes = tuple(
        math.ceil(n / s) if pooling_convention == "same" else rounding((n + 2 * p - k) / s) + 1
        for n, k, s, p in zip(sizes, kernel, stride, pad)
    )
    out = np.zeros((*data.shape[:2], *out_sizes))
    for n, c, *o in cells(out.shape):
        values, clipped = [], 0
        for t in cells(kernel):
            at = tuple(oi * s - p + ti for oi, ti, s, p in zip(o, t, stride, pad))
            clipped += all(-p <= a < m + p for a, m, p in zip(at, sizes, pad))
            if inside(at, sizes):
                values.append(float(data[(n, c, *at)]))
        out[(n, c, *o)] = _pool_one(values, clipped, attrs)
    out = np.maximum(out, np.finfo(data.dtype).min) if attrs["pool_type"] == "max" else out
    return np.moveaxis(out, 1, -1) if last else out


def fully_connected(data, weight, bias=None, *, num_hidden, flatten, **_):
    """y[..., h] = b[h] + sum over i of x[..., i] * w[h, i]."""
    if flatten:
        data = data.reshape(data.shape[0], math.prod(data.shape[1:]))
    out = np.zeros((*data.shape[:-1], num_hidden))
    for *row, h in cells(out.shape):
        total = 0.0 if bias is None else float(bias[h])
        for i in range(data.shape[-1]):
            total += float(data[(*row, i)]) * float(weight[h, i])
        out[(*row, h)] = total
    return out


def dot(lhs, rhs, *, transpose_a, transpose_b, **_):
    """The last axis of lhs (its first when transposed) against the first of rhs (its last)."""
    count = lhs.shape[0] if transpose_a else lhs.shape[-1]
    rows = lhs.shape[1:] if transpose_a else lhs.shape[:-1]
    columns = rhs.shape[:-1] if transpose_b else rhs.shape[1:]
    out = np.zeros((*rows, *columns))
    for row in cells(rows):
        for column in cells(columns):
            for k in range(count):
                a = lhs[(k, *row)] if transpose_a else lhs[(*row, k)]
                b = rhs[(*column, k)] if transpose_b else rhs[(k, *column)]
                out[(*row, *column)] += float(a) * float(b)
    return out.reshape(out.shape or (1,))


def batch_dot(lhs, rhs, *, transpose_a, transpose_b, **_):
    """:func:`dot` for every leading index."""
    lead = lhs.shape[:-2]
    parts = {
        i: dot(lhs[i], rhs[i], transpose_a=transpose_a, transpose_b=transpose_b)
        for i in cells(lead)
    }
    rows, columns = lhs.shape[-1 if transpose_a else -2], rhs.shape[-2 if transpose_b else -1]
    out = np.zeros((*lead, rows, columns))
    for i, part in parts.items():
        out[i] = part
    return out


def batch_norm(data, gamma, beta, mean, var, *, eps, fix_gamma, axis=1, **_):
    """(x - mean[c]) / sqrt(var[c] + eps) * gamma[c] + beta[c], c the index along axis."""
    out = np.zeros(data.shape)
    for at in cells(data.shape):
        c = at[axis]
        scale = 1.0 if fix_gamma else float(gamma[c])
        x = (float(data[at]) - float(mean[c])) / math.sqrt(float(var[c]) + eps)
        out[at] = x * scale + float(beta[c])
    return out


def _lines(data: np.ndarray, axis: int) -> Iterator[tuple[tuple, list[float]]]:
    """Every line along an axis: its index (a slice on that axis) and its numbers."""
    axis %= data.ndim
    for at in cells(data.shape[:axis] + data.shape[axis + 1 :]):
        index = (*at[:axis], slice(None), *at[axis:])
        yield index, [float(v) for v in data[index]]


def softmax(data, length=None, *, axis, temperature, **_):
    """e^(x/t) over their sum along axis, over the first length positions only."""
    out = np.zeros(data.shape)
    for index, line in _lines(data, axis):
        at = tuple(i for i in index if not isinstance(i, slice))
        n = len(line) if length is None else min(len(line), max(0, int(length[at])))
        scaled = [x / (temperature or 1.0) for x in line[:n]]
        top = max(scaled, default=0.0)
        powers = [math.exp(x - top) if top > -math.inf else math.nan for x in scaled]
        out[index] = [p / sum(powers) for p in powers] + [0.0] * (len(line) - n)
    return out


def log_softmax(data, *, axis, temperature, **_):
    """x/t - log of the sum of e^(x/t) along axis."""
    out = np.zeros(data.shape)
    for index, line in _lines(data, axis):
        scaled = [x / (temperature or 1.0) for x in line]
        top = max(scaled)
        log_sum = math.log(sum(math.exp(x - top) for x in scaled)) + top
        out[index] = [x - log_sum for x in scaled]
    return out


def softmin(data, **attrs):
    return softmax(-data, **attrs)


def layer_norm(data, gamma, beta, *, axis, eps, **_):
    """(x - mean) / sqrt(variance + eps) * gamma + beta over every line along axis."""
    out = np.zeros(data.shape)
    for index, line in _lines(data, axis):
        mean = sum(line) / len(line)
        variance = sum((x - mean) ** 2 for x in line) / len(line)
        out[index] = [
            (x - mean) / math.sqrt(variance + eps) * float(g) + float(b)
            for x, g, b in zip(line, gamma, beta)
        ]
    return out


ORACLES = {
    "Convolution": convolution,
    "Deconvolution": deconvolution,
    "Pooling": pooling,
    "FullyConnected": fully_connected,
    "dot": dot,
    "batch_dot": batch_dot,
    "BatchNorm": batch_norm,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "softmin": softmin,
    "LayerNorm": layer_norm,
}
