"""Kernels for symbolic sizes whose calls also give channels and strides: layers share them.

Without it each layer of a network has its own kernel, whose code differs in constants only:
of MobileNet's 23 symbolic kernels 12 are copies. Channels are constants of a kernel where its code
depends on them: where they do not fill the blocks of a tile, or a sum has another structure.
"""

from __future__ import annotations

from typing import Any

from ...._core.frozen import replace
from ...._core.symbolic import Size
from ...._core.target import SINGLE, Target
from ...call import GivenNumbers
from ..parts.gemm import MOST_GIVEN, Ahead
from .spec import ConvSpec, DepthwiseSpec

# Approximate size of a result for such a kernel: a thread then has enough units to share.
_USUAL = (1, 64, 64)
_USUAL_POSITIONS = (1, 1, 64 * 64)


def with_given_channels(spec: Any, numbers: GivenNumbers, target: Target) -> Any:
    """The spec with ``numbers`` in place of its channels, strides and symbolic sizes; or as it is,
    if they have to be constants.
    """
    if isinstance(spec, ConvSpec) and _has_whole_sums(spec, target):
        ahead = _lines_ahead(spec, target)
        return _given(replace(spec, usual=_USUAL_POSITIONS, ahead=ahead), numbers)
    if isinstance(spec, DepthwiseSpec) and _has_whole_tiles(spec, target):
        return _given(replace(spec, usual=_USUAL), numbers)
    return spec


def _given(spec: Any, numbers: GivenNumbers) -> Any:
    """The spec with all of its extents given, except 0, 1 and -1."""

    def given(item: Any) -> Any:
        return tuple(map(given, item)) if isinstance(item, tuple) else numbers.one(item)

    return replace(spec, **{name: given(getattr(spec, name)) for name in spec.extents})


def _has_whole_sums(spec: ConvSpec, target: Target) -> bool:
    """Whether a 1x1 layer's sums are full rounds of a loop, and its filters full blocks."""
    is_plain = spec.kernel == (1, 1, 1) and spec.groups == 1 and spec.element == SINGLE
    is_whole = spec.ic % spec.unroll == 0 and spec.unroll < spec.ic <= MOST_GIVEN
    is_whole = is_whole and spec.oc % (spec.nv * target.lanes) == 0
    return is_plain and is_whole and _has_given_width(spec) and not _reads_positions(spec)


def _has_whole_tiles(spec: DepthwiseSpec, target: Target) -> bool:
    """Whether a result's width is symbolic, and the channels fill the vectors of its tiles."""
    is_plain = spec.group == 1 and spec.element == SINGLE and bool(spec.over)
    return is_plain and spec.channels % (spec.nv * target.lanes) == 0


def _has_given_width(spec: ConvSpec) -> bool:
    """Whether a result's width is symbolic, and all windows are inside the input."""
    return isinstance(spec.out[2], Size) and all(spec.inside) and spec.xs[4] == 1


def _reads_positions(spec: ConvSpec) -> bool:
    """Whether an operand has elements for each position: the kernel prefetches these."""
    return any(strides[3] != 0 for strides in spec.reads)


def _lines_ahead(spec: ConvSpec, target: Target) -> int:
    """Lines of the next block of filters that a round of a tile prefetches."""
    width = spec.nv * target.lanes
    if spec.oc <= width:
        return 0
    return Ahead.lines_for(width * target.element_bytes, spec.unroll, spec.rows)
