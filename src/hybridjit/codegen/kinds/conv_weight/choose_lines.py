"""The layers whose weight gradients are summed along lines: those with few filters that gain.

Positions where no window begins are included, so an infinity may spread to taps that do not meet
it, as in Winograd's algorithm: the option that forbids Winograd forbids this as well. 64 images of
28x28, 5x5, six filters: 69 instead of 219 us.
"""

from __future__ import annotations

from ...._core.target import Target
from ...._core.types import product
from .layer import Layer
from .spec import LinesByWeightSpec

# The largest ratio of products to those of the other kernel that is worth the copies.
_WORTH = 0.8
# Instructions for copying a vector of one filter's gradients, per vector that contains its
# elements.
_PICKED = 1.0


def suits_lines(layer: Layer, target: Target) -> bool:
    """One channel at stride 1, adjacent filters, and fewer products than along filters."""
    geometry, lanes = layer.geometry, target.lanes
    is_single = layer.groups == layer.ic == 1 and geometry["stride"] == (1, 1, 1)
    is_picture = geometry["inp"][0] == geometry["kernel"][0] == 1 and geometry["pad"][0] == 0
    is_dense = layer.xs[3] == layer.ds[4] == 1 and layer.ds[3] == layer.oc
    if not (is_single and is_picture and is_dense) or layer.oc > lanes or layer.batch == 0:
        return False
    if geometry["kernel"][2] > _sums(target):
        return False
    spec = lines_weight_spec(layer, target)
    taps, (_, height, width) = product(spec.kernel), spec.out
    products = taps * layer.oc * spec.run(lanes) // lanes
    copies = _PICKED * height * -(-width // lanes) * layer.oc * (layer.oc + 2)
    fits = target.element_bytes * sum(spec.scratch_floats(lanes)) <= target.l2_bytes // 2
    return fits and products + copies <= _WORTH * taps * height * width


def _sums(target: Target) -> int:
    """Number of sums that fit in registers together with the operands."""
    return 24 if target.vector_registers >= 32 else 10


def lines_weight_spec(layer: Layer, target: Target) -> LinesByWeightSpec:
    """As many filters at a time as have their sums in registers."""
    geometry = layer.geometry
    return LinesByWeightSpec(
        **{key: geometry[key] for key in ("inp", "out", "kernel", "dilate", "pad")},
        oc=layer.oc,
        xs=layer.xs,
        ds=layer.ds,
        filters=max(1, _sums(target) // geometry["kernel"][2]),
        element=target.element,
    )
