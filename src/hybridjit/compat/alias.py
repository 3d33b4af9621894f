"""``import mxnet`` and every ``mxnet.X`` resolve to hybridjit's own modules.

In: an import of a module's name under ``mxnet``. Out: the same module object that
``import hybridjit.X`` gives, so classes and functions are one and the same under both names.
Only the top module is another object: ``mxnet.__version__`` is the version whose programs run
here, ``hybridjit.__version__`` is hybridjit's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .absent import why_absent

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # nothing of theirs is used, and importlib.abc loads tempfile

MXNET_VERSION = "1.9.1"
_MXNET = "mxnet"
_HOROVOD = "horovod"
_OURS = __name__.partition(".")[0]


class _Facade(ModuleType):
    """The module ``mxnet``: every name is hybridjit's, also those that it gets later."""

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
    """Makes the module ``mxnet`` itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Facade(importlib.import_module(_OURS))

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module has no code of its own."""


class _EmptyLoader(Loader):
    """Makes a package for the modules below it."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the package has no code of its own."""


class _AliasLoader(Loader):
    """Puts hybridjit's module into ``sys.modules`` under MXNet's name."""

    def __init__(self, ours: str) -> None:
        self.ours = ours

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns what stands in sys.modules afterwards. A module returned by
        # create_module would have its __spec__ overwritten.
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = importlib.import_module(self.ours)


class _Finder(MetaPathFinder):
    """Answers for ``mxnet`` and everything under it; for hybridjit only to explain absence."""

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
    """``horovod.mxnet`` is here; the package above it has nothing else."""
    if fullname == _HOROVOD:
        return ModuleSpec(fullname, _EmptyLoader(), origin=_OURS, is_package=True)
    if fullname in (f"{_HOROVOD}.mxnet", f"{_HOROVOD}.mxnet.mpi_ops"):
        return ModuleSpec(fullname, _AliasLoader(f"{_OURS}.compat.horovod"))
    raise ModuleNotFoundError(
        f"No module named {fullname!r}: beside hybridjit there is horovod.mxnet alone",
        name=fullname,
    )


def _our_name(fullname: str) -> str:
    """The name of hybridjit's module for ``mxnet.X.Y``; ModuleNotFoundError where there is none."""
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
        f"No module named {fullname!r}: hybridjit stands for mxnet here and has no module {name}",
        name=fullname,
    )


def _refuse_absent(path: str) -> None:
    """Raises ModuleNotFoundError when ``path`` (below the package) is one of MXNet's alone."""
    parent, _, leaf = path.rpartition(".")
    if reason := why_absent(parent, leaf):
        # Without a name: an error about the name that `from mxnet import np` asks for would be
        # replaced by Python's own, which gives no reason.
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
            "install_as_mxnet(): mxnet was imported before, from "
            f"{getattr(present, '__file__', 'an unknown place')}; call it before the first "
            "`import mxnet` of the program",
            name=_MXNET,
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
