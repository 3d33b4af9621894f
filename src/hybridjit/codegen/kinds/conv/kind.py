"""Convolutions: direct, Winograd or depthwise; transposed ones by phases of plain ones."""

from __future__ import annotations

from ..record import register
from .choose import choose_conv
from .depthwise import emit_depthwise
from .direct import emit_conv
from .pack import emit_pack
from .spec import ConvSpec, DepthwiseSpec, PackSpec, WinogradSpec
from .transposed import choose_deconv
from .winograd import emit_winograd

register(
    "conv",
    choose_conv,
    {
        ConvSpec: emit_conv,
        WinogradSpec: emit_winograd,
        DepthwiseSpec: emit_depthwise,
        PackSpec: emit_pack,
    },
    in_one_type=True,
)
register("deconv", choose_deconv, {ConvSpec: emit_conv}, in_one_type=True)
