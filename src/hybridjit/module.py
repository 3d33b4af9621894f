"""``mx.module``: the same module as ``mx.mod``."""

from . import mod
from ._core.lazy import same_module

same_module(__name__, mod)
