"""The tile of the depthwise kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ...._core.frozen import replace
from ...._core.target import Target
from ...._core.types import product
from ...families import family_of
from .layer import Layer
from .spec import DepthwiseSpec
from .tile import places_before_a_set

# Minimum columns of a tile that goes down a strip: fewer read too many adjacent columns again.
_FEWEST_COLUMNS = 4
# Maximum columns of a strip. Tiles of 7 spill: 0.064 ms on 32 channels of 112x112, 0.046 with 6.
_MOST_COLUMNS = 6
_UNITS = 64  # of work that an image should be divided into
# Minimum rows of a unit if an image is divided: two of the rows above it are read again.
_FEWEST_LINES = 28
# Minimum adjacent columns in different cache sets for which strips are faster. With 128 to 1024
# channels there are fewer: 14x14 with 512 channels takes 0.013 ms along its rows, 0.025 down
# strips.
_FEWEST_SETS = 16


def depthwise_spec(layer: Layer, target: Target) -> DepthwiseSpec:
    """Strips of columns if these do not share cache sets, otherwise tiles along rows.

    MobileNetV2's 3x3 layers with 192, 576 and 960 channels: 0.013, 0.0098 and 0.0046 ms in strips,
    0.015, 0.013 and 0.0065 along rows; with 32 channels of 112x112 0.038 and 0.050 (Zen 5). A strip
    skips most of each row: Cascade Lake, whose third-level cache is slow, takes 0.53 ms for the
    last one in strips and 0.29 along rows; 64 channels of 112x112 with stride 2 0.29 and 0.23.
    """
    if family_of(target).is_slow_beyond_second and _exceeds_second_level(layer, target):
        return _along_rows(layer, target)
    strip = _strip(layer, target)
    steps = (layer.xs[3], *(s[3] for s in layer.writes))
    apart = min(places_before_a_set(step, target) for step in steps)
    return strip if strip is not None and apart >= _FEWEST_SETS else _along_rows(layer, target)


def _exceeds_second_level(layer: Layer, target: Target) -> bool:
    """Whether the data and results of an image do not fit in the second-level cache together."""
    elements = (product(layer.inp) + product(layer.out)) * layer.groups * layer.ic
    return bool(elements * target.stored_bytes > target.l2_bytes)


def _strip(layer: Layer, target: Target) -> DepthwiseSpec | None:
    """A tile that goes down a strip of columns, one vector of channels wide; None if impossible.

    Registers hold the sums of all rows that a line contributes to, the filters, and a vector of
    data. A vector is a cache line; narrower ones would leave the rest of the line to later units.
    """
    is_plane = layer.inp[0] == layer.out[0] == layer.kernel[0] == 1 and layer.dilate[1] == 1
    whole_lines = target.lanes * target.stored_bytes >= 64
    if layer.ic > 1 or not is_plane or layer.pad[0] or not whole_lines:
        return None
    channels = layer.groups
    one = replace(_of_tile(layer, channels, 1, 1, target), lines=layer.out[1])
    free = target.vector_registers - 2 - layer.kernel[1] * layer.kernel[2]
    columns = min(free // (one.rows_ahead + 1), _MOST_COLUMNS)
    if columns < _FEWEST_COLUMNS or not one.rows_ahead:
        return None
    units = -(-layer.out[2] // columns) * -(-channels // target.lanes)
    chunks = max(1, min(-(-_UNITS // units), layer.out[1] // _FEWEST_LINES))
    return replace(one, cols=min(columns, layer.out[2]), lines=-(-layer.out[1] // chunks))


def _along_rows(layer: Layer, target: Target) -> DepthwiseSpec:
    """Columns x vectors of channels in registers, together with the filters of a row of taps.

    Four adjacent vectors are 256 bytes of each position: more of the lines that hardware prefetches
    are used while they are cached, most if the channels are a power of two. MobileNet's and
    MobileNetV2's depthwise layers: 5x4 0.35 and 0.38 ms, 8x2 0.43 and 0.44, 8x1 0.48 and 0.45, 6x4
    as 5x4 but it spills; with 16 registers of 8 lanes 3x4 0.47 and 0.50, 4x1 0.85 and 0.60.

    In groups of eight channels and more, exchanged lanes serve more columns of fewer vectors: 7x2
    reaches 74 % of peak for 28x28 of 32 groups of 8, 3x4 57 %; for groups of 4, 67 and 77 %.
    """
    channels = layer.groups * layer.ic
    vectors = -(-channels // target.lanes)
    nv = 3 if vectors % 3 == 0 and vectors % 4 else min(4, vectors)
    if layer.ic >= 8 and target.vector_registers >= 32:
        return _of_tile(layer, channels, 7, min(2, vectors), target)
    # With several channels per group, exchanged lanes need registers as well.
    most = (20, 12, 8) if layer.ic == 1 else (12, 8, 4)
    sums = most[0 if target.vector_registers >= 32 else 1 if target.has_fma else 2]
    return _of_tile(layer, channels, min(max(1, sums // nv), 8), nv, target)


def depthwise_tiles(layer: Layer, target: Target) -> Iterator[DepthwiseSpec]:
    """Tiles for each number of vectors, with the most columns whose sums fit in registers; and
    strips.
    """
    channels = layer.groups * layer.ic
    vectors = -(-channels // target.lanes)
    sums = 20 if target.vector_registers >= 32 else 12 if target.has_fma else 8
    for nv in range(1, min(4, vectors) + 1):
        yield _of_tile(layer, channels, min(sums // nv, 8), nv, target)
    if (strip := _strip(layer, target)) is not None:
        yield strip


def _of_tile(layer: Layer, channels: int, columns: int, nv: int, target: Target) -> DepthwiseSpec:
    return DepthwiseSpec(
        **layer.geometry, channels=channels, cols=min(layer.out[2], columns), nv=nv, group=layer.ic,
        element=target.element, **layer.tensors,
    )  # fmt: skip
