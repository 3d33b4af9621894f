"""``mx.contrib``: MXNet's second names for ``nd.contrib`` and ``sym.contrib``."""

from ..nd import contrib as nd
from ..sym import contrib as sym

ndarray = nd
symbol = sym

__all__ = ["nd", "ndarray", "sym", "symbol"]
