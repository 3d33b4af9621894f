"""Kernels that receive channels and strides per call, shared by layers.

With constant channels, each layer of a network has its own kernel, and the code of these kernels
differs in constants only: 12 of MobileNet's 23 symbolic kernels are copies, and 53 of the 81 of
DenseNet-121 for fixed sizes. Channels remain constants where the code depends on them: where they
do not fill the blocks of a tile, or where a sum has another structure.

Kernels for symbolic sizes always receive them. A kernel for fixed sizes receives them if it
replaces at least two of a network's: a layer that shares with none keeps its constants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ...._core.frozen import replace
from ...._core.symbolic import Size
from ...._core.target import SINGLE, Target
from ...call import Call, GivenNumbers
from ...spec import KernelSpec
from ..parts.gemm import MOST_GIVEN, Ahead
from .spec import ConvSpec, DepthwiseSpec, StrassenSpec, WinogradSpec

# Assumed size of a result for such a kernel: large enough to divide its units among threads.
_USUAL = (1, 64, 64)
_USUAL_POSITIONS = (1, 1, 64 * 64)
# The same for fixed sizes: 16 units, as layers of 14x14 to 56x56 have them.
_FEW_POSITIONS = (1, 1, 256)
# Least products of a sum at a fixed size. A unit of work divides by the number of its blocks, which
# takes 40 cycles; a product of a tile takes 12.
_LEAST_PRODUCTS = 256
_CHANNELS = ("ic", "oc", "xs", "reads", "writes")

Calls = tuple[tuple[Call, ...], ...]


def share_kernels(calls: Calls, target: Target) -> Calls:
    """The calls of a plan of fixed sizes, with one kernel in place of those that differ in
    channels, strides and positions only. Sums keep their order.
    """
    specs = dict.fromkeys(call.spec for row in calls for call in row)
    given = {spec: found for spec in specs if (found := _with_constants_given(spec, target))}
    users: dict[KernelSpec, list[KernelSpec]] = defaultdict(list)
    for spec, (shared, _) in given.items():
        users[shared].append(spec)
    taken = {spec: given[spec] for some in users.values() if len(some) > 1 for spec in some}
    return tuple(tuple(_with_shared(call, taken) for call in row) for row in calls)


def _with_shared(call: Call, taken: dict[KernelSpec, tuple[KernelSpec, list[int]]]) -> Call:
    if call.spec not in taken:
        return call
    spec, numbers = taken[call.spec]
    return replace(call, spec=spec, args=(*call.args, *numbers))


def _with_constants_given(spec: KernelSpec, target: Target) -> tuple[KernelSpec, list[int]] | None:
    """A spec of fixed sizes with arguments in place of constants, and their values."""
    numbers = GivenNumbers()
    if isinstance(spec, StrassenSpec) and _has_whole_halves(spec, target):
        ahead = _filters_ahead(spec, target)
        wanted = _given(replace(spec, usual=_FEW_POSITIONS, ahead=ahead), numbers)
        return wanted, numbers.values
    if isinstance(spec, ConvSpec) and _has_long_sums(spec) and _has_whole_sums(spec, target):
        wanted = _given(replace(spec, ahead=_lines_ahead(spec, target)), numbers, _CHANNELS)
        return wanted, numbers.values
    return None


def _has_long_sums(spec: ConvSpec) -> bool:
    """Whether the sums of adjacent columns are long, and all columns are tiles of one row."""
    return spec.ic >= _LEAST_PRODUCTS and spec.xs[3] > 1 and spec.xs[4] == 1


def with_given_channels(spec: Any, numbers: GivenNumbers, target: Target) -> Any:
    """Make channels, strides and symbolic sizes of a spec arguments in ``numbers``.

    Returns the spec unchanged if channels and strides have to be constants.
    """
    if isinstance(spec, ConvSpec) and _has_given_width(spec) and _has_whole_sums(spec, target):
        ahead = _lines_ahead(spec, target)
        return _given(replace(spec, usual=_USUAL_POSITIONS, ahead=ahead), numbers)
    is_given = isinstance(spec, StrassenSpec) and isinstance(spec.out[2], Size)
    if is_given and _has_whole_halves(spec, target):
        ahead = _products_ahead(spec)
        return _given(replace(spec, usual=_USUAL_POSITIONS, ahead=ahead), numbers)
    if isinstance(spec, WinogradSpec) and spec.tail:
        fields = [name for name in spec.extents if name != "blocks"]
        given = _given(replace(spec, usual=_USUAL), numbers, fields)
        return replace(given, blocks=numbers.any(spec.blocks))
    if isinstance(spec, DepthwiseSpec) and _has_whole_tiles(spec, target):
        return _given(replace(spec, usual=_USUAL), numbers)
    return spec


def _given(spec: Any, numbers: GivenNumbers, fields: Iterable[str] | None = None) -> Any:
    """The spec with these extents, or all, as arguments of the call, except 0, 1 and -1."""

    def given(item: Any) -> Any:
        return tuple(map(given, item)) if isinstance(item, tuple) else numbers.one(item)

    open_ = spec.extents if fields is None else fields
    return replace(spec, **{name: given(getattr(spec, name)) for name in open_})


def _has_whole_sums(spec: ConvSpec, target: Target) -> bool:
    """Whether a layer is 1x1, its channels fill the rounds of a loop, its filters fill blocks."""
    is_plain = spec.kernel == (1, 1, 1) and spec.groups == 1 and spec.element == SINGLE
    is_whole = spec.ic % spec.unroll == 0 and spec.unroll < spec.ic <= MOST_GIVEN
    is_whole = is_whole and spec.oc % (spec.nv * target.lanes) == 0
    return is_plain and is_whole and not _reads_positions(spec)


def _has_whole_halves(spec: StrassenSpec, target: Target) -> bool:
    """Whether half of the channels fills the rounds of a loop, and half of the filters fills
    blocks.
    """
    is_plain = spec.chunks == 1 and spec.element == SINGLE
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


def _filters_ahead(spec: StrassenSpec, target: Target) -> int:
    """The same for a fixed size of a block."""
    width = spec.nv * target.lanes
    return Ahead.lines_for(width * target.element_bytes, spec.unroll, -(-spec.tiles // spec.mr))


def _lines_ahead(spec: ConvSpec, target: Target) -> int:
    """Cache lines of the next block of filters that each round of a tile prefetches."""
    width = spec.nv * target.lanes
    if spec.oc <= width:
        return 0
    return Ahead.lines_for(width * target.element_bytes, spec.unroll, spec.rows)
