"""Convolutions: direct, Winograd, Strassen or depthwise; transposed ones by phases."""

from __future__ import annotations

from ..record import register
from ..weights.filters import emit_filters
from ..weights.pack import emit_pack
from ..weights.pieces import emit_pieces
from ..weights.spec import FiltersSpec, PackSpec, PiecesSpec
from .choose import choose_conv
from .depthwise import emit_depthwise
from .direct import emit_conv
from .given_winograd import emit_winograd
from .spec import ConvSpec, DepthwiseSpec, StrassenSpec, WinogradSpec
from .strassen import emit_strassen
from .transposed import choose_deconv

register(
    "conv",
    choose_conv,
    {
        ConvSpec: emit_conv,
        WinogradSpec: emit_winograd,
        StrassenSpec: emit_strassen,
        DepthwiseSpec: emit_depthwise,
        PackSpec: emit_pack,
        PiecesSpec: emit_pieces,
        FiltersSpec: emit_filters,
    },
    in_one_type=True,
)
register("deconv", choose_deconv, {ConvSpec: emit_conv}, in_one_type=True)
