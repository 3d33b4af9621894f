"""``mx.np``: official NumPy's functions on the arrays of Gluon's NumPy mode.

The functions are bound from one table (``ops/numpy_api``), which symbols share; ``fallback`` holds
those that run official NumPy.
"""

import sys as _sys
from typing import Any

import numpy as _onp

from .._core.lazy import arrived as _arrived
from .._core.lazy import same_module as _same_module
from ..errors import missing_attribute as _missing_attribute
from ..ops.numpy_api.functions import Functions as _Functions
from ..ops.numpy_api.functions import bound as _bound
from . import fallback as _fallback
from .arrays import add_methods as _add_methods
from .arrays import ndarray as ndarray
from .front import FRONT as _FRONT
from .interoperation import add_dispatch as _add_dispatch
from .making import (
    array,
    asarray,
    asnumpy,
    genfromtxt,
    may_share_memory,
    meshgrid,
    shape,
    shares_memory,
)
from .making import set_printoptions as set_printoptions

_OWN: dict[str, Any] = {
    "array": array,
    "asarray": asarray,
    "ascontiguousarray": asarray,
    "asnumpy": asnumpy,
    "genfromtxt": genfromtxt,
    "may_share_memory": may_share_memory,
    "meshgrid": meshgrid,
    "shape": shape,
    "shares_memory": shares_memory,
}
table: dict[str, Any] = {**_fallback.functions(), **_bound(_Functions(_FRONT)), **_OWN}
globals().update(table)
_add_methods(table.__getitem__)

from . import _internal as _internal  # noqa: E402
from . import linalg as linalg  # noqa: E402 (made from the front end of the table)
from . import random as random  # noqa: E402

_add_dispatch(table, linalg.table)

float16, float32, float64 = _onp.float16, _onp.float32, _onp.float64
int8, int32, int64, uint8 = _onp.int8, _onp.int32, _onp.int64, _onp.uint8
bool_, bool, finfo = _onp.bool_, bool, _onp.finfo
dtype, iinfo, int_ = _onp.dtype, _onp.iinfo, _onp.int64  # of MXNet 2.0
pi, e, inf, nan, newaxis = _onp.pi, _onp.e, _onp.inf, _onp.nan, None
NAN = NaN = nan
NINF, PINF, NZERO, PZERO = -inf, inf, -0.0, 0.0

__all__ = sorted(
    {
        *table,
        *("bool", "bool_", "e", "finfo", "float16", "float32", "float64", "inf", "int32", "int64"),
        *("int8", "linalg", "nan", "ndarray", "newaxis", "pi", "random", "set_printoptions"),
        *("uint8", "NAN", "NaN", "NINF", "PINF", "NZERO", "PZERO"),
    }
)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    raise _missing_attribute(__name__, name, __all__, "NUMPY")


multiarray = _sys.modules[__name__]  # MXNet's module of most functions
_same_module(f"{__name__}.multiarray", multiarray)
_arrived(__name__)
