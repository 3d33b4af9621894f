"""Choose where a layer's weights come from: parameters are packed when they are bound, all others
by a kernel before the layer's own, into memory that the threads share.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.graph import Use
from ....ir.plan import Step, View
from ....target import Target
from ...call import Address, Argument, Call, Packed, Setting, Shared, views_of
from ...packing import ChannelPacking, ConvPacking, DepthwisePacking, Packing, whole_vectors
from .spec import PackSpec


def has_fixed_weights(step: Step, setting: Setting) -> bool:
    """Whether all that the anchor multiplies with or adds is a parameter."""
    return all(use.value in setting.params for use in step.group.anchor.inputs[1:])


def pack_weights(
    step: Step, packing: Packing, bias_packing: ChannelPacking, setting: Setting
) -> tuple[tuple[Call, ...], tuple[Argument, Argument]]:
    """The calls that pack weights that are not parameters, and the addresses of both."""
    anchor = step.group.anchor
    weight, *bias = anchor.inputs[1:]
    no_bias = Packed(None, bias_packing, anchor.shape[-1], setting.target.element)
    if has_fixed_weights(step, setting):
        packed = Packed(setting.params[weight.value], packing)
        if bias:
            return (), (packed, Packed(setting.params[bias[0].value], bias_packing))
        return (), (packed, no_bias)
    assert isinstance(packing, ConvPacking | DepthwisePacking)
    specs = [_weight_spec(views_of(step, (weight,))[0], packing)]
    if bias:
        groups, lanes = bias_packing.groups, bias_packing.lanes
        count = anchor.shape[-1] // groups
        stride = views_of(step, tuple(bias))[0].strides[0]
        specs.append(PackSpec(groups, count, 1, (1,), (count * stride, stride, 0), lanes))
    return _calls(step, [weight, *bias], specs, no_bias, setting.target)


def _calls(
    step: Step, uses: list[Use], specs: list[PackSpec], no_bias: Packed, target: Target
) -> tuple[tuple[Call, ...], tuple[Argument, Argument]]:
    specs = [replace(spec, element=target.element) for spec in specs]
    sizes = [target.element_bytes * spec.floats for spec in specs]
    places = [Shared(sum(sizes), sum(sizes[:i])) for i in range(len(sizes))]
    calls = tuple(
        Call(spec, (Address(view), place), spec.floats)
        for spec, view, place in zip(specs, views_of(step, tuple(uses)), places)
    )
    return calls, (places[0], places[1] if len(places) > 1 else no_bias)


def _weight_spec(weight: View, packing: ConvPacking | DepthwisePacking) -> PackSpec:
    """How a weight [F, taps..., C] becomes what ``packing`` would make of it."""
    filters, *taps, channels = weight.shape
    first, *steps, last = weight.strides
    if isinstance(packing, DepthwisePacking):
        vectors = whole_vectors(filters, packing.lanes) // packing.lanes
        sizes = (*taps, channels)
        return PackSpec(1, filters, vectors, sizes, (0, first, *steps, last), packing.lanes)
    count = filters // packing.groups
    sizes, strides = (*taps, channels), (*steps, last)
    if packing.taps:
        sizes, strides = (channels, *taps), (last, *steps)
    return PackSpec(
        packing.groups, count, packing.nv, sizes, (count * first, first, *strides), packing.lanes
    )
