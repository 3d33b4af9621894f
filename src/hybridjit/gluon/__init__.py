"""Gluon: nets as Python classes, run line by line or hybridized."""

from . import contrib, data, loss, model_zoo, nn, parameter, rnn, utils
from .block import Block
from .hybrid_block import HybridBlock
from .parameter import Constant, Parameter, ParameterDict
from .symbol_block import SymbolBlock
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
