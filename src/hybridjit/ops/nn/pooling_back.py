"""Gradient of pooling with respect to its input.

Input: the output gradient (N, C, windows...) or its channel-last layout, and for a maximum the data
and the result. Output: the data's type.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import Shape, TensorType, product
from ...errors import ShapeError
from ..algebra import div, mul, scaled, zeros_like
from ..attrs import Attrs, AttrValue, Declared
from ..building import Builder, Many, X
from ..casting import widened
from ..internal import PAD_AXES
from ..record import Samples, Traits
from ..registry import lookup, register
from ..rules import Types, forward
from ..tensor.primitives import part
from .pool_windows import POOLING_ATTRS, divisors_of, infer_pooling, pool_window, taps_of
from .window_geometry import Window, is_channel_last, split_axes, tap_cells


def _unpooled(d: np.ndarray, window: Window, sizes: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Zeros for the cells of all windows, padding included, and the view that is the data."""
    reach = zip(d.shape[2:], window.stride, window.kernel, window.pad, sizes)
    full = tuple(max((o - 1) * s + k, p + n) for o, s, k, p, n in reach)
    cells = np.zeros((*d.shape[:2], *full), d.dtype)
    return cells, cells[tap_cells(window.pad, (1,) * window.rank, sizes)]


def _spread(d: np.ndarray, window: Window, sizes: Shape) -> np.ndarray:
    """Each window's value added to all of its cells: adjoint of the sum over windows."""
    cells, inner = _unpooled(d, window, sizes)
    for tap in np.ndindex(*window.kernel):
        cells[tap_cells(tap, window.stride, d.shape[2:])] += d
    return inner


def _spread_to_largest(
    x: np.ndarray, y: np.ndarray, d: np.ndarray, window: Window, to_all: bool
) -> np.ndarray:
    """Each window's value added to the first of its maximal cells, or to all of them."""
    cells, inner = _unpooled(d, window, x.shape[2:])
    taps = taps_of(x, window, y.shape[2:], np.finfo(x.dtype).min)
    open_windows = np.ones(y.shape, bool)
    for tap, values in zip(np.ndindex(*window.kernel), taps):
        chosen = (values == y) & open_windows
        cells[tap_cells(tap, window.stride, y.shape[2:])] += np.where(chosen, d, 0)
        if not to_all:
            open_windows &= ~chosen
    return inner


def _window_over(sizes: Shape, attrs: Attrs) -> Window:
    """Window of any Pooling; a global one covers all cells."""
    rank = len(sizes)
    if attrs["global_pool"]:
        return Window(sizes, (1,) * rank, (1,) * rank, (0,) * rank)
    return pool_window(rank, **attrs)


def _channels_first(attrs: Attrs, *arrays: np.ndarray) -> list[np.ndarray]:
    last = is_channel_last(attrs["layout"], arrays[0].ndim - 2)
    return [np.moveaxis(a, -1, 1) if last else a for a in arrays]


def _laid_out(y: np.ndarray, attrs: Attrs, dtype: np.dtype) -> np.ndarray:
    if is_channel_last(attrs["layout"], y.ndim - 2):
        y = np.moveaxis(y, 1, -1)
    return np.ascontiguousarray(y, dtype)


def _back_from_max(
    data: np.ndarray, output: np.ndarray, head: np.ndarray, *, to_all: bool, **attrs: AttrValue
) -> np.ndarray:
    x, y, d = _channels_first(attrs, data, output, head)
    if attrs["global_pool"] and not to_all and x.size:  # one operation instead of one per cell
        lines = (x == y).reshape(*x.shape[:2], -1)
        found = np.zeros(lines.shape, d.dtype)
        first = lines.argmax(2)[..., None]
        number = np.where(lines.any(2), d.reshape(d.shape[:2]), 0)
        np.put_along_axis(found, first, number[..., None], 2)
        return _laid_out(found.reshape(x.shape), attrs, data.dtype)
    window = _window_over(x.shape[2:], attrs)
    return _laid_out(_spread_to_largest(x, y, widened(d), window, to_all), attrs, data.dtype)


def _back_from_average(head: np.ndarray, *, shape: Shape, **attrs: Declared) -> np.ndarray:
    """Sum for each cell over the windows that contain it, each divided by its divisor."""
    (d,) = _channels_first(attrs, widened(head))
    _, sizes = split_axes(shape, is_channel_last(attrs["layout"], len(shape) - 2))
    window = _window_over(sizes, attrs)  # type: ignore[arg-type]
    if attrs["pool_type"] == "avg":
        include = attrs["count_include_pad"] is not False
        d = d / divisors_of(sizes, window, d.shape[2:], include)  # type: ignore[arg-type]
    return _laid_out(_spread(d, window, sizes), attrs, head.dtype)  # type: ignore[arg-type]


@forward
def _infer_back_from_max(
    data: TensorType, output: TensorType, head: TensorType, *, to_all: bool, **attrs: AttrValue
) -> TensorType:
    return _checked_back(data, (output, head), attrs)


@forward
def _infer_back_from_average(head: TensorType, *, shape: Shape, **attrs: AttrValue) -> TensorType:
    return _checked_back(head.with_shape(shape), (head,), attrs)


def _checked_back(data: TensorType, results: Types, attrs: Attrs) -> TensorType:
    """Type of the data. Raises ShapeError unless its pooling has the type of ``results``."""
    _, (wanted,) = infer_pooling((data,), (), **attrs)
    for t in results:
        if t != wanted:
            raise ShapeError(f"pooling of {data} results in {wanted}, got {t}")
    return data


BACK_FROM_MAX = register(
    "_back_from_max_pooling",
    "data output head",
    POOLING_ATTRS + " to_all:bool=False",
    internal=True,
    kernel="unpool",
    infer=_infer_back_from_max,
    ref=_back_from_max,
    traits=Traits(in_single=True, samples=Samples.ALIGNED),
    doc="Gradient of maximum pooling, at the first maximal cell of each window.",
)


def _grad_back_from_average(
    g: Builder[X], ins: Many[X], outs: Many[X], douts: Many[X], *, shape: Shape, **attrs: AttrValue
) -> X:
    return g.op(lookup("Pooling"), douts[0], at="pooled", **attrs)


BACK_FROM_AVERAGE = register(
    "_back_from_average_pooling",
    "head",
    "shape:shape! " + POOLING_ATTRS,
    internal=True,
    kernel="unpool",
    infer=_infer_back_from_average,
    ref=_back_from_average,
    grad=_grad_back_from_average,
    traits=Traits(in_single=True, samples=Samples.FIRST),
    doc="Gradient of average and sum pooling, at all cells of each window.",
)


def grad_pooling(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    pool_type: str,
    **attrs: Declared,
) -> X:
    """Gradient at the first maximum, or all cells; p-norms: x^(p-1) / y^(p-1), 0 where y is 0."""
    (x,), (y, *_), (d, *_) = ins, outs, douts
    if pool_type == "max":
        return g.op(BACK_FROM_MAX, x, y, d, at="ddata", pool_type=pool_type, **attrs)

    def spread(d: X, kind: str) -> X:
        shape = g.type(x).dims
        return g.op(BACK_FROM_AVERAGE, d, at="ddata", shape=shape, pool_type=kind, **attrs)

    power = float(attrs["p_value"] or 1) - 1
    if pool_type != "lp" or not power:
        return spread(d, "sum" if pool_type == "lp" else pool_type)
    raised = lookup("_power_scalar")
    ratio = div(g, d, g.op(raised, y, at="root", scalar=power))
    ratio = g.op(lookup("where"), y, ratio, zeros_like(g, y), at="ratio")
    return mul(g, g.op(raised, x, at="power", scalar=power), spread(ratio, "sum"))


def grad_pooling_v1(
    g: Builder[X],
    ins: Many[X],
    outs: Many[X],
    douts: Many[X],
    *,
    pool_type: str,
    global_pool: bool,
    pooling_convention: str,
    **attrs: AttrValue,
) -> X:
    """Gradient of Pooling on padded data, cropped; maxima pass it to all ties."""
    (x,), (y,), (d,) = ins, outs, douts
    sizes = g.type(x).dims[2:]
    window = _window_over(sizes, attrs | {"global_pool": global_pool, "pooling_convention": ""})
    border = (0, 0, *window.pad)
    convention = "valid" if global_pool else pooling_convention
    flags: dict[str, Declared] = {"kernel": window.kernel, "stride": window.stride}
    flags["pooling_convention"] = convention
    shape = tuple(n + 2 * b for n, b in zip(g.type(x).dims, border))
    if pool_type == "max":
        wide = x
        if any(border):
            wide = g.op(PAD_AXES, x, at="wide", mode="constant", before=border, after=border)
        found = g.op(BACK_FROM_MAX, wide, y, d, at="dwide", to_all=True, **flags)
    else:
        factor = 1.0 / product(window.kernel) if pool_type == "avg" else 1.0
        d = scaled(g, d, factor)
        found = g.op(BACK_FROM_AVERAGE, d, at="dwide", shape=shape, pool_type="sum", **flags)
    if not any(border):
        return found
    end = tuple(b + n for b, n in zip(border, g.type(x).dims))
    return part(g, found, border, end, at="ddata")
