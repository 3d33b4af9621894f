"""``mx.executor_manager``: how older programs share a batch among devices.

``compat`` puts the functions here; they are those of ``mod.by_hand``.
"""

from . import mod as mod
from ._core.lazy import arrived as _arrived

__all__: list[str] = []

_arrived(__name__)
