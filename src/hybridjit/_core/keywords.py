"""Arguments of a call by keyword, as functions without Python parameters take them.

In: the parameters' names, and arguments by position and by keyword. Out: arguments by position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def by_position(
    parameters: Mapping[str, Any], args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """All arguments in the order of the parameters, up to the last that is given.

    parameters  names with defaults, ``Parameter.empty`` for none
    Raises TypeError for a name that is not among them, one that is given twice, and one that is
    missing.
    """
    names, given = [*parameters], dict(zip(parameters, args))
    for name in named:
        if name not in names:
            known = ", ".join(f"'{known}'" for known in names)
            raise TypeError(f"got an unexpected keyword argument '{name}'; the inputs are {known}")
        if name in given:
            raise TypeError(f"got multiple values for argument '{name}'")
    found = {**parameters, **given, **named}
    last = max(map(names.index, named), default=len(args) - 1)
    if missing := [name for name in names[: last + 1] if found[name] is Parameter.empty]:
        raise TypeError(f"missing the argument '{missing[0]}'")
    return [*(found[name] for name in names[: last + 1]), *args[last + 1 :]]


def of_function(function: Callable[..., Any], skipped: int = 0) -> dict[str, Any]:
    """The names of a function's positional parameters after the first ones, with defaults."""
    parameters = [*signature(function).parameters.values()][skipped:]
    return {p.name: p.default for p in parameters if p.kind in _POSITIONAL}
