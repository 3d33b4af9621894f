"""Emitters, one file per kernel kind; ``KERNELS`` is the only list of them."""

from collections.abc import Callable
from typing import Any

from .conv import emit_conv
from .dense import emit_dense
from .depthwise import emit_depthwise
from .gather import emit_gather, emit_one_hot, emit_scatter
from .lrn import emit_lrn
from .matmul import emit_matmul
from .norm import emit_norm
from .pack import emit_pack
from .pad import emit_pad
from .pointwise import emit_pointwise
from .pool import emit_pool
from .recurrent import emit_recurrent
from .reduce import emit_reduce
from .region import emit_region
from .resize import emit_resize
from .sample import emit_sample
from .softmax import emit_softmax
from .winograd import emit_winograd

KERNELS: dict[str, Callable[..., Any]] = {
    "conv": emit_conv,
    "dense": emit_dense,
    "depthwise": emit_depthwise,
    "gather": emit_gather,
    "lrn": emit_lrn,
    "matmul": emit_matmul,
    "norm": emit_norm,
    "one_hot": emit_one_hot,
    "pack": emit_pack,
    "pad": emit_pad,
    "pointwise": emit_pointwise,
    "pool": emit_pool,
    "recurrent": emit_recurrent,
    "reduce": emit_reduce,
    "region": emit_region,
    "resize": emit_resize,
    "sample": emit_sample,
    "scatter": emit_scatter,
    "softmax": emit_softmax,
    "winograd": emit_winograd,
}

__all__ = ["KERNELS"]
