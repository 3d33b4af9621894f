"""``mx.contrib.onnx``: the same module as ``mx.onnx``."""

from .. import onnx
from .._core.lazy import same_module

same_module(__name__, onnx)
