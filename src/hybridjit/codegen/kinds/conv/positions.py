"""The algorithm of 1x1 layers whose filters are packed once, as a function of their positions.

Direct or Strassen's: the costs and the choice of ``choose.algorithms``, from a few numbers. A call
with new sizes asks for every such layer: 20 us instead of 130 to 160, in a cold cache.
"""

from __future__ import annotations

from ...._core.target import Target
from ...packing import first_half
from .choose_strassen import chunks_for, has_halves, pairs_of_block, wished_pairs
from .cost import StrassenCost, direct_cost
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
            self._most = most_rows(target)[2]

    @staticmethod
    def of(layer: Layer, target: Target, winograd: bool | str) -> Positions | None:
        """The choice for a layer, if its positions decide: for one of a call's sizes or of all."""
        one = (1, 1, 1)
        is_plain = layer.kernel == layer.stride == one and layer.pad == (0, 0, 0)
        # With fewer filters than lanes, columns may be packed as filters.
        is_wide = layer.groups == 1 and not layer.images and 2 * layer.oc > target.lanes
        if not is_plain or not is_wide:
            return None
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
        operations = self._operations * positions
        return self._winograd == "always" or self._by_strassen(positions)[1] < operations

    def _chunks(self, positions: int) -> int:
        """The number of chunks of the channels; 0 for the direct kernel."""
        if not self._has_halves or positions < 2:
            return 0
        chunks, by_strassen = self._by_strassen(positions)
        if self._winograd == "always":
            return chunks
        operations = self._operations * positions
        direct = direct_cost(operations, positions, self._oc, self._target)
        return chunks if by_strassen <= direct else 0

    def _by_strassen(self, positions: int) -> tuple[int, float]:
        """Chunks and cost of Strassen's algorithm."""
        pairs = -(-positions // 2)
        wished = wished_pairs(pairs)
        chunks, fitting = chunks_for(self._ic, self._oc, wished, self._target)
        tiles, mr = pairs_of_block(pairs, wished, fitting, self._most)
        return chunks, self._strassen.of(pairs, tiles, mr)
