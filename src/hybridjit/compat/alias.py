"""``import mxnet`` and every ``mxnet.X`` resolve to hybridjit's modules.

Input: an import of a module name under ``mxnet``. Output: the module object of
``import hybridjit.X``, so that classes and functions are identical under both names. Only the top
module is a separate object: ``mxnet.__version__`` is the MXNet version that programs expect,
``hybridjit.__version__`` is hybridjit's version.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from .absent import why_absent

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = (
        object  # no method of them is used, and importlib.abc imports tempfile
    )

MXNET_VERSION = "1.9.1"
_MXNET = "mxnet"
_HOROVOD = "horovod"
_OURS = __name__.partition(".")[0]

# Packages that support several frameworks, such as einops, look for these in sys.modules. Parts
# that hybridjit loads lazily are not among them.
_ENTERED = ("autograd", "base", "context", "gluon", "initializer", "ndarray", "random", "symbol")


class _Facade(ModuleType):
    """The module ``mxnet``: all names are hybridjit's, including later additions."""

    def __init__(self, package: ModuleType) -> None:
        super().__init__(_MXNET, package.__doc__)
        self.__version__ = MXNET_VERSION
        self.__file__ = package.__file__
        self.__all__ = list(package.__all__)
        own = {name: value for name, value in vars(package).items() if not name.startswith("__")}
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'mxnet' has no attribute {name!r}", name=name, obj=self)
        return getattr(sys.modules[_OURS], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(sys.modules[_OURS])})


class _FacadeLoader(Loader):
    """Creates the module ``mxnet``."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Facade(importlib.import_module(_OURS))

    def exec_module(self, module: ModuleType) -> None:
        """Enter loaded modules into ``sys.modules``, as ``import mxnet`` of MXNet does."""
        for name in _ENTERED:
            sys.modules.setdefault(f"{_MXNET}.{name}", getattr(module, name))


class _EmptyLoader(Loader):
    """Creates a package for its submodules."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """No effect: the package has no code."""


class _AliasLoader(Loader):
    """Puts hybridjit's module into ``sys.modules`` under MXNet's name."""

    def __init__(self, ours: str) -> None:
        self.ours = ours

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns the module in sys.modules. If create_module returned a module,
        # its __spec__ would be overwritten.
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = importlib.import_module(self.ours)

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, for ``python -m``; a package, whose code is not a program, is
        imported."""
        spec = importlib.util.find_spec(self.ours)
        assert spec is not None
        if spec.submodule_search_locations is None:
            code: CodeType | None = spec.loader.get_code(self.ours)  # type: ignore[union-attr]
            return code
        return compile(f"import {self.ours}", fullname, "exec")


class _Finder(MetaPathFinder):
    """Finder for ``mxnet`` and its submodules; for hybridjit only to explain missing modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top == _OURS and rest:  # `from mxnet.gluon import x` looks for hybridjit.gluon.x
            _refuse_absent(rest)
        if top == _HOROVOD:
            return _horovod_spec(fullname)
        if top != _MXNET:
            return None
        if not rest:
            return ModuleSpec(fullname, _FacadeLoader(), origin=_OURS, is_package=True)
        return ModuleSpec(fullname, _AliasLoader(_our_name(fullname)))


def _horovod_spec(fullname: str) -> ModuleSpec | None:
    """Spec of ``horovod.mxnet`` and of its otherwise empty package."""
    if fullname == _HOROVOD:
        return ModuleSpec(fullname, _EmptyLoader(), origin=_OURS, is_package=True)
    if fullname in (f"{_HOROVOD}.mxnet", f"{_HOROVOD}.mxnet.mpi_ops"):
        return ModuleSpec(fullname, _AliasLoader(f"{_OURS}.compat.horovod"))
    raise ModuleNotFoundError(
        f"No module named {fullname!r}: with hybridjit only horovod.mxnet exists",
        name=fullname,
    )


def _our_name(fullname: str) -> str:
    """Name of hybridjit's module for ``mxnet.X.Y``. Raises ModuleNotFoundError without one."""
    parent_name, _, leaf = fullname.rpartition(".")
    parent = sys.modules[_OURS if parent_name == _MXNET else parent_name]
    child = getattr(parent, leaf, None)
    if isinstance(child, ModuleType) and child.__name__.startswith(_OURS):
        return child.__name__
    name = f"{parent.__name__}.{leaf}"
    _refuse_absent(name.partition(".")[2])
    if hasattr(parent, "__path__") and importlib.util.find_spec(name) is not None:
        return name
    raise ModuleNotFoundError(
        f"No module named {fullname!r}: mxnet is hybridjit here, which has no module {name}",
        name=fullname,
    )


def _refuse_absent(path: str) -> None:
    """Raise ModuleNotFoundError if ``path`` (below the package) is a module that only MXNet has."""
    parent, _, leaf = path.rpartition(".")
    if reason := why_absent(parent, leaf):
        # Without the argument name=: Python would replace an error about the name in
        # `from mxnet import np` by its own message without a reason.
        raise ModuleNotFoundError(reason)


_FINDER = _Finder()


def install_as_mxnet() -> None:
    """Make ``import mxnet`` in this process import hybridjit. Further calls have no effect.

    ``import horovod.mxnet`` then imports hybridjit.compat.horovod. An installed MXNet is not
    used.

    Raises
    ------
    ImportError
        If an installed MXNet was imported before: parts of the program would hold its arrays.

    Examples
    --------
    >>> mx.install_as_mxnet()  # doctest: +SKIP
    >>> import mxnet  # doctest: +SKIP
    """
    present = sys.modules.get(_MXNET)
    if present is not None and not isinstance(present, _Facade):
        raise ImportError(
            "install_as_mxnet(): mxnet is already imported from "
            f"{getattr(present, '__file__', 'an unknown place')}; call it before the first "
            "`import mxnet` of the program",
            name=_MXNET,
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
