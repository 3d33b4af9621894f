"""MXNet Gluon's HybridBlock system as a JIT compiler on NumPy and LLVM.

``from hybridjit import nd, sym, gluon`` replaces ``from mxnet import nd, sym, gluon``. Importing
the package loads no compiler; the first compiled call does.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import (
    attribute,
    autograd,
    base,
    context,
    engine,
    errors,
    gluon,
    initializer,
    name,
    nd,
    random,
    runtime,
    sym,
    util,
)
from ._core.config import config as _config
from ._core.config import or_ending_command as _or_ending_command
from ._core.config import override
from ._core.lazy import modules as _modules
from ._core.lazy import names_of as _names_of
from ._core.lazy import provide as _provide
from ._core.lazy import same_module as _same_module
from .attribute import AttrScope
from .cached_op import CachedOp
from .compat import install_as_mxnet
from .compat.complete import complete_package as _complete_package
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from .errors import MXNetError
from .loading import load
from .nd import NDArray
from .runtime.compile_stats import compile_stats
from .runtime.memory import memory_stats
from .runtime.threads import get_num_threads, set_num_threads, threads
from .sym import Symbol

if _TYPE_CHECKING:
    from . import (
        batch,
        callback,
        contrib,
        executor,
        image,
        io,
        kvstore,
        library,
        log,
        lr_scheduler,
        metric,
        mod,
        model,
        monitor,
        np,
        npx,
        onnx,
        operator,
        optimizer,
        profiler,
        profiling,
        recordio,
        registry,
        rnn,
        test_utils,
        visualization,
    )
    from .gluon.train_step import train_step
    from .viewing import view

    img = image
    kv = kvstore
    module = mod
    mon = monitor
    viz = visualization

__version__ = "0.1.0"

# Modules that a program does not need to define and run a network: a third of all modules
_LATE = """
    batch callback contrib executor executor_manager image img io kv kvstore library log
    lr_scheduler metric mod model module mon monitor notebook np npx numpy numpy_extension onnx
    operator optimizer profiler profiling recordio registry rnn test_utils visualization viz
"""
_FUNCTIONS = {
    "train_step": ".gluon.train_step:train_step",  # imports the optimizers
    "view": ".viewing:view",  # imports the compiler
}

__getattr__ = _names_of(__name__, {**_modules(_LATE), **_FUNCTIONS}, "PACKAGE")

# For absent names, conversions to NumPy mode, `HybridBlock.export_onnx`, and the initializer of a
# fused cell.
_provide(
    __name__,
    "errors _core.frames np.arrays sym.np onnx.export rnn contrib.quantization.functions",
)

ndarray = nd
symbol = sym
init = initializer
rnd = random

# MXNet has this name in nd, which must not import the compiler: imports point down only.
nd.CachedOp = nd.op.CachedOp = CachedOp  # type: ignore[attr-defined]

_own_names = set(globals())
_complete_package(__name__)
_PLACED = (
    globals().keys() - _own_names
)  # MXNet's names that this package defines elsewhere or not at all

for _alias, _module in {"ndarray": nd, "symbol": sym, "init": init, "rnd": rnd}.items():
    _same_module(f"{__name__}.{_alias}", _module)  # `from hybridjit.ndarray import NDArray`

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
    "compile_stats",
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
    "np",
    "npx",
    "num_gpus",
    "onnx",
    "operator",
    "optimizer",
    "override",
    "profiler",
    "profiling",
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
    """Public names; modules of the compiler are importable but not listed."""
    placed = {name for name in _PLACED if not name.startswith("_")}
    return sorted({*__all__, *placed, "__version__"})


if _config.dump or _config.skip:  # reports unknown names now, as other switches do
    _or_ending_command(_import_module(".compiler", __name__).require_names)
