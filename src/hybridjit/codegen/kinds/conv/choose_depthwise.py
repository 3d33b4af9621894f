"""The tile of the depthwise kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ....target import Target
from .layer import Layer
from .spec import DepthwiseSpec


def depthwise_spec(layer: Layer, target: Target) -> DepthwiseSpec:
    """Columns x vectors of channels in registers; the filters of a row of taps stay there too.

    Four vectors side by side are 256 bytes of each place: more of what a line's neighbours bring
    with them is used while it is there, most where the channels are a power of two. Measured on
    MobileNet's and MobileNetV2's depthwise layers: 5x4 0.35 and 0.38 ms, 8x2 0.43 and 0.44, 8x1
    0.48 and 0.45, 6x4 as 5x4 but it spills; 16 registers of 8 lanes, 3x4 0.47 and 0.50, 4x1 0.85
    and 0.60.

    In groups of eight channels and more, exchanged lanes serve more columns of fewer vectors: 7x2
    does 28x28 of 32 groups of 8 at 74 % of peak, 3x4 at 57 %; of 4, 67 and 77 %.
    """
    channels = layer.groups * layer.ic
    vectors = -(-channels // target.lanes)
    nv = 3 if vectors % 3 == 0 and vectors % 4 else min(4, vectors)
    if layer.ic >= 8 and target.vector_registers >= 32:
        return _of_tile(layer, channels, 7, min(2, vectors), target)
    # With several channels in a group, exchanged lanes need registers as well.
    most = (20, 12, 8) if layer.ic == 1 else (12, 8, 4)
    sums = most[0 if target.vector_registers >= 32 else 1 if target.has_fma else 2]
    return _of_tile(layer, channels, min(max(1, sums // nv), 8), nv, target)


def depthwise_tiles(layer: Layer, target: Target) -> Iterator[DepthwiseSpec]:
    """The same with each number of vectors, as many columns as have sums in registers."""
    channels = layer.groups * layer.ic
    vectors = -(-channels // target.lanes)
    sums = 20 if target.vector_registers >= 32 else 12 if target.has_fma else 8
    for nv in range(1, min(4, vectors) + 1):
        yield _of_tile(layer, channels, min(sums // nv, 8), nv, target)


def _of_tile(layer: Layer, channels: int, columns: int, nv: int, target: Target) -> DepthwiseSpec:
    return DepthwiseSpec(
        **layer.geometry, channels=channels, cols=min(layer.out[2], columns), nv=nv, group=layer.ic,
        element=target.element, **layer.tensors,
    )  # fmt: skip
