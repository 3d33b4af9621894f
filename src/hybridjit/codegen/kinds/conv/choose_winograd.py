"""Choose the layers that use Winograd's algorithm, and the blocks of its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...._core.frozen import replace
from ...._core.target import SINGLE, TYPES_OF, Target
from ...._core.types import product
from ...interpolation import lines_for, most_points, points_of
from ...spec import Ints
from ..parts.gemm import MOST_GIVEN
from .layer import Layer
from .size_choices import OF_A_BLOCK, even_tiles
from .size_choices import gains_by_fives as fives_gain
from .spec import LiveFilters, WinogradSpec
from .tile import most_rows, multiplies_in_halves

# Maximum points of a line, with few and with many channels, for two nested lines and for a single
# one: more have errors above 1e-4 of the results' deviation. F(6x6, 3x3) has 4e-5 with 64 channels,
# 9e-5 with 256, 1.2e-4 with 512; F(6, 7) 5e-5, 9e-5 and 1.1e-4.
_FEW = 256
_MOST_OF_TWO, _MOST_OF_ONE = (8, 7), (12, 10)
# Where weights are transformed in every call, errors are those of F(4x4, 3x3), 8e-6.
_MOST_IN_TRAINING = 6
# Results of a tile along an axis; and for 3x3 and 4x4 at stride 1: with tiles of 3, 5 and 6
# wherever the cost model prefers them, VGG-16 takes 6 % longer, ResNet-18 3 %, DenseNet 3 % (Zen
# 5). Tiles of 5 for 4x4, 12 channels to 64 at 112x112, gain nothing, and LLVM takes 94 ms for them
# instead of 56.
_SIZES, _PLAIN_SIZES = (4, 2, 6, 5, 3), (4, 2)
# On CPUs that multiply vectors in halves, 3x3 uses tiles of 5 for these numbers of channels if they
# reduce products by a sixth: 14x14 has nine tiles of 49 points instead of 16 of 36, and 256 to 256
# channels take 0.53 instead of 0.68 ms; in ResNet-18, whose filters come from memory, 0.66 and 0.74
# (Zen 4). Errors are 4e-5 of the deviation; with 512 channels 6e-5.
_FIVE_FROM, _FIVE_TO = 128, 512
# Minimum vectors of channels per group for strided layers: 28x28, 8 groups of 32 channels, stride
# 2, takes 0.225 ms on 16 lanes, 0.219 with the direct kernel; groups of 64 channels 0.66 and 0.71.
_STRIDED_GROUPS = 4
# Maximum channels for which tiles of one vector gain if two gain nothing: with more channels, and
# with tiles that fill no high ones, they lose up to 5 %.
_SHORT = 128
# Tiles of a block whose filters are transformed with it.
_LIVE_TILES = 40


def suits_winograd(layer: Layer, target: Target, is_asked_for: bool = False) -> bool:
    """Whether Winograd's algorithm suits a layer: channels fill half a vector, or ``is_asked_for``.

    3x3 and other windows, which may be dilated at stride 1: a dilation of d gives d x d ordinary
    convolutions on the pixels that are d apart. Other windows than 3x3, and strides, only with
    weights that are transformed once.
    """
    reach = [(taps - 1) * d for taps, d in zip(layer.kernel, layer.dilate)]
    padded = all(pad <= most for pad, most in zip(layer.pad, reach))
    wide = is_asked_for or min(layer.ic, layer.oc) >= _fewest_channels(layer, target)
    fits = layer.xs[4] == 1 and (layer.groups == 1 or _are_packed_alike(layer, target))
    plain = layer.kernel[1:] == (3, 3) and layer.stride[1:] == (1, 1)
    return _fits_depth(layer) and padded and wide and fits and (plain or _has_lines(layer))


def _fewest_channels(layer: Layer, target: Target) -> int:
    """Minimum channels of a group, in and out; four for one group: 8 channels to 64 and back, 3x3
    at 56x56, are twice as fast as with the direct kernel on 16 lanes, 4 to 64 and back 1.5 times on
    8; LeNet's 6 to 16 channels, 5x5 on 12x12, take 1.2 instead of 2.8 us on 16.
    """
    if layer.groups == 1:
        return 4
    return target.lanes * (_STRIDED_GROUPS if max(layer.stride[1:]) > 1 else 1)


def _are_packed_alike(layer: Layer, target: Target) -> bool:
    """Whether filters of groups are packed by the same kernel as the filters of one group."""
    width = _vectors(layer, target) * target.lanes
    return not layer.images or (layer.are_rows and layer.oc % width == 0)


def _vectors(layer: Layer, target: Target) -> int:
    """Vectors of the register tile."""
    return 2 if layer.oc > target.lanes else 1


def _fits_depth(layer: Layer) -> bool:
    """Whether a layer has images, or volumes whose weights are transformed once.

    Slices of padding, which the direct kernel skips, are multiplied: for volumes of few slices they
    would be half of all slices.
    """
    if layer.kernel[0] == layer.stride[0] == layer.out[0] == 1 and layer.pad[0] == 0:
        return True
    return not layer.images and (layer.pad[0] == 0 or layer.out[0] > 2)


def _has_lines(layer: Layer) -> bool:
    """Whether the algorithm saves products along a line, for common windows and strides."""
    window, strides = layer.kernel[1:], layer.stride[1:]
    if layer.images:
        is_square = window[0] == window[1] > 1
        return is_square and max(*strides, *layer.dilate) == 1 and layer.groups == 1
    plain = max(strides) <= (2 if layer.dilate[1:] == (1, 1) else 1)
    return plain and 1 < max(window) <= 7


def winograd_sizes(layer: Layer, target: Target) -> Iterator[int]:
    """The tile sizes with acceptable errors."""
    window, strides = layer.kernel[1:], layer.stride[1:]
    are_many = layer.kernel[0] * layer.ic > _FEW
    most = (_MOST_OF_ONE if 1 in window else _MOST_OF_TWO)[are_many]
    most = min(most, _MOST_IN_TRAINING) if layer.images else most
    is_plain = window in ((3, 3), (4, 4)) and strides == (1, 1)
    sizes: tuple[int, ...] = _PLAIN_SIZES if is_plain else _SIZES
    if is_plain and takes_fives(layer, target) and gains_by_five(layer.out[1:], layer.dilate[1:]):
        sizes = (*sizes, 5)
    for m in sizes:
        if most_points(lines_for(m, window, strides)) <= most:
            yield m


def takes_fives(layer: Layer, target: Target) -> bool:
    """Whether tiles of 5 suit the window and the number of channels."""
    channels = layer.kernel[0] * layer.ic
    is_suited = min(channels, layer.oc) >= _FIVE_FROM and channels <= _FIVE_TO
    is_suited = is_suited and not layer.images and layer.kernel[1:] == (3, 3)
    return is_suited and multiplies_in_halves(target)


def gains_by_five(out: Ints, dilate: Ints) -> bool:
    """Whether tiles of 5 need few enough products for a 3x3 kernel and results of this size."""

    return bool(fives_gain(*(-(-size // d) for size, d in zip(out, dilate))))


def winograd_blocks(layer: Layer, target: Target, m: int) -> Iterator[WinogradSpec]:
    """The spec with blocks of half and of twice as many tiles."""
    for factor in (0.5, 2):
        yield winograd_spec(layer, target, m, factor)


def winograd_spec(layer: Layer, target: Target, m: int, factor: float = 1) -> WinogradSpec:
    """F(m x m, window) with blocks of tiles whose transforms stay in the second-level cache.

    Filters that do not stay there are loaded once for every block, so blocks grow with them: 20 and
    28 tiles do 10 and 14 operations per byte from the third level, 49 tiles 25 per byte from
    memory. 28x28, 128 to 128 channels, with 2.4 MB of filters: 0.34 ms in blocks of 10 tiles, 0.28
    in blocks of 20. ``factor`` scales the blocks.
    """
    sizes = [-(-size // d) for size, d in zip(layer.out[1:], layer.dilate[1:])]
    lines = lines_for(m, layer.kernel[1:], layer.stride[1:])
    points = points_of(lines)
    total = product(tuple(-(-size // line.m) for size, line in zip(sizes, lines)))
    total *= layer.out[0] * product(layer.dilate[1:])
    nv = vectors_of_tile(layer, total, target)
    columns = columns_of_tile(layer, nv, target)
    tiles, mr = tiles_of_block(layer, points, total, nv, target, factor)
    fitting = target.l2_bytes // 2 // (4 * points * tiles * nv * target.lanes)
    blocks = max(1, min(columns, fitting))
    while blocks > 1 and layer.groups * -(-total // tiles) * -(-columns // blocks) < 4:
        blocks = -(-blocks // 2)
    return WinogradSpec(
        m=m, inp=layer.inp, out=layer.out, pad=layer.pad, ic=layer.ic, oc=layer.oc,
        tiles=tiles, blocks=blocks, mr=mr, nv=nv, unroll=4,
        dilate=layer.dilate[1:], element=TYPES_OF[target.element.stored], window=layer.kernel[1:],
        stride=layer.stride[1:], depth=(layer.kernel[0], layer.stride[0], layer.dilate[0]),
        groups=layer.groups, **layer.tensors,
    )  # fmt: skip


def tiles_of_any(spec: WinogradSpec, layer: Layer, target: Target) -> dict[str, int]:
    """The block and the register tiles of a kernel for any length, if the call may give its
    channels: they are full vectors, with several blocks of filters.

    Only windows along a line, whose few tiles need many heights of register tiles: convolutions of
    3, 4 and 5 words at 8 to 128 words compile 8 kernels instead of 16, and take 1.05 of the time of
    fixed lengths instead of 1.18. With images, filters come from memory: ResNet-18 takes 1.125 of
    the time of fixed sizes instead of 1.09 (Zen 4).
    """
    width = spec.nv * target.lanes
    is_whole = layer.ic % target.lanes == 0 and layer.oc % width == 0 and layer.xs[4] == 1
    is_plain = spec.groups == spec.depth[0] == 1 and spec.live is None and spec.element == SINGLE
    is_short = 1 in spec.window and layer.ic <= MOST_GIVEN
    if not is_whole or not is_plain or not is_short or layer.oc <= width:
        return {}
    mr, tail = rows_of_any(spec.nv, target)
    wished = wished_tiles(layer, spec.points, target)
    tiles = max(mr, wished * 4 // 3 // tail * tail)
    fitting = target.l2_bytes // 2 // (4 * spec.points * tiles * width)
    blocks = max(1, min(layer.oc // width, fitting))
    return {"mr": mr, "tail": tail, "tiles": tiles, "blocks": blocks}


def rows_of_any(nv: int, target: Target) -> tuple[int, int]:
    """Rows of the register tiles for any number of rows: of the large one, a multiple of those of
    the small one, which has enough sums to hide the latency of a multiply-add.
    """
    most = most_rows(target)[nv]
    tail = most // 2 if most < 8 else 4 if nv == 2 or most < 12 else 6
    return most // tail * tail, tail


def columns_of_tile(layer: Layer, nv: int, target: Target) -> int:
    """Blocks of the filters with ``nv`` vectors each."""
    vectors = -(-layer.oc // target.lanes)
    return -(-vectors // nv)


def tiles_of_block(
    layer: Layer, points: int, total: int, nv: int, target: Target, factor: float = 1
) -> tuple[int, int]:
    """Tiles of a block, and rows of a register tile, for ``total`` tiles of the image."""
    wished = wished_tiles(layer, points, target, factor)
    if layer.images:  # usually several
        return _tile_block(total, wished, most_rows(target)[2])
    columns = columns_of_tile(layer, nv, target)
    return _even_tile_block(total, wished, most_rows_of(nv, target), columns, layer.groups)


def wished_tiles(layer: Layer, points: int, target: Target, factor: float = 1) -> int:
    """Tiles of a block that suit the second-level cache."""
    channels = layer.kernel[0] * layer.ic
    filters = 4 * points * channels * layer.oc
    if filters <= 4 * target.l2_bytes:
        fitting = target.l2_bytes // 2 // (4 * points * (channels + layer.oc))
        wished = max(12 if filters <= target.l2_bytes else 20, fitting)
    else:
        wished = 28 if filters <= 16 * target.l2_bytes else 49
    return max(2, int(factor * wished))


def vectors_of_tile(layer: Layer, total: int, target: Target) -> int:
    """Vectors of a register tile for ``total`` tiles of the image."""
    is_short = layer.kernel[0] * layer.ic <= _SHORT and total >= many_tiles(target)
    if is_short and not layer.images and multiplies_in_halves(target):
        return 1
    return _vectors(layer, target)


def many_tiles(target: Target) -> int:
    """Least number of tiles of an image that fills register tiles of one vector."""
    return 2 * most_rows(target)[1]


def live_winograd_specs(layer: Layer, target: Target) -> Iterator[WinogradSpec]:
    """F(4x4, 3x3) that transforms filters within the kernel, for tiles of several images together.

    Every block of tiles transforms all filters. Data, filters and products of a unit of work stay
    in the second-level cache. 8 images of 7x7, 512 to 512 channels: 3.6 ms, against 6.1 for F(2x2)
    with filters that pass through memory; the gradient with respect to the data 3.7, against 7.6.
    """
    is_one = layer.images and layer.groups == 1
    if not is_one or layer.kernel != (1, 3, 3) or layer.stride != (1, 1, 1):
        return
    plain = winograd_spec(layer, target, 4)
    tiles, mr = _tile_block(layer.images * plain.tiles_of_image, _LIVE_TILES, most_rows(target)[2])
    spec = replace(plain, tiles=tiles, mr=mr)
    width = spec.nv * target.lanes
    for filters, channels in ((64, 32), (32, 32), (32, 16)):
        columns = max(1, filters // width) * width
        floats = spec.rows * (channels + columns) + channels * columns
        is_small = 4 * spec.points * floats <= 3 * target.l2_bytes // 4
        if is_small and layer.ic % channels == 0 and layer.oc % columns == 0:
            yield replace(spec, blocks=columns // width, live=LiveFilters((), channels))
            return


@lru_cache(maxsize=4096)
def _tile_block(total: int, wished: int, most: int) -> tuple[int, int]:
    """Tiles per block near ``wished`` and rows per register tile, with little padding."""
    best = (10**9, 0, 0, 0)
    for tiles in range(max(1, min(total, wished * 2 // 3)), min(total, wished * 5 // 4) + 1):
        for mr in range(min(tiles, max(2, most // 2)), min(tiles, most) + 1):
            full, rest = divmod(total, tiles)
            padded = full * -(-tiles // mr) * mr + -(-rest // mr) * mr
            # A register tile with more rows uses each loaded row of filters more often.
            best = min(best, (padded * (64 + most - mr), abs(tiles - wished), tiles, mr))
    return best[2], best[3]


def most_rows_of(nv: int, target: Target) -> int:
    """Rows of a register tile; with two vectors one more than in the direct kernel, because all
    rows share one address. 51 tiles as four times 13 rows take 6 % less than as five times 11.
    """
    return most_rows(target)[nv] + (nv == 2 and target.vector_registers >= 32)


@lru_cache(maxsize=4096)
def _even_tile_block(
    total: int, wished: int, most: int, columns: int, groups: int
) -> tuple[int, int]:
    """As :func:`_tile_block`, with equal rows for two threads, in blocks of full register tiles."""
    return divmod(even_tiles(total, wished, most, columns, groups), OF_A_BLOCK)
