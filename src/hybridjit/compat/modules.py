"""Modules by their path below the package, created if hybridjit does not have them.

Some parts are loaded lazily (``_core/lazy.py``): an access to a module by its path loads only that
part.
"""

from __future__ import annotations

import sys
from types import ModuleType

# Lazily loaded parts that occur in the tables of this package.
LATE = (
    *(
        "contrib",
        "executor",
        "executor_manager",
        "gluon.data",
        "gluon.loss",
        "gluon.rnn",
        "image",
        "io",
        "metric",
        "mod",
        "model",
        "onnx",
    ),
    *("operator", "rnn", "test_utils"),
)


def part_of(path: str) -> str:
    """The lazily loaded part of the module at ``path``, or "" for a permanent module."""
    return next((part for part in LATE if f"{path}.".startswith(f"{part}.")), "")


def module_at(package: str, path: str) -> ModuleType:
    """The module at ``path``; an empty one is created, with its parent package, if necessary."""
    name = f"{package}.{path}" if path else package
    if name not in sys.modules:
        module = ModuleType(
            name, f"Names of ``mxnet.{path}`` that hybridjit defines in other modules."
        )
        module.__path__ = []
        sys.modules[name] = module
        parent, _, leaf = path.rpartition(".")
        setattr(module_at(package, parent), leaf, module)
    return sys.modules[name]
