"""Choose for resampling and for regions of images."""

from __future__ import annotations

from ..ir.plan import Step
from ..types import product
from .call import Address, Call, Setting, broadcast_strides, build_program, views_of
from .choose_conv import five
from .spec_image import ResizeSpec


def choose_resize(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The one call of ``_resize_last``."""
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x, others = views_of(step, anchor.inputs[:1])[0], views_of(step, operands)
    spec = ResizeSpec(
        how=anchor.attrs["how"],
        inp=x.shape[1:3],
        out=anchor.shape[1:3],
        channels=x.shape[3],
        xs=x.strides[:3],
        reads=tuple(five(broadcast_strides(v, anchor.shape), 2) for v in others),
        writes=tuple(five(v.strides, 2) for v in step.writes),
        align=anchor.attrs["align"],
        program=program,
    )
    args = tuple(Address(v) for v in (x, *others, *step.writes))
    return (Call(spec, (*args, x.shape[0]), 4 * product(anchor.shape)),)
