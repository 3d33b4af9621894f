"""Columns abreast: neighbouring columns of a layer of few filters, as more filters.

Six filters fill six of sixteen lanes. Two columns of the result are twelve filters of a window that
is one step wider and moves two steps at a time; where a filter does not reach, its weights are 0.
The result lies in memory as before, and every finite sum has the same bits; an infinity may spread
to the columns beside it, as it does by Winograd's way, so who wants none of that has none of this.
Measured, 28x28 of one channel, 5x5, six filters: 1.2 us for 2.0; 64 of them, with weights that are
packed at every call, 74 us for 120.
"""

from __future__ import annotations

from ...._core.frozen import replace
from ...._core.target import PAIRS, Target
from ...._core.types import product
from ...spec import Ints
from .choose_direct import MOST_TAPS
from .direct import LONG
from .layer import Layer
from .tile import ends_in_half

# The part of a layer's products that is worth the zeros.
_WORTH = 0.8
# Places of the result from which on weights that are packed at every call may be packed so: each of
# their rows costs about 50 cycles, and saves one at every fifth place.
_FEWEST_PLACES = 512


def columns_abreast(layer: Layer, target: Target) -> int:
    """How many columns a vector of filters should hold; 1 where that gains little."""
    if layer.groups > 1 or layer.dilate[2] > 1 or target.element == PAIRS:
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
    """Whole vectors of products for each column, of a line of taps."""
    taps = (layer.kernel[2] + (columns - 1) * layer.stride[2]) / columns
    return taps / 2 if ends_in_half(columns * layer.oc, target) else taps


def _is_summed_alike(layer: Layer, columns: int) -> bool:
    """Whether the wider window's products are added up in the order of the layer's own."""
    window = abreast(layer, columns).kernel
    return window[2] <= MOST_TAPS and product(window) * layer.ic <= LONG


def abreast(layer: Layer, columns: int) -> Layer:
    """The layer whose filters are those of so many columns."""
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
