"""Choose for the gradient of a convolution with respect to its weight: parts, tiles, chunks."""

from __future__ import annotations

from functools import partial

from ...._core.frozen import replace
from ...._core.symbolic import largest
from ...._core.target import TYPES_OF, Target
from ...._core.types import product
from ....ir.plan import Step
from ....ir.sized import is_symbolic
from ....ops.nn.window_geometry import window_of
from ...call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Scratch,
    Setting,
    Shared,
    about,
    dtype_name,
    five,
    three,
    views_of,
)
from ...spec import Extent
from ..parts.window import inside_of
from .choose_lines import lines_weight_spec, suits_lines
from .choose_winograd import (
    cost_of_sums,
    cost_of_winograd,
    parts_of_tiles,
    suits_winograd,
    winograd_weight_spec,
)
from .layer import Layer
from .spec import (
    ByWeightSpec,
    DepthwiseByWeightSpec,
    JoinPartsSpec,
    LinesByWeightSpec,
    WinogradByWeightSpec,
)
from .tile import most_rows

# Units of work that keep several threads busy. A separate part for each image would need more
# memory, and more time to add the parts.
_UNITS = 16
_FEW_UNITS = _UNITS // 2
# Independent sums that hide the latency of one: 4 cycles, on 2 units.
_CHAINS = 8
_MOST_IMAGES = 64


def choose_conv_weight(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The sums over parts of the images, and the call that adds the parts."""
    layer, target = _layer_of(step), setting.target
    if layer.ic == layer.oc == 1 and layer.groups > 1:
        return _depthwise(step, layer, target)
    fixed, sizes = layer, ("inp", "out", "xs", "ds", "batch")
    if setting.choices is not None:
        same = (target, setting.winograd, str(replace(layer, **dict.fromkeys(sizes, ()))))
        setting.choices.note(layer, sizes, partial(_bits_of, setting), same)
        fixed = setting.choices.settled(layer, sizes)
    if setting.winograd is True and suits_lines(fixed, target):
        return _by_lines(step, layer, target)
    tiled, reason = _choose_winograd(fixed, setting)
    if tiled is not None:
        return _by_tiles(step, layer, _tiled_for(layer, tiled), target, reason)
    spec, parts = _with_units(by_weight_spec(fixed, target), fixed.batch, target)
    if fixed is not layer:
        spec = _opened(replace(by_weight_spec(layer, target), blocks=spec.blocks), target)
        parts = _parts_of(spec, layer.batch, target)
    spec = replace(spec, is_split=spec.is_split or parts * _units(spec, target) < _FEW_UNITS)
    shared = Shared(target.element_bytes * parts * spec.buffer_floats(target.lanes))
    scratch = Scratch(target.element_bytes * sum(spec.scratch_floats(target.lanes)))
    x, d = (Address(view) for view in step.reads)
    sums = Call(spec, (x, d, shared, scratch, layer.batch, parts), _work(step, layer), reason)
    return (sums, _join(step, layer, spec.nv, shared, parts, target))


def _bits_of(setting: Setting, layer: Layer) -> tuple[object, ...]:
    """Equal for choices that give the same bits at the same sizes."""
    target = setting.target
    if setting.winograd is True and suits_lines(layer, target):
        return (LinesByWeightSpec.kind,)
    tiled, _ = _choose_winograd(layer, setting)
    if tiled is not None:
        return tiled.kind, tiled.tiles
    spec, _ = _with_units(by_weight_spec(layer, target), layer.batch, target)
    return spec.kind, spec.blocks


def _tiled_for(layer: Layer, spec: WinogradByWeightSpec) -> WinogradByWeightSpec:
    """A spec that was chosen for some sizes of a layer, for all sizes."""
    spec = replace(spec, inp=layer.inp, out=layer.out, xs=layer.xs, ds=layer.ds)
    return replace(spec, derived=spec.grid) if is_symbolic((layer.inp, layer.out)) else spec


def _opened(spec: ByWeightSpec, target: Target) -> ByWeightSpec:
    """The spec with the further fields that a kernel needs if sizes are symbolic."""
    if not is_symbolic((spec.inp, spec.out, spec.xs, spec.ds)):
        return spec
    steps = (spec.copied, spec.steps, spec.scratch_floats(target.lanes))
    return replace(spec, usual=about(spec.out), derived=(spec.width, spec.copied_lines, *steps))


def _choose_winograd(layer: Layer, setting: Setting) -> tuple[WinogradByWeightSpec | None, str]:
    """Winograd's spec if it is allowed and costs less, and the reason if there was a choice."""
    target, is_asked_for = setting.target, setting.winograd == "always"
    if not (setting.winograd and suits_winograd(layer, target, is_asked_for)):
        return None, ""
    spec = winograd_weight_spec(layer, target)
    if is_asked_for:
        return spec, ""
    costs = [
        ("winograd F(3x3, 4x4)", cost_of_winograd(spec, layer, target)),
        ("direct", cost_of_sums(layer)),
    ]
    costs.sort(key=lambda pair: pair[1])
    first, second = (f"{name} {cost / 1e6:.1f}" for name, cost in costs)
    reason = f"{first} million operations, against {second}"
    return (spec if costs[0][0] != "direct" else None), reason


def _by_tiles(
    step: Step, layer: Layer, spec: WinogradByWeightSpec, target: Target, reason: str
) -> tuple[Call, ...]:
    """The sums of Winograd's tiles, and the call that adds the parts."""
    parts = parts_of_tiles(spec, layer.batch, target)
    shared = Shared(target.element_bytes * parts * spec.buffer_floats(target.lanes))
    scratch = Scratch(target.element_bytes * sum(spec.scratch_floats(target.lanes)))
    x, d = (Address(view) for view in step.reads)
    args = (x, d, shared, scratch, layer.batch, parts)
    sums = Call(spec, args, _work(step, layer), reason)
    return (sums, _join(step, layer, spec.nv, shared, parts, target))


def _by_lines(step: Step, layer: Layer, target: Target) -> tuple[Call, ...]:
    """The sums of whole images along their lines, and the call that adds the parts."""
    spec = lines_weight_spec(layer, target)
    parts = min(layer.batch, _FEW_UNITS)
    shared = Shared(target.element_bytes * parts * spec.buffer_floats(target.lanes))
    scratch = Scratch(target.element_bytes * sum(spec.scratch_floats(target.lanes)))
    x, d = (Address(view) for view in step.reads)
    sums = Call(spec, (x, d, shared, scratch, layer.batch, parts), _work(step, layer))
    return (sums, _join(step, layer, spec.nv, shared, parts, target))


def _layer_of(step: Step) -> Layer:
    anchor = step.group.anchor
    x, d = views_of(step, anchor.inputs)
    (w,), rank, groups = step.writes, len(x.shape) - 2, anchor.attrs["num_group"]
    window = window_of(*(anchor.attrs[key] for key in ("kernel", "stride", "dilate", "pad")))
    return Layer(
        inp=three(x.shape[1:-1], 1),
        out=three(d.shape[1:-1], 1),
        kernel=three(window.kernel, 1),
        stride=three(window.stride, 1),
        dilate=three(window.dilate, 1),
        pad=three(window.pad, 0),
        groups=groups,
        ic=int(x.shape[-1]) // groups,  # guards restrict symbolic ones to those of the weight
        oc=int(d.shape[-1]) // groups,
        xs=five(x.strides, rank),
        ds=five(d.strides, rank),
        ws=five(w.strides, rank),
        batch=x.shape[0],
    )


def _work(step: Step, layer: Layer) -> int:
    return product(step.reads[1].shape) * product(layer.geometry["kernel"]) * layer.ic


def _with_units(spec: ByWeightSpec, batch: int, target: Target) -> tuple[ByWeightSpec, int]:
    """The blocks of a unit, and the number of parts: enough for many units, or the maximum.

    Among these the choice moves the least memory. The blocks of a unit read data once; the other
    units read them again, but while sums are formed. The buffer of a part is written, then read and
    added: both count twice, because nothing is computed meanwhile. 8 images of 28x28, 128 to 512
    channels: 4.1 ms for units of one block, 3.7 for 2 to 8; 14x14, 1024 to 256: 0.3 ms to join 1
    part, 0.5 for 8.
    """
    images = batch * spec.out[0]
    blocks = -(-spec.oc // (spec.nv * target.lanes))
    data = target.stored_bytes * images * product(spec.inp[1:]) * spec.ic * spec.groups
    buffer = target.element_bytes * spec.buffer_floats(target.lanes)

    def divided(several: int) -> tuple[ByWeightSpec, int]:
        found = replace(spec, blocks=several)
        return found, _parts_of(found, batch, target)

    def cost(found: tuple[ByWeightSpec, int]) -> tuple[int, int]:
        units = found[1] * _units(found[0], target)
        sets = -(-blocks // found[0].blocks)
        return max(0, _UNITS - units), sets * data + 4 * found[1] * buffer

    sizes = sorted({-(-blocks // sets) for sets in range(1, min(blocks, _UNITS) + 1)})
    return min((divided(several) for several in sizes), key=cost)


def _parts_of(spec: ByWeightSpec, batch: int, target: Target) -> int:
    """The number of parts of whole images with which there are enough units."""
    images: int = batch * spec.out[0]
    parts: int = min(images, -(-_UNITS // _units(spec, target)))
    return parts


def _units(spec: ByWeightSpec, target: Target) -> int:
    """Number of units of work per part."""
    sets = spec.groups * -(-spec.oc // (spec.blocks * spec.nv * target.lanes))
    return sets * (product(spec.tiled_places) if spec.is_split else 1)


def _join(step: Step, layer: Layer, nv: int, buffers: Shared, parts: int, target: Target) -> Call:
    written, numbers = step.writes[0], GivenNumbers()
    element = TYPES_OF[dtype_name(written.dtype)]
    spec = JoinPartsSpec(
        layer.groups, layer.ic, layer.oc, layer.geometry["kernel"], layer.ws, nv, element
    )
    if layer.oc % (nv * target.lanes) == 0:
        spec = replace(spec, oc=numbers.one(layer.oc), ws=numbers.each(layer.ws))
        if layer.ic % target.lanes == 0:
            spec = replace(spec, ic=numbers.one(layer.ic))
    args: tuple[Argument, ...] = (buffers, Address(written), parts, *numbers.values)
    return Call(spec, args, parts * product(written.shape))


def by_weight_spec(layer: Layer, target: Target) -> ByWeightSpec:
    """The register tile that fits the registers, and chunks that stay in the caches."""
    nv = _vectors(-(-layer.oc // target.lanes))
    spec = ByWeightSpec(
        **layer.geometry, groups=layer.groups, ic=layer.ic, oc=layer.oc, xs=layer.xs, ds=layer.ds,
        mr=most_rows(target)[nv], nv=nv, taps=1, lines=1, images=1, is_packed=False,
        element=target.element,
    )  # fmt: skip
    spec = replace(spec, taps=_taps_together(spec), is_packed=_needs_copy(spec))
    return _with_chunks(spec, target)


def _vectors(count: int) -> int:
    """Vectors of filters in a tile, for a layer with ``count`` vectors."""
    if count == 1:
        return 1
    return 3 if count % 3 == 0 and count % 2 else 2


def _taps_together(spec: ByWeightSpec) -> int:
    """Vertical taps that share a tile, if one tap has too few rows."""
    height = spec.kernel[1]
    if spec.rows * spec.nv >= _CHAINS:
        return 1
    return max(
        n for n in range(1, height + 1) if height % n == 0 and n * spec.rows <= spec.mr or n == 1
    )


def _needs_copy(spec: ByWeightSpec) -> bool:
    """Whether the data need a copy, because of padding or because they are not rows."""
    are_rows = spec.kernel[2] == 1 or not spec.is_joined or spec.xs[3] == spec.ic
    return any(spec.pad) or spec.kernel[0] > 1 or spec.out[0] > 1 or not are_rows


def _with_chunks(spec: ByWeightSpec, target: Target) -> ByWeightSpec:
    """As many lines, or whole images, as fit into half of the second-level cache.

    Their gradients stay in the first-level cache: every tile reads all of them.
    """

    lanes, out = target.lanes, spec.out
    line = spec.width * spec.ic * spec.kernel[0]
    heads = out[2] * spec.nv * lanes
    most = target.l2_bytes // 2 // target.element_bytes
    most_heads = 3 * target.l1_bytes // 4 // target.element_bytes
    # Copies with separate lines for each tap, and copies in which taps share lines.
    apart = _times(most, line * spec.kernel[1] + heads)
    overlap = (spec.kernel[1] - 1) * spec.dilate[1] + 1 - spec.stride[1]
    shared = _times(largest((0, most - overlap * line)), line * spec.stride[1] + heads)
    lines = _smaller(_smaller(largest((apart, shared)), _times(most_heads, heads)), out[1])
    lines = largest((1, lines))
    spec = replace(spec, lines=-(-out[1] // -(-out[1] // lines)))
    # Several images only if all lines of one fit.
    whole = out[1] * heads
    data = _lines_of(replace(spec, lines=out[1])) * line
    images = _smaller(_times(most, data + whole), _times(most_heads, whole))
    images = _smaller(images, _MOST_IMAGES)
    is_whole = 1 - _smaller(1, out[1] - lines)
    spec = replace(spec, images=1 + is_whole * (largest((1, images)) - 1))
    is_apart = spec.is_packed and spec.kernel[1] * spec.lines < spec.copied_lines
    return replace(spec, is_apart=is_apart, is_split=_is_split(spec, target))


def _times(whole: Extent, part: Extent) -> Extent:
    """``whole // part``, without the comparison that decides whether it is 0."""
    return (whole + part) // part - 1


def _smaller(one: Extent, other: Extent) -> Extent:
    """The smaller of two sizes, without a comparison and so without a guard."""
    return one - largest((0, one - other))


def _is_split(spec: ByWeightSpec, target: Target) -> bool:
    """Whether the sums of all taps of a block are evicted from the cache before the next chunk."""
    return target.element_bytes * spec.block_floats(target.lanes) > target.l2_bytes // 2


def _lines_of(spec: ByWeightSpec) -> Extent:
    """Input lines of a chunk of an image."""
    return _smaller(spec.copied_lines, spec.kernel[1] * spec.lines)


def _depthwise(step: Step, layer: Layer, target: Target) -> tuple[Call, ...]:
    vectors = -(-layer.groups // target.lanes)
    kernel = layer.geometry["kernel"]
    # The sums of all taps of a line use half of the registers.
    nv = max(1, min(4, vectors, target.vector_registers // 2 // kernel[2]))
    spec = DepthwiseByWeightSpec(
        **layer.geometry, oc=layer.groups, xs=layer.xs, ds=layer.ds, nv=nv,
        element=target.element,
    )  # fmt: skip
    if is_symbolic((spec.inp, spec.out, spec.xs, spec.ds)):
        spec = replace(spec, usual=about(spec.out), inside=inside_of(layer))
    parts = min(layer.batch, -(-_UNITS // -(-vectors // nv)))
    shared = Shared(target.element_bytes * parts * spec.buffer_floats(target.lanes))
    x, d = (Address(view) for view in step.reads)
    sums = Call(spec, (x, d, shared, layer.batch, parts), _work(step, layer))
    filters = replace(layer, groups=1, ic=1, oc=layer.groups)
    return (sums, _join(step, filters, nv, shared, parts, target))
