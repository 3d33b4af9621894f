"""Reading and writing of ONNX files: ``load``, and MXNet's functions as ``mx.contrib.onnx``."""

from .._core.lazy import arrived as _arrived
from .export import export_model as export_model
from .load import get_model_metadata as get_model_metadata
from .load import import_model as import_model
from .load import import_to_gluon as import_to_gluon
from .load import load as load

_arrived(__name__)
