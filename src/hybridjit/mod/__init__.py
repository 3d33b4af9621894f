"""``mx.mod``: MXNet's older interface to train and run networks: bind a Symbol, fit, forward."""

from .._core.lazy import arrived as _arrived
from . import by_hand as by_hand
from . import device_group as device_group
from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BucketingModule",
    "Module",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
]

_arrived(__name__)
