"""KernelSpecs that pack weights that are not parameters, at every call. Strides count elements."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import SINGLE, ElementTypes
from ...spec import Ints, KernelSpec, Size, Sizes

# Floats of a point of transformed filters that are written consecutively, and the distance of
# points until then. Written vector by vector, planes whose distance is a multiple of a page would
# be in one cache set: 670 to 810 cycles for a vector of filters, against 240.
RUN = 128
PLANE = RUN + 16


def tile_floats(m: int, side: int = 3) -> int:
    """Floats of the points that are written together."""
    return (m + side - 1) ** 2 * PLANE


@dataclass(frozen=True)
class PackSpec(KernelSpec):
    """Packed filters, bit for bit as ``packing`` writes them; arguments: w, result.

    The result is [group][block][k][column], where k runs over ``sizes``, and is zero beyond the
    last filter.

    filters  of each of the ``groups``, in blocks of ``nv`` vectors
    sizes    the axes over which products are summed, the last the fastest
    strides  of w per (group, filter, *sizes)
    is_interleaved  whether the groups' vectors are interleaved: [vector][k][group][lane]
    parts    number of units of work per block
    """

    groups: int
    filters: Size
    nv: Size
    sizes: Sizes
    strides: Sizes
    lanes: int
    element: ElementTypes = SINGLE
    is_interleaved: bool = False
    parts: Size = 1
    kind = "pack"
    needs_passes = False


@dataclass(frozen=True)
class PiecesSpec(KernelSpec):
    """Rows of adjacent pieces, padded with zeros; arguments: w, result.

    The result is [row][lane], in full vectors; a row's number runs over ``sizes``. Piece p of a row
    has ``width`` elements from the row's first on, offset by ``apart`` * p.

    strides  of w per axis of the rows, and between the elements of a piece
    axis, step, taps  a piece is zeros unless the row's index of that axis, less ``step`` * p, is
    below ``taps``
    """

    sizes: Ints
    strides: Ints
    pieces: int
    width: int
    apart: int
    axis: int
    step: int
    taps: int
    element: ElementTypes = SINGLE
    kind = "pack_pieces"
    needs_passes = False

    def row(self, lanes: int) -> int:
        """Lanes of a row."""
        return -(-self.pieces * self.width // lanes) * lanes


@dataclass(frozen=True)
class FiltersSpec(KernelSpec):
    """Square filters transformed by Winograd's F(m x m, side x side): w, result, scratch.

    The result has the layout of ``packing.WinogradPacking``, [block][point][channel][column], and
    equals its result except for rounding: it is computed in single precision.

    strides  of w per (filter, row, column, channel)
    nv       vectors of filters in a block; the last one is padded with zeros
    """

    m: int
    filters: Size
    channels: Size
    nv: int
    strides: Sizes
    lanes: int
    element: ElementTypes = SINGLE
    side: int = 3
    kind = "filters"
    needs_passes = False

    @property
    def width(self) -> int:
        """Filters of a block."""
        return self.nv * self.lanes

    @property
    def points(self) -> int:
        """Values of one transformed filter."""
        return (self.m + self.side - 1) ** 2

    @property
    def transposed_floats(self) -> int:
        """Floats of a chunk of channels of a block, transposed."""
        return self.side**2 * 2 * self.lanes * self.width

    @property
    def scratch_floats(self) -> int:
        """Floats of one thread's transposed filters, and of points written together."""
        return self.transposed_floats + tile_floats(self.m, self.side)
