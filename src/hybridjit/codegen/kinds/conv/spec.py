"""KernelSpecs of convolutions. Strides count elements; no spec contains a batch size."""

from __future__ import annotations

from ...._core.frozen import dataclass
from ...._core.target import SINGLE, ElementTypes
from ...._core.types import product
from ...interpolation import Line, lines_for, points_of
from ...packing import first_half
from ...spec import Extent, Extents, Ints, KernelSpec, Program
from ..parts.convolution import Convolution, Windows

# Products of quarters of matrices in one level of Strassen's algorithm, instead of eight.
PRODUCTS = 7
# Elements between rows of their operands, so that few rows share a cache set.
ROW_PADDING = 16
# Fields of layers whose sizes may be symbolic, and those of specs that calls then give.
EXTENTS = ("inp", "out", "xs", "reads", "writes")


@dataclass(frozen=True)
class ConvSpec(Convolution, KernelSpec):
    """Convolution as implicit im2col + GEMM; arguments: x, w, bias, operands, results, batch.

    Spatial tuples are (depth, height, width). ``xs``: strides of x per (image, d, h, w, channel);
    ``reads``/``writes``: strides per (image, d, h, w) and channel 1, operands with a fifth number
    for their channel stride. Weights are packed, see ``packing.ConvPacking``. A dense layer is the
    case of one image, one row and as many columns as there are rows of data.

    mr x nv   the register tile: output columns x vectors of output channels
    taps      whether horizontal taps are unrolled (few channels) or the inner loop runs over
              channels
    rows      output rows that are computed for all channels before the next rows
    half_last  whether the last vector of channels is half a vector
    usual     approximate typical sizes of the result, if some sizes are given
    inside    if sizes are given, for each axis whether all windows are inside the input
    is_one    if the width is given, whether a row is summed as one tile of any width
    ahead     if the channels are given, ``sums.lines_ahead``: see ``given_channels``
    """

    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    mr: int
    nv: int
    unroll: int
    taps: bool
    rows: Extent
    half_last: bool = False
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    usual: Ints = ()
    inside: tuple[bool, ...] = ()
    is_one: bool = False
    ahead: int | None = None
    kind = "conv"
    extents = (*EXTENTS, "ic", "oc", "rows")
    needs_passes = False


@dataclass(frozen=True)
class LiveFilters:
    """3x3 filters that the kernel transforms, some channels at a time.

    strides   of the weights per (filter, row, column, channel)
    channels  number of channels at a time, full vectors: data and filters of a unit of work stay in
              the second-level cache
    """

    strides: Ints
    channels: int

    def step(self, rows: int) -> int:
        """Floats from point to point of ``rows`` of channels; not a multiple of a page."""
        return rows * self.channels + 16


@dataclass(frozen=True)
class WinogradSpec(KernelSpec):
    """Convolution by Winograd's F(m x m, window); ConvSpec's arguments, and scratch.

    m       results of a tile along each axis with several taps
    tiles   output tiles that are transformed together, as the rows of the products
    blocks  blocks of ``nv`` vectors of output channels per unit of work
    mr x nv the register tile of the products
    dilate  vertical and horizontal: pixels at this distance form a separate image with separate
            tiles
    window  vertical and horizontal taps, ``stride`` apart
    depth   taps along a volume's depth, with their stride and dilation: each result sums over the
            slices of its taps, as if all of their channels belonged to one image
    groups  of ``ic`` channels in and ``oc`` out, stored one after the other
    live    None if filters are packed by ``WinogradPacking``; else the kernel transforms them
    usual   as for ConvSpec
    tail    if the channels and blocks are given, the rows of a smaller register tile, a divisor of
            ``mr``, for the last rows of a block; then ``tiles``, a multiple of it, is a maximum
    """

    m: int
    inp: Extents
    out: Extents
    pad: Ints
    ic: Extent
    oc: Extent
    xs: Extents
    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    tiles: Extent
    blocks: Extent
    mr: int
    nv: int
    unroll: int
    dilate: Ints = (1, 1)
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    window: Ints = (3, 3)
    stride: Ints = (1, 1)
    depth: Ints = (1, 1, 1)
    live: LiveFilters | None = None
    groups: int = 1
    usual: Ints = ()
    tail: int = 0
    kind = "winograd"
    extents = (*EXTENTS, "ic", "oc", "tiles", "blocks")
    needs_passes = False

    @property
    def lines(self) -> tuple[Line, Line]:
        """The vertical and the horizontal algorithm."""
        return lines_for(self.m, self.window, self.stride)

    @property
    def is_plain(self) -> bool:
        """Whether it is 3x3 at stride 1."""
        return self.window == (3, 3) and self.stride == (1, 1)

    @property
    def grid(self) -> tuple[int, int]:
        """Vertical and horizontal tiles of an image, or of the first image made by dilation."""
        sizes = (-(-size // d) for size, d in zip(self.out[1:], self.dilate))
        down, across = (-(-size // line.m) for size, line in zip(sizes, self.lines))
        return down, across

    @property
    def tiles_of_image(self) -> int:
        """Tiles of an image, some of which may be empty if it is dilated."""
        return product((self.out[0], *self.grid, *self.dilate))

    @property
    def channels(self) -> int:
        """Elements of a transformed tile at each point: channels of all taps along the depth."""
        channels: int = self.depth[0] * self.ic
        return channels

    @property
    def points(self) -> int:
        """Values of one transformed tile."""
        return points_of(self.lines)

    @property
    def rows(self) -> int:
        """Rows of the products: tiles rounded up to full register tiles."""
        tiles: int = self.tiles
        return tiles if self.tail else -(-tiles // self.mr) * self.mr

    def row_step(self, lanes: int) -> int:
        """Floats of a row of transformed data: the channels in full vectors."""
        return -(-self.channels // lanes) * lanes

    def scratch_floats(self, lanes: int) -> tuple[int, int, int]:
        """Floats of one thread's transformed input, products, and zeros with room for discarded
        results.

        The stride of points is a multiple of a cache line but not of a page, so that the points of
        a tile are in different cache sets.
        """
        width = self.nv * lanes * self.blocks
        padded = -(-self.channels // lanes) * lanes
        v = self.points * (self.rows * self.row_step(lanes) + 16)
        m = self.points * (self.rows * width + 16)
        if self.live:
            v = self.ic // self.live.channels * self.points * self.live.step(self.rows)
        return v, m, padded + width + lanes

    def filter_floats(self, lanes: int) -> tuple[int, int]:
        """Floats of one thread's filters: transposed, and transformed for a unit of work."""
        if not self.live:
            return 0, 0
        width = self.nv * lanes
        transformed = self.blocks * self.points * self.live.step(width)
        return 9 * lanes * width, transformed


@dataclass(frozen=True)
class StrassenSpec(KernelSpec):
    """1x1 convolution by one level of Strassen's algorithm; WinogradSpec's arguments.

    The matrix of an image's pixels by channels is divided into quarters, and so is that of the
    filters: seven products of quarters make the result. A pair is a pixel of the first half and one
    of the second; the second half of the filters may be smaller.

    tiles   pairs of pixels that are transformed together, as the rows of the products
    chunks  number of parts of the channels that are transformed one after the other, with products
            accumulated in memory
    mr x nv the register tile of the products
    usual, ahead  as for ConvSpec
    """

    out: Extents
    ic: Extent
    oc: Extent
    xs: Extents
    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    tiles: Extent
    mr: int
    nv: int
    unroll: int
    chunks: int = 1
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    usual: Ints = ()
    ahead: int | None = None
    kind = "strassen"
    extents = ("out", "xs", "reads", "writes", "ic", "oc", "tiles")
    needs_passes = False

    @property
    def pairs(self) -> int:
        """Pairs of an image; an odd last pixel has a pair alone."""
        return -(-product(self.out) // 2)

    @property
    def rows(self) -> int:
        """Rows of the products: pairs rounded up to full register tiles."""
        tiles: int = self.tiles
        return -(-tiles // self.mr) * self.mr

    @property
    def row_step(self) -> int:
        """Floats from row to row of transformed data."""
        return self.chunk + ROW_PADDING

    @property
    def chunk(self) -> int:
        """Channels of a half that are transformed together."""
        channels: int = self.ic // 2
        return channels // self.chunks

    def columns(self, lanes: int) -> int:
        """Number of blocks in half of the filters."""
        return -(-first_half(self.oc, lanes) // (self.nv * lanes))

    def scratch_floats(self, lanes: int) -> tuple[int, int]:
        """Floats of one thread's transformed input and products."""
        sums = PRODUCTS * (self.rows * self.row_step + 16)
        of_block = PRODUCTS * (self.rows * self.nv * lanes + 16)
        return sums, of_block * (self.columns(lanes) if self.chunks > 1 else 1)


@dataclass(frozen=True)
class DepthwiseSpec(Windows, KernelSpec):
    """Small groups, vectors along channels; arguments as for ConvSpec.

    cols x nv  output columns x channel vectors that are kept in registers
    group      channels of a group, in and out: 1 is one filter per channel
    lines      output rows of a unit that goes down a strip of columns; 0 if it goes along a row
    usual, inside  as for ConvSpec
    over       if the width is given, the columns by which the last window may exceed the input
    """

    channels: int
    xs: Extents
    reads: tuple[Extents, ...]
    writes: tuple[Extents, ...]
    cols: int
    nv: int
    group: int = 1
    lines: int = 0
    element: ElementTypes = SINGLE
    program: Program = Program(1)
    usual: Ints = ()
    inside: tuple[bool, ...] = ()
    over: Ints = ()
    kind = "depthwise"
    extents = (*EXTENTS, "channels", "lines")
    needs_passes = False

    @property
    def rows_ahead(self) -> int:
        """Output rows below the one that an input line completes, to which it also adds."""
        return (self.kernel[1] - 1) // self.stride[1]
