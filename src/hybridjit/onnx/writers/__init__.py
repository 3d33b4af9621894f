"""Writers: conversion of MXNet's operators to ONNX, one file for each family."""

from . import (
    matrix,
    norm,
    picking,
    pointwise,
    quantized,
    random,
    recurrent,
    reduce,
    regions,
    shapes,
    windows,
)
from .formulas import by_formula as by_formula
from .table import NEEDED as NEEDED
from .table import WRITTEN as WRITTEN

__all__ = [
    "NEEDED",
    "WRITTEN",
    "by_formula",
    "matrix",
    "norm",
    "picking",
    "pointwise",
    "quantized",
    "random",
    "recurrent",
    "reduce",
    "regions",
    "shapes",
    "windows",
]
