"""``mx.mon``: the same module as ``mx.monitor``."""

from . import monitor
from ._core.lazy import same_module

same_module(__name__, monitor)
