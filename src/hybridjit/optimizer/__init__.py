"""``mx.optimizer``: update rules of weights.

``create`` makes an optimizer by name; an ``Updater`` holds its states. Rules for which MXNet has
operators are operators here too (``ops/optimizer``).
"""

from ..errors import suggesting as _suggesting
from . import contrib, optimizer
from .optimizer import *  # noqa: F403
from .optimizer import __all__ as _names

__all__ = ["contrib", "optimizer", *_names]  # noqa: PLE0604

__getattr__ = _suggesting(__name__)
