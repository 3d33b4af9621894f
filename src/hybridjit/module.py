"""``mx.module``: the long name of ``mx.mod``, one and the same module."""

from . import mod
from ._core.lazy import same_module

same_module(__name__, mod)
