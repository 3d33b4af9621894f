"""Convolutions and dense layers of bytes: int32 sums, computed by the direct kernel.

A dense layer is a 1x1 convolution of one image with a column for each row of data: sums of integers
are exact, so that their order, and with it the tile, may depend on the number of rows.
"""

from __future__ import annotations

from ..._core.frozen import replace
from ..._core.target import QUADS
from ...ir.plan import Step
from ...ops.quantized import INTEGER_DENSE, is_depthwise
from ..call import Address, Call, Setting, broadcast_strides, build_program, views_of
from ..spec import Ints
from .byte_depthwise import ByteDepthwiseSpec, choose_byte_depthwise, emit_byte_depthwise
from .conv.choose import calls_of, layer_of
from .conv.direct import emit_conv
from .conv.layer import Layer
from .conv.spec import ConvSpec
from .record import register


def choose_bytes(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The call of a product of bytes with its fused operators."""
    anchor = step.group.anchor
    setting = replace(setting, target=setting.target.of(QUADS))
    if is_depthwise(anchor.attrs, anchor.inputs[1].type.dims):
        return choose_byte_depthwise(step, setting)
    _, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    extra = tuple(Address(v) for v in (*views_of(step, operands), *step.writes))
    is_dense = anchor.op is INTEGER_DENSE
    layer = _of_rows(step) if is_dense else layer_of(step)
    batch = 1 if is_dense else x.shape[0]
    return calls_of(step, layer, Address(x), extra, batch, setting)


def _of_rows(step: Step) -> Layer:
    anchor, one = step.group.anchor, (1, 1, 1)
    program, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    line = (1, 1, x.shape[0])

    def columns(strides: Ints) -> Ints:
        return (0, 0, 0, *strides)

    return Layer(
        inp=line,
        out=line,
        kernel=one,
        stride=one,
        dilate=one,
        pad=(0, 0, 0),
        groups=1,
        ic=x.shape[1],
        oc=anchor.shape[1],
        xs=columns(x.strides),
        reads=tuple(columns(broadcast_strides(v, anchor.shape)) for v in views_of(step, operands)),
        writes=tuple(columns(v.strides) for v in step.writes),
        program=program,
    )


register(
    "byte_product",
    choose_bytes,
    {ConvSpec: emit_conv, ByteDepthwiseSpec: emit_byte_depthwise},
)
