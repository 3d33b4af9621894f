"""``mx.viz``: the same module as ``mx.visualization``."""

from . import visualization
from ._core.lazy import same_module

same_module(__name__, visualization)
