"""``mx.mon``: the short name of ``mx.monitor``, one and the same module."""

from . import monitor
from .late import same_module

same_module(__name__, monitor)
