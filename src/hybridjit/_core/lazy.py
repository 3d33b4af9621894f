"""Parts of the package that are loaded when a program asks for them.

In: a package, and where each of its late names is. Out: its ``__getattr__``. A part says at its
end that it is there, and whoever asked for that does what is left to do to it: ``compat`` puts
names into it that MXNet has in that place. :class:`Late` is for a module that others import.
Each module costs every start 0.1 to 0.5 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_parts: dict[str, None] = {}  # those that are there, in order
_completions: list[Callable[[str], None]] = []


def names_of(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``package``. Of each name ``places`` says the module, a relative path.

    The name is that module, or what stands behind a colon in it: ``".trainer:Trainer"``.
    """

    def __getattr__(name: str) -> Any:
        if name not in places:
            usual = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(usual, name=name, obj=sys.modules[package])
        path, _, inside = places[name].partition(":")
        module = import_module(path, package)
        return getattr(module, inside) if inside else module

    return __getattr__


class Late:
    """A module that is imported when something in it is first looked up.

    Its user says what it is to type checkers: ``if TYPE_CHECKING: import difflib``, and else
    ``difflib = Late("difflib")``.
    """

    def __init__(self, path: str, package: str | None = None) -> None:
        self._where = (path, package)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(*self._where), name)


def modules(names: str) -> dict[str, str]:
    """Blank-separated modules of a package, as :func:`names_of` takes them."""
    return {name: f".{name}" for name in names.split()}


def complete(completion: Callable[[str], None]) -> None:
    """Call this with the path of every late part that is there, and of each as it comes."""
    _completions.append(completion)
    for part in list(_parts):
        completion(part)


def arrived(module: str) -> None:
    """A late part calls this at its end, with its ``__name__``."""
    part = module.partition(".")[2]
    _parts[part] = None
    for completion in _completions:
        completion(part)


def same_module(name: str, module: ModuleType) -> None:
    """Let ``name`` mean ``module`` in imports, and so below it: no second copies are made."""
    for path in [path for path in sys.modules if path.startswith(f"{module.__name__}.")]:
        sys.modules[name + path.removeprefix(module.__name__)] = sys.modules[path]
    sys.modules[name] = module
