"""Choose for transposed convolutions: one ordinary convolution for each phase of the output.

Output cells i, i + s, i + 2 s, ... of an axis of stride s depend on the same taps of the kernel,
and are a convolution of stride 1 of the input with those taps in reverse order. So the output of
stride 2 x 2 consists of four convolutions, each of which writes every second row and column.
"""

from __future__ import annotations

from itertools import product as combinations

from ...._core.frozen import dataclass, replace
from ...._core.symbolic import Size
from ....ir.graph import Value
from ....ir.plan import Step, View
from ....ops.nn.deconvolution import output_axes
from ....ops.nn.window_geometry import window_of
from ...call import (
    Address,
    Call,
    Setting,
    broadcast_strides,
    build_program,
    five,
    three,
    views_of,
)
from ...packing import (
    ConvPacking,
    DepthwisePacking,
    Packing,
    PairPacking,
    PhasePacking,
    WinogradPacking,
)
from ...spec import Ints
from ..weights.choose import is_fixed
from .choose import calls_of
from .layer import Layer


@dataclass(frozen=True)
class Phase:
    """Every ``stride``-th output cell of an axis from ``start`` on, ``size`` of them.

    first, step, count  the taps on which they depend
    dilate, pad         those of the ordinary convolution with these taps in reverse order
    """

    start: int
    size: int
    first: int
    step: int
    count: int
    dilate: int
    pad: int


def phases(kernel: int, stride: int, dilate: int, crop: int, size: int) -> list[Phase]:
    """The phases of an axis with ``size`` output cells, after ``crop`` cells that are cut off.

    Tap k of input cell i contributes to output cell i * stride + k * dilate - crop.
    """
    found = []
    for start in range(min(stride, size)):
        cells = -(-(size - start) // stride)
        taps = [k for k in range(kernel) if (start + crop - k * dilate) % stride == 0]
        if not taps:
            found.append(_without_taps(start, cells))
            continue
        step = taps[1] - taps[0] if len(taps) > 1 else 1
        spread = step * dilate // stride if len(taps) > 1 else 1
        nearest = (start + crop - taps[0] * dilate) // stride
        pad = (len(taps) - 1) * spread - nearest
        found.append(Phase(start, cells, taps[0], step, len(taps), spread, pad))
    return found


def choose_deconv(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The calls of a transposed convolution with its fused operators, one for each phase."""
    anchor = step.group.anchor
    x, attrs = views_of(step, anchor.inputs[:1])[0], anchor.attrs
    window = window_of(*(attrs[key] for key in ("kernel", "stride", "dilate", "pad")))
    outs = output_axes(window, x.shape[1:-1], attrs["adj"], attrs["target_shape"])
    axes = [
        phases(window.kernel[i], window.stride[i], window.dilate[i], crop, size or 0)
        for i, (size, crop) in enumerate(outs)
    ]
    return tuple(
        call
        for chosen in map(_alike_without_taps, combinations(*axes))
        for call in _phase(step, anchor, x, chosen, window.stride, setting)
    )


def _alike_without_taps(axes: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Phases with an axis without taps, all axes of which lose their taps: they share a kernel."""
    if all(axis.count for axis in axes):
        return axes
    return tuple(_without_taps(axis.start, axis.size) for axis in axes)


# Padding beyond any size.
_BEYOND = 1 << 40


def _without_taps(start: int, size: int) -> Phase:
    """A phase whose one tap is always outside."""
    return Phase(start, size, 0, 1, 0, 1, _BEYOND if isinstance(size, Size) else size)


def _phase(
    step: Step, anchor: Value, x: View, axes: tuple[Phase, ...], stride: Ints, setting: Setting
) -> tuple[Call, ...]:
    program, operands = build_program(step, anchored=True)
    groups, rank = anchor.attrs["num_group"], len(axes)

    def part(view: View) -> View:
        """The cells of this phase."""
        strides = broadcast_strides(view, anchor.shape)
        offset = sum(axis.start * s for axis, s in zip(axes, strides[1:]))
        between = tuple(s * n for s, n in zip(strides[1:], stride))
        strides = (strides[0], *between, strides[-1])
        return replace(view, offset=view.offset + offset, strides=strides)

    reads = [part(v) for v in views_of(step, operands)]
    writes = [part(v) for v in step.writes]
    layer = Layer(
        inp=three(x.shape[1:-1], 1),
        out=three(tuple(a.size for a in axes), 1),
        kernel=three(tuple(max(a.count, 1) for a in axes), 1),
        stride=(1, 1, 1),
        dilate=three(tuple(a.dilate for a in axes), 1),
        pad=three(tuple(a.pad for a in axes), 0),
        groups=groups,
        ic=x.shape[-1] // groups,
        oc=anchor.shape[-1] // groups,
        xs=five(x.strides, rank),
        reads=tuple(five(v.strides, rank) for v in reads),
        writes=tuple(five(v.strides, rank) for v in writes),
        program=program,
        are_rows=is_fixed(anchor.inputs[1], setting),
    )
    extra = tuple(Address(v) for v in (*reads, *writes))
    first, taps, counts = (
        tuple(getattr(a, key) for a in axes) for key in ("first", "step", "count")
    )

    def of_phase(packing: Packing) -> Packing:
        kinds = ConvPacking | PairPacking | DepthwisePacking | WinogradPacking
        assert isinstance(packing, kinds)
        return PhasePacking(packing, groups, first, taps, counts)

    return calls_of(step, layer, Address(x), extra, x.shape[0], setting, of_phase)
