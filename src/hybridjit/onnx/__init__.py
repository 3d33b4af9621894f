"""Reading and writing of ONNX files: ``load``, and MXNet's functions as ``mx.contrib.onnx``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._core.lazy import arrived as _arrived
from .._core.lazy import names_of as _names_of
from .load import get_model_metadata as get_model_metadata
from .load import import_model as import_model
from .load import import_to_gluon as import_to_gluon
from .load import load as load

if _TYPE_CHECKING:
    from . import export as export
    from .export import export_model as export_model


# Programs that read networks need no writers
__getattr__ = _names_of(__name__, {"export": ".export", "export_model": ".export:export_model"})


def __dir__() -> list[str]:
    return sorted({*globals(), "export", "export_model"})


_arrived(__name__)
