"""Modules by their path below the package, made where hybridjit has none of its own there.

Some parts are loaded late (``_core/lazy.py``): an access to a module by its path loads that part
alone.
"""

from __future__ import annotations

import sys
from types import ModuleType

# Parts that are loaded when a program asks for them, and that the tables here name.
LATE = (
    *(
        "contrib",
        "executor",
        "executor_manager",
        "gluon.data",
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
    """The late part that the module at ``path`` comes with, or "" when it is always there."""
    return next((part for part in LATE if f"{path}.".startswith(f"{part}.")), "")


def module_at(package: str, path: str) -> ModuleType:
    """The module at ``path``; an empty one is made, with the package that it is in, if need be."""
    name = f"{package}.{path}" if path else package
    if name not in sys.modules:
        module = ModuleType(name, f"Names of ``mxnet.{path}`` that hybridjit has elsewhere.")
        module.__path__ = []
        sys.modules[name] = module
        parent, _, leaf = path.rpartition(".")
        setattr(module_at(package, parent), leaf, module)
    return sys.modules[name]
