"""``mx.sym.np``: the functions of ``mx.np`` on symbols."""

from typing import Any

from ...errors import missing_attribute as _missing_attribute
from ...ops.numpy_api.functions import Functions as _Functions
from ...ops.numpy_api.functions import bound as _bound
from . import _internal as _internal
from . import linalg as linalg
from . import random as random
from .symbols import FRONT as _FRONT
from .symbols import _Symbol as _Symbol
from .symbols import add_methods

_ABSENT = ("broadcast_arrays", "empty", "nonzero")  # as in MXNet: these functions need arrays
_functions = _bound(_Functions(_FRONT))
table: dict[str, Any] = {name: f for name, f in _functions.items() if name not in _ABSENT}
globals().update(table)
add_methods(table)

__all__ = sorted([*table, "_Symbol", "linalg", "random"])


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise _missing_attribute(__name__, name, __all__)
