"""Experimental layers, samplers and the training loop, in MXNet's contrib packages."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..._core.lazy import modules as _modules
from ..._core.lazy import names_of as _names_of

if _TYPE_CHECKING:
    from . import cnn, data, estimator, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


__getattr__ = _names_of(__name__, _modules("cnn data estimator nn rnn"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
