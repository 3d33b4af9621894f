"""``mx.np.random``: random arrays of NumPy mode, from the generator of ``mx.random``."""

from typing import Any

from ..ops.numpy_api.draws import Draws
from ..ops.numpy_api.functions import bound
from ..ops.numpy_api.later import LaterDraws
from .front import FRONT

table: dict[str, Any] = {**bound(Draws(FRONT)), **bound(LaterDraws(FRONT))}
globals().update(table)
__all__ = sorted(table)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
