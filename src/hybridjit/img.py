"""``mx.img``: the same module as ``mx.image``."""

from . import image
from ._core.lazy import same_module

same_module(__name__, image)
