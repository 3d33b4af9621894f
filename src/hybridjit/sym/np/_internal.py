"""``mx.sym.np._internal``: every ``_npi_`` operator under its name, on symbols."""

import sys
from typing import Any

from ...ops.namespace import attach
from ..custom import Custom as _custom
from .symbols import INTERNAL


def Custom(*args: Any, **kwargs: Any) -> Any:
    """Symbol of NumPy mode of the class registered as ``op_type``."""
    return _custom(*args, **kwargs).as_np_ndarray()


attach(sys.modules[__name__], INTERNAL)
