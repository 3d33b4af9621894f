"""Layers, samplers and the training loop that MXNet keeps apart as experimental."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import cnn, data, nn, rnn

if _TYPE_CHECKING:
    from . import estimator

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


def __getattr__(name: str) -> _Any:
    """``estimator``, which loads the optimizers, when it is asked for."""
    if name == "estimator":
        return _import_module(".estimator", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
