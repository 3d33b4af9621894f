"""Gluon: networks as Python classes, executed eagerly or hybridized."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._core.lazy import modules as _modules
from .._core.lazy import names_of as _names_of
from . import nn, parameter, utils
from .block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, Parameter, ParameterDict
from .symbol_block import SymbolBlock

if _TYPE_CHECKING:
    from . import contrib, data, loss, model_zoo, rnn
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


# Modules that not every network needs; Trainer imports the optimizers
__getattr__ = _names_of(
    __name__, {**_modules("contrib data loss model_zoo rnn"), "Trainer": ".trainer:Trainer"}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
