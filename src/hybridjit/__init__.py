"""MXNet Gluon's HybridBlock system as a JIT compiler on NumPy and LLVM.

``from hybridjit import nd, sym, gluon`` replaces ``from mxnet import nd, sym, gluon``. Importing
the package loads no compiler; the first compiled call does.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import (
    attribute,
    autograd,
    base,
    callback,
    context,
    contrib,
    engine,
    errors,
    executor,
    gluon,
    image,
    initializer,
    io,
    log,
    metric,
    mod,
    model,
    monitor,
    name,
    nd,
    operator,
    profiler,
    random,
    recordio,
    registry,
    rnn,
    runtime,
    sym,
    test_utils,
    util,
    visualization,
)
from .attribute import AttrScope
from .cached_op import CachedOp
from .compat import install_as_mxnet
from .compat.absent import explain_absent as _explain_absent
from .compat.elsewhere import place_elsewhere as _place_elsewhere
from .compat.placeholders import place_placeholders as _place_placeholders
from .config import override
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from .errors import MXNetError
from .loading import load
from .nd import NDArray
from .runtime.memory import memory_stats
from .runtime.threads import get_num_threads, set_num_threads, threads
from .sym import Symbol

if _TYPE_CHECKING:
    from . import batch, kvstore, library, lr_scheduler, onnx, optimizer
    from .gluon.train_step import train_step
    from .viewing import view

    kv = kvstore

__version__ = "0.1.0"

# What not every program needs: training's takes 4 ms of every import, ONNX's 10
_LATE = ("batch", "kv", "kvstore", "library", "lr_scheduler", "onnx", "optimizer")


def __getattr__(name: str) -> _Any:
    """What only some programs need, when it is asked for."""
    if name in _LATE:
        return _import_module(f".{name}", __name__)
    if name == "view":  # the compiler is loaded with it
        return _import_module(".viewing", __name__).view
    if name == "train_step":  # the optimizers are
        return _import_module(".gluon.train_step", __name__).train_step
    usual = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(usual, name=name, obj=_sys.modules[__name__])


ndarray = nd
symbol = sym
init = initializer
img = image
rnd = random
module = mod
mon = monitor
viz = visualization

_ALIASES = {
    "ndarray": nd,
    "symbol": sym,
    "init": init,
    "img": image,
    "module": mod,
    "mon": monitor,
    "rnd": random,
    "viz": viz,
}
for _alias, _module in _ALIASES.items():
    _sys.modules[f"{__name__}.{_alias}"] = _module  # `from hybridjit.ndarray import NDArray`
    for _path in [path for path in _sys.modules if path.startswith(f"{_module.__name__}.")]:
        _inner = _path.removeprefix(_module.__name__)  # the same module, not a second copy of it
        _sys.modules[f"{__name__}.{_alias}{_inner}"] = _sys.modules[_path]

# MXNet has this name in nd, which knows no compiler: imports point down only.
nd.CachedOp = nd.op.CachedOp = CachedOp  # type: ignore[attr-defined]

_own_names = set(globals())
_place_elsewhere(__name__)
_place_placeholders(__name__)
_explain_absent(__name__)
_PLACED = globals().keys() - _own_names  # MXNet's names that stand elsewhere here, or nowhere

__all__ = [
    "AttrScope",
    "Context",
    "MXNetError",
    "NDArray",
    "Symbol",
    "attribute",
    "autograd",
    "base",
    "batch",
    "callback",
    "context",
    "contrib",
    "cpu",
    "cpu_pinned",
    "current_context",
    "engine",
    "errors",
    "executor",
    "get_num_threads",
    "gluon",
    "gpu",
    "image",
    "img",
    "init",
    "initializer",
    "io",
    "install_as_mxnet",
    "kv",
    "kvstore",
    "library",
    "load",
    "log",
    "lr_scheduler",
    "memory_stats",
    "metric",
    "mod",
    "model",
    "module",
    "mon",
    "monitor",
    "name",
    "nd",
    "ndarray",
    "num_gpus",
    "onnx",
    "operator",
    "optimizer",
    "override",
    "profiler",
    "set_num_threads",
    "threads",
    "train_step",
    "random",
    "recordio",
    "registry",
    "rnd",
    "rnn",
    "runtime",
    "sym",
    "symbol",
    "test_utils",
    "util",
    "view",
    "visualization",
    "viz",
]


def __dir__() -> list[str]:
    """What programs use; the modules of the compiler stand beside it and are not listed."""
    placed = {name for name in _PLACED if not name.startswith("_")}
    return sorted({*__all__, *placed, "__version__"})
