"""Prefetch the memory that the next chunk of positions reads, while this one is summed.

Data and gradients of a large layer come from memory, and every chunk of them is new: without
prefetch, 8 images of 56x56, 64 to 256 channels, wait for 1.1 of 5.0 ms.
"""

from __future__ import annotations

from ...llvm.builder import LoopBuilder
from ...llvm.indices import Index
from ...llvm.types import Value
from ..parts.regions import Region, region_of
from .spec import ByWeightSpec


def next_regions(
    b: LoopBuilder, spec: ByWeightSpec, x: Value, d: Value, line: Index
) -> tuple[Region, ...]:
    """Data and gradients from a line of the result on, if all images are one contiguous run of
    lines.

    ``d`` is the address of the unit's first block of filters. Sizes that the call gives are not
    prefetched.
    """
    if spec.derived or spec.groups > 1 or spec.kernel[0] > 1 or spec.out[0] > 1:
        return ()
    image, row = b.divmod(line, spec.out[1])
    filters = min(spec.oc, spec.blocks * spec.nv * b.lanes)
    lines = spec.images * spec.lines
    found = []
    if spec.xs[0] == spec.xs[2] * spec.inp[1] and spec.xs[4] == 1:
        at = b.dot((image, b.mul(row, spec.stride[1])), (spec.xs[0], spec.xs[2]))
        down = lines * spec.stride[1]
        found.append(region_of(b, b.at(x, at), down, spec.xs[2], spec.xs[2]))
    if spec.ds[0] == spec.ds[2] * spec.out[1] and spec.ds[4] == 1:
        at = b.dot((image, row), (spec.ds[0], spec.ds[2]))
        found.append(region_of(b, b.at(d, at), lines * spec.out[2], filters, spec.ds[3]))
    return tuple(region for region in found if region.count)
