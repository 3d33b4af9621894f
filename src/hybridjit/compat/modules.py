"""Modules by their path below the package, made where hybridjit has none of its own there."""

from __future__ import annotations

import sys
from types import ModuleType


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
