"""``mx.executor_manager``: functions of older programs that split a batch among devices.

``compat`` adds the functions of ``mod.by_hand`` to this module.
"""

from . import mod as mod
from ._core.lazy import arrived as _arrived

__all__: list[str] = []

_arrived(__name__)
