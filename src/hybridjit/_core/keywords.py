"""Keyword arguments for functions that have no Python parameters.

Input: the parameters' names; positional and keyword arguments. Output: positional arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def by_position(
    parameters: Mapping[str, Any], args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """All arguments in the order of the parameters, up to the last given one.

    parameters  names with defaults, ``Parameter.empty`` for none

    Raises TypeError for an unknown name, a name given twice, and a missing argument.
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
    """The function's positional parameters with defaults, without the first ``skipped`` ones."""
    parameters = [*signature(function).parameters.values()][skipped:]
    return {p.name: p.default for p in parameters if p.kind in _POSITIONAL}
