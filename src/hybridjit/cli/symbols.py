"""Symbolic sizes of ``--shape data=N,3,H,W``: symbols for letters, and the guards on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core.symbolic import Scope, hint_of
from .._core.types import TensorType
from ..ir.sized import is_symbolic
from .arguments import UsageError, once

# The sizes for which symbols stand while comparisons are answered: the first, and steps to others.
_FIRST_HINT, _HINTS_APART = 64, 8


def symbolic_shapes(
    shapes: Sequence[tuple[str, tuple[int | str, ...]]],
) -> tuple[Scope, dict[str, tuple[int, ...]]]:
    """The shapes with symbolic sizes in place of letters. Raises UsageError for a repeated name."""
    scope = Scope()
    symbols: dict[int | str, Any] = {}
    sized = {}
    for name, shape in once([*shapes], "--shape").items():
        for size in shape:
            if isinstance(size, str) and size not in symbols:
                hint = _FIRST_HINT + _HINTS_APART * len(symbols)
                symbols[size] = scope.symbol(size, hint)
        sized[name] = tuple(symbols.get(size, size) for size in shape)
    return scope, sized


def with_symbols(
    types: Mapping[str, TensorType], sized: Mapping[str, tuple[int, ...]]
) -> dict[str, TensorType]:
    """The types of inputs with symbolic sizes. Raises UsageError for those of a parameter."""
    made = dict(types)
    for name, shape in sized.items():
        if is_symbolic(shape):
            if name not in types:
                raise UsageError(f"'{name}' is a parameter, whose sizes are integers")
            made[name] = types[name].with_shape(shape)
    return made


def guards_text(scope: Scope) -> str:
    """The conditions on symbolic sizes, each with the line of the compiler that compares."""
    hints = ", ".join(f"{name} = {hint_of(size)}" for name, size in scope.symbols.items())
    guards = [f"{guard}    ; {guard.line}" for guard in scope.guards.values()]
    return "\n".join([f"guards of a compilation for {hints}", *guards])
