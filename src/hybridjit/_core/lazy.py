"""Parts of the package that are imported on first use.

Input: a package and the modules of its late names. Output: the package's ``__getattr__``. A part
reports at its end that it is loaded, and registered completions then run on it: ``compat`` adds
MXNet's names to it that way. :class:`Late` is for a module that other modules import. Each module
costs 0.1 to 0.5 ms of every start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

_parts: dict[str, None] = {}  # loaded parts, in order
_completions: list[Callable[[str], None]] = []


def names_of(package: str, places: Mapping[str, str], others: str = "") -> Callable[[str], Any]:
    """A ``__getattr__`` for ``package``; ``places`` maps each name to a relative module path.

    The name stands for that module, or for the object behind a colon: ``".trainer:Trainer"``.
    ``others`` is the table of ``other_names`` with names of another library.
    """

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise errors.missing_attribute(package, name, others=others)
        path, _, inside = places[name].partition(":")
        module = import_module(path, package)
        return getattr(module, inside) if inside else module

    return __getattr__


class Late:
    """A module that is imported at the first attribute access.

    Its user declares it for type checkers: ``if TYPE_CHECKING: import difflib``, and otherwise
    ``difflib = Late("difflib")``.
    """

    def __init__(self, path: str, package: str | None = None) -> None:
        self._where = (path, package)

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(*self._where), name)


_above: dict[str, str] = {}  # packages of modules of higher layers, by the path below them


class Above:
    """A module of a higher layer, imported at the first attribute access.

    The lower layer does not import it: the package provides it, by the path below the package.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f".{self._path}", _above[self._path]), name)


def provide(package: str, paths: str) -> None:
    """Provide the modules at these blank-separated paths to the layers below them."""
    _above.update(dict.fromkeys(paths.split(), package))


other_names = Late(".other_names", __package__)  # needed only for errors
errors: Any = Above("errors")


def modules(names: str) -> dict[str, str]:
    """The map that :func:`names_of` takes, for blank-separated modules of a package."""
    return {name: f".{name}" for name in names.split()}


def complete(completion: Callable[[str], None]) -> None:
    """Call ``completion`` with the path of every late part: loaded ones now, others once loaded."""
    _completions.append(completion)
    for part in list(_parts):
        completion(part)


def arrived(module: str) -> None:
    """Report a late part as loaded. The part calls this at its end, with its ``__name__``."""
    part = module.partition(".")[2]
    _parts[part] = None
    for completion in _completions:
        completion(part)


def same_module(name: str, module: ModuleType) -> None:
    """Make ``name`` an alias of ``module`` and its submodules in imports, without second copies."""
    for path in [path for path in sys.modules if path.startswith(f"{module.__name__}.")]:
        sys.modules[name + path.removeprefix(module.__name__)] = sys.modules[path]
    sys.modules[name] = module


class Replaceable:
    """A computed attribute that an assignment replaces.

    Programs give their blocks attributes of the same names.
    """

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else self._function(owner)
