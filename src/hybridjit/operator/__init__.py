"""``mx.operator``: operators written in Python, for arrays, symbols and hybridized networks."""

from .._core.lazy import arrived as _arrived
from .custom import CustomOp, CustomOpProp, register
from .listing import OperatorArguments, get_all_registered_operators, get_operator_arguments
from .older import NDArrayOp, NumpyOp, PythonOp

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]

_arrived(__name__)
