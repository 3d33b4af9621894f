"""Parameters of gluon blocks: one (or a constant), and a block's collection of them."""

from ...errors import DeferredInitializationError
from .collection import ParameterDict
from .constant import Constant
from .single import Parameter

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict"]
