"""What each operator means, in NumPy. Importing this package registers all of them."""

from . import (
    conv,
    creation,
    indexing,
    matmul,
    movement,
    norm,
    pointwise,
    pool,
    random,
    reduce,
    rnn,
    vision,
)
from .registry import Kind, OpDef, all_names, all_ops, close, lookup, run_ref

close()

__all__ = [
    "Kind",
    "OpDef",
    "all_names",
    "all_ops",
    "conv",
    "creation",
    "indexing",
    "lookup",
    "matmul",
    "movement",
    "norm",
    "pointwise",
    "pool",
    "random",
    "reduce",
    "rnn",
    "run_ref",
    "vision",
]
