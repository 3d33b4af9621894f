"""``mx.operator``: operators written in Python, for arrays, symbols and hybridized networks."""

from .._core.lazy import arrived as _arrived
from .custom import CustomOp, CustomOpProp, get_all_registered_operators, register
from .older import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "PythonOp",
    "get_all_registered_operators",
    "register",
]

_arrived(__name__)
