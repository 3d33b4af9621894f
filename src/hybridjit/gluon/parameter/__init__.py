"""Parameters of Gluon blocks, constants, and a block's collection of parameters."""

from ...errors import DeferredInitializationError
from .collection import ParameterDict
from .constant import Constant
from .single import Parameter

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict"]
