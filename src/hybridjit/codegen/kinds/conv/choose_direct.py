"""The tile and the lines of the direct kernel, an implicit GEMM."""

from __future__ import annotations

from collections.abc import Iterator

from ...._core.frozen import replace
from ...._core.symbolic import Size
from ...._core.target import QUADS, Target
from ...._core.types import product
from ....ir.sized import is_symbolic
from ...families import family_of
from ...spec import Ints
from .layer import Layer
from .spec import ConvSpec
from .tile import (
    ends_in_half,
    most_rows,
    multiplies_in_halves,
    register_tile,
    rows_share_sets,
)

# Minimum channels for an inner loop over channels: fewer are summed tap by tap.
_FEWEST_CHANNELS = 8
# Maximum taps of a line that are summed in this way.
MOST_TAPS = 16


def direct_spec(layer: Layer, target: Target) -> ConvSpec:
    """Implicit GEMM with a register tile, and lines that stay in the cache."""
    flat = flattened(layer)
    return _of_tile(flat, *_tile(flat, target), target)


def direct_tiles(layer: Layer, target: Target) -> Iterator[ConvSpec]:
    """Tiles for each number of vectors, with as many columns as fit in registers."""
    flat, most = flattened(layer), most_rows(target)
    for nv in range(1, min(4, -(-flat.oc // target.lanes)) + 1):
        yield _of_tile(flat, min(flat.out[2], most[nv]), nv, target)


def is_by_taps(layer: Layer, target: Target) -> bool:
    """Whether a layer has too few channels to be summed by channels."""
    return layer.ic < _FEWEST_CHANNELS and target.element.together == 1 and _has_few_taps(layer)


def _has_few_taps(layer: Layer) -> bool:
    return layer.kernel[2] <= MOST_TAPS and product(layer.kernel) > 1


def _of_tile(flat: Layer, columns: int, nv: int, target: Target) -> ConvSpec:
    mr = min(columns, _rows_in_a_set(flat, target))
    if _is_in_parts(flat, target):
        mr = _columns_in_parts(flat, mr)
    taps = flat.xs[4] != 1 and _has_few_taps(flat) or is_by_taps(flat, target)
    return ConvSpec(
        **flat.geometry, groups=flat.groups, ic=flat.ic, oc=flat.oc, mr=mr, nv=nv,
        half_last=ends_in_half(flat.oc, target),
        unroll=1 if taps else 4, taps=taps, rows=_lines_in_cache(flat, mr, target),
        element=target.element, **flat.tensors,
    )  # fmt: skip


# Independent sums that hide the latency of a multiply-add.
_LATENT = 8
# Vectors of channels whose sums fit in the registers together with several rows.
_AT_ONCE = 4
# Products of a sum up to which the filters of one vector fit in half of the first-level cache.
_SHORT = 256
# Products of a sum of bytes below which an epilogue takes as long as the sums, and the most for
# which tiles have fewer sums.
_FEW_PRODUCTS, _MOST_PRODUCTS = 32, 512


def _tile(layer: Layer, target: Target) -> tuple[int, int]:
    """The register tile. One vector for short sums, where a second one gains nothing; three vectors
    if a row's tiles of two include one with too few sums to hide latency, and three suffice for
    every tile.

    7 columns in tiles of at most 6 are 4 and 3. 16 registers of 8 lanes, 14x14, 1024 to 2048,
    1x1/2: 77 % of the FMA peak, 94 % with three vectors. Weights packed in every call use two,
    which divides most numbers of vectors, so that one kernel packs them all.

    Four vectors if a 1x1 layer has no more and its results exceed the second-level cache, where the
    third level is slow: all results of a position are written at once. 32 to 64 channels at 112x112
    take 0.67 ms in tiles of 12x2, 0.53 in tiles of 6x4 (Cascade Lake).
    """
    columns, vectors = layer.out[2], -(-layer.oc // target.lanes)
    if _ends_often(layer, target) and vectors >= _AT_ONCE and not layer.images:
        return min(columns, 4 if layer.ic < _FEW_PRODUCTS else 3), _AT_ONCE
    if vectors == _AT_ONCE and _writes_far(layer, target) and not layer.images:
        return most_rows(target)[vectors], vectors
    is_short = product(layer.kernel) * layer.ic <= _SHORT and columns >= most_rows(target)[1]
    if is_short and multiplies_in_halves(target) and not layer.images:
        return most_rows(target)[1], 1
    tile, most = register_tile(columns, vectors, target), most_rows(target)
    two, three = (nv * (columns // -(-columns // most[nv])) for nv in (2, 3))
    gains = target.has_fma and tile[1] == 2 and vectors >= 6 and two < _LATENT <= three
    return (most[3], 3) if gains and not layer.images else tile


def _ends_often(layer: Layer, target: Target) -> bool:
    """Whether the epilogue is a large part of a 1x1 layer of bytes.

    With 12 instead of 24 sums, a CPU begins the next tile before it has rounded the sums of one,
    and stores whole lines of 64 bytes. Microseconds with one thread (Zen 4):

    ========================  ====  ====  ====  ====
    layer                     3x4   4x4   5x4   12x2
    ========================  ====  ====  ====  ====
    112x112, 16 to 96          168   159   165   170
    112x112, 32 to 64          148   150   154   171
    56x56, 64 to 128           127   131   132   142
    56x56, 128 to 128          236   241   243   257
    28x28, 256 to 256          228   230   233   235
    14x14, 512 to 512          225               227
    ========================  ====  ====  ====  ====
    """
    is_short = layer.ic <= _MOST_PRODUCTS and not isinstance(layer.out[2], Size)
    has_registers = target.vector_registers >= 32 and target.has_quads
    return bool(
        is_short and has_registers and target.element == QUADS and product(layer.kernel) == 1
    )


def _writes_far(layer: Layer, target: Target) -> bool:
    """Whether a 1x1 layer's results are written to a third-level cache that is slow."""
    nbytes = product(layer.out) * layer.oc * layer.groups * target.stored_bytes
    is_slow = family_of(target).is_slow_beyond_second and target.vector_registers >= 32
    return bool(is_slow and product(layer.kernel) == 1 and nbytes > target.l2_bytes)


def _rows_in_a_set(layer: Layer, target: Target) -> int:
    """The most rows of a tile that stay in the first-level cache: 28x28 of 32 groups of 16 with
    stride 2 takes 0.165 ms in tiles of 7 columns, 0.22 in tiles of 14.
    """
    step = layer.stride[2] * layer.xs[3]
    return 12 if rows_share_sets(step, target) else layer.out[2]


def along_depth(layer: Layer) -> Layer:
    """A volume with windows along its depth only as an image: slices by their positions."""
    sides = (layer.kernel[1:], layer.stride[1:], layer.pad[1:])
    is_line = sides == ((1, 1), (1, 1), (0, 0)) and layer.kernel[0] > 1
    places = product(layer.out[1:])

    def follows(s: Ints) -> bool:
        return bool(s[2] == s[3] * layer.out[2] or layer.out[1] == 1)

    if not is_line or not all(map(follows, (layer.xs, *layer.reads, *layer.writes))):
        return layer

    def turned(s: Ints) -> Ints:
        return (s[0], 0, s[1], s[3], s[4])

    return replace(
        layer,
        inp=(1, layer.inp[0], places),
        out=(1, layer.out[0], places),
        kernel=(1, layer.kernel[0], 1),
        stride=(1, layer.stride[0], 1),
        dilate=(1, layer.dilate[0], 1),
        pad=(0, layer.pad[0], 0),
        xs=turned(layer.xs),
        reads=tuple(map(turned, layer.reads)),
        writes=tuple(map(turned, layer.writes)),
    )


def flattened(layer: Layer) -> Layer:
    """A 1x1 convolution with contiguous lines as one long line."""
    one = (1, 1, 1)
    plain = layer.kernel == layer.stride == one and layer.pad == (0, 0, 0)
    plain = plain and layer.inp == layer.out
    depth, height, width = layer.out

    def follows(s: Ints) -> bool:
        lines = s[2] == s[3] * width or height == 1
        return bool(lines and (s[1] == s[3] * width * height or depth == 1))

    if not plain or not all(map(follows, (layer.xs, *layer.reads, *layer.writes))):
        return layer
    line = (1, 1, depth * height * width)

    def joined(s: Ints) -> Ints:
        return (s[0], 0, 0, s[3], s[4])

    return replace(
        layer,
        inp=line,
        out=line,
        xs=joined(layer.xs),
        reads=tuple(map(joined, layer.reads)),
        writes=tuple(map(joined, layer.writes)),
    )


def _lines_in_cache(layer: Layer, mr: int, target: Target) -> int:
    """Units of work done for all output channels before the next: their input is a quarter of L2.

    A unit is a tile, or a row if the tiles at its edges differ (``kernels.conv``).
    """
    depth, height, width = layer.out
    units: int
    reach = (width - 1) * layer.stride[2] + (layer.kernel[2] - 1) * layer.dilate[2]
    uniform = layer.pad[2] <= 0 and reach - layer.pad[2] < layer.inp[2]
    units = depth * height * (-(-width // mr) if uniform else 1)
    nbytes = product(layer.inp) * layer.ic * layer.groups * target.stored_bytes
    if nbytes <= target.l2_bytes // 2:
        return lines_of_part(units, layer.out) if _is_in_parts(layer, target) else units
    return max(1, min(units, units * (target.l2_bytes // 4) // nbytes))


# Parts of an image, each of which is computed for all channels before the next.
_PARTS = 2
# Least positions of an image for parts: below, a part has too few tiles.
_FEWEST_POSITIONS = 128


def lines_of_part(lines: int, out: Ints) -> int:
    """Lines of a part of an image of bytes; all lines of a small image.

    If layers divide an image among threads in the same way, a thread reads the results that it has
    written, and overwrites lines that only its cache has. If threads divide the channels of 1x1
    layers and the rows of depthwise layers, these fetch half of their data from the other's cache:
    14x14x512 takes 17 us with two threads, 15 with one (Zen 4).
    """
    return -(-lines // _PARTS) if product(out) >= _FEWEST_POSITIONS else lines


def _is_in_parts(layer: Layer, target: Target) -> bool:
    """Whether a layer of bytes has several blocks of filters, and few enough to read them twice
    from the second-level cache.
    """
    if target.element != QUADS or is_symbolic((layer.out, layer.ic, layer.oc)):
        return False
    filters = product(layer.kernel) * layer.ic * layer.oc
    return bool(layer.oc > _AT_ONCE * target.lanes and filters <= target.l2_bytes // 4)


def _columns_in_parts(layer: Layer, mr: int) -> int:
    """Columns of a tile, at most ``mr``, with which the parts of a long line have equally many
    tiles: the wide tiles of a line come first, so that a middle tile makes the first part larger.
    """
    columns = layer.out[2]
    if columns < _FEWEST_POSITIONS:
        return mr
    tiles = -(-columns // mr)
    return int(-(-columns // (tiles + tiles % _PARTS)))
