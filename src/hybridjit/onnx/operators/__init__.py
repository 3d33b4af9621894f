"""What each ONNX operator is in terms of MXNet's, one file for each family."""

from . import matrix, nn, pointwise, recurrent, reduce, resize, shapes
from .table import KNOWN as KNOWN

__all__ = ["KNOWN", "matrix", "nn", "pointwise", "recurrent", "reduce", "resize", "shapes"]
