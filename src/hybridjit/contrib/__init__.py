"""``mx.contrib``: second names for ``nd.contrib`` and ``sym.contrib``, and texts."""

from ..nd import contrib as nd
from ..sym import contrib as sym
from . import text

ndarray = nd
symbol = sym

__all__ = ["nd", "ndarray", "sym", "symbol", "text"]
