"""``mx.mod``: MXNet's older way to run nets: bind a Symbol, set parameters, forward."""

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .module import Module
from .sequential_module import SequentialModule

__all__ = ["BaseModule", "BucketingModule", "Module", "SequentialModule"]
