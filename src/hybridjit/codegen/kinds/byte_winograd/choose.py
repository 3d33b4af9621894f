"""Choose Winograd's algorithm for layers of bytes where it is faster than direct sums."""

from __future__ import annotations

import numpy as np

from ...._core.target import SHORTS, Target
from ...._core.types import product
from ....ir.plan import Step
from ....ir.plan_image import Packed
from ....ir.sized import is_symbolic
from ...call import Address, Argument, Call, Scratch, Setting
from ...families import family_of
from ...packing import ChannelPacking, whole_vectors
from ..conv.choose_winograd import columns_of_tile, most_rows_of
from ..conv.layer import Layer
from ..conv.size_choices import OF_A_BLOCK, even_tiles
from ..weights.choose import is_fixed
from .spec import MOST_CHANNELS, POINTS, ByteWinogradPacking, ByteWinogradSpec, LowsPacking

_SIDE = 4
# Time of a tile's transforms of a vector of channels, into points or back, in products of vectors
# of 64 bytes, and what a layer has to gain at least.
_TRANSFORM, _GAIN = 195, 0.97
# Time of products of a vector of bytes, and of pairs of int16, in instructions that add such
# products: where bytes are widened first (Zen 4 by AVX2), and with NEON's products of bytes.
_WIDENED, _ADDED, _WITHOUT_PAIRS = 3.1, 1.5, 4
# Maximum bytes of filters at the points, eight times as many as those of weights: more come from
# memory. Bytes from the third-level cache that take as long as a product.
_MOST_BYTES, _LOADED = 6 << 20, 64
# Maximum channels for which tiles of one vector of filters gain on CPUs that multiply in halves.
_FEW = 64


def interpolated_calls(
    step: Step,
    layer: Layer,
    x: Address,
    extra: tuple[Argument, ...],
    batch: int,
    setting: Setting,
) -> tuple[Call, ...]:
    """Calls that compute a layer of bytes at points; () if direct sums are faster."""
    weight, *biases = step.group.anchor.inputs[1:]
    target = setting.target.of(SHORTS)
    are_fixed = all(is_fixed(use, setting) for use in (weight, *biases))
    if not setting.winograd or not are_fixed or not suits_winograd(layer, target):
        return ()
    spec, lanes, sums = winograd_spec(layer, target), target.lanes, SHORTS.accumulated
    value, of_bias = setting.params[weight.value], ChannelPacking(1, lanes)
    bias = Packed(None, of_bias, layer.oc, sums)
    if biases:
        bias = Packed(setting.params[biases[0].value], of_bias, 0, sums)
    packed = (
        Packed(value, ByteWinogradPacking(lanes, spec.nv, spec.parts), 0, "uint32"),
        Packed(value, LowsPacking(lanes, spec.parts), 0, sums),
        bias,
    )
    scratch = Scratch(4 * sum(spec.scratch_floats(lanes)))
    work = layer.operations // 2 * batch
    return (Call(spec, (x, *packed, *extra, scratch, batch), work),)


def suits_winograd(layer: Layer, target: Target) -> bool:
    """Whether a layer is 3x3 at stride 1, with channels that fill vectors, and gains."""
    sizes = (layer.inp, layer.out, layer.xs, layer.reads, layer.writes)
    if is_symbolic(sizes) or layer.groups > 1 or layer.xs[4] != 1:
        return False
    one = (1, 1, 1)
    is_plain = layer.kernel == (1, 3, 3) and layer.stride == layer.dilate == one
    is_image = layer.pad[0] == 0 and layer.out[0] == 1 and max(layer.pad) <= 2
    is_filled = layer.ic % target.lanes == 0 and layer.oc >= target.lanes
    are_words = all(np.dtype(t).itemsize <= 4 for t in layer.program.output_types)
    return is_plain and is_image and is_filled and are_words and _gains(layer, target)


def parts_of(channels: int, lanes: int) -> int:
    """The least number of parts with full vectors whose sums are known."""
    vectors = channels // lanes
    return next(
        parts
        for parts in range(1, vectors + 1)
        if vectors % parts == 0 and channels // parts <= MOST_CHANNELS
    )


def _gains(layer: Layer, target: Target) -> bool:
    """Whether the algorithm takes less time than direct sums, by a count of vector products.

    3x3 layers, Zen 4, direct and at points, us: 56x56, 64 channels 518 and 352, by AVX2 1607 and
    494; 28x28, 128 channels 498 and 322; 14x14, 128 to 256 239 and 206; 14x14, 64 33 and 31; 28x28,
    16 to 32 20 and 22. Three layers of 14x14, 256 channels, take 4 % of ResNet-18 less.
    """
    filters = whole_vectors(layer.oc, target.lanes) // target.lanes
    channels, parts = layer.ic, parts_of(layer.ic, target.lanes)
    nbytes = 2 * POINTS * channels * filters * target.lanes
    if nbytes > _MOST_BYTES:
        return False
    inside = product(tuple(map(_taps_inside, layer.inp[1:], layer.out[1:], layer.pad[1:])))
    direct, points = inside * channels / 4 * filters, POINTS * channels / 2 * filters
    if target.has_dots:
        points *= _WITHOUT_PAIRS
    elif not target.has_quads:
        direct, points = _WIDENED * direct, _ADDED * points
    transforms = _TRANSFORM * (channels / target.lanes + parts * filters)
    loaded = nbytes / _LOADED if nbytes > target.l2_bytes else 0
    return (points + transforms) * product(_grid(layer)) + loaded < _GAIN * direct


def _taps_inside(size: int, count: int, pad: int) -> int:
    """The taps of all windows along an axis that are inside the input."""
    return sum(0 <= at + tap - pad < size for at in range(count) for tap in range(3))


def _grid(layer: Layer) -> tuple[int, ...]:
    """Vertical and horizontal tiles."""
    return tuple(-(-size // _SIDE) for size in layer.out[1:])


def winograd_spec(layer: Layer, target: Target) -> ByteWinogradSpec:
    """Blocks of tiles whose transforms stay in the second-level cache.

    Filters that do not stay there are loaded for every block, so that blocks have more tiles:
    14x14, 256 channels, 403 us in blocks of 8 tiles, 386 in one block. Tiles of one vector of
    filters have more rows: 56x56, 64 channels, 341 us with 14 rows, 353 with two vectors and 7
    rows; 28x28, 128 channels, 345 and 310.
    """
    total, parts = product(_grid(layer)), parts_of(layer.ic, target.lanes)
    in_halves = family_of(target).works_on_halves(target)
    nv = 1 if layer.oc <= target.lanes or (in_halves and layer.ic <= _FEW) else 2
    columns = columns_of_tile(layer, nv, target)
    of_tile = POINTS * (2 * layer.ic + 4 * parts * layer.oc)
    are_far = 2 * POINTS * layer.ic * layer.oc > target.l2_bytes
    wished = max(20 if are_far else 12, target.l2_bytes // 2 // of_tile)
    made = even_tiles(total, wished, most_rows_of(nv, target), columns, 1)
    tiles, mr = divmod(made, OF_A_BLOCK)
    fitting = target.l2_bytes // 4 // (4 * parts * POINTS * tiles * nv * target.lanes)
    return ByteWinogradSpec(
        m=_SIDE, inp=layer.inp, out=layer.out, pad=layer.pad, ic=layer.ic, oc=layer.oc,
        tiles=tiles, blocks=max(1, min(columns, fitting)), mr=mr, nv=nv, unroll=4, parts=parts,
        **layer.tensors,
    )  # fmt: skip
