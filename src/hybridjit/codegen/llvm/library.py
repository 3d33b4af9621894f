"""Machine code in memory: functions of objects, loaded without LLVM where that is possible."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..._core import host
from ..._core.lazy import Late
from ..._core.target import Target

if TYPE_CHECKING:
    from . import elf, jit
else:
    elf = Late(".elf", __package__)  # for systems that have it
    jit = Late(".jit", __package__)  # loads LLVM

_PROVIDED: dict[str, int] = {}


def provide(name: str, address: int) -> None:
    """Let machine code that is loaded later call a function of the process by name."""
    _PROVIDED[name] = address


def needs_no_llvm() -> bool:
    """Whether this system's objects are loaded, and its CPU is found, without LLVM."""
    return not host.is_portable() and os.uname().machine == "x86_64"


class Library:
    """Machine code in memory, from ``nbytes`` of objects: functions with these names.

    ``close`` frees all of it. Raises InternalError for a missing name.
    """

    def __init__(self, objects: Iterable[bytes], target: Target, names: Sequence[str]) -> None:
        codes = tuple(objects)
        self.nbytes = sum(map(len, codes))
        if needs_no_llvm():
            self._loaded: Any = elf.Loaded(codes, names, _PROVIDED)
        else:
            self._loaded = jit.Linked(codes, target, names, _PROVIDED)

    def address(self, name: str) -> int:
        """The address of a function."""
        address: int = self._loaded.addresses[name]
        return address

    def close(self) -> None:
        self._loaded.close()
