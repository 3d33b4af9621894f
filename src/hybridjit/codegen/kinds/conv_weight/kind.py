"""Gradient of a convolution with respect to its weight."""

from __future__ import annotations

from ..record import register
from .choose import choose_conv_weight
from .depthwise import emit_depthwise_weight
from .join import emit_join_parts
from .lines import emit_lines_weight
from .products import emit_conv_weight
from .spec import (
    ByWeightSpec,
    DepthwiseByWeightSpec,
    JoinPartsSpec,
    LinesByWeightSpec,
    WinogradByWeightSpec,
)
from .winograd import emit_winograd_weight

register(
    "conv_weight",
    choose_conv_weight,
    {
        ByWeightSpec: emit_conv_weight,
        WinogradByWeightSpec: emit_winograd_weight,
        LinesByWeightSpec: emit_lines_weight,
        DepthwiseByWeightSpec: emit_depthwise_weight,
        JoinPartsSpec: emit_join_parts,
    },
    in_one_type=True,
)
