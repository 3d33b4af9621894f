"""``mx.contrib``: aliases of parts of ``nd``, ``sym``, ``onnx``; iterators, text, SVRG."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._core.lazy import arrived as _arrived
from .._core.lazy import modules as _modules
from .._core.lazy import names_of as _names_of
from .._core.lazy import same_module as _same_module
from ..nd import contrib as nd
from ..sym import contrib as sym

if _TYPE_CHECKING:
    from .. import onnx
    from . import amp, autograd, io, quantization, svrg_optimization, tensorboard, text
    from . import quantization as quant

ndarray = nd
symbol = sym
for _alias, _module in {"ndarray": nd, "symbol": sym}.items():
    _same_module(f"{__name__}.{_alias}", _module)

__all__ = [
    "amp",
    "autograd",
    "io",
    "nd",
    "ndarray",
    "onnx",
    "quant",
    "quantization",
    "svrg_optimization",
    "sym",
    "symbol",
    "tensorboard",
    "text",
]


# Loaded on demand, because few programs need them
__getattr__ = _names_of(
    __name__,
    {
        **_modules("amp autograd io onnx quantization svrg_optimization tensorboard text"),
        "quant": ".quantization",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_arrived(__name__)
