"""``mx.contrib.amp``: mixed precision with bfloat16, by MXNet's names."""

from . import amp
from .amp import (
    convert_bucketing_module,
    convert_hybrid_block,
    convert_model,
    convert_symbol,
    init,
    init_trainer,
    list_lp16_ops,
    scale_loss,
    unscale,
)

__all__ = [
    "amp",
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_lp16_ops",
    "scale_loss",
    "unscale",
]
