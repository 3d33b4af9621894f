"""Gluon: nets as Python classes, run line by line or hybridized."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import contrib, data, loss, model_zoo, nn, parameter, rnn, utils
from .block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, Parameter, ParameterDict
from .symbol_block import SymbolBlock

if _TYPE_CHECKING:
    from .trainer import Trainer

__all__ = [
    "Block",
    "Constant",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
    "contrib",
    "data",
    "loss",
    "model_zoo",
    "nn",
    "parameter",
    "rnn",
    "utils",
]


def __getattr__(name: str) -> _Any:
    """``Trainer``, which loads the optimizers when it is asked for."""
    if name == "Trainer":
        return _import_module(".trainer", __name__).Trainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
