"""ONNX files both ways: ``load``, and MXNet's functions, also as ``mx.contrib.onnx``."""

import sys as _sys

from ..compat.absent import explain_in as _explain_in
from .export import export_model as export_model
from .load import get_model_metadata as get_model_metadata
from .load import import_model as import_model
from .load import import_to_gluon as import_to_gluon
from .load import load as load

_explain_in(_sys.modules[__name__], "onnx")
