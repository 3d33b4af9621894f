"""Choose the algorithm for convolutions and dense layers, among those that can compute the layer.

Direct (implicit GEMM), Winograd, Strassen or depthwise follows from the shapes and the target, by
``cost``. Separate files choose the tiles and blocks of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ...._core.frozen import dataclass, replace
from ...._core.symbolic import hint_of, range_of
from ...._core.target import Target
from ...._core.types import product
from ....ir.plan import Step
from ....ir.plan_image import Packed
from ....ir.sized import is_symbolic
from ....ops.bfloat16 import multiplies_rounded
from ...call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Scratch,
    Setting,
    about,
    broadcast_strides,
    build_program,
    five,
    three,
    views_of,
)
from ...choices import ByCode
from ...packing import (
    AbreastPacking,
    ChannelPacking,
    ConvPacking,
    DepthwisePacking,
    Packing,
    StrassenPacking,
    WinogradPacking,
)
from ...spec import Program
from ..parts.window import inside_of, is_always_inside, overhangs_of
from ..weights.choose import as_filters, in_pairs, is_fixed, pack_weights, packing_for
from .abreast import abreast, columns_abreast
from .choose_by_size import Positions, Windows
from .choose_depthwise import depthwise_spec, depthwise_tiles
from .choose_direct import along_depth, direct_spec, direct_tiles, flattened, is_by_taps
from .choose_strassen import block_of_any, strassen_spec, suits_strassen
from .choose_winograd import (
    live_winograd_specs,
    suits_winograd,
    tiles_of_any,
    winograd_blocks,
    winograd_sizes,
    winograd_spec,
)
from .cost import cost
from .given_channels import with_given_channels
from .layer import Layer
from .spec import EXTENTS, ConvSpec, DepthwiseSpec, StrassenSpec, WinogradSpec

# An algorithm for a layer.
Way = ConvSpec | DepthwiseSpec | StrassenSpec | WinogradSpec


def choose_conv(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The kernel calls of a convolution with its fused operators."""
    _, operands = build_program(step, anchored=True)
    x = views_of(step, step.group.anchor.inputs[:1])[0]
    extra = tuple(Address(v) for v in (*views_of(step, operands), *step.writes))
    layer = layer_of(step)
    return calls_of(step, layer, Address(x), extra, x.shape[0], setting, is_plain=True)


def layer_of(step: Step) -> Layer:
    """A convolution as input of the choosers."""
    anchor = step.group.anchor
    program, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    attrs, rank, groups = anchor.attrs, len(anchor.shape) - 2, anchor.attrs["num_group"]
    others = views_of(step, operands)
    return Layer(
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


def calls_of(
    step: Step,
    layer: Layer,
    x: Address,
    extra: tuple[Argument, ...],
    batch: int,
    setting: Setting,
    of_phase: Callable[[Packing], Packing] = lambda packing: packing,
    is_plain: bool = False,
) -> tuple[Call, ...]:
    """The kernel call of a layer, after the calls that pack weights that are not parameters.

    The second and the third input of the group's anchor are weight and bias. ``of_phase`` returns
    the packing of the anchor's weights for that of an ordinary convolution's weights. ``is_plain``
    states that the anchor is an ordinary convolution, whose positions belong to one image and whose
    columns are adjacent, so that several columns may become filters.
    """
    weight, *biases = step.group.anchor.inputs[1:]
    layer = with_plain_channels(layer)
    is_small = layer.has_small_groups(setting.target.lanes)
    if not is_small and multiplies_rounded(layer.ic, layer.oc, layer.groups):
        setting = in_pairs(setting, layer.xs[4], step)
    target, work = setting.target, layer.operations // 2 * batch
    if is_fixed(weight, setting):
        layer = along_depth(layer)
    else:
        layer = replace(layer, images=batch if setting.is_training else 1)
    (columns, candidates, taken), fixed = _found_for(
        layer, _Finding(target, setting.winograd, is_plain), setting
    )
    step_of_column = layer.stride[2]
    if columns > 1:
        layer, fixed = abreast(layer, columns), abreast(fixed, columns)
    spec = taken if layer is fixed else with_extents(taken, layer, target)
    scratch, numbers = _scratch(spec, target), GivenNumbers()
    spec = with_given_channels(spec, numbers, target)
    after: tuple[Argument, ...] = (*extra, *scratch, batch, *numbers.values)
    packing, of_bias = _packings(spec, target)
    wanted = [(weight, of_phase(packing)), *((bias, of_bias) for bias in biases)]
    if columns > 1:
        wanted = [(use, _of_columns(p, columns, step_of_column)) for use, p in wanted]
    is_live = isinstance(spec, WinogradSpec) and spec.live is not None
    before, packed = pack_weights(step, wanted[is_live:], setting)
    if not biases:
        zeros = Packed(None, of_bias, layer.oc * layer.groups, target.element.accumulated)
        packed = (*packed, zeros)
    counted = 0.0 if isinstance(taken, DepthwiseSpec) else batch * cost(fixed, taken, target)
    reason = _reason(fixed, taken, candidates, setting)
    if isinstance(spec, WinogradSpec) and spec.live:
        filters, strides = as_filters(step, *wanted[0])
        packed = (filters, *packed)
        spec = replace(spec, live=replace(spec.live, strides=strides))
    call = Call(spec, (x, *packed, *after), work, reason, counted)
    return (*before, call)


def _found_for(layer: Layer, finding: _Finding, setting: Setting) -> tuple[_Found, Layer]:
    """The kernel of a layer, and the layer of fixed sizes for which it was chosen."""
    if setting.choices is None:
        return finding.of(layer, setting), layer
    noted, sizes = _as_noted(layer), (*EXTENTS, "images")
    same = (finding, str(_without_sizes(noted)))
    positions = Positions.of(noted, finding.target, finding.winograd if finding.is_plain else False)
    if positions is not None and setting.decide is None:
        count = product(noted.out)
        chosen = positions.chosen(count)
        if chosen is not None:
            by_code = ByCode(chosen, positions.key_of)
            setting.choices.note_numbers((count,), positions.key, same, by_code)
    elif not _has_one_kernel(noted, finding, setting):
        _note_sizes(noted, sizes, finding, setting, same)
    fixed = setting.choices.settled(layer, sizes)
    found = finding.of(fixed, setting)
    # Layers of constant sizes share no choice: phases of a transposed convolution differ in width.
    if any(is_symbolic(getattr(layer, name)) for name in EXTENTS):
        found = setting.choices.as_before((_without_sizes(layer), found.bits), found)
    return found, fixed


class _Found(NamedTuple):
    """The number of packed columns, the candidates for it, and the chosen candidate."""

    columns: int
    candidates: list[Way]
    taken: Way

    @property
    def bits(self) -> tuple[object, ...]:
        """Equal for choices that give the same bits at the same sizes."""
        taken = self.taken
        if isinstance(taken, WinogradSpec):
            return "winograd", taken.m, taken.live is not None
        if isinstance(taken, StrassenSpec):
            return "strassen", taken.chunks
        return taken.kind, self.columns, self._tiles()

    def _tiles(self) -> int:
        """Columns of a tile if sums depend on the tile that they are in; 0 for a single tile."""
        taken = self.taken
        if not isinstance(taken, ConvSpec) or taken.taps or is_always_inside(taken, 2):
            return 0
        return 0 if taken.out[2] <= taken.mr else taken.mr


@dataclass(frozen=True)
class _Finding:
    """The inputs of an algorithm's choice besides the layer."""

    target: Target
    winograd: bool | str
    is_plain: bool

    def of(self, layer: Layer, setting: Setting) -> _Found:
        """The algorithm for a layer with fixed sizes."""
        target = self.target
        may_be_abreast = self.is_plain and self.winograd is True
        columns = columns_abreast(layer, target) if may_be_abreast else 1
        layer = abreast(layer, columns) if columns > 1 else layer
        may_transform = target.element.accumulated == "float32" and columns == 1
        winograd = self.winograd if may_transform else False
        candidates = algorithms(layer, target, winograd, self.is_plain)
        others = partial(_other_tiles, layer, candidates, target)
        return _Found(columns, candidates, setting.decided(candidates, others))


def with_plain_channels(layer: Layer) -> Layer:
    """The layer with integers for channels that guards restrict to those of the weights.

    Choices for later sizes are made when the scope of the symbols is closed.
    """
    if not is_symbolic((layer.ic, layer.oc)):
        return layer
    return replace(layer, ic=int(layer.ic), oc=int(layer.oc))


def _without_sizes(layer: Layer) -> Layer:
    return replace(layer, **dict.fromkeys(EXTENTS, ()), images=min(1, hint_of(layer.images)))


def _as_noted(layer: Layer) -> Layer:
    """The layer without properties that do not affect its bits, so that layers share choices."""
    layer = replace(layer, program=Program(1))
    are_plain = all(s[4] == 1 and s[3] == layer.oc for s in (*layer.reads, *layer.writes))
    return replace(layer, reads=(), writes=()) if are_plain else layer


def _has_one_kernel(noted: Layer, finding: _Finding, setting: Setting) -> bool:
    """Whether the choice is certainly the same for all sizes: the depthwise kernel, or the direct
    kernel for few channels, which adds tap by tap, with filters that fill a vector.
    """
    target = finding.target
    if noted.has_small_groups(target.lanes):
        return True
    is_filled = setting.decide is None and 2 * noted.oc > target.lanes and noted.groups == 1
    is_direct = is_filled and noted.kernel != (1, 1, 1) and is_by_taps(noted, target)
    return is_direct and not suits_winograd(noted, target, finding.winograd == "always")


def _note_sizes(
    noted: Layer, sizes: Sequence[str], finding: _Finding, setting: Setting, same: Hashable
) -> None:
    """Note that the choice depends on the fields ``sizes`` of a layer if these affect its bits."""
    assert setting.choices is not None
    is_usual = setting.decide is None and finding.winograd is True and finding.is_plain
    windows = Windows.of(noted, finding.target) if is_usual else None
    numbers = tuple(getattr(noted, name) for name in sizes)
    of = _bits_for(noted, sizes, finding, setting, windows)
    by_code = ByCode(windows.chosen(noted.out), windows.key_of) if windows else None
    setting.choices.note_numbers(numbers, of, same, by_code)


def _bits_for(
    noted: Layer, sizes: Sequence[str], finding: _Finding, setting: Setting, windows: Windows | None
) -> Callable[[tuple[Any, ...]], Hashable]:
    """The bits of the choice for the numbers in the fields ``sizes`` of a layer."""
    place = sizes.index("out")

    def of(numbers: tuple[Any, ...]) -> Hashable:
        tile = windows.tile(numbers[place]) if windows else None
        if tile:
            return Windows.key_of(tile)
        layer = replace(noted, **dict(zip(sizes, numbers)))
        if tile is None:
            return _bits_of(finding, setting, layer)
        return _Found(1, [], direct_spec(layer, finding.target)).bits

    return of


def _bits_of(finding: _Finding, setting: Setting, layer: Layer) -> tuple[object, ...]:
    if layer.has_small_groups(finding.target.lanes):
        return DepthwiseSpec.kind, 1, 0
    if setting.decide is not None:
        return finding.of(layer, setting).bits
    return _usual_bits(finding, layer)


@lru_cache(maxsize=4096)
def _usual_bits(finding: _Finding, layer: Layer) -> tuple[object, ...]:
    return finding.of(layer, Setting({}, finding.target)).bits


def with_extents(spec: Way, layer: Layer, target: Target) -> Way:
    """Make a spec that was chosen for some sizes of a layer valid for all of its sizes."""
    if isinstance(spec, (ConvSpec, StrassenSpec)):
        layer = flattened(layer)
    extents = {name: getattr(layer, name) for name in EXTENTS if name in spec.extents}
    if not any(map(is_symbolic, extents.values())):
        return spec
    more: dict[str, Any] = {"usual": about(spec.out)}
    if isinstance(spec, (ConvSpec, DepthwiseSpec)):
        more["inside"] = inside_of(layer)
    if isinstance(spec, DepthwiseSpec):
        if _has_one_width(layer):
            extents.update(_of_one_width(layer))
        elif is_symbolic(layer.out[2]):
            more["over"] = overhangs_of(layer)
    if isinstance(spec, ConvSpec):
        extents.update(_pinned(spec, layer, more["inside"]))
    if isinstance(spec, StrassenSpec):
        more.update(block_of_any(spec, target))
    if isinstance(spec, WinogradSpec):
        more.update(tiles_of_any(spec, layer, target))
    return replace(spec, **extents, **more)


def _has_one_width(layer: Layer) -> bool:
    """Whether all rows of the result have the same width, for which the tiles are emitted."""
    low, high = range_of(layer.out[2])
    return low == high


def _of_one_width(layer: Layer) -> dict[str, Any]:
    """Fields that are constants of a kernel whose rows have one width."""
    return {name: (*at[:2], int(at[2])) for name, at in (("inp", layer.inp), ("out", layer.out))}


def _pinned(spec: ConvSpec, layer: Layer, inside: Sequence[bool]) -> dict[str, Any]:
    """Fields that the direct kernel needs as constants.

    If windows exceed the edge of a row, the order of a sum depends on its tile, except for layers
    summed by channels.
    """
    pinned: dict[str, Any] = {"xs": (*layer.xs[:3], int(layer.xs[3]), layer.xs[4])}
    if _has_one_width(layer):
        pinned.update(_of_one_width(layer))
    elif not spec.taps and not inside[2]:
        pinned["is_one"] = spec.out[2] <= spec.mr
    return pinned


def _of_columns(packing: Packing, columns: int, step: int) -> Packing:
    assert isinstance(packing, ConvPacking | ChannelPacking)
    return AbreastPacking(packing, columns, step)


def _scratch(spec: Way, target: Target) -> tuple[Scratch, ...]:
    """The scratch memory of a kernel that transforms its data."""
    if isinstance(spec, StrassenSpec):
        return (Scratch(4 * sum(spec.scratch_floats(target.lanes))),)
    if isinstance(spec, WinogradSpec):
        floats = (*spec.scratch_floats(target.lanes), *spec.filter_floats(target.lanes))
        return (Scratch(4 * sum(floats)),)
    return ()


def _packings(spec: Way, target: Target) -> tuple[Packing, ChannelPacking]:
    """The packings of a kernel's weights and biases."""
    if isinstance(spec, DepthwiseSpec):
        return DepthwisePacking(target.lanes), ChannelPacking(1, target.lanes)
    if isinstance(spec, WinogradSpec):
        return _of_filters(spec, target), ChannelPacking(spec.groups, target.lanes)
    if isinstance(spec, StrassenSpec):
        return StrassenPacking(target.lanes, spec.nv), ChannelPacking(1, target.lanes)
    packing = packing_for(target, spec.groups, spec.nv, spec.taps)
    return packing, ChannelPacking(spec.groups, target.lanes)


def _of_filters(spec: WinogradSpec, target: Target) -> WinogradPacking:
    """The spec for packing filters: groups with full blocks of filters are packed as one group."""
    groups = spec.groups
    if groups > 1 and spec.oc % (spec.nv * target.lanes) == 0:
        groups = 1
    lines = () if spec.is_plain else spec.lines
    return WinogradPacking(spec.m, target.lanes, spec.nv, lines, spec.depth[0], groups)


def _other_tiles(layer: Layer, candidates: Sequence[Way], target: Target) -> list[Way]:
    """Candidates with other tiles, which are chosen only by measurement."""
    kinds = set(map(type, candidates))
    others: list[Way] = []
    if DepthwiseSpec in kinds:
        others += depthwise_tiles(layer, target)
    if ConvSpec in kinds:
        others += direct_tiles(layer, target)
    for m in winograd_sizes(layer, target) if WinogradSpec in kinds else ():
        others += winograd_blocks(layer, target, m)
    return others


def _reason(
    layer: Layer,
    taken: Way,
    candidates: list[Way],
    setting: Setting,
) -> str:
    """The candidates and their costs in operations, as text; "" if there was no choice."""
    if taken != candidates[0]:
        return f"HYBRIDJIT_TUNED has {taken}, instead of {candidates[0]}"
    if len(candidates) == 1:
        return ""
    costs = [
        f"{_algorithm(spec)} {cost(layer, spec, setting.target) / 1e6:.1f}"
        for spec in candidates
        if not isinstance(spec, DepthwiseSpec)
    ]
    return f"{costs[0]} million operations, against {', '.join(costs[1:])}"


def _algorithm(spec: ConvSpec | StrassenSpec | WinogradSpec) -> str:
    if isinstance(spec, StrassenSpec):
        return "strassen"
    if not isinstance(spec, WinogradSpec):
        return "direct"
    live = " live" if spec.live else ""
    return f"winograd F({'x'.join(str(line.m) for line in spec.lines)}){live}"


def algorithms(
    layer: Layer, target: Target, winograd: bool | str, is_plain: bool = False
) -> list[Way]:
    """The kernels that can compute this layer, the preferred one first.

    ``is_plain`` states that its positions belong to one image. ``winograd`` allows algorithms with
    fewer products than the definition.
    """
    if layer.has_small_groups(target.lanes) and target.element.together == 1:
        return [depthwise_spec(layer, target)]
    candidates: list[ConvSpec | StrassenSpec | WinogradSpec] = [direct_spec(layer, target)]
    if winograd and suits_winograd(layer, target, winograd == "always"):
        transformed = [winograd_spec(layer, target, m) for m in winograd_sizes(layer, target)]
        transformed += live_winograd_specs(layer, target)
        candidates = [*([] if winograd == "always" else candidates), *transformed]
    if winograd and is_plain and suits_strassen(layer, target):
        candidates = [*([] if winograd == "always" else candidates), strassen_spec(layer, target)]
    return [*sorted(candidates, key=lambda spec: cost(layer, spec, target))]
