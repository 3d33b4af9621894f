"""Checks of a module's names against its graph and its batches."""

from __future__ import annotations

from .._core.frames import warn
from ..io import DataDesc

_LEARNED = ("_weight", "_bias", "_gamma", "_beta")


def check_names(known: list[str], names: list[str], kind: str, throw: bool) -> None:
    """Raise ValueError, or warn, for a name that is not an argument of the graph."""
    for name in names:
        if name in known:
            continue
        likely = "\n\t".join(n for n in known if not n.endswith(_LEARNED))
        message = (
            f"You created Module with Module(..., {kind}_names={names}) but input with name "
            f"'{name}' is not found in symbol.list_arguments(). Did you mean one of:\n\t{likely}"
        )
        if throw:
            raise ValueError(message)
        warn(message)


def match_names(names: list[str], shapes: list[DataDesc], kind: str, throw: bool) -> None:
    """Raise ValueError, or warn, if descriptions have other names than these."""
    if sorted(names) == sorted(desc.name for desc in shapes):
        return
    message = (
        f"Data provided by {kind}_shapes don't match names specified by {kind}_names "
        f"({shapes} vs. {names})"
    )
    if throw:
        raise ValueError(message)
    warn(message)
