"""``mx.viz``: the short name of ``mx.visualization``, one and the same module."""

from . import visualization
from ._core.lazy import same_module

same_module(__name__, visualization)
