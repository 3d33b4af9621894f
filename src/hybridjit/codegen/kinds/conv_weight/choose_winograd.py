"""The layers whose weight gradients use Winograd, their costs, and the kernel's blocks."""

from __future__ import annotations

from ...._core.target import Target
from ...._core.types import product
from .layer import Layer
from .spec import WinogradByWeightSpec
from .tile import most_rows

# Units of work that keep several threads busy.
_UNITS = 16
# Channels and filters of a block. Their 36 sums take half of a cache of 1 MB. Other blocks are not
# faster: 4.7 ms for 128 x 64, 4.5 for 64 x 64, 4.9 for 32 x 64 (8 images of 28x28, 128 to 128
# channels). Twice the size halves the number of transforms, which pays if enough blocks remain for
# all threads: 3.6 instead of 4.3 ms (8 images of 7x7, 512 to 512 channels).
_BLOCK = 64
_BLOCK_BYTES = 1 << 20
# Tiles that are transformed together. From 16 to 48 the time is the same within 3 %, if the last
# chunk is nearly full: 8 images of 7x7, of 4 tiles each, take 4.0 ms in chunks of 28, 3.6 in one of
# 32.
_TILES = 28
_TILES_OF_SMALL = 32


def suits_winograd(layer: Layer, target: Target, is_asked_for: bool) -> bool:
    """3x3 at stride 1 on images, summed in f32, with channels that fill vectors.

    If it ``is_asked_for``, any number of channels is accepted.
    """
    geometry = layer.geometry
    is_plain = geometry["kernel"] == (1, 3, 3) and layer.groups == 1
    is_dense = {*geometry["stride"], *geometry["dilate"], layer.xs[4], layer.ds[4]} == {1}
    is_picture = geometry["inp"][0] == 1 and geometry["pad"][0] == 0
    is_wide = is_asked_for or min(layer.ic, layer.oc) >= target.lanes
    is_single = target.element.accumulated == "float32"
    return is_plain and is_dense and is_picture and is_wide and is_single and layer.batch > 0


def winograd_weight_spec(layer: Layer, target: Target) -> WinogradByWeightSpec:
    """Blocks of channels and filters whose sums stay in the second-level cache."""
    lanes = target.lanes
    across = -(-layer.oc // lanes)
    nv = 2 if across > 1 else 1
    most = _channels_of_block(layer, target)
    return WinogradByWeightSpec(
        **{key: layer.geometry[key] for key in ("inp", "out", "pad")},
        ic=layer.ic,
        oc=layer.oc,
        xs=layer.xs,
        ds=layer.ds,
        rows=_even(-(-layer.ic // lanes), most // lanes),
        columns=_even(-(-across // nv), most // (lanes * nv)),
        tiles=_tiles_together(*layer.geometry["out"][1:]),
        mr=most_rows(target)[nv],
        nv=nv,
        element=target.element,
    )


def _channels_of_block(layer: Layer, target: Target) -> int:
    """Channels of a block, of the data and of the gradients."""
    most = _BLOCK if target.l2_bytes >= _BLOCK_BYTES else _BLOCK // 2
    units = -(-layer.ic // (2 * most)) * -(-layer.oc // (2 * most))
    return 2 * most if units >= _UNITS else most


def _tiles_together(height: int, width: int) -> int:
    """Tiles of a chunk: whole images if they are small."""
    tiles = -(-height // 4) * -(-width // 4)
    small = _TILES_OF_SMALL
    return small - small % tiles if tiles <= small // 4 else _TILES


def _even(count: int, most: int) -> int:
    """The size of blocks of at most ``most`` that divides ``count`` most evenly."""
    return -(-count // -(-count // most))


def parts_of_tiles(spec: WinogradByWeightSpec, batch: int, target: Target) -> int:
    """Number of parts of whole images with which there are enough units."""
    units = spec.blocks_of_rows(target.lanes) * spec.blocks_of_columns(target.lanes)
    return min(batch, -(-_UNITS // units))


def cost_of_sums(layer: Layer) -> float:
    """Operations of the sums by the definition."""
    taps = product(layer.geometry["kernel"]) * layer.ic * layer.oc
    return 2.0 * taps * layer.batch * product(layer.geometry["out"])


def cost_of_winograd(spec: WinogradByWeightSpec, layer: Layer, target: Target) -> float:
    """Operations by tiles; transforms count as in the cost of the convolution itself.

    A vector of the data is transformed for each block of filters, one of the gradients for each
    block of channels, and one of the sums once for every part.
    """
    lanes, tiles = target.lanes, layer.batch * product(spec.grid)
    blocks = spec.blocks_of_rows(lanes), spec.blocks_of_columns(lanes)
    rows, columns = blocks[0] * spec.rows * lanes, blocks[1] * spec.columns * spec.nv * lanes
    products = 2.3 * spec.points * tiles * rows * columns
    into = tiles * (rows * blocks[1] * 130 + columns * blocks[0] * 100)
    back = parts_of_tiles(spec, layer.batch, target) * rows * columns * 110
    return products + 4.0 * (into + back)
