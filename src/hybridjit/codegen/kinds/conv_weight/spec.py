"""KernelSpecs of the gradient of a convolution with respect to its weight. Strides count elements.

Sums over images and positions are divided into parts of whole images, each with a separate buffer
that all threads share: [part][group][block of filters][taps][row][filters]. A *row* is an element
of the weight along its contiguous taps and channels; a second kernel adds the buffers in order and
writes the weight in any order of axes.
"""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import SINGLE, ElementTypes
from ...._core.types import product
from ...spec import Extent, Extents, Ints, KernelSpec, Size, Sizes
from ..parts.convolution import Convolution, Windows


@dataclass(frozen=True)
class ByWeightSpec(Convolution, KernelSpec):
    """Sums of x[n, o + tap, c] * d[n, o, f] over n and o; arguments: x, d, buffers, scratch, batch,
    parts.

    Spatial triples are (depth, height, width), strides (image, d, h, w, channel). ``ic`` and ``oc``
    are channels of a group.

    mr x nv  the register tile: rows x vectors of filters, for each of ``taps`` vertical taps
    taps     divides the height of the kernel
    lines    output lines of a chunk: its data and gradients stay in the cache
    images   number of whole images, or slices of a volume, in a chunk if they are small
    is_packed  whether the data of a chunk are copied, with their padding, before they are read
    is_apart  whether the copy has separate lines for each vertical tap
    is_split  whether each block of taps is a separate unit of work
    blocks   blocks of filters of a unit of work, which read a chunk one after the other
    usual    approximate typical sizes of the result, if some sizes are given
    derived  ``width``, ``copied_lines``, ``copied``, ``steps`` and the elements of scratch memory,
             if some sizes are given
    """

    ds: Extents
    mr: int
    nv: int
    taps: int
    lines: Extent
    images: Extent
    is_packed: bool
    is_apart: bool = False
    is_split: bool = False
    blocks: int = 1
    element: ElementTypes = SINGLE
    usual: Ints = ()
    derived: Extents = ()
    kind = "conv_weight"
    extents = ("inp", "out", "xs", "ds", "lines", "images", "derived")
    needs_passes = False

    @property
    def is_joined(self) -> bool:
        """Whether the taps of a line are contiguous, as the channels are."""
        return self.dilate[2] == 1

    @property
    def rows(self) -> int:
        """Number of contiguous rows in the data."""
        return self.ic * (self.kernel[2] if self.is_joined else 1)

    @property
    def places(self) -> Ints:
        """Numbers of taps that are not rows: along depth, height and width."""
        return (*self.kernel[:2], 1 if self.is_joined else self.kernel[2])

    @property
    def width(self) -> Extent:
        """Input columns of all windows of a line."""
        if self.derived:
            return self.derived[0]
        return (self.out[2] - 1) * self.stride[2] + (self.kernel[2] - 1) * self.dilate[2] + 1

    @property
    def copied_lines(self) -> Extent:
        """Input lines of a chunk, of one slice and, if they are separate, of one tap."""
        if self.derived:
            return self.derived[1]
        if self.is_apart:
            return self.lines
        return (self.lines - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilate[1] + 1

    @property
    def copied(self) -> Extents:
        """Strides in the copy of the data: of images, slices, vertical taps, and columns."""
        if self.derived:
            return self.derived[2]  # type: ignore[no-any-return]
        line = self.width * self.ic
        whole = line * self.copied_lines
        down, count = (whole, self.kernel[1]) if self.is_apart else (line * self.dilate[1], 1)
        return (whole * count * self.kernel[0], whole * count, down, self.ic)

    @property
    def steps(self) -> Extents:
        """Strides of the data as they are read; 0 for slices of data that are not copied."""
        if self.derived:
            return self.derived[3]  # type: ignore[no-any-return]
        if self.is_packed:
            return self.copied
        return (self.xs[0], 0, self.dilate[1] * self.xs[2], self.xs[3])

    @property
    def tiled_places(self) -> Ints:
        """Blocks of ``taps`` vertical taps, for all taps that are not rows."""
        depth, height, width = self.places
        return (depth, height // self.taps, width)

    def block_floats(self, lanes: int) -> int:
        """Elements of the buffer of a block of filters."""
        return product(self.places) * self.rows * self.nv * lanes

    def buffer_floats(self, lanes: int) -> int:
        """Elements of the buffer of one part."""
        return self.groups * -(-self.oc // (lanes * self.nv)) * self.block_floats(lanes)

    def scratch_floats(self, lanes: int) -> Extents:
        """Elements of a thread's copies of data and gradients; the first with room for overlap."""
        if self.derived:
            return self.derived[4]  # type: ignore[no-any-return]
        data = self.images * self.copied[0] + lanes if self.is_packed else 0
        return data, self.images * self.lines * self.out[2] * self.nv * lanes


@dataclass(frozen=True)
class WinogradByWeightSpec(KernelSpec):
    """As ByWeightSpec, for 3x3 at stride 1 on images, by Winograd's F(3x3, 4x4); no groups.

    rows     vectors of channels of a block
    columns  horizontal register tiles, of ``nv`` vectors of filters, of a block
    tiles    that are transformed together: the sums over them are formed in registers
    derived  ``grid``, if some sizes are given
    """

    inp: Extents
    out: Extents
    pad: Ints
    ic: int
    oc: int
    xs: Extents
    ds: Extents
    rows: int
    columns: int
    tiles: int
    mr: int
    nv: int
    element: ElementTypes = SINGLE
    derived: Extents = ()
    kind = "winograd_weight"
    extents = ("inp", "out", "xs", "ds", "derived")
    needs_passes = False
    points = 36
    m = 4

    @property
    def grid(self) -> Extents:
        """Vertical and horizontal tiles of an image."""
        if self.derived:
            return self.derived
        return -(-self.out[1] // self.m), -(-self.out[2] // self.m)

    def blocks_of_rows(self, lanes: int) -> int:
        return -(-self.ic // (lanes * self.rows))

    def blocks_of_columns(self, lanes: int) -> int:
        return -(-self.oc // (lanes * self.nv * self.columns))

    def block_floats(self, lanes: int) -> int:
        """Elements of the buffer of a block of ``nv`` vectors of filters."""
        return 9 * self.ic * self.nv * lanes

    def buffer_floats(self, lanes: int) -> int:
        """Elements of the buffer of one part."""
        return -(-self.oc // (lanes * self.nv)) * self.block_floats(lanes)

    def scratch_floats(self, lanes: int) -> Ints:
        """Elements of a thread's transformed data and gradients, of its sums, and of its zeros.

        The stride of points exceeds their size by a cache line, so that the points of a tile are in
        different cache sets.
        """
        rows, columns = self.rows * lanes, self.columns * self.nv * lanes
        sizes = (self.tiles * rows, self.tiles * columns, rows * columns)
        return (*(self.points * (size + 16) for size in sizes), max(rows, columns))


@dataclass(frozen=True)
class DepthwiseByWeightSpec(Windows, KernelSpec):
    """As ByWeightSpec, for groups of one channel, in and out; vectors along channels.

    Arguments: x, d, buffers, batch, parts; the buffers are [part][block][taps][channels].

    oc  channels: each has a filter
    nv  vectors of channels that are kept in registers, for each tap of a line
    usual, inside  as for ConvSpec
    """

    oc: int
    xs: Extents
    ds: Extents
    nv: int
    element: ElementTypes = SINGLE
    usual: Ints = ()
    inside: tuple[bool, ...] = ()
    kind = "depthwise_weight"
    extents = ("inp", "out", "xs", "ds")
    needs_passes = False

    def buffer_floats(self, lanes: int) -> int:
        """Elements of the buffer of one part."""
        blocks = -(-self.oc // (lanes * self.nv))
        return blocks * product(self.kernel) * self.nv * lanes


@dataclass(frozen=True)
class LinesByWeightSpec(KernelSpec):
    """As ByWeightSpec, for images of one channel at stride 1 and few filters; vectors along lines.

    Arguments: x, d, buffers, scratch, batch, parts; the buffers are [part][taps][filters].

    filters  whose sums are kept in registers, for each tap of a line
    """

    inp: Ints
    out: Ints
    kernel: Ints
    dilate: Ints
    pad: Ints
    oc: int
    xs: Ints
    ds: Ints
    filters: int
    element: ElementTypes = SINGLE
    kind = "lines_weight"
    needs_passes = False
    nv = 1

    @property
    def width(self) -> int:
        """Elements of a line with its padding; lines of the gradients are padded with zeros."""
        return self.out[2] + (self.kernel[2] - 1) * self.dilate[2]

    def run(self, lanes: int) -> int:
        """Elements of a filter's gradients, rounded up to full vectors."""
        return -(-self.out[1] * self.width // lanes) * lanes

    def buffer_floats(self, lanes: int) -> int:
        """Elements of the buffer of one part."""
        return product(self.kernel) * lanes

    def scratch_floats(self, lanes: int) -> tuple[int, int, int]:
        """Elements of a thread's image, with room for reads beyond it, gradients and sums."""
        down, across = ((k - 1) * d for k, d in zip(self.kernel[1:], self.dilate[1:]))
        reach = self.run(lanes) + down * self.width + across
        image = (self.out[1] + down) * self.width
        data = -(-max(reach, image) // lanes) * lanes
        return data, self.oc * self.run(lanes), product(self.kernel) * self.oc * lanes


@dataclass(frozen=True)
class JoinPartsSpec(KernelSpec):
    """The weight from the buffers of all parts; arguments: buffers, w, parts.

    ws  strides of the weight per (filter, d, h, w, channel)
    nv  vectors of filters of a block
    """

    groups: int
    ic: Size
    oc: Size
    kernel: Ints
    ws: Sizes
    nv: int
    element: ElementTypes = SINGLE
    kind = "join_parts"
    needs_passes = False
