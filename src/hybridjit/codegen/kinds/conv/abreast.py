"""Packed columns: adjacent columns of a layer with few filters as more filters.

Six filters fill six of sixteen lanes. Two columns of the result are twelve filters of a window that
is one step wider and moves two steps at a time; weights are 0 where a filter does not reach. The
layout of the result is unchanged, and every finite sum has the same bits; an infinity may spread to
adjacent columns, as in Winograd's algorithm, so the option that forbids Winograd forbids this as
well.

28x28 of one channel, 5x5, six filters: 1.2 instead of 2.0 us; 64 such images, with weights packed
at every call, 74 instead of 120 us.
"""

from __future__ import annotations

from ...._core.frozen import replace
from ...._core.target import Target
from ...._core.types import product
from ...spec import Ints
from .choose_direct import MOST_TAPS
from .layer import Layer
from .sums import LONG
from .tile import ends_in_half

# The largest ratio of products, with zeros, to products of the layer as it is that is worth it.
_WORTH = 0.8
# Minimum positions of the result for packing weights in this way at every call: each of their rows
# costs about 50 cycles, and saves one cycle at every fifth position.
_FEWEST_PLACES = 512


def columns_abreast(layer: Layer, target: Target) -> int:
    """The number of columns in a vector of filters; 1 if more gain little."""
    if layer.groups > 1 or layer.dilate[2] > 1 or target.element.together > 1:
        return 1
    if layer.images and layer.images * product(layer.out) < _FEWEST_PLACES:
        return 1
    if any(s[4] != 1 or s[3] != layer.oc for s in (*layer.reads, *layer.writes)):
        return 1
    fitting = range(1, target.lanes // layer.oc + 1)
    columns = [n for n in fitting if layer.out[2] % n == 0 and _is_summed_alike(layer, n)]
    best = min(columns, key=lambda n: _products(layer, n, target), default=1)
    gains = _products(layer, best, target) <= _WORTH * _products(layer, 1, target)
    return best if gains else 1


def _products(layer: Layer, columns: int, target: Target) -> float:
    """Full vectors of products per column, for a line of taps."""
    taps = (layer.kernel[2] + (columns - 1) * layer.stride[2]) / columns
    return taps / 2 if ends_in_half(columns * layer.oc, target) else taps


def _is_summed_alike(layer: Layer, columns: int) -> bool:
    """Whether the wider window's products are added in the order of the layer's."""
    window = abreast(layer, columns).kernel
    return window[2] <= MOST_TAPS and product(window) * layer.ic <= LONG


def abreast(layer: Layer, columns: int) -> Layer:
    """The layer with the filters of ``columns`` columns."""
    step = layer.stride[2]

    def wide(strides: Ints) -> Ints:
        return (*strides[:3], columns * strides[3], strides[4])

    return replace(
        layer,
        out=(*layer.out[:2], layer.out[2] // columns),
        kernel=(*layer.kernel[:2], layer.kernel[2] + (columns - 1) * step),
        stride=(*layer.stride[:2], columns * step),
        oc=columns * layer.oc,
        reads=tuple(map(wide, layer.reads)),
        writes=tuple(map(wide, layer.writes)),
    )
