"""Choose the source of a layer's weights: parameters are packed at bind time, all others by a
kernel before the layer's kernel, into memory that the threads share.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...._core.frozen import dataclass, replace
from ...._core.target import PAIRS, QUADS, TYPES_OF, ElementTypes, Target
from ...._core.types import BFLOAT16, FLOAT32, product
from ....ir.graph import Use
from ....ir.plan import Step, View
from ....ir.plan_image import Packed
from ....ops.nn.deconvolution import DECONVOLUTION
from ...call import (
    Address,
    Argument,
    Call,
    GivenNumbers,
    Scratch,
    Setting,
    Shared,
    dtype_name,
    views_of,
)
from ...packing import (
    AbreastPacking,
    ChannelPacking,
    ConvPacking,
    DepthwisePacking,
    Packing,
    PairPacking,
    PhasePacking,
    QuadPacking,
    RecurrentPacking,
    WinogradPacking,
)
from ...spec import Ints, Sizes
from .spec import FiltersSpec, PackSpec, PiecesSpec

# Floats from which on packing is divided among threads, and the number of units of work.
_MANY_FLOATS = 1 << 14
_UNITS = 8
_TAPS = 9

Wanted = tuple[Use, Packing]


def is_fixed(use: Use, setting: Setting) -> bool:
    """Whether this is a parameter, which is packed at bind time."""
    return use.value in setting.params


def pack_weights(
    step: Step, wanted: Sequence[Wanted], setting: Setting
) -> tuple[tuple[Call, ...], tuple[Argument, ...]]:
    """The calls that pack live weights, and the addresses of all packed weights."""
    live = [use for use, _ in wanted if not is_fixed(use, setting)]
    filters = {use: _read_by(views_of(step, (use,))[0], p) for use, p in wanted if use in live}
    element = setting.target.element
    kernels = {
        use: _kernel(filters[use], p, _computing(filters[use].view, setting.target))
        for use, p in wanted
        if use in live
    }
    size = setting.target.of(TYPES_OF[element.stored]).element_bytes if kernels else 0
    total, position = size * sum(kernel.floats for kernel in kernels.values()), 0
    calls: list[Call] = []
    found: list[Argument] = []
    for use, packing in wanted:
        if use not in kernels:
            found.append(Packed(setting.params[use.value], packing, 0, packed_as(packing, element)))
            continue
        kernel, place = kernels[use], Shared(total, position)
        position += size * kernel.floats
        if filters[use].are_zero:
            found.append(Packed(None, ChannelPacking(1, 1), kernel.floats, element.accumulated))
        else:
            calls.append(kernel.call(filters[use].view, place))
            found.append(place)
    return tuple(calls), tuple(found)


def as_filters(step: Step, use: Use, packing: Packing) -> tuple[Address, Ints]:
    """The address and the strides of filters of one group that a kernel packs itself."""
    found = _read_by(views_of(step, (use,))[0], packing)
    return Address(found.view), found.strides[1:]


def _computing(view: View, target: Target) -> Target:
    """The target for the stored type of this view."""
    return target.of(TYPES_OF[dtype_name(view.dtype)])


def packing_for(
    target: Target, groups: int, nv: int, taps: bool = False
) -> ConvPacking | PairPacking | QuadPacking:
    """The packing of weights for the kernels of products."""
    packing = ConvPacking(groups, target.lanes, nv, taps)
    if target.element == QUADS:
        return QuadPacking(packing)
    return PairPacking(packing) if target.element == PAIRS else packing


def packed_as(packing: Packing, element: ElementTypes) -> str:
    """NumPy's name of the type of packed weights or biases."""
    return "uint32" if isinstance(packing, PairPacking | QuadPacking) else element.accumulated


def multiplies_pairs(target: Target) -> bool:
    """Whether an instruction multiplies pairs of stored elements."""
    return target.element == TYPES_OF["bfloat16"] and target.has_bfloat16


def in_pairs(setting: Setting, step_of_k: int, step: Step) -> Setting:
    """Use pairs for products stored in bfloat16, if the CPU multiplies pairs.

    Weights that are not parameters must be stored as pairs already, because kernels pack them as
    words.
    """
    target, anchor = setting.target, step.group.anchor
    if not multiplies_pairs(target) or step_of_k != 1:
        return setting
    weight, axis = anchor.inputs[1], 0 if anchor.op is DECONVOLUTION else -1
    if is_fixed(weight, setting):
        suits = axis == -1
    else:
        suits = _is_in_words(views_of(step, (weight,))[0], axis)
    return replace(setting, target=target.of(PAIRS)) if suits else setting


def _is_in_words(view: View, axis: int) -> bool:
    """Whether adjacent bfloat16 elements along an axis form complete words."""
    others = [s for i, s in enumerate(view.strides) if i != axis % len(view.shape)]
    is_short = view.dtype == BFLOAT16 and view.strides[axis] == 1
    return is_short and not any(n % 2 for n in (view.offset, view.shape[axis], *others))


def _in_words(view: View, axis: int) -> View:
    """The same bits as words of two elements, which are moved like single precision."""
    shape, strides = list(view.shape), [s // 2 for s in view.strides]
    shape[axis], strides[axis] = shape[axis] // 2, 1
    return View(view.buffer, view.offset // 2, tuple(shape), tuple(strides), FLOAT32)


def _read_by(view: View, packing: Packing) -> _Filters:
    """Weights that are not parameters, as a packing kernel reads them."""
    if isinstance(packing, PairPacking):
        return _filters_of(_in_words(view, -1), packing.inner)
    if isinstance(packing, PhasePacking) and isinstance(packing.inner, PairPacking):
        inner = packing.inner.inner
        assert isinstance(inner, ConvPacking), "transposed convolutions have no gates"
        return _filters_of(_in_words(view, 0), replace(packing, inner=inner))
    return _filters_of(view, packing)


@dataclass(frozen=True)
class _Kernel:
    """A packing kernel, the integers of its call, and the number of ``floats`` it writes."""

    spec: PackSpec | PiecesSpec | FiltersSpec
    given: Sequence[int]
    floats: int

    def call(self, view: View, place: Shared) -> Call:
        args: tuple[Argument, ...] = (Address(view), place)
        if isinstance(self.spec, FiltersSpec):
            args = (*args, Scratch(4 * self.spec.scratch_floats))
        return Call(self.spec, (*args, *self.given), self.floats)


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
    """Some of the taps of weights [C, taps..., F / groups] in reverse order; filters come first."""
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


def _kernel(weights: _Filters, packing: Packing, target: Target) -> _Kernel:
    """The kernel with the same result as ``packing``."""
    if isinstance(packing, PhasePacking):
        packing = packing.inner
    if isinstance(packing, PairPacking):
        packing = packing.inner
    if isinstance(packing, WinogradPacking):
        return _winograd(weights, packing, target)
    if isinstance(packing, AbreastPacking):
        return _abreast(weights, packing, target)
    sizes, (group, filter_, *steps) = weights.sizes, weights.strides
    if isinstance(packing, ConvPacking) and packing.taps:
        sizes, steps = (sizes[-1], *sizes[:-1]), [steps[-1], *steps[:-1]]
    plain = replace(weights, sizes=sizes, strides=(group, filter_, *steps))
    if isinstance(packing, DepthwisePacking):
        plain = _as_few_axes(_by_channel(plain))
        return _packed(plain, -(-plain.filters // target.lanes), target)
    is_interleaved = isinstance(packing, RecurrentPacking)
    nv = packing.nv if isinstance(packing, ConvPacking) else 1
    return _packed(_as_few_axes(plain), nv, target, is_interleaved)


def _winograd(weights: _Filters, packing: WinogradPacking, target: Target) -> _Kernel:
    numbers, channels, lanes = GivenNumbers(), weights.sizes[-1], target.lanes
    _, filter_, *rest = weights.strides
    side = packing.lines[0].taps if packing.lines else 3
    spec = FiltersSpec(
        m=packing.m,
        filters=numbers.one(weights.filters),
        channels=numbers.one(channels) if channels >= lanes else channels,
        nv=packing.nv,
        # Code depends on strides of taps, and on those of axes after taps.
        strides=tuple(s if abs(s) <= side**2 else numbers.one(s) for s in (filter_, *rest[-3:])),
        lanes=lanes,
        element=target.element,
        side=side,
    )
    blocks = -(-weights.filters // spec.width)
    return _Kernel(spec, numbers.values, blocks * spec.points * channels * spec.width)


def _abreast(weights: _Filters, packing: AbreastPacking, target: Target) -> _Kernel:
    """The filters of each column adjacently, in the rows of a wider window."""
    _, filter_, *steps = weights.strides
    sizes, axis = weights.sizes, max(0, len(weights.sizes) - 2)
    step = packing.step if len(sizes) > 1 else 0  # a vector with one element per filter is repeated
    wide = [*sizes]
    wide[axis] += (packing.columns - 1) * step
    order = [*range(len(sizes))]
    if isinstance(packing.inner, ConvPacking) and packing.inner.taps:
        order = [order[-1], *order[:-1]]
    spec = PiecesSpec(
        sizes=tuple(wide[i] for i in order),
        strides=(*(steps[i] for i in order), filter_),
        pieces=packing.columns,
        width=weights.filters,
        apart=-step * steps[axis],
        axis=order.index(axis),
        step=step,
        taps=sizes[axis],
        element=target.element,
    )
    return _Kernel(spec, (), product(spec.sizes) * spec.row(target.lanes))


def _by_channel(weights: _Filters) -> _Filters:
    """All filters in a row: those of one group, or the only one of each group."""
    (group, filter_, *steps), groups, filters = weights.strides, weights.groups, weights.filters
    assert groups == 1 or filters == 1, "filters of groups are not a row"
    count, step = (filters, filter_) if groups == 1 else (groups, group)
    return replace(weights, groups=1, filters=count, strides=(0, step, *steps))


def _as_few_axes(weights: _Filters) -> _Filters:
    """A filter's axes without those of size 1, and with contiguous axes merged."""
    sizes: list[int] = []
    strides: list[int] = []
    for size, stride in zip(weights.sizes, weights.strides[2:]):
        if size == 1:
            continue
        if sizes and strides[-1] == stride * size:
            size, _ = size * sizes.pop(), strides.pop()
        sizes.append(size)
        strides.append(stride)
    group, filter_ = weights.strides[:2]
    return replace(weights, sizes=tuple(sizes), strides=(group, filter_, *strides))


def _packed(weights: _Filters, nv: int, target: Target, is_interleaved: bool = False) -> _Kernel:
    """With enough units of work for several threads, if there is enough work."""
    vectors, lanes = -(-weights.filters // target.lanes), target.lanes
    floats = weights.groups * vectors * lanes * product(weights.sizes)
    blocks = vectors if is_interleaved else weights.groups * -(-vectors // nv)
    parts = 1
    if floats >= _MANY_FLOATS and blocks < _UNITS:
        parts = min(-(-_UNITS // blocks), product(weights.sizes))
    spec = PackSpec(
        weights.groups, weights.filters, nv, weights.sizes, weights.strides, lanes, target.element,
        is_interleaved, parts,
    )  # fmt: skip
    if weights.filters % (nv * lanes) or weights.groups > 1:
        return _Kernel(spec, (), floats)
    numbers = GivenNumbers()
    given = replace(
        spec, filters=numbers.one(weights.filters), nv=numbers.one(nv), parts=numbers.any(parts)
    )
    if _can_be_given(weights, lanes):
        sizes = (*weights.sizes[:-1], *map(numbers.one, weights.sizes[-1:]))
        given = replace(given, sizes=sizes, strides=_given_strides(weights, numbers))
    return _Kernel(given, numbers.values, floats)


def _can_be_given(weights: _Filters, lanes: int) -> bool:
    """Whether the last size may be given: it fills vectors, or vectors run along another axis.

    Axes before it are taps, of which there are few: finding a row divides by each of them.
    """
    _, filter_, *steps = weights.strides
    *taps, last = weights.sizes or (1,)
    if product(tuple(taps)) > _TAPS:
        return False
    if filter_ == 1 or _is_scattered(steps):
        return True
    is_run = steps == [1] or (len(taps) == 1 and steps == [1, taps[0]])
    return is_run and last % lanes == 0


def _given_strides(weights: _Filters, numbers: GivenNumbers) -> Sizes:
    """Given strides; code depends on the stride of filters after taps, and on strides of runs."""
    _, *strides = weights.strides
    named = 1 if _is_scattered(strides[1:]) else len(strides)
    few = [at < named and abs(stride) <= _TAPS for at, stride in enumerate(strides)]
    return (0, *(s if is_few else numbers.one(s) for s, is_few in zip(strides, few)))


def _is_scattered(steps: Sequence[int]) -> bool:
    """Whether no two elements of a filter are adjacent in memory."""
    return 1 not in steps
