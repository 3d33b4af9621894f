"""Machine code for calls with new sizes: one object per CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple, cast

from ..._core.target import Target
from ...ir.prologue import RunPrologue
from ..llvm import ir
from ..llvm.library import Library
from .argument_writer import emit_argument_writer
from .prologue_code import emit_prologue

SIZED = "sized_functions"
_WRITE, _RUN = "write_arguments", "run_prologue"
# Both hold the GIL: one thread at a time uses the tables of a call or the registers of a prologue.
_WRITER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_RUNNER = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_LOADED: list[Library] = []  # never unloaded: instances and prologues refer to the functions


class SizedFunctions(NamedTuple):
    """``write_arguments(job)``, see ``ir/argument_rows.py``, and ``run_prologue``, see
    ``ir/prologue.py``.
    """

    write_arguments: Callable[[int], None]
    run_prologue: RunPrologue


def emit_sized_functions(target: Target) -> ir.Module:
    """Emit both functions."""
    module = ir.Module(SIZED)
    module.triple = target.triple
    emit_argument_writer(module, target, _WRITE)
    emit_prologue(module, target, _RUN)
    return module


def load_sized_functions(code: bytes, target: Target) -> SizedFunctions:
    """Load the functions from an object of :func:`emit_sized_functions`."""
    library = Library([code], target, [_WRITE, _RUN])
    _LOADED.append(library)
    run = cast(RunPrologue, _RUNNER(library.address(_RUN)))
    return SizedFunctions(_WRITER(library.address(_WRITE)), run)
