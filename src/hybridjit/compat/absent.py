"""MXNet's names that hybridjit does not have, each with the reason and what to do.

In: a module's path below the package and a name. Out: the sentence that the error says.
Names that are in neither package are not listed: they get Python's usual error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_NUMPY = (
    "is MXNet's NumPy mode, which hybridjit does not have: use nd, sym and gluon, whose networks "
    "and files need it not"
)
_INTEGER = "makes int8 networks, which hybridjit does not run: use the float32 network"
_ONNX = "converts to ONNX, which hybridjit does not: use MXNet for that"
_DEVICE = "concerns CUDA or MXNet's own engine, which hybridjit does not have: leave it out"

# Module path below the package: names that MXNet 1.9.1 has there, each with the reason.
ABSENT: dict[str, dict[str, str]] = {
    "": {
        **dict.fromkeys(["np", "npx", "numpy", "numpy_extension"], _NUMPY),
        **dict.fromkeys(["engine", "library", "rtc", "tvmop", "th", "torch"], _DEVICE),
        "onnx": _ONNX,
    },
}


def why_absent(module: str, name: str) -> str | None:
    """The whole sentence for ``module.name``, or None when it is not one of MXNet's alone."""
    reason = ABSENT.get(module, {}).get(name)
    if reason is None:
        return None
    return f"mxnet.{module + '.' if module else ''}{name} {reason}"


def explain_absent(package: str) -> None:
    """Gives the modules of :data:`ABSENT` an error that says why, for names looked up in vain."""
    for path in ABSENT:
        module = sys.modules[f"{package}.{path}" if path else package]
        module.__getattr__ = _explaining(module, path)  # type: ignore[method-assign]


def _explaining(module: ModuleType, path: str) -> Callable[[str], Any]:
    def __getattr__(name: str) -> Any:
        usual = f"module {module.__name__!r} has no attribute {name!r}"
        raise AttributeError(why_absent(path, name) or usual, name=name, obj=module)

    return __getattr__
