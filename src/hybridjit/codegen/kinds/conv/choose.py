"""Choose for convolutions and dense layers: the algorithm, the register tile, the blocking.

Direct (implicit GEMM), Winograd or depthwise follows from the shapes and the target, by a count of
floating-point operations in which a byte of weights that does not stay in the cache has a price.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....ir.image import Packed
from ....ir.plan import Step
from ....records import dataclass
from ....target import Target
from ....types import product
from ...call import (
    Address,
    Argument,
    Call,
    Scratch,
    Setting,
    broadcast_strides,
    build_program,
    five,
    three,
    views_of,
)
from ...packing import ChannelPacking, ConvPacking, DepthwisePacking, Packing, WinogradPacking
from ...spec import Ints, Program
from ..weights.choose import is_fixed, pack_weights
from .spec import ConvSpec, DepthwiseSpec, WinogradSpec

# Operations that a core does in the time in which it gets one byte that is not in its own caches.
# Measured with 16 lanes: 240 GFLOP/s against 39 GB/s for one core, which others share.
_OPERATIONS_PER_BYTE = 10


@dataclass(frozen=True)
class Layer:
    """A convolution as the choosers see it. Spatial triples are (depth, height, width).

    images    for how many images a call packs the weights; 0 where they are packed already
    are_rows  whether the filters of all groups are as far apart as those of one
    """

    inp: Ints
    out: Ints
    kernel: Ints
    stride: Ints
    dilate: Ints
    pad: Ints
    groups: int
    ic: int
    oc: int
    xs: Ints
    reads: tuple[Ints, ...]
    writes: tuple[Ints, ...]
    program: Program
    images: int = 0
    are_rows: bool = True

    @property
    def geometry(self) -> dict[str, Any]:
        names = ("inp", "out", "kernel", "stride", "dilate", "pad")
        return {name: getattr(self, name) for name in names}

    @property
    def tensors(self) -> dict[str, Any]:
        names = ("xs", "reads", "writes", "program")
        return {name: getattr(self, name) for name in names}

    @property
    def operations(self) -> int:
        """Floating-point operations for one image by the definition."""
        return 2 * product(self.out) * product(self.kernel) * self.ic * self.oc * self.groups

    def has_small_groups(self, lanes: int) -> bool:
        """Whether a vector of channels holds several whole groups, as many channels out as in."""
        fitting = self.ic == self.oc < lanes and lanes % self.ic == 0
        fitting = fitting and (self.are_rows or self.oc == 1)
        return fitting and self.groups > 1 and self.xs[4] == 1


def choose_conv(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The call of a convolution with what is fused into it."""
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    attrs, rank, groups = anchor.attrs, len(anchor.shape) - 2, anchor.attrs["num_group"]
    others = views_of(step, operands)
    layer = Layer(
        inp=three(x.shape[1:-1], 1),
        out=three(anchor.shape[1:-1], 1),
        kernel=three(attrs["kernel"], 1),
        stride=three(attrs["stride"] or (1,) * rank, 1),
        dilate=three(attrs["dilate"] or (1,) * rank, 1),
        pad=three(attrs["pad"] or (0,) * rank, 0),
        groups=groups,
        ic=x.shape[-1] // groups,
        oc=anchor.shape[-1] // groups,
        xs=five(x.strides, rank),
        reads=tuple(five(broadcast_strides(v, anchor.shape), rank) for v in others),
        writes=tuple(five(v.strides, rank) for v in step.writes),
        program=program,
    )
    extra = tuple(Address(v) for v in (*others, *step.writes))
    return calls_of(step, layer, Address(x), extra, x.shape[0], setting)


def calls_of(
    step: Step,
    layer: Layer,
    x: Address,
    extra: tuple[Argument, ...],
    batch: int,
    setting: Setting,
    of_phase: Callable[[Packing], Packing] = lambda packing: packing,
) -> tuple[Call, ...]:
    """The kernel call of a layer, after those that pack weights that are not parameters.

    The second and the third input of the group's anchor are weight and bias. ``of_phase`` makes of
    the packing of a plain convolution's weights that of the anchor's.
    """
    weight, *biases = step.group.anchor.inputs[1:]
    target, work = setting.target, layer.operations // 2 * batch
    if not is_fixed(weight, setting):
        layer = replace(layer, images=batch if setting.is_training else 1)
    winograd = setting.winograd if target.element == "float32" else False
    candidates = algorithms(layer, target, winograd)
    spec = candidates[0]
    after: tuple[Argument, ...] = (*extra, batch)
    if isinstance(spec, WinogradSpec):
        after = (*extra, Scratch(4 * sum(spec.scratch_floats(target.lanes))), batch)
    packing, of_bias = _packings(spec, target)
    wanted = [(weight, of_phase(packing)), *((bias, of_bias) for bias in biases)]
    before, packed = pack_weights(step, wanted, setting)
    if not biases:
        packed = (*packed, Packed(None, of_bias, layer.oc * layer.groups, target.element))
    call = Call(spec, (x, *packed, *after), work, _reason(layer, candidates, setting))
    return (*before, call)


def _packings(
    spec: ConvSpec | DepthwiseSpec | WinogradSpec, target: Target
) -> tuple[Packing, ChannelPacking]:
    """How a kernel wants its weights and its biases."""
    if isinstance(spec, DepthwiseSpec):
        return DepthwisePacking(target.lanes), ChannelPacking(1, target.lanes)
    if isinstance(spec, WinogradSpec):
        bias = ChannelPacking(1, target.lanes * spec.nv)
        return WinogradPacking(spec.m, target.lanes, spec.nv), bias
    packing = ConvPacking(spec.groups, target.lanes, spec.nv, spec.taps)
    return packing, ChannelPacking(spec.groups, target.lanes)


def _reason(
    layer: Layer, candidates: list[ConvSpec | DepthwiseSpec | WinogradSpec], setting: Setting
) -> str:
    """The candidates and their costs in operations; empty where there was no choice."""
    if len(candidates) == 1:
        return ""
    costs = [
        f"{_algorithm(spec)} {cost(layer, spec, setting.target) / 1e6:.1f}"
        for spec in candidates
        if not isinstance(spec, DepthwiseSpec)
    ]
    return f"{costs[0]} million operations, against {', '.join(costs[1:])}"


def _algorithm(spec: ConvSpec | WinogradSpec) -> str:
    return f"winograd F({spec.m}x{spec.m})" if isinstance(spec, WinogradSpec) else "direct"


def algorithms(
    layer: Layer, target: Target, winograd: bool | str
) -> list[ConvSpec | DepthwiseSpec | WinogradSpec]:
    """The kernels that compute this layer, the one to take first."""
    if layer.has_small_groups(target.lanes):
        return [depthwise_spec(layer, target)]
    candidates: list[ConvSpec | WinogradSpec] = [direct_spec(layer, target)]
    if winograd and _suits_winograd(layer, target if winograd != "always" else None):
        transformed = [winograd_spec(layer, target, 4), winograd_spec(layer, target, 2)]
        candidates = [*([] if winograd == "always" else candidates), *transformed]
    return [*sorted(candidates, key=lambda spec: cost(layer, spec, target))]


def _suits_winograd(layer: Layer, target: Target | None) -> bool:
    """3x3 at stride 1 on pictures, not volumes; for a target, channels that fill its vectors."""
    plain = layer.kernel == (1, 3, 3) and layer.stride == layer.dilate == (1, 1, 1)
    flat = layer.out[0] == 1  # the kernel's tiles lie in images: it knows no depth
    padded = layer.pad[0] == 0 and max(layer.pad) <= 2
    wide = target is None or min(layer.ic, layer.oc) >= target.lanes
    return plain and flat and padded and wide and layer.groups == 1 and layer.xs[4] == 1


def cost(layer: Layer, spec: ConvSpec | WinogradSpec, target: Target) -> float:
    """Operations for one image, or what its weights cost to bring in if that is more.

    The transforms count as instructions: 130 and 110 per vector of a 6x6 tile, 50 and 40 of a 4x4
    (loads and stores included), each as long as a vector of fused multiply-adds.
    """
    if isinstance(spec, ConvSpec):
        nbytes = target.element_bytes * layer.operations // (2 * product(layer.out))
        return max(layer.operations, _price(layer, nbytes, target)) + _packing(layer, spec, target)
    tiles = spec.grid[0] * spec.grid[1]
    rows = -(-tiles // spec.mr) * spec.mr
    products = 2.1 * spec.points * rows * layer.ic * layer.oc
    nbytes = 4 * spec.points * layer.ic * layer.oc
    into, back = (130, 110) if spec.m == 4 else (50, 40)
    transforms = tiles * (layer.ic * into + layer.oc * back) / target.lanes * 4 * target.lanes
    weights = _price(layer, nbytes, target)
    return max(products, weights) + transforms + _packing(layer, spec, target)


def _price(layer: Layer, nbytes: int, target: Target) -> float:
    """The operations that bringing in so many bytes of weights costs, for one image."""
    price = _OPERATIONS_PER_BYTE * nbytes if nbytes > target.l2_bytes else 0
    return price / max(1, layer.images)


def _packing(layer: Layer, spec: ConvSpec | WinogradSpec, target: Target) -> float:
    """The operations that packing the weights costs, for one image; or what the bytes cost.

    Measured in operations for a number that is written, on 4, 8 and 16 lanes: transformed filters
    21, 26 and 46, all others 30 on 16.
    """
    if not layer.images:
        return 0
    read = product(layer.kernel) * layer.ic * layer.oc * layer.groups
    written, each = read, 2 * target.lanes
    if isinstance(spec, WinogradSpec):
        written, each = spec.points * layer.ic * layer.oc, 10 + 2 * target.lanes
    bytes_price = _price(layer, target.element_bytes * (read + written), target)
    return max(each * written / layer.images, bytes_price)


# --- Winograd ---


def winograd_spec(layer: Layer, target: Target, m: int) -> WinogradSpec:
    """F(m x m, 3x3): blocks of tiles whose transforms stay in the second-level cache.

    Filters that do not stay there are brought in once for every block, so blocks grow with them:
    28 tiles are 14 operations a byte from the third level, 49 are 25 from memory.
    """
    vectors = -(-layer.oc // target.lanes)
    nv = 2 if vectors > 1 else 1
    down, across = -(-layer.out[1] // m), -(-layer.out[2] // m)
    points, total = (m + 2) ** 2, down * across
    filters = 4 * points * layer.ic * layer.oc
    if filters <= 4 * target.l2_bytes:
        wished = max(12, target.l2_bytes // 2 // (4 * points * (layer.ic + layer.oc)))
    else:
        wished = 28 if filters <= 16 * target.l2_bytes else 49
    tiles, mr = _tile_block(total, wished, most_rows(target)[2])
    columns = -(-vectors // nv)
    fitting = target.l2_bytes // 2 // (4 * points * tiles * nv * target.lanes)
    blocks = max(1, min(columns, fitting))
    while blocks > 1 and -(-total // tiles) * -(-columns // blocks) < 4:
        blocks = -(-blocks // 2)
    return WinogradSpec(
        m=m, inp=layer.inp, out=layer.out, pad=layer.pad, ic=layer.ic, oc=layer.oc,
        tiles=tiles, blocks=blocks, mr=mr, nv=nv, unroll=4, **layer.tensors,
    )  # fmt: skip


def _tile_block(total: int, wished: int, most: int) -> tuple[int, int]:
    """Tiles per block near ``wished`` and rows per register tile, so that few rows are padding."""
    best = (10**9, 0, 0, 0)
    for tiles in range(max(1, min(total, wished * 2 // 3)), min(total, wished * 5 // 4) + 1):
        for mr in range(min(tiles, max(2, most // 2)), min(tiles, most) + 1):
            full, rest = divmod(total, tiles)
            padded = full * -(-tiles // mr) * mr + -(-rest // mr) * mr
            # A wider register tile brings each row of filters for more rows of data.
            best = min(best, (padded * (64 + most - mr), abs(tiles - wished), tiles, mr))
    return best[2], best[3]


# --- direct ---


def direct_spec(layer: Layer, target: Target) -> ConvSpec:
    """Implicit GEMM with a register tile from the registers, and lines that stay in the cache."""
    flat = _flattened(layer)
    mr, nv = register_tile(flat.out[2], -(-flat.oc // target.lanes), target)
    few = flat.xs[4] != 1 or flat.ic < 8
    taps = few and flat.kernel[2] <= 16 and product(flat.kernel) > 1
    return ConvSpec(
        **flat.geometry, groups=flat.groups, ic=flat.ic, oc=flat.oc, mr=mr, nv=nv,
        unroll=1 if taps else 4, taps=taps, rows=_lines_in_cache(flat, mr, target),
        element=target.element, **flat.tensors,
    )  # fmt: skip


def _flattened(layer: Layer) -> Layer:
    """A 1x1 convolution whose lines follow each other is one long line."""
    one = (1, 1, 1)
    plain = layer.kernel == layer.stride == one and layer.pad == (0, 0, 0)
    plain = plain and layer.inp == layer.out
    depth, height, width = layer.out

    def follows(s: Ints) -> bool:
        lines = height == 1 or s[2] == s[3] * width
        return lines and (depth == 1 or s[1] == s[3] * width * height)

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


def most_rows(target: Target) -> dict[int, int]:
    """Vectors of channels, and the most output columns with which a tile stays in registers.

    Without FMA a product needs a register of its own: 6x2 spills 14 times in 48 products, 4x2 is
    faster by 5 to 10 % (measured on 28x28, 128 to 128, 3x3 and 1x1).
    """
    if target.vector_registers >= 32:
        return {1: 14, 2: 12, 3: 8, 4: 6, 6: 4, 8: 1}
    if target.has_fma:
        return {1: 12, 2: 6, 3: 4, 4: 3, 6: 2, 8: 1}
    return {1: 9, 2: 4, 3: 3, 4: 2, 6: 1, 8: 1}


def register_tile(columns: int, vectors: int, target: Target) -> tuple[int, int]:
    """The register tile: output columns x vectors of channels.

    The accumulators, a row of B and a broadcast of A share the registers. Two vectors of B let a
    pair of FMAs use each broadcast; with few columns more vectors keep eight independent sums
    going, which hides the latency of an FMA (4 cycles x 2 units). Measured, 32 registers of 16
    lanes: 12x2, 8x2, 7x2 and 6x4 all reach 96 to 100 % of the FMA peak, 14x2 85 % in a convolution
    (its addresses no longer fit the integer registers), 7x4 spills.
    """
    most = most_rows(target)
    if vectors == 1:
        nv = 1
    elif columns >= 6:
        nv = 3 if vectors % 3 == 0 and vectors % 2 else 2
    else:
        wished = {1: 8, 2: 6, 3: 4, 4: 4, 5: 4}[columns]
        nv = max(n for n in most if n <= min(wished, vectors))
    return min(columns, most[nv]), nv


def _lines_in_cache(layer: Layer, mr: int, target: Target) -> int:
    """Units of work done for all output channels before the next: their input is a quarter of L2.

    A unit is a tile, or a row where the tiles at its edges differ (``kernels.conv``).
    """
    depth, height, width = layer.out
    reach = (width - 1) * layer.stride[2] + (layer.kernel[2] - 1) * layer.dilate[2]
    uniform = layer.pad[2] <= 0 and reach - layer.pad[2] < layer.inp[2]
    units = depth * height * (-(-width // mr) if uniform else 1)
    nbytes = product(layer.inp) * layer.ic * layer.groups * target.element_bytes
    if nbytes <= target.l2_bytes // 2:
        return units
    return max(1, min(units, units * (target.l2_bytes // 4) // nbytes))


# --- depthwise ---


def depthwise_spec(layer: Layer, target: Target) -> DepthwiseSpec:
    """Columns x vectors of channels in registers; the filters of a row of taps stay there too.

    Four vectors side by side are 256 bytes of each place: more of what a line's neighbours bring
    with them is used while it is there, most where the channels are a power of two. Measured on
    MobileNet's and MobileNetV2's depthwise layers: 5x4 0.35 and 0.38 ms, 8x2 0.43 and 0.44, 8x1
    0.48 and 0.45, 6x4 as 5x4 but it spills; 16 registers of 8 lanes, 3x4 0.47 and 0.50, 4x1 0.85
    and 0.60.
    """
    channels = layer.groups * layer.ic
    vectors = -(-channels // target.lanes)
    nv = 3 if vectors % 3 == 0 and vectors % 4 else min(4, vectors)
    # With several channels in a group, exchanged lanes need registers as well.
    most = (20, 12, 8) if layer.ic == 1 else (12, 8, 4)
    sums = most[0 if target.vector_registers >= 32 else 1 if target.has_fma else 2]
    columns = min(layer.out[2], max(1, sums // nv), 8)
    return DepthwiseSpec(
        **layer.geometry, channels=channels, cols=columns, nv=nv, group=layer.ic,
        element=target.element, **layer.tensors,
    )  # fmt: skip
