"""``mx.contrib.quantization``: 8-bit networks from float32 networks, with calibration.

The functions, their arguments, the graphs and the files are MXNet 1.9.1's. Layers are fused with
the operators after them, as MXNet does with oneDNN. Programs that import ``*`` use the modules that
MXNet's module imports.
"""

import logging
import os
import warnings

import numpy as np

from ...context import cpu
from .functions import (
    calib_graph,
    quantize_graph,
    quantize_model,
    quantize_model_mkldnn,
    quantize_net,
    quantize_net_v2,
)

__all__ = [
    "calib_graph",
    "cpu",
    "logging",
    "np",
    "os",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
    "warnings",
]
