"""Names that MXNet has in a module where hybridjit does not define them, put there.

In: hybridjit's modules. Out: the same modules, in which MXNet's import paths work:
``from mxnet.gluon.block import HybridBlock``, ``from mxnet.ndarray.ndarray import array``.
"""

from __future__ import annotations

import sys

_NORMS = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]
_POOLS = [
    f"{scope}{kind}Pool{rank}D"
    for scope in ("", "Global")
    for kind in ("Avg", "Max")
    for rank in (1, 2, 3)
]
_CREATION = ["arange", "eye", "full", "histogram", "linspace", "ones", "zeros"]
_ARRAYS = [
    *("array", "concatenate", "empty", "from_dlpack", "from_numpy", "moveaxis", "onehot_encode"),
    *("to_dlpack_for_read", "to_dlpack_for_write", "waitall"),
]
_SYMBOLS = ["Group", "Variable", "load", "load_json", "pow", "var"]

# Module path below the package: the module that defines the names, and the names.
ELSEWHERE: dict[str, tuple[str, list[str]]] = {
    "": ("util", ["is_np_array", "is_np_shape"]),
    "gluon": ("gluon.parameter", ["DeferredInitializationError"]),
    "gluon.block": ("gluon", ["DeferredInitializationError", "HybridBlock", "SymbolBlock"]),
    "gluon.nn.basic_layers": ("gluon.nn", [*_NORMS, "HybridSequential", "Sequential"]),
    "gluon.nn.conv_layers": ("gluon.nn", [*_POOLS, "ReflectionPad2D"]),
    "nd.ndarray": ("nd", [*_CREATION, *_ARRAYS]),
    "sym.symbol": ("sym", [*_CREATION, *_SYMBOLS]),
}


def place_elsewhere(package: str) -> None:
    """Sets every name of :data:`ELSEWHERE`; all of its modules are loaded by then."""
    for path, (source, names) in ELSEWHERE.items():
        module = sys.modules[f"{package}.{path}" if path else package]
        for name in names:
            setattr(module, name, getattr(sys.modules[f"{package}.{source}"], name))
