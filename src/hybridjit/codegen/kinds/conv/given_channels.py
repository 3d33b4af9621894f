"""Kernels for symbolic sizes that also receive channels and strides per call, shared by layers.

With constant channels, each layer of a network has its own kernel, and the code of these kernels
differs in constants only: 12 of MobileNet's 23 symbolic kernels are copies. Channels remain
constants where the code depends on them: where they do not fill the blocks of a tile, or where a
sum has another structure.
"""

from __future__ import annotations

from typing import Any

from ...._core.frozen import replace
from ...._core.symbolic import Size
from ...._core.target import SINGLE, Target
from ...call import GivenNumbers
from ..parts.gemm import MOST_GIVEN, Ahead
from .spec import ConvSpec, DepthwiseSpec, StrassenSpec

# Assumed size of a result for such a kernel: large enough to divide its units among threads.
_USUAL = (1, 64, 64)
_USUAL_POSITIONS = (1, 1, 64 * 64)


def with_given_channels(spec: Any, numbers: GivenNumbers, target: Target) -> Any:
    """Make channels, strides and symbolic sizes of a spec arguments in ``numbers``.

    Returns the spec unchanged if channels and strides have to be constants.
    """
    if isinstance(spec, ConvSpec) and _has_whole_sums(spec, target):
        ahead = _lines_ahead(spec, target)
        return _given(replace(spec, usual=_USUAL_POSITIONS, ahead=ahead), numbers)
    if isinstance(spec, StrassenSpec) and _has_whole_halves(spec, target):
        ahead = _products_ahead(spec)
        return _given(replace(spec, usual=_USUAL_POSITIONS, ahead=ahead), numbers)
    if isinstance(spec, DepthwiseSpec) and _has_whole_tiles(spec, target):
        return _given(replace(spec, usual=_USUAL), numbers)
    return spec


def _given(spec: Any, numbers: GivenNumbers) -> Any:
    """The spec with all extents as arguments of the call, except 0, 1 and -1."""

    def given(item: Any) -> Any:
        return tuple(map(given, item)) if isinstance(item, tuple) else numbers.one(item)

    return replace(spec, **{name: given(getattr(spec, name)) for name in spec.extents})


def _has_whole_sums(spec: ConvSpec, target: Target) -> bool:
    """Whether a layer is 1x1, its channels fill the rounds of a loop, its filters fill blocks."""
    is_plain = spec.kernel == (1, 1, 1) and spec.groups == 1 and spec.element == SINGLE
    is_whole = spec.ic % spec.unroll == 0 and spec.unroll < spec.ic <= MOST_GIVEN
    is_whole = is_whole and spec.oc % (spec.nv * target.lanes) == 0
    return is_plain and is_whole and _has_given_width(spec) and not _reads_positions(spec)


def _has_whole_halves(spec: StrassenSpec, target: Target) -> bool:
    """Whether positions are symbolic, half of the channels fills the rounds of a loop, and half of
    the filters fills blocks.
    """
    is_plain = spec.chunks == 1 and isinstance(spec.out[2], Size)
    is_whole = spec.ic % (2 * spec.unroll) == 0 and spec.unroll < spec.ic // 2 <= MOST_GIVEN
    return is_plain and is_whole and spec.oc % (2 * spec.nv * target.lanes) == 0


def _has_whole_tiles(spec: DepthwiseSpec, target: Target) -> bool:
    """Whether a result's width is symbolic, and the channels fill the vectors of its tiles."""
    is_plain = spec.group == 1 and spec.element == SINGLE and bool(spec.over)
    return is_plain and spec.channels % (spec.nv * target.lanes) == 0


def _has_given_width(spec: ConvSpec) -> bool:
    """Whether a result's width is symbolic, and all windows are inside the input."""
    return isinstance(spec.out[2], Size) and all(spec.inside) and spec.xs[4] == 1


def _reads_positions(spec: ConvSpec) -> bool:
    """Whether an operand has elements for each position, which a kernel prefetches."""
    return any(strides[3] != 0 for strides in spec.reads)


def _products_ahead(spec: StrassenSpec) -> int:
    """Cache lines of the next filters that a round prefetches, the same for most blocks: 4 to 7
    tiles need two lines.
    """
    return 2 if spec.tiles > spec.mr else 0


def _lines_ahead(spec: ConvSpec, target: Target) -> int:
    """Cache lines of the next block of filters that each round of a tile prefetches."""
    width = spec.nv * target.lanes
    if spec.oc <= width:
        return 0
    return Ahead.lines_for(width * target.element_bytes, spec.unroll, spec.rows)
