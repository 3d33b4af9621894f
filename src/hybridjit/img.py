"""``mx.img``: the short name of ``mx.image``, one and the same module."""

from . import image
from .late import same_module

same_module(__name__, image)
