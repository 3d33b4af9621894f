"""Names of MXNet that can be imported and subclassed, and whose use raises an error.

Input: tables of names. Output: classes with these names in hybridjit's modules, so that the imports
of programs for training and inference succeed. Creating an instance, or calling a class that is a
function in MXNet, raises MXNetError with the reason.
"""

from __future__ import annotations

from typing import NoReturn

from ..errors import MXNetError
from .modules import module_at, part_of

_TRAINS = (
    "is a part of training that hybridjit does not have: train with gluon.Trainer or Module.fit"
)
_LIBRARY = (
    "calls MXNet's C library, which hybridjit does not have: use the functions of nd, sym and gluon"
)
_LIBRARY_NAMES = [
    *("NDArrayHandle", "SymbolHandle", "_LIB", "c_array", "c_array_buf", "c_handle_array", "c_str"),
    *("c_str_array", "check_call", "mx_uint"),
]
_MANAGER_NAMES = [
    *("DataParallelExecutorGroup", "DataParallelExecutorManager"),
]

# Module path below the package: names, and why they cannot be used. Modules that hybridjit does
# not have are created.
PLACEHOLDERS: dict[str, tuple[list[str], str]] = {
    "base": (_LIBRARY_NAMES, _LIBRARY),
    "executor_manager": (_MANAGER_NAMES, _TRAINS),
}


def place_placeholders(package: str, part: str) -> None:
    """Set the names of :data:`PLACEHOLDERS` in one lazily loaded part, or in permanent modules."""
    for path, (names, reason) in PLACEHOLDERS.items():
        if part_of(path) != part:
            continue
        module = module_at(package, path)
        for name in names:
            setattr(module, name, _placeholder(f"mxnet.{path}.{name}", reason))


class _Placeholder(type):
    """Metaclass of placeholders, such as ``_LIB``, whose attributes are functions of a library."""

    def __getattr__(cls, name: str) -> NoReturn:
        usual = f"type object {cls.__name__!r} has no attribute {name!r}"
        reason = (
            usual if name.startswith("__") else f"{cls.__module__}.{cls.__name__} {cls.__doc__}"
        )
        raise AttributeError(reason, name=name, obj=cls)


def _placeholder(full_name: str, reason: str) -> type:
    """A class that can be subclassed and whose construction raises MXNetError."""

    def refuse(cls: type, *args: object, **kwargs: object) -> NoReturn:
        raise MXNetError(f"{full_name} {reason}")

    module, _, name = full_name.rpartition(".")
    return _Placeholder(name, (), {"__new__": refuse, "__module__": module, "__doc__": reason})
