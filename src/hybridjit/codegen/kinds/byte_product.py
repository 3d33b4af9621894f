"""Convolutions and dense layers of bytes: int32 sums, by the direct kernel or in tiles.

A dense layer is a 1x1 convolution of one image with a column for each row of data: sums of integers
are exact, so that their order, and with it the tile, may depend on the number of rows.
"""

from __future__ import annotations

from ..._core.frozen import replace
from ..._core.target import QUADS
from ...ir.graph import SampleRows
from ...ir.plan import Step
from ...ir.sized import is_symbolic
from ...ops.quantized import INTEGER_DENSE, is_depthwise
from ..call import Address, Call, Setting, build_program, views_of
from ..packing import Packing, QuadPacking
from .byte_depthwise import ByteDepthwiseSpec, choose_byte_depthwise, emit_byte_depthwise
from .byte_tiles.choose import tiled_calls
from .byte_tiles.emit import emit_byte_tiles
from .byte_tiles.spec import ByteTilesSpec
from .byte_winograd.choose import interpolated_calls
from .byte_winograd.emit import emit_byte_winograd
from .byte_winograd.spec import ByteWinogradSpec
from .conv.choose import calls_of, layer_of
from .conv.direct import emit_conv
from .conv.layer import Layer
from .conv.spec import ConvSpec
from .dense.choose import layer_of_rows
from .record import register


def choose_bytes(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The kernel calls of a layer of bytes with its fused operators."""
    anchor = step.group.anchor
    setting = replace(setting, target=setting.target.of(QUADS))
    if is_depthwise(anchor.attrs, anchor.inputs[1].type.dims):
        return choose_byte_depthwise(step, setting)
    _, operands = build_program(step, anchored=True)
    x = views_of(step, anchor.inputs[:1])[0]
    extra = tuple(Address(v) for v in (*views_of(step, operands), *step.writes))
    is_dense = anchor.op is INTEGER_DENSE
    layer = layer_of_rows(step, SampleRows(x.shape[0])) if is_dense else layer_of(step)
    batch = 1 if is_dense else x.shape[0]
    tiled = tiled_calls(step, layer, Address(x), extra, batch, setting)
    if tiled:
        return tiled
    interpolated = interpolated_calls(step, layer, Address(x), extra, batch, setting)
    if interpolated:
        return interpolated
    if _has_lines(layer):
        layer = _in_lines(layer)
        return calls_of(step, layer, Address(x), extra, batch, setting, _packed_in_lines)
    return calls_of(step, layer, Address(x), extra, batch, setting)


def _has_lines(layer: Layer) -> bool:
    """Whether the taps of a row are adjacent bytes for every window, and channels do not fill
    words.

    A 3x3/2 layer of 3 channels, 32 filters at 113x113, takes 92 us in lines and 105 us tap by tap
    (Zen 4). Where channels fill words, tap by tap is faster: a 4x4 layer of 12 channels takes 728
    us, in lines 888 us.
    """
    if is_symbolic((layer.inp, layer.xs)) or layer.groups > 1 or layer.ic % 4 == 0:
        return False
    taps, reach = layer.kernel[2], (layer.out[2] - 1) * layer.stride[2] + layer.kernel[2]
    is_inside = layer.pad[2] == 0 and reach <= layer.inp[2]
    follows = layer.xs[3:] == (layer.ic, 1) and layer.dilate[2] == 1
    return bool(taps > 1 and is_inside and follows)


def _in_lines(layer: Layer) -> Layer:
    """The layer with the channels of all taps of a row as the channels of one tap."""
    taps = layer.kernel[2]
    return replace(
        layer,
        kernel=(*layer.kernel[:2], 1),
        inp=(*layer.inp[:2], layer.inp[2] - taps + 1),
        ic=taps * layer.ic,
    )


def _packed_in_lines(packing: Packing) -> Packing:
    assert isinstance(packing, QuadPacking)
    return replace(packing, in_lines=True)


register(
    "byte_product",
    choose_bytes,
    {
        ConvSpec: emit_conv,
        ByteDepthwiseSpec: emit_byte_depthwise,
        ByteTilesSpec: emit_byte_tiles,
        ByteWinogradSpec: emit_byte_winograd,
    },
)
