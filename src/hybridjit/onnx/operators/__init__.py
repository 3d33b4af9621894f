"""What each ONNX operator is in terms of MXNet's, one file for each family."""

from . import (
    matrix,
    norm,
    picking,
    pointwise,
    random,
    recurrent,
    reduce,
    regions,
    resize,
    shapes,
    windows,
)
from .table import KNOWN as KNOWN

__all__ = [
    "KNOWN",
    "matrix",
    "norm",
    "picking",
    "pointwise",
    "random",
    "recurrent",
    "reduce",
    "regions",
    "resize",
    "shapes",
    "windows",
]
