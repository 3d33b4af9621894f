"""``mx.numpy``: the same module as ``mx.np``."""

from . import np
from ._core.lazy import same_module

same_module(__name__, np)
