"""The algorithm of layers whose filters are packed once, as a function of their result's size.

The choice of ``choose.algorithms`` from a few numbers: the direct kernel or Strassen's algorithm
for 1x1 layers, and the tile of Winograd's algorithm for windows. A call with new sizes makes this
choice for every such layer, so what the sizes do not change is computed once.
"""

from __future__ import annotations

from typing import NamedTuple

from ...._core.frozen import replace
from ...._core.target import Target
from ...._core.types import product
from ...families import family_of
from ...interpolation import Line, lines_for, points_of
from ...packing import first_half
from ...spec import Ints
from .choose_strassen import (
    chunks_for,
    has_halves,
    pairs_of_block,
    range_of_pairs,
    wished_pairs,
)
from .choose_winograd import (
    gains_by_five,
    many_tiles,
    most_rows_of,
    range_of_rows,
    suits_winograd,
    takes_fives,
    tiles_of_block,
    vectors_of_tile,
    winograd_sizes,
)
from .cost import DirectCost, StrassenCost, price_of_weights, winograd_costs
from .layer import Layer
from .spec import ConvSpec
from .tile import most_rows


class Positions:
    """The choice for a layer of ``ic`` to ``oc`` channels.

    are_adjacent  whether channels are
    winograd      as in ``compiler.Options``
    """

    def __init__(
        self, ic: int, oc: int, are_adjacent: bool, target: Target, winograd: bool | str
    ) -> None:
        self._ic, self._oc, self._target, self._winograd = ic, oc, target, winograd
        self._has_halves = bool(winograd) and has_halves(ic, oc, target)
        self._operations = 2 * ic * oc
        if self._has_halves:
            nv = 2 if first_half(oc, target.lanes) > target.lanes else 1
            self._strassen = StrassenCost(ic, oc, nv, are_adjacent, target)
            self._direct = DirectCost(self._operations, oc, target)
            self._most = most_rows(target)[2]

    @staticmethod
    def of(layer: Layer, target: Target, winograd: bool | str) -> Positions | None:
        """The choice for a layer, if its positions decide: for one of a call's sizes or of all."""
        one = (1, 1, 1)
        is_plain = layer.kernel == one and layer.pad == (0, 0, 0)
        # With fewer filters than lanes, columns may be packed as filters.
        is_wide = layer.groups == 1 and not layer.images and 2 * layer.oc > target.lanes
        if not is_plain or not is_wide:
            return None
        winograd = winograd if layer.stride == one else False
        return Positions(layer.ic, layer.oc, layer.xs[4] == 1, target, winograd)

    def key(self, numbers: tuple[int, ...]) -> tuple[object, ...]:
        """Equal for numbers of positions whose choices give the same bits at the same sizes."""
        (positions,) = numbers
        chunks = self._chunks(positions)
        return ("strassen", chunks) if chunks else (ConvSpec.kind, 1, 0)

    def pays(self, whole: int, positions: int) -> bool:
        """Whether Strassen's algorithm is used for the positions of a sample, and costs less than
        the products of the definition; ``whole`` are the positions of all samples.

        Samples with few rows share weights when rows are multiplied directly: 28 samples of 7 rows,
        384 to 1536 channels, take 2.4 instead of 1.0 ms by Strassen's algorithm.
        """
        if whole < 2 or not self._chunks(positions):
            return False
        if self._winograd == "always":
            return True
        _, block = self._blocks(positions)
        return self._exact(block) < self._operations * positions

    def _chunks(self, positions: int) -> int:
        """The number of chunks of the channels; 0 for the direct kernel."""
        if not self._has_halves or positions < 2:
            return 0
        chunks, block = self._blocks(positions)
        if self._winograd == "always":
            return chunks
        direct, pairs = self._direct.of(positions), block[0]
        low, high = (self._strassen.of_rows(pairs, rows) for rows in range_of_pairs(*block))
        if low > direct or high > direct and self._exact(block) > direct:
            return 0
        return chunks

    def _blocks(self, positions: int) -> tuple[int, tuple[int, int, int, int]]:
        """Chunks of the channels, and the arguments of :func:`pairs_of_block`."""
        pairs = -(-positions // 2)
        wished = wished_pairs(pairs)
        chunks, fitting = chunks_for(self._ic, self._oc, wished, self._target)
        return chunks, (pairs, wished, fitting, self._most)

    def _exact(self, block: tuple[int, int, int, int]) -> float:
        """The cost of Strassen's algorithm."""
        return self._strassen.of(block[0], *pairs_of_block(*block))


class _Tiles(NamedTuple):
    """Costs of Winograd's algorithm with tiles of a size, for a row of the products and for a tile,
    and the most rows of a register tile.
    """

    of_row: float
    of_tile: float
    most: int


# Costs that differ by less may be rounded in another order.
_CLEARLY = 1 + 1e-9


class Windows:
    """The direct kernel or a tile of Winograd's algorithm for a layer, by bounds of their costs."""

    def __init__(self, layer: Layer, target: Target) -> None:
        self._layer, self._target = layer, target
        self._takes_fives = layer.stride[1:] == (1, 1) and takes_fives(layer, target)
        small = replace(layer, inp=(1, 4, 4), out=(1, 4, 4))  # for which tiles of 5 gain nothing
        self._lines = {m: self._lines_for(m) for m in (*winograd_sizes(small, target), 5)}
        self._weights = {m: price_of_weights(layer, two, target) for m, two in self._lines.items()}
        self._plain = tuple(winograd_sizes(small, target))
        self._direct = DirectCost(small.operations // product(small.out), layer.oc, target)
        self._many = many_tiles(target)
        few_or_many = [vectors_of_tile(layer, total, target) for total in (0, self._many)]
        self._vectors = few_or_many
        self._costs = {
            m: [self._tiles_of(lines, nv) for nv in few_or_many] for m, lines in self._lines.items()
        }

    def _tiles_of(self, lines: tuple[Line, Line], nv: int) -> _Tiles:
        of_row, of_tile = winograd_costs(self._layer, lines, nv, self._target)
        return _Tiles(of_row, of_tile, most_rows_of(nv, self._target))

    def _lines_for(self, m: int) -> tuple[Line, Line]:
        return lines_for(m, self._layer.kernel[1:], self._layer.stride[1:])

    @staticmethod
    def of(layer: Layer, target: Target) -> Windows | None:
        """The choice for a layer of all sizes; None if its costs need more than these numbers."""
        are_images = layer.kernel[0] == layer.stride[0] == 1 and layer.pad[0] == 0
        is_plain = layer.dilate == (1, 1, 1) and layer.groups == 1 and not layer.images
        is_wide = 2 * layer.oc > target.lanes and target.element.accumulated == "float32"
        moves = max(layer.stride[1:]) > 1 and family_of(target).is_slow_beyond_second
        if not are_images or not is_plain or not is_wide or moves or layer.kernel == (1, 1, 1):
            return None
        return Windows(layer, target) if suits_winograd(layer, target) else None

    def tile(self, out: Ints) -> int | None:
        """Results of the cheapest tile along an axis; 0 for the direct kernel, None if two cost
        the same.
        """
        direct = self._direct.of(out[0] * out[1] * out[2])
        bounds: dict[int, tuple[float, float]] = {0: (direct, direct)}
        for m in self._plain:
            bounds[m] = self._costs_of(m, out)
        if self._takes_fives and gains_by_five(out[1:], (1, 1)):
            bounds[5] = self._costs_of(5, out)
        highest = min(high for _, high in bounds.values()) * _CLEARLY
        rivals = [m for m, (low, _) in bounds.items() if low <= highest]
        if len(rivals) == 1:
            return rivals[0]
        exact: dict[int, float] = {
            m: self._costs_of(m, out, is_exact=True)[0] if m else direct for m in rivals
        }
        first, second = sorted(rivals, key=exact.__getitem__)[:2]
        return first if exact[first] * _CLEARLY < exact[second] else None

    def _costs_of(self, m: int, out: Ints, is_exact: bool = False) -> tuple[float, float]:
        """The least and the largest cost with tiles of this size; twice the cost if exact."""
        down, across = self._lines[m]
        total = out[0] * -(-out[1] // down.m) * -(-out[2] // across.m)
        are_many = total >= self._many
        of_row, of_tile, most = self._costs[m][are_many]
        if is_exact:
            points, nv = points_of(self._lines[m]), self._vectors[are_many]
            _, mr = tiles_of_block(self._layer, points, total, nv, self._target)
            fewest = highest = -(-total // mr) * mr
        else:
            fewest, highest = range_of_rows(total, most)
        weights, transforms = self._weights[m], of_tile * total
        return max(of_row * fewest, weights) + transforms, max(
            of_row * highest, weights
        ) + transforms
