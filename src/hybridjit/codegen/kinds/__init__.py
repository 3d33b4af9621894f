"""Kernel kinds, one file or folder each: its specs, how one is chosen, how its code is emitted.

All heuristics are in the functions called ``choose_...``; numbers are derived from the target, with
the derivation or the measurement beside them. Nothing that changes the order of a sum depends on
the batch, the thread count or an address.
"""

from . import (
    detect,
    lrn,
    norm,
    order,
    pad,
    pointwise,
    pool,
    recurrent,
    recurrent_back,
    softmax,
    suppress,
    unpool,
)
from .conv import kind as conv
from .conv_weight import kind as conv_weight
from .dense import kind as dense
from .gather import kind as gather
from .image import region, resize, sample
from .record import KERNELS, KernelCode, all_codes, choose, register
from .reduction import kind as reduction

__all__ = [
    "KERNELS", "KernelCode", "all_codes", "choose", "conv", "conv_weight", "dense", "detect",
    "gather", "lrn", "norm", "order", "pad", "pointwise", "pool", "recurrent", "recurrent_back",
    "reduction", "region", "register", "resize", "sample", "softmax", "suppress", "unpool",
]  # fmt: skip
