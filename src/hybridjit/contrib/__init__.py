"""``mx.contrib``: second names for ``nd.contrib`` and ``sym.contrib``, iterators, texts, SVRG."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ..nd import contrib as nd
from ..sym import contrib as sym
from . import io, text

if _TYPE_CHECKING:
    from . import svrg_optimization

ndarray = nd
symbol = sym

__all__ = ["io", "nd", "ndarray", "svrg_optimization", "sym", "symbol", "text"]


def __getattr__(name: str) -> _Any:
    """``svrg_optimization``, which loads the optimizers, when it is asked for."""
    if name == "svrg_optimization":
        return _import_module(".svrg_optimization", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
