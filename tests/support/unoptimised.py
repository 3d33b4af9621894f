"""Compile kernels without LLVM's optimisation, in a quarter of the time, for slow code.

For tests of memory accesses, guards, plans and bits: emitters decide the addresses and the order of
operations, and LLVM may change no bits, because operations have no fast-math flags. A test of
``test_listening.py`` compares the bits of both codes for every kind of kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakValueDictionary

from hybridjit.codegen.emit import generate
from hybridjit.codegen.emit.fetch import Wanted


def unoptimised(text: str, emit: Callable[[], object], *_: object, **options: object) -> Wanted:
    """A module to be compiled so, whatever its options."""
    return Wanted(text, emit, with_passes=False, level=0)


def optimise_nothing(set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """Compile all kernels so from now on, those that are loaded too."""
    set_attribute(generate, "Wanted", unoptimised)
    set_attribute(generate, "_KERNELS", WeakValueDictionary())


def folder_of_objects() -> str | None:
    """A folder for such objects alone, in that of the run; None outside of a run of tests."""
    objects = os.environ.get("OBJECTS_OF_TESTS")
    return os.path.join(objects, "unoptimised") if objects else None
