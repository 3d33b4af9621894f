"""``mx.mon``: the short name of ``mx.monitor``, one and the same module."""

from . import monitor
from ._core.lazy import same_module

same_module(__name__, monitor)
