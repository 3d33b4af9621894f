"""What each ONNX operator is in terms of MXNet's, one file for each family."""

from . import (
    attention,
    bits,
    control,
    losses,
    matrix,
    norm,
    picking,
    pointwise,
    quantized,
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
    "attention",
    "bits",
    "control",
    "losses",
    "matrix",
    "norm",
    "picking",
    "pointwise",
    "quantized",
    "random",
    "recurrent",
    "reduce",
    "regions",
    "resize",
    "shapes",
    "windows",
]
