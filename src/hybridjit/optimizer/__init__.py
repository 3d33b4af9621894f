"""``mx.optimizer``: how weights follow their gradients.

``create`` makes an optimizer by name; an ``Updater`` keeps its states. The rules themselves are
operators (``ops/optimizer``) where MXNet has one.
"""

from . import contrib, optimizer
from .optimizer import *  # noqa: F403
from .optimizer import __all__ as _names

__all__ = ["contrib", "optimizer", *_names]  # noqa: PLE0604
