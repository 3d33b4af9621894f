"""Choice of the algorithm of layers whose filters are packed once, from the size of the result.

It equals the choice of ``choose.algorithms`` but needs a few numbers only: the direct kernel or
Strassen's algorithm for 1x1 layers, the direct kernel or a tile of Winograd's algorithm for larger
windows. A call with new sizes makes this choice for every such layer. Therefore a record holds the
numbers that do not depend on sizes, and the functions of :mod:`.size_choices` are also compiled.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ...._core.frozen import replace
from ...._core.target import Target
from ...._core.types import product
from ....ir.prologue import Chosen
from ...families import family_of
from ...interpolation import Line, lines_for, points_of
from ...packing import first_half
from ...spec import Ints
from .choose_strassen import has_halves, room_of_products
from .choose_winograd import (
    columns_of_tile,
    many_tiles,
    most_rows_of,
    suits_winograd,
    takes_fives,
    vectors_of_tile,
    winograd_sizes,
    wished_tiles,
)
from .cost import DirectCost, StrassenCost, price_of_weights, winograd_costs
from .layer import Layer
from .size_choices import cheapest_tile, strassen_chunks, strassen_pays
from .spec import ConvSpec
from .tile import most_rows

Record = tuple[Any, ...]  # integers and floats


class Positions:
    """The direct kernel or Strassen's algorithm for a 1x1 layer of ``ic`` to ``oc`` channels.

    are_adjacent  whether the channels of a position are adjacent in memory
    winograd      as in ``compiler.Options``
    record        fields of :data:`.size_choices.STRASSEN`; None if all sizes use the direct kernel
    """

    def __init__(
        self, ic: int, oc: int, are_adjacent: bool, target: Target, winograd: bool | str
    ) -> None:
        self.record: Record | None = None
        if winograd and has_halves(ic, oc, target):
            nv = 2 if first_half(oc, target.lanes) > target.lanes else 1
            strassen = StrassenCost(ic, oc, nv, are_adjacent, target)
            room = room_of_products(target)
            self.record = (
                int(winograd == "always"), room, oc, ic // 2, target.lanes, most_rows(target)[2],
                *DirectCost(2 * ic * oc, oc, target).record, *strassen.record,
            )  # fmt: skip

    @staticmethod
    def of(layer: Layer, target: Target, winograd: bool | str) -> Positions | None:
        """The choice for a 1x1 layer with constant or symbolic sizes; None for other layers."""
        one = (1, 1, 1)
        is_plain = layer.kernel == one and layer.pad == (0, 0, 0)
        # With fewer filters than lanes, columns may be packed as filters.
        is_wide = layer.groups == 1 and not layer.images and 2 * layer.oc > target.lanes
        if not is_plain or not is_wide:
            return None
        winograd = winograd if layer.stride == one else False
        return Positions(layer.ic, layer.oc, layer.xs[4] == 1, target, winograd)

    def key(self, numbers: tuple[int, ...]) -> Hashable:
        """A key that is equal for numbers of positions whose choices compute the same bits."""
        (positions,) = numbers
        chunks = strassen_chunks(positions, self.record, self.record) if self.record else 0
        return self.key_of(chunks)

    @staticmethod
    def key_of(chunks: int) -> Hashable:
        """The key for a number of chunks."""
        return ("strassen", chunks) if chunks else (ConvSpec.kind, 1, 0)

    def chosen(self, positions: int) -> Chosen | None:
        """The number of chunks as a choice of machine code; None if always the direct kernel."""
        return Chosen("strassen_chunks", (positions,), self.record) if self.record else None

    def pays(self, whole: int, positions: int) -> bool:
        """Whether Strassen's algorithm is used, see :func:`.size_choices.strassen_pays`."""
        record = self.record
        return record is not None and bool(strassen_pays(positions, whole, record, record))

    def pays_by_machine_code(self, whole: int, positions: int) -> Chosen | None:
        """The result of :meth:`pays`, 1 or 0, as a choice of machine code."""
        record = self.record
        return Chosen("strassen_pays", (positions, whole), record) if record else None


class Windows:
    """The direct kernel or a tile of Winograd's algorithm for a layer, from bounds of their costs.

    record  fields of :data:`.size_choices.WINDOWS`, then of ``TILE`` for each tile size
    """

    def __init__(self, layer: Layer, target: Target) -> None:
        self._layer, self._target = layer, target
        small = replace(layer, inp=(1, 4, 4), out=(1, 4, 4))  # too small for tiles of 5
        tiles: list[tuple[int, bool]] = [(m, False) for m in winograd_sizes(small, target)]
        if layer.stride[1:] == (1, 1) and takes_fives(layer, target):
            tiles.append((5, True))
        self._many = many_tiles(target)
        operations = small.operations // product(small.out)
        self.record: Record = (
            len(tiles), self._many, *DirectCost(operations, layer.oc, target).record,
            *(number for m, is_five in tiles for number in self._tile(m, is_five)),
        )  # fmt: skip

    def _tile(self, m: int, is_five: bool) -> Record:
        layer, target = self._layer, self._target
        lines = lines_for(m, layer.kernel[1:], layer.stride[1:])
        few, many = (self._register_tile(lines, total) for total in (0, self._many))
        wished = wished_tiles(layer, points_of(lines), target)
        weights = float(price_of_weights(layer, lines, target))
        return (m, *(line.m for line in lines), wished, weights, int(is_five), *few, *many)

    def _register_tile(self, lines: tuple[Line, Line], total: int) -> Record:
        layer, target = self._layer, self._target
        nv = vectors_of_tile(layer, total, target)
        costs = map(float, winograd_costs(layer, lines, nv, target))
        return (*costs, most_rows_of(nv, target), columns_of_tile(layer, nv, target))

    @staticmethod
    def of(layer: Layer, target: Target) -> Windows | None:
        """The choice for a layer of any size; None if its costs depend on more than the record."""
        are_images = layer.kernel[0] == layer.stride[0] == 1 and layer.pad[0] == 0
        is_plain = layer.dilate == (1, 1, 1) and layer.groups == 1 and not layer.images
        is_wide = 2 * layer.oc > target.lanes and target.element.accumulated == "float32"
        moves = max(layer.stride[1:]) > 1 and family_of(target).is_slow_beyond_second
        if not are_images or not is_plain or not is_wide or moves or layer.kernel == (1, 1, 1):
            return None
        return Windows(layer, target) if suits_winograd(layer, target) else None

    def tile(self, out: Ints) -> int | None:
        """Results per axis of the cheapest tile; 0 for the direct kernel, None if two costs are
        equal.
        """
        depth, height, width = out
        found = cheapest_tile(depth, height, width, self.record, self.record)
        return found if found >= 0 else None

    def chosen(self, out: Ints) -> Chosen:
        """The result of :func:`.size_choices.cheapest_tile` as a choice of machine code."""
        return Chosen("cheapest_tile", tuple(out), self.record)

    @staticmethod
    def key_of(tile: int) -> Hashable | None:
        """The key for a tile of Winograd's algorithm; None for another result."""
        return ("winograd", tile, False) if tile > 0 else None
