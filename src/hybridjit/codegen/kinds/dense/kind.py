"""Matrix products: dense layers on one row or many, and products of activations."""

from __future__ import annotations

from ..conv.direct import emit_conv
from ..conv.spec import ConvSpec, StrassenSpec
from ..conv.strassen import emit_strassen
from ..record import register
from .choose import choose_dense
from .matmul import emit_matmul
from .rows import emit_dense
from .sized_matmul import emit_sized_matmul
from .spec import DenseSpec, MatmulSpec, SizedMatmulSpec

register(
    "gemm",
    choose_dense,
    {
        DenseSpec: emit_dense,
        MatmulSpec: emit_matmul,
        SizedMatmulSpec: emit_sized_matmul,
        ConvSpec: emit_conv,
        StrassenSpec: emit_strassen,
    },
    in_one_type=True,
)
