"""Names of Python's library that programs of MXNet's time use, and that are missing today.

Input: packages of the library. Output: the same packages, with names that Python has removed since
3.7, and with the submodules that ``import mxnet`` has loaded.
"""

from __future__ import annotations

import collections
import collections.abc
import http
import importlib
import multiprocessing
import time
import urllib
from collections.abc import Callable
from types import ModuleType

# Submodules that MXNet imports: programs use them without an import statement.
_LOADED_BY_MXNET = {
    http: ("client", "cookiejar", "cookies"),
    importlib: ("abc", "metadata", "resources", "util"),
    multiprocessing: ("connection", "pool", "queues"),
    urllib: ("error", "request", "response"),
}


def restore_python_names() -> None:
    """Set ``collections.Mapping`` and similar names, and ``time.clock``, if they are missing.

    ``multiprocessing.pool``, ``urllib.request`` and other submodules load at their first use.
    """
    for name in collections.abc.__all__:
        vars(collections).setdefault(name, getattr(collections.abc, name))
    vars(time).setdefault("clock", time.process_time)
    for package, names in _LOADED_BY_MXNET.items():
        vars(package).setdefault("__getattr__", _submodule_of(package, names))


def _submodule_of(package: ModuleType, names: tuple[str, ...]) -> Callable[[str], ModuleType]:
    """The function that imports a missing attribute of a package, if it is one of these modules."""

    def load(name: str) -> ModuleType:
        if name in names:
            return importlib.import_module(f"{package.__name__}.{name}")
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    return load
