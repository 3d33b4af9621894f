"""Choose where a layer's weights come from: parameters are packed when they are bound, all others
by a kernel before the layer's own, into memory that the threads share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.graph import Use
from ....ir.image import Packed
from ....ir.plan import Step, View
from ....records import dataclass
from ....target import Target
from ....types import product
from ...call import Address, Argument, Call, Scratch, Setting, Shared, views_of
from ...packing import (
    ChannelPacking,
    ConvPacking,
    DepthwisePacking,
    Packing,
    PhasePacking,
    RecurrentPacking,
    WinogradPacking,
)
from ...spec import Ints
from .spec import FiltersSpec, PackSpec

# Floats from which packing is worth sharing out, and into how many units of work.
_MANY_FLOATS = 1 << 14
_UNITS = 8

Wanted = tuple[Use, Packing]


def is_fixed(use: Use, setting: Setting) -> bool:
    """Whether this is a parameter, which is packed when it is bound."""
    return use.value in setting.params


def pack_weights(
    step: Step, wanted: Sequence[Wanted], setting: Setting
) -> tuple[tuple[Call, ...], tuple[Argument, ...]]:
    """The calls that pack those that are no parameters, and where each one lies, packed."""
    live = [use for use, _ in wanted if not is_fixed(use, setting)]
    filters = {use: _filters_of(views_of(step, (use,))[0], p) for use, p in wanted if use in live}
    specs = {use: _spec(filters[use], p, setting.target) for use, p in wanted if use in live}
    element, size = setting.target.element.computed, setting.target.element_bytes
    total, position = size * sum(spec.floats for spec in specs.values()), 0
    calls: list[Call] = []
    found: list[Argument] = []
    for use, packing in wanted:
        if use not in specs:
            found.append(Packed(setting.params[use.value], packing, 0, element))
            continue
        spec, place = specs[use], Shared(total, position)
        position += size * spec.floats
        if filters[use].are_zero:
            found.append(Packed(None, ChannelPacking(1, 1), spec.floats, element))
        else:
            calls.append(_call(filters[use].view, spec, place))
            found.append(place)
    return tuple(calls), tuple(found)


def _call(view: View, spec: PackSpec | FiltersSpec, place: Shared) -> Call:
    args: tuple[Argument, ...] = (Address(view), place)
    if isinstance(spec, FiltersSpec):
        args = (*args, Scratch(4 * spec.scratch_floats))
    return Call(spec, args, spec.floats)


@dataclass(frozen=True)
class _Filters:
    """Weights as groups of filters: ``sizes`` are those of a filter, its taps before its channels.

    strides   per (group, filter, *sizes), from the view's first element on
    are_zero  whether they stand for filters without taps
    """

    view: View
    groups: int
    filters: int
    sizes: Ints
    strides: Ints
    are_zero: bool = False


def _filters_of(view: View, packing: Packing) -> _Filters:
    if isinstance(packing, PhasePacking):
        return _filters_of_phase(view, packing)
    groups = getattr(packing, "groups", 1)
    if isinstance(packing, RecurrentPacking):
        groups = packing.gates
    filters, first = view.shape[0] // groups, view.strides[0]
    strides = (filters * first, first, *(view.strides[1:] or (0,)))
    return _Filters(view, groups, filters, view.shape[1:] or (1,), strides)


def _filters_of_phase(view: View, packing: PhasePacking) -> _Filters:
    """Some of the taps of weights [C, taps..., F / groups], backwards; filters come first."""
    channels, filters = view.shape[0] // packing.groups, view.shape[-1]
    channel, *taps, filter_ = view.strides
    strides = (channels * channel, filter_, *(-s * n for s, n in zip(taps, packing.step)), channel)
    if 0 in packing.count:
        sizes = (*(1 for _ in taps), channels)
        return _Filters(view, packing.groups, filters, sizes, strides, are_zero=True)
    last = (f + s * (n - 1) for f, s, n in zip(packing.first, packing.step, packing.count))
    offset = view.offset + sum(tap * stride for tap, stride in zip(last, taps))
    sizes = (*packing.count, channels)
    return _Filters(replace(view, offset=offset), packing.groups, filters, sizes, strides)


def _spec(weights: _Filters, packing: Packing, target: Target) -> PackSpec | FiltersSpec:
    """The kernel that does what ``packing`` does."""
    if isinstance(packing, PhasePacking):
        packing = packing.inner
    lanes, (group, filter_, *rest) = target.lanes, weights.strides
    if isinstance(packing, WinogradPacking):
        strides = (filter_, *rest[-3:])
        return FiltersSpec(
            packing.m, weights.filters, weights.sizes[-1], packing.nv, strides, lanes
        )
    sizes, steps = weights.sizes, tuple(rest)
    if isinstance(packing, ConvPacking) and packing.taps:
        sizes, steps = (sizes[-1], *sizes[:-1]), (steps[-1], *steps[:-1])
    spec = PackSpec(
        weights.groups, weights.filters, 1, sizes, (group, filter_, *steps), lanes, target.element
    )
    if isinstance(packing, ConvPacking):
        spec = replace(spec, nv=packing.nv)
    elif isinstance(packing, DepthwisePacking):
        spec = _by_channel(spec)
    elif isinstance(packing, RecurrentPacking):
        spec = replace(spec, is_interleaved=True)
    return _shared_out(spec)


def _by_channel(spec: PackSpec) -> PackSpec:
    """All filters side by side: those of one group, or the only one of each group."""
    group, filter_, *steps = spec.strides
    assert spec.groups == 1 or spec.filters == 1, "filters of groups are not a row"
    count, step = (spec.filters, filter_) if spec.groups == 1 else (spec.groups, group)
    vectors = -(-count // spec.lanes)
    return replace(spec, groups=1, filters=count, nv=vectors, strides=(0, step, *steps))


def _shared_out(spec: PackSpec) -> PackSpec:
    """As many units of work as several threads need, where there is enough to do."""
    blocks = spec.vectors if spec.is_interleaved else spec.groups * -(-spec.vectors // spec.nv)
    if spec.floats < _MANY_FLOATS or blocks >= _UNITS:
        return spec
    return replace(spec, parts=min(-(-_UNITS // blocks), product(spec.sizes)))
