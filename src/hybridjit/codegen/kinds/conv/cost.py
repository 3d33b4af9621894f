"""Costs of a layer's candidates, in floating-point operations for one image.

Loading a byte of weights that is not cached has a price in operations.
"""

from __future__ import annotations

from functools import lru_cache

from ...._core.target import Target
from ...._core.types import product
from ...families import family_of
from ...interpolation import Line, points_of
from ...packing import first_half, whole_vectors
from .layer import Layer
from .spec import PRODUCTS, ConvSpec, StrassenSpec, WinogradSpec
from .tile import ends_in_half, multiplies_in_halves

# Size of the third-level cache relative to the second.
_THIRD_LEVEL = 16
# Strassen's algorithm on CPUs that multiply full vectors and on those that multiply halves:
# relative time of products with half as many channels, and operations for the sums of a channel and
# half a pair of pixels. Measured on Zen 5 and 4, at 14x14 to 56x56 positions and 128 to 1024
# channels.
_OF_HALVES = {False: 1.045, True: 1.02}
_OF_A_PAIR = {False: 90, True: 60}
# Additional operations to read channels that are not adjacent. On Zen 4 0.01 to 0.06 ms of 0.8 to
# 1.3: 320 to 1280 channels at 14x14, 128 to 512 and 256 to 256 at 28x28, 512 to 512 at 14x14.
_OF_A_STRIDED_PAIR = {False: 180, True: 120}
# Operations per element of filters that are transformed where they are multiplied.
_LIVE_FILTER = 34


def cost(layer: Layer, spec: ConvSpec | StrassenSpec | WinogradSpec, target: Target) -> float:
    """Operations for one image, or the price of loading its weights if that is higher.

    Transforms count as instructions, each with the time of a vector of fused multiply-adds, and so
    do the addresses of a tile's positions. Channels and filters are rounded up to full vectors.
    """
    if isinstance(spec, ConvSpec):
        positions = product(layer.out)
        direct = DirectCost(layer.operations // positions, layer.oc, target, layer.images)
        return direct.of(positions) + _packing(layer, spec, target)
    if isinstance(spec, StrassenSpec):
        of_layer = StrassenCost(layer.ic, layer.oc, spec.nv, layer.xs[4] == 1, target)
        return of_layer.of(spec.pairs, spec.tiles, spec.mr)
    tiles: float = spec.tiles_of_image
    rows: float = -(-tiles // spec.mr) * spec.mr
    if spec.live:
        rows = _blocks_of_tiles(layer, spec) * spec.rows / layer.images
    of_row, of_tile = winograd_costs(layer, spec.lines, spec.nv, target)
    products, transforms = of_row * rows, of_tile * tiles
    nbytes = 4 * (9 if spec.live else spec.points) * spec.channels * layer.oc
    weights = _price(layer.images, layer.groups * nbytes, target)
    if layer.images and not spec.live:
        weights = layer.groups * _blocks_of_image(spec) * _again(nbytes, target)
    products += _evicted(spec, nbytes, target) * layer.groups
    return max(products, weights) + transforms + _packing(layer, spec, target)


def winograd_costs(
    layer: Layer, lines: tuple[Line, Line], nv: int, target: Target
) -> tuple[float, float]:
    """Operations for a row of the products, and for the transforms of a tile."""
    down, across = lines
    channels, filters = layer.kernel[0] * layer.ic, whole_vectors(layer.oc, nv * target.lanes)
    into, back = transform_instructions(down, across, target.vector_registers)
    addresses = target.lanes * (down.reach * across.reach + down.m * across.m)
    moved = whole_vectors(channels, target.lanes), whole_vectors(layer.oc, target.lanes)
    each = moved[0] * into + moved[1] * back + addresses * layer.kernel[0]
    return 2.1 * layer.groups * points_of(lines) * channels * filters, 4 * layer.groups * each


def price_of_weights(layer: Layer, lines: tuple[Line, Line], target: Target) -> float:
    """The price of loading transformed filters that are packed once."""
    return _price(0, 4 * layer.groups * points_of(lines) * layer.ic * layer.oc, target)


class DirectCost:
    """Operations of the direct kernel, or the price of loading its weights if that is higher.

    ``operations`` are those of one position by the definition.
    """

    def __init__(self, operations: int, oc: int, target: Target, images: int = 0) -> None:
        self._operations, self._at_once = operations, target.element.together
        self._padded = _filled(oc, ends_in_half(oc, target), target) / oc
        nbytes = target.element_bytes * operations // 2 // self._at_once
        self._price = _price(images, nbytes, target)

    @property
    def record(self) -> tuple[int | float, ...]:
        """The numbers, as in ``size_choices.STRASSEN`` and ``WINDOWS``."""
        return self._operations, self._at_once, float(self._padded), float(self._price)

    def of(self, positions: int) -> float:
        """The cost for these positions of an image."""
        operations = self._padded * (self._operations * positions) / self._at_once
        return max(operations, self._price)


def _filled(filters: int, half_last: bool, target: Target) -> int:
    """The filters rounded up to full vectors, the last of which may be half a vector."""
    return whole_vectors(filters, target.lanes // 2 if half_last else target.lanes)


class StrassenCost:
    """Seven products of quarters, and the sums before and after them.

    Filters are 7/4 as large: the part outside the second-level cache is loaded, half of it in
    parallel. ``nv`` vectors of filters are multiplied at once.
    """

    def __init__(self, ic: int, oc: int, nv: int, are_adjacent: bool, target: Target) -> None:
        in_halves = multiplies_in_halves(target)
        filters = whole_vectors(first_half(oc, target.lanes), nv * target.lanes)
        self._of_row = _OF_HALVES[in_halves] * 2 * PRODUCTS * filters * ic / 2
        self._of_pair = _OF_A_PAIR[in_halves] * (ic + oc) / 2
        if not are_adjacent:
            self._of_pair += _OF_A_STRIDED_PAIR[in_halves] * ic / 2
        self._weights = _again(PRODUCTS * ic * oc, target) / 2

    @property
    def record(self) -> tuple[float, ...]:
        """The numbers, as in ``size_choices.STRASSEN``."""
        return float(self._of_row), float(self._of_pair), float(self._weights)

    def of(self, pairs: int, tiles: int, mr: int) -> float:
        """The cost for these pairs, in blocks of ``tiles`` and register tiles of ``mr``."""
        full, rest = divmod(pairs, tiles)
        return self.of_rows(pairs, (full * -(-tiles // mr) + -(-rest // mr)) * mr)

    def of_rows(self, pairs: int, rows: int) -> float:
        """The cost for these pairs, if register tiles have ``rows`` rows, padding included."""
        return self._of_row * rows + self._of_pair * pairs + self._weights


@lru_cache(maxsize=1024)
def transform_instructions(down: Line, across: Line, registers: int) -> tuple[float, float]:
    """Instructions that transform a vector of a tile's channels, into points and back.

    1.3 for each load and store, a quarter for each sum. Values that exceed ``registers`` halfway
    are stored and loaded once more. Measured: 130 and 110 for F(4x4, 3x3), 50 and 40 for F(2x2,
    3x3); F(6x6, 3x3), F(4x4, 5x5) and F(4x4, 3x3) at stride 2 agree to 5 % of a layer.
    """
    data, points = down.reach * across.reach, down.points * across.points
    results = down.m * across.m
    into = across.reach * _sums(down) + down.points * _sums(across)
    back = across.points * _sums(down) + down.m * _sums(across)
    moved = [data + points, points + results]
    for i, half in enumerate((down.points * across.reach, down.m * across.points)):
        moved[i] += 2 * max(0, half - registers) if min(down.taps, across.taps) > 1 else 0
    return 1.3 * moved[0] + into / 4, 1.3 * moved[1] + back / 4


def _sums(line: Line) -> int:
    """The sums of a line's transform: half of the elements for each point; pairs share them."""
    return sum(
        count * (count // 2 - 1) for taps, count in zip(line.phases, line.counts) if taps > 1
    )


def _blocks_of_tiles(layer: Layer, spec: WinogradSpec) -> int:
    """Number of times that filters are transformed, if each block of tiles does so."""
    blocks: int = -(-layer.images * spec.tiles_of_image // spec.tiles)
    return blocks


def _blocks_of_image(spec: WinogradSpec) -> int:
    """Number of times that an image's blocks of tiles read the filters."""
    blocks: int = -(-spec.tiles_of_image // spec.tiles)
    return blocks


def _evicted(spec: WinogradSpec, nbytes: int, target: Target) -> float:
    """The price of a strided layer's filters that every block of tiles loads from a slow
    third-level cache.

    That is where a block's transforms, products and filters exceed half of the second level.
    Cascade Lake, stride 2: 32 to 32 channels to 56x56 by F(4x4) 0.63 ms, directly 0.57; 32 to 96 to
    28x28 0.53 and 0.37; 64 to 128 to 14x14 by F(2x2) 0.27, directly 0.24.
    """
    family = family_of(target)
    block = 4 * spec.points * spec.tiles * (spec.channels + spec.oc)
    fits = nbytes + block <= target.l2_bytes // 2
    if fits or max(spec.stride) == 1 or not family.is_slow_beyond_second:
        return 0
    return _blocks_of_image(spec) * nbytes * family.third_level_price


def _again(nbytes: int, target: Target) -> float:
    """The price of reading packed weights repeatedly within a call, in operations.

    32 images of 7x7, 512 to 512 channels: 30 ms by F(4x4), whose filters are 38 MB, 14 if filters
    are transformed for tiles of several images together.
    """
    family = family_of(target)
    if nbytes <= target.l2_bytes:
        return 0
    stays = nbytes <= family.third_bytes
    return nbytes * (family.third_level_price if stays else family.memory_price)


def _price(images: int, nbytes: int, target: Target) -> float:
    """The price of loading ``nbytes`` of weights, in operations for one image."""
    price = family_of(target).memory_price * nbytes if nbytes > target.l2_bytes else 0
    return price / max(1, images)


def _packing(layer: Layer, spec: ConvSpec | WinogradSpec, target: Target) -> float:
    """The price of packing the weights or, if higher, of their bytes, in operations per image.

    Measured in operations per written element, on 4, 8 and 16 lanes: transformed filters 21, 26 and
    46, all others 30 on 16.
    """
    if not layer.images:
        return 0
    if isinstance(spec, WinogradSpec) and spec.live:
        made = spec.points * layer.ic * layer.oc * _blocks_of_tiles(layer, spec)
        return _LIVE_FILTER * made / layer.images
    read = product(layer.kernel) * layer.ic * layer.oc * layer.groups
    written, each = read, 2 * target.lanes
    if isinstance(spec, WinogradSpec):
        written = spec.points * layer.ic * layer.oc * layer.groups
        each = 10 + 2 * target.lanes
    written_bytes = target.element_bytes * written
    # A line is loaded before it is written, evicted, and loaded again before it is read: 3x3 with
    # 512 to 512 channels on 8 images of 7x7 takes 12 ms by F(4x4), whose filters are 38 MB, 7 by
    # F(2x2) and 8 with the direct kernel.
    ways = 3 if written_bytes > _THIRD_LEVEL * target.l2_bytes else 1
    nbytes = target.stored_bytes * read + ways * written_bytes
    bytes_price = _price(layer.images, nbytes, target)
    return max(each * written / layer.images, bytes_price)
