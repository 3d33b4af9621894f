"""``mx.np.linalg``: linear algebra on arrays of NumPy mode."""

from typing import Any

from ..errors import missing_attribute as _missing_attribute
from ..ops.numpy_api.functions import bound
from ..ops.numpy_api.products import Linalg
from .fallback import linalg_functions
from .front import FRONT

table: dict[str, Any] = {**linalg_functions(), **bound(Linalg(FRONT))}
globals().update(table)
__all__ = sorted(table)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise _missing_attribute(__name__, name, __all__)
