"""Choose for resampling and for regions of images."""

from __future__ import annotations

from ..ir.plan import Step
from ..types import product
from .call import Address, Argument, Call, Setting, broadcast_strides, build_program, views_of
from .choose_conv import five
from .spec_image import RegionSpec, ResizeSpec, SampleSpec


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
        element=setting.target.element,
    )
    args = tuple(Address(v) for v in (x, *others, *step.writes))
    return (Call(spec, (*args, x.shape[0]), 4 * product(anchor.shape)),)


def choose_sample(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The one call of ``_sample_last`` or ``_sample_cells_last``."""
    anchor = step.group.anchor
    x, grid, *mask = views_of(step, anchor.inputs)
    y = step.writes[0]
    in_cells = anchor.is_op("_sample_cells_last")
    spec = SampleSpec(
        inp=x.shape[1:3],
        out=anchor.shape[1:3],
        channels=x.shape[3],
        xs=x.strides[:3],
        grid=grid.strides,
        ys=y.strides[:3],
        places="cells" if in_cells else "grid",
        edge="held" if in_cells and anchor.attrs["is_held"] else "zeros",
        mask=mask[0].strides if mask else (),
        element=setting.target.element,
    )
    args: tuple[Argument, ...] = (*map(Address, (x, grid, *mask, y)), x.shape[0])
    return (Call(spec, args, 8 * product(anchor.shape)),)


def choose_region(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The one call of ``_roi_align_last`` or ``_roi_pooling_last``."""
    anchor = step.group.anchor
    x, rois = views_of(step, anchor.inputs)
    y, attrs = step.writes[0], anchor.attrs
    align = anchor.is_op("_roi_align_last")
    spec = RegionSpec(
        how="align" if align else "max",
        inp=x.shape[1:3],
        bins=attrs["pooled_size"],
        channels=x.shape[3],
        xs=x.strides[:3],
        ys=y.strides[:3],
        columns=rois.shape[1],
        row=rois.strides[0],
        scale=attrs["spatial_scale"],
        ratio=attrs["sample_ratio"] if align else 0,
        aligned=align and attrs["aligned"],
        element=setting.target.element,
    )
    args = (Address(x), Address(rois), Address(y), x.shape[0], rois.shape[0])
    return (Call(spec, args, 16 * product(anchor.shape)),)
