"""``mx.img``: the short name of ``mx.image``, one and the same module."""

from . import image
from ._core.lazy import same_module

same_module(__name__, image)
