"""Names of MXNet that can be imported and subclassed here, and say why not when they are used.

In: tables of names. Out: classes under these names in hybridjit's modules, so that a program that
trains as well as infers gets past its imports. Making an instance, or calling one that MXNet has
as a function, raises MXNetError with the reason.
"""

from __future__ import annotations

from typing import NoReturn

from ..errors import MXNetError
from .modules import module_at, part_of

_TRAINS = (
    "is a part of training that hybridjit does not have: train with gluon.Trainer or Module.fit"
)
_WORKERS = (
    "is of MXNet's own worker processes, and hybridjit's DataLoader has others: use DataLoader"
)
_LIBRARY = (
    "calls MXNet's C library, which hybridjit does not have: use the functions of nd, sym and gluon"
)
_MANAGER_NAMES = [
    *("DataParallelExecutorGroup", "DataParallelExecutorManager"),
]

# Module path below the package: names, and why they cannot be used. A module that is not
# hybridjit's own is made.
PLACEHOLDERS: dict[str, tuple[list[str], str]] = {
    "base": (["NDArrayHandle", "SymbolHandle", "c_array", "c_str", "check_call"], _LIBRARY),
    "executor_manager": (_MANAGER_NAMES, _TRAINS),
    "gluon.data.dataloader": (["ForkingPickler", "_MultiWorkerIter"], _WORKERS),
}


def place_placeholders(package: str, part: str) -> None:
    """Sets the names of :data:`PLACEHOLDERS` in one late part, or those outside of all of them."""
    for path, (names, reason) in PLACEHOLDERS.items():
        if part_of(path) != part:
            continue
        module = module_at(package, path)
        for name in names:
            setattr(module, name, _placeholder(f"mxnet.{path}.{name}", reason))


def _placeholder(full_name: str, reason: str) -> type:
    """A class that can be derived from, and whose construction raises MXNetError."""

    def refuse(cls: type, *args: object, **kwargs: object) -> NoReturn:
        raise MXNetError(f"{full_name} {reason}")

    module, _, name = full_name.rpartition(".")
    return type(name, (), {"__new__": refuse, "__module__": module, "__doc__": reason})
