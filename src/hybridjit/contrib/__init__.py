"""``mx.contrib``: second names for parts of ``nd``, ``sym``, ``onnx``; iterators, texts, SVRG."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ..nd import contrib as nd
from ..sym import contrib as sym
from . import io, text

if _TYPE_CHECKING:
    from .. import onnx
    from . import amp, autograd, svrg_optimization

ndarray = nd
symbol = sym

__all__ = [
    "amp",
    "autograd",
    "io",
    "nd",
    "ndarray",
    "onnx",
    "svrg_optimization",
    "sym",
    "symbol",
    "text",
]


def __getattr__(name: str) -> _Any:
    """What only some programs need, when it is asked for."""
    if name == "onnx":
        return _import_module("..onnx", __name__)
    if name in ("amp", "autograd", "svrg_optimization"):
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
